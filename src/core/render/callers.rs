//! Where objects that are rendered already hold how a webhook or an API service is called.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::certificate::{CertificateRequest, request_of_service};
use crate::object::Object;

/// Returns the certificates of the servers that objects call, in the order of their Secrets. A Service
/// that is not among the objects has certificates of somebody else.
pub fn called_services(objects: &[Object]) -> Vec<CertificateRequest> {
    let mut requests = BTreeSet::new();
    for object in objects {
        for client in client_configs(&mut object.clone()) {
            let service = client.get("service").unwrap_or(&Value::Null);
            let text = |key: &str| service[key].as_str();
            let service = text("name").zip(text("namespace"));
            let service = service.filter(|(name, namespace)| {
                let is = |it: &Object| {
                    it.kind() == "Service" && it.name() == *name && it.namespace() == *namespace
                };
                objects.iter().any(is)
            });
            requests.extend(service.map(|(name, namespace)| request_of_service(name, namespace)));
        }
    }
    requests.into_iter().collect()
}

/// Has callers trust these CA certificates, given as PEM, in place of those they were rendered with.
pub fn trust(object: &mut Object, ca_bundle: &str) {
    for client in client_configs(object) {
        client.insert("caBundle".to_owned(), STANDARD.encode(ca_bundle).into());
    }
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
            json!({"kind": "Deployment", "spec": {}}),
            json!({"kind": "Service", "metadata": {"name": "d-service", "namespace": "ns"}}),
            json!({"kind": "MutatingWebhookConfiguration", "webhooks": [{"clientConfig":
                {"service": {"name": "of-others", "namespace": "ns"}}}]}),
        ];
        let mut all: Vec<_> = all.into_iter().filter_map(Object::from_value).collect();
        let requests = called_services(&all);
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0].secret, "d-service-cert");
        assert_eq!(requests[0].dns_names[1], "d-service.ns.svc");
        for object in &mut all {
            trust(object, "new");
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
}
