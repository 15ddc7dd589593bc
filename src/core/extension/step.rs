//! The rights that a step takes of the account: for what it brings and for what it takes away, the
//! Secrets included that the controller writes as the account: certificates of webhooks, and copies of
//! pull secrets.
//!
//! Source: applying.md 5.1.

use std::collections::{BTreeSet, HashSet};

use olm_api::ClusterObjectSet;
use olm_api::keys::{annotation, policy};

use super::ValidExtension;
use crate::bundle::is_subdomain;
use crate::object::Object;
use crate::rbac::{BundleObjects, Held, Missing, missing, outline};
use crate::render::{CertificateRequest, CertificateSource, called_services};
use crate::revision::Desired;

/// A step of an extension, as far as that decides which rights it takes.
#[derive(Debug, Clone)]
pub struct StepRights<'a> {
    extension: &'a str,
    namespace: &'a str,
    arriving: Vec<Object>,
    leaving: Vec<Object>,
}

impl<'a> StepRights<'a> {
    /// Returns those of writing `desired` and the `secrets` beside it, in place of the objects that the
    /// active revisions have at `present`.
    pub fn of(
        extension: ValidExtension<'a>,
        desired: &'a Desired,
        secrets: Vec<Object>,
        present: &[Object],
    ) -> Self {
        let objects = desired.phases.iter().flat_map(|phase| &phase.objects);
        let arriving: Vec<Object> = objects.map(outline).chain(secrets).collect();
        let mut known: HashSet<_> = arriving.iter().map(Object::key).collect();
        let leaving = present.iter().filter(|object| known.insert(object.key()));
        let leaving = leaving.map(outline).collect();
        let (extension, namespace) = (&desired.extension.name, &extension.spec.namespace);
        Self { extension, namespace, arriving, leaving }
    }

    /// Returns what an account lacks that holds `held`, where the kinds of the groups `unserved` wait.
    pub fn missing(&self, unserved: &[&str], held: &Held<'_>) -> Missing {
        let bundle = BundleObjects { name: self.extension, objects: &self.arriving };
        missing(&bundle, self.namespace, &self.leaving, unserved, held)
    }
}

/// Returns who issues the certificates of webhooks, as the newest of the revisions that says so
/// records it.
pub fn recorded_issuer(revisions: &[ClusterObjectSet]) -> Option<CertificateSource> {
    revisions
        .iter()
        .rev()
        .find_map(|set| set.annotation(policy::WEBHOOK_CERTIFICATES)?.parse().ok())
}

/// Returns the certificates that the controller issues when it goes back to a revision with these
/// objects: none where somebody else issued them.
pub fn issued_again(set: &ClusterObjectSet, objects: &[Object]) -> Vec<CertificateRequest> {
    match recorded_issuer(std::slice::from_ref(set)) {
        Some(CertificateSource::SelfSigned) => called_services(objects),
        Some(CertificateSource::CertManager | CertificateSource::ServiceCa) | None => Vec::new(),
    }
}

/// Returns the names of the Secrets that were copied for the pods of any of the revisions.
pub fn recorded_copies(revisions: &[ClusterObjectSet]) -> BTreeSet<&str> {
    let recorded =
        revisions.iter().filter_map(|set| set.annotation(annotation::COPIED_PULL_SECRETS));
    recorded.flat_map(|names| names.split(',')).filter(|name| is_subdomain(name)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::{extension, object, revision};
    use crate::rbac::{Permissions, PolicyRule, lines};
    use crate::revision::Extension;

    fn named(kind: &str, name: &str) -> Object {
        object(json!({"apiVersion": "v1", "kind": kind,
            "metadata": {"name": name, "namespace": "ns"}, "data": {"a": "b"}}))
    }

    fn recording(issuer: &str) -> ClusterObjectSet {
        let annotations = json!({policy::WEBHOOK_CERTIFICATES: issuer});
        revision(1, &json!({"metadata": {"annotations": annotations}}))
    }

    // decision 49
    #[test]
    fn copies_are_known_by_what_any_revision_records() {
        let of = |recorded: Option<&str>| {
            let mut set = recording("self-signed");
            let annotations = set.metadata.annotations.get_or_insert_default();
            let key = annotation::COPIED_PULL_SECRETS.to_owned();
            annotations.extend(recorded.map(|names| (key, names.to_owned())));
            set
        };
        let revisions = [of(Some("a,b")), of(None), of(Some("c,../d,b,"))];
        assert_eq!(recorded_copies(&revisions), ["a", "b", "c"].into());
    }

    // applying.md 5.1: what leaves and the Secrets of webhooks count
    #[test]
    fn a_step_takes_rights_for_what_comes_and_for_what_leaves() {
        let extension = extension(&json!({}));
        let objects = vec![named("ConfigMap", "stays")];
        let desired = Desired::example(Extension::of(&extension), "configuration", objects);
        let hook = json!({"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "h"},
            "webhooks": [{"clientConfig": {"service": {"name": "s-service", "namespace": "ns"}}}]});
        let [service, server] = [("Service", "s-service"), ("Deployment", "s")].map(
            |(kind, name)| json!({"kind": kind, "metadata": {"name": name, "namespace": "ns"}}),
        );
        let called = [hook, service, server].map(object);
        let certificates = issued_again(&recording("self-signed"), &called);
        assert_eq!(issued_again(&recording("self-signed"), &called[..1]), []);
        assert_eq!(issued_again(&recording("cert-manager"), &called), []);
        let [issued] = certificates.as_slice() else { panic!("{certificates:?}") };
        let valid = ValidExtension::of(&extension).unwrap();
        // Of two revisions, one of them rolled out.
        let present = ["stays", "leaves", "leaves"].map(|name| named("ConfigMap", name));
        let secrets = vec![issued.secret_object()];
        let step = StepRights::of(valid, &desired, secrets, &present);
        let mut rights = Permissions::default();
        let lacks = |rights: &Permissions| {
            lines(&step.missing(&[], &Held { rights, roles: &BTreeMap::new() }).rights)
        };
        let mut grant = |resource: &str, verbs: &Value, names: &Value| {
            let rule = json!({"apiGroups": [""], "resources": [resource], "verbs": verbs,
                "resourceNames": names});
            rights.insert_rule("ns", &PolicyRule::from_value(&rule));
            lacks(&rights)
        };
        grant("configmaps", &json!(["create"]), &json!([]));
        grant("configmaps", &json!(["delete", "get", "patch"]), &json!(["stays"]));
        grant("secrets", &json!(["create"]), &json!([]));
        let both = grant("secrets", &json!(["get"]), &json!([]));
        assert_eq!(both.len(), 2, "{both:?}");
        let secret = json!([issued.secret]);
        let leaves = grant("secrets", &json!(["delete", "get", "patch"]), &secret);
        let [leaves] = leaves.as_slice() else { panic!("{leaves:?}") };
        assert!(leaves.contains("leaves") && leaves.contains("Verbs:[delete,get]"), "{leaves}");
        assert!(grant("configmaps", &json!(["delete", "get"]), &json!(["leaves"])).is_empty());
    }
}
