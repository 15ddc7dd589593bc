//! The servers of an operator that the API server calls: their certificates, what lets them judge
//! callers, and which namespaces their webhooks are asked about.

use std::collections::{BTreeMap, BTreeSet};

use olm_api::keys::annotation::{SERVICE_CA_ORIGIN, SERVICE_CA_ORIGIN_UID};
use serde_json::{Value, json};

use super::{reference, uid};
use crate::classic::has;
use crate::object::Object;
use crate::render::{READER, certificate_name, reader_name, service_name};

/// Classic keeps the CA beside a certificate that it made.
pub const CERTIFICATE_CA: &str = "olmCAKey";
/// Namespaces that a group watches have this label, with its UID behind.
const WATCHED_BY: &str = "olm.operatorgroup.uid/";

/// Returns the Services in front of the servers of a CSV.
fn called(csv: &Object) -> BTreeSet<String> {
    let lists = ["/spec/apiservicedefinitions/owned", "/spec/webhookdefinitions"];
    let definitions = lists.iter().flat_map(|list| csv.list_at(list));
    definitions.filter_map(|it| it["deploymentName"].as_str()).map(service_name).collect()
}

/// Returns the namespace and the names of the role bindings that let the servers of a CSV judge who
/// calls them. Classic writes no owner on them.
pub fn readers(csv: &Object) -> (&'static str, BTreeSet<String>) {
    (READER.0, called(csv).iter().map(|service| reader_name(service)).collect())
}

/// Returns the names of the Secrets with the certificates of the servers of a CSV, and of their
/// Services.
pub fn certificates(csv: &Object) -> BTreeMap<String, String> {
    called(csv).into_iter().map(|service| (certificate_name(&service), service)).collect()
}

/// Returns the change that gives a certificate of Classic to an extension, whose issuer may then write
/// it, unless it is somebody's. OpenShift's service CA writes over those of its Service only.
pub fn own(certificate: &Object, extension: &Object, service: &Object) -> Option<Value> {
    let is_free = is_certificate(certificate) && !has(certificate, "/metadata/ownerReferences");
    let mut owner = reference(extension);
    owner["controller"] = json!(true);
    is_free.then(|| {
        json!({"metadata": {"resourceVersion": certificate.text_at("/metadata/resourceVersion"),
            "annotations": {SERVICE_CA_ORIGIN: service.name(), SERVICE_CA_ORIGIN_UID: uid(service)},
            "ownerReferences": [owner]}})
    })
}

/// Says whether a binding gives its rights to an account of a namespace.
pub fn is_for(binding: &Object, namespace: &str) -> bool {
    binding.list_at("/subjects").any(|it| it["namespace"] == json!(namespace))
}

/// Returns whether webhooks select namespaces by a label that exists only as long as the
/// `OperatorGroup`.
pub fn selects_by(webhooks: &Object, group: &Object) -> bool {
    let label = format!("{WATCHED_BY}{}", group.text_at("/metadata/uid"));
    let mut webhooks = webhooks.list_at("/webhooks");
    webhooks.any(|it| it["namespaceSelector"]["matchLabels"].get(&label).is_some())
}

/// Says whether an object is a certificate that Classic made. It belongs to no revision: the next
/// version has its issuer write another.
pub fn is_certificate(object: &Object) -> bool {
    object.kind() == "Secret"
        && object.pointer("/data").is_some_and(|it| it.get(CERTIFICATE_CA).is_some())
}
