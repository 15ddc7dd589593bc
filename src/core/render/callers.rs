//! Where objects that are rendered already hold how a webhook or an API service is called.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::certificate::{CertificateRequest, request_of_service};
use super::name::service_name;
use crate::object::Object;

/// Returns the certificates of the servers that objects call, in the order of their Secrets: of the
/// Services that were rendered for Deployments among them. Any other Service has certificates of
/// somebody else, whether it is among the objects or not.
pub fn called_services(objects: &[Object]) -> Vec<CertificateRequest> {
    let of_kind = |kind| objects.iter().filter(move |object| object.kind() == kind);
    let rendered: BTreeSet<_> = of_kind("Deployment")
        .map(|deployment| (service_name(deployment.name()), deployment.namespace()))
        .collect();
    let ours: BTreeSet<_> = of_kind("Service")
        .filter(|it| rendered.contains(&(it.name().to_owned(), it.namespace())))
        .map(|it| request_of_service(it.name(), it.namespace()))
        .collect();
    let mut requests = BTreeSet::new();
    for object in objects {
        let mut object = object.clone();
        let called = client_configs(&mut object).into_iter().filter_map(|client| called(client));
        requests.extend(called.filter(|request| ours.contains(request)));
    }
    requests.into_iter().collect()
}

/// Has the callers of servers with these certificates trust a CA, given as PEM, in place of the one
/// they were rendered with.
pub fn trust(object: &mut Object, servers: &[CertificateRequest], ca_bundle: &str) {
    for client in client_configs(object) {
        if called(client).is_some_and(|request| servers.contains(&request)) {
            client.insert("caBundle".to_owned(), STANDARD.encode(ca_bundle).into());
        }
    }
}

/// Returns what the server needs that a client configuration names, if it is behind a Service.
fn called(client: &Map<String, Value>) -> Option<CertificateRequest> {
    let service = client.get("service")?;
    Some(request_of_service(service["name"].as_str()?, service["namespace"].as_str()?))
}

/// Returns an object without the CA by which callers trust its servers.
pub fn without_ca(object: &Object) -> Object {
    let mut object = object.clone();
    for client in client_configs(&mut object) {
        client.remove("caBundle");
    }
    object
}

/// Returns the client configurations of webhooks, and of the conversion of a CRD; an APIService is one.
fn client_configs(object: &mut Object) -> Vec<&mut Map<String, Value>> {
    let is_api_service = object.kind() == "APIService";
    let mut found = Vec::new();
    for (key, value) in &mut object.0 {
        match key.as_str() {
            "webhooks" => {
                let webhooks = value.as_array_mut().into_iter().flatten();
                found.extend(webhooks.filter_map(|hook| hook.get_mut("clientConfig")));
            }
            "spec" if is_api_service => found.push(value),
            "spec" => found.extend(value.pointer_mut("/conversion/webhook/clientConfig")),
            _ => {}
        }
    }
    found.into_iter().filter_map(Value::as_object_mut).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn callers_are_found_and_trust_what_they_are_told() {
        let client =
            json!({"caBundle": "old", "service": {"name": "d-service", "namespace": "ns"}});
        let all = [
            json!({"kind": "CustomResourceDefinition",
                "spec": {"conversion": {"webhook": {"clientConfig": client}}}}),
            json!({"kind": "MutatingWebhookConfiguration", "webhooks": [{"clientConfig": client}]}),
            json!({"kind": "APIService", "spec": client}),
        ];
        let mut all: Vec<_> = all.into_iter().filter_map(Object::from_value).collect();
        for object in &mut all {
            trust(object, &[request_of_service("d-service", "ns")], "new");
        }
        let trusted = all[1].pointer("/webhooks/0/clientConfig/caBundle");
        assert_eq!(trusted, Some(&json!(STANDARD.encode("new"))));
        let trusted = all[2].pointer("/spec/caBundle");
        assert_eq!(trusted, Some(&json!(STANDARD.encode("new"))));
        assert_eq!(without_ca(&all[2]).pointer("/spec/caBundle"), None);
        let bare = without_ca(&all[0]);
        let client = bare.pointer("/spec/conversion/webhook/clientConfig");
        assert_eq!(client.and_then(|it| it.get("caBundle")), None);
    }

    // applying.md 10 (F10)
    #[test]
    fn servers_of_others_keep_the_ca_by_which_they_are_trusted() {
        let service = |name: &str, namespace: &str| json!({"kind": "Service", "metadata": {"name": name, "namespace": namespace}});
        let client = |name: &str, namespace: &str| json!({"caBundle": "old", "service": {"name": name, "namespace": namespace}});
        let clients = [
            client("d-service", "ns"),
            client("of-the-author", "ns"),
            client("d-service", "other"),
            client("e-service", "ns"),
            json!({"caBundle": "old", "url": "https://example.com"}),
        ];
        let crds = clients.map(|client| {
            json!({"kind": "CustomResourceDefinition",
                "spec": {"conversion": {"webhook": {"clientConfig": client}}}})
        });
        let rendered = [
            json!({"kind": "Deployment", "metadata": {"name": "d", "namespace": "ns"}}),
            // Its Service is not among the objects.
            json!({"kind": "Deployment", "metadata": {"name": "e", "namespace": "ns"}}),
            service("d-service", "ns"),
            service("of-the-author", "ns"),
            service("d-service", "other"),
        ];
        let all = crds.into_iter().chain(rendered).filter_map(Object::from_value);
        let mut all: Vec<_> = all.collect();
        let requests = called_services(&all);
        assert_eq!(requests, [request_of_service("d-service", "ns")]);
        let mut trusted = Vec::new();
        for object in &mut all[..5] {
            trust(object, &requests, "new");
            trusted.push(object.pointer("/spec/conversion/webhook/clientConfig/caBundle").cloned());
        }
        let (new, old) = (Some(json!(STANDARD.encode("new"))), Some(json!("old")));
        assert_eq!(trusted, [new, old.clone(), old.clone(), old.clone(), old]);
    }
}
