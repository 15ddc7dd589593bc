//! What others write into running objects, and go on to write: an extension that claimed it would put
//! back what it was.

use olm_api::keys::annotation::{
    CERT_MANAGER_INJECT_CA_FROM, CERT_MANAGER_INJECT_CA_FROM_SECRET, SERVICE_CA_INJECT,
};
use serde_json::Value;

use crate::object::Object;

/// Label of the `ConfigMap`s into which OpenShift writes the certificate authorities of the cluster.
const INJECT_TRUSTED: &str = "config.openshift.io/inject-trusted-cabundle";
/// `kubectl rollout restart` sets it on pod templates.
const RESTARTED: &str = "kubectl.kubernetes.io/restartedAt";
const CA_BUNDLE: &str = "caBundle";

/// Removes from an object what its labels and annotations have others write, and when it was restarted.
pub(super) fn remove(object: &mut Object) {
    let by_service_ca = object.annotation(SERVICE_CA_INJECT).is_some();
    let is_trusted = object.label(INJECT_TRUSTED).is_some();
    let issuers = [CERT_MANAGER_INJECT_CA_FROM, CERT_MANAGER_INJECT_CA_FROM_SECRET];
    let has_ca = by_service_ca || issuers.iter().any(|key| object.annotation(key).is_some());
    let kind = object.kind().to_owned();
    let mut drop = |pointer: &str, key: &str| {
        let (first, rest) = pointer.split_once('/').unwrap_or((pointer, ""));
        let rest = if rest.is_empty() { String::new() } else { format!("/{rest}") };
        let found = object.0.get_mut(first).and_then(|it| it.pointer_mut(&rest));
        found.and_then(Value::as_object_mut).and_then(|it| it.remove(key));
    };
    if kind == "ConfigMap" {
        if is_trusted {
            drop("data", "ca-bundle.crt");
        }
        if by_service_ca {
            drop("data", "service-ca.crt");
        }
    }
    drop("spec/template/metadata/annotations", RESTARTED);
    if has_ca {
        match kind.as_str() {
            "APIService" => drop("spec", CA_BUNDLE),
            "CustomResourceDefinition" => drop("spec/conversion/webhook/clientConfig", CA_BUNDLE),
            _ => {}
        }
        let webhooks = object.0.get_mut("webhooks").and_then(Value::as_array_mut);
        for webhook in webhooks.into_iter().flatten() {
            let client = webhook.get_mut("clientConfig").and_then(Value::as_object_mut);
            client.and_then(|it| it.remove(CA_BUNDLE));
        }
    }
}
