//! What others write into running objects, and go on to write: an extension that claimed it would put
//! back what it was.

use olm_api::keys::annotation::SERVICE_CA_INJECT;
use serde_json::Value;

use super::members;
use crate::object::Object;
use crate::render::CA_INJECTORS;

/// Label of the `ConfigMap`s into which OpenShift writes the certificate authorities of the cluster.
const INJECT_TRUSTED: &str = "config.openshift.io/inject-trusted-cabundle";
/// `kubectl rollout restart` sets it on pod templates.
const RESTARTED: &str = "kubectl.kubernetes.io/restartedAt";
const CA_BUNDLE: &str = "caBundle";

/// Removes from a running object what its labels and annotations have others write, and when it was
/// restarted.
pub(super) fn remove(object: &mut Value, live: &Object) {
    let has_ca = CA_INJECTORS.iter().any(|key| live.annotation(key).is_some());
    let mut drop = |pointer: &str, key: &str| {
        members(object, pointer).and_then(|it| it.remove(key));
    };
    drop("/spec/template/metadata/annotations", RESTARTED);
    match live.kind() {
        "ConfigMap" => {
            if live.label(INJECT_TRUSTED).is_some() {
                drop("/data", "ca-bundle.crt");
            }
            if live.annotation(SERVICE_CA_INJECT).is_some() {
                drop("/data", "service-ca.crt");
            }
        }
        "APIService" if has_ca => drop("/spec", CA_BUNDLE),
        "CustomResourceDefinition" if has_ca => {
            drop("/spec/conversion/webhook/clientConfig", CA_BUNDLE);
        }
        _ => {
            let webhooks = object.get_mut("webhooks").filter(|_| has_ca);
            for webhook in webhooks.and_then(Value::as_array_mut).into_iter().flatten() {
                members(webhook, "/clientConfig").and_then(|it| it.remove(CA_BUNDLE));
            }
        }
    }
}
