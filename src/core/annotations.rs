//! Which policy annotations an object of a kind may carry.
//!
//! An unknown key may be one that protects data, so it is never ignored (applying.md 10).

use std::collections::BTreeMap;

use itertools::Itertools as _;
use olm_api::keys::policy;

use crate::error::quote;
use crate::uninstall;

/// Begins the message of a removal that waits for an annotation to be corrected.
pub const REMOVAL_BLOCKED: &str = "removal blocked: ";

/// A kind whose objects carry policy annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::VariantArray)]
pub enum Carrier {
    /// ClusterExtensions.
    Extension,
    /// ClusterCatalogs.
    Catalog,
    /// ClusterObjectSets, made by the controller or by hand.
    ObjectSet,
}

impl Carrier {
    /// Returns the keys that are supported on objects of the kind.
    #[rustfmt::skip]
    pub fn understood(self) -> &'static [&'static str] {
        match self {
            Self::Extension => &[
                policy::ACCEPT_IMAGE, policy::ADOPT, policy::APPROVE, policy::CATALOG_MOVE,
                policy::CLUSTER_PROXY, policy::CRD_SAFETY_ALLOW, policy::CRD_SAFETY_REASON,
                policy::CREATE_NAMESPACE, policy::FORCE, policy::ON_FAILURE,
                policy::OPERATOR_CONDITIONS, policy::PAUSED, policy::PERMISSION_INCREASE,
                policy::ROLLBACK_TO, policy::UNINSTALL, policy::UPDATE_WINDOW, policy::UPGRADE,
                policy::USER_ROLES,
            ],
            Self::Catalog => &[
                policy::ACCEPT_IMAGE, policy::MINIMUM_AGE, policy::PAUSED, policy::PULL_SECRET,
                policy::QUARANTINE, policy::REFRESH,
            ],
            Self::ObjectSet => &[
                policy::CRD_SAFETY_ALLOW, policy::CRD_SAFETY_REASON, policy::PAUSED,
                policy::UNINSTALL, policy::WEBHOOK_CERTIFICATES,
            ],
        }
    }

    /// Returns the name of the kind as kubectl takes it.
    fn resource(self) -> &'static str {
        match self {
            Self::Extension => "clusterextension",
            Self::Catalog => "clustercatalog",
            Self::ObjectSet => "clusterobjectset",
        }
    }
}

/// A policy annotation that would be ignored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedKey {
    /// The key is unknown.
    #[error("annotation {} is unknown", quote(_0))]
    Unknown(String),
    /// Nobody knows what is to become of objects when the extension is deleted.
    #[error(transparent)]
    Uninstall(uninstall::UnknownPolicy),
}

impl UnsupportedKey {
    pub fn key(&self) -> &str {
        match self {
            Self::Unknown(key) => key,
            Self::Uninstall(_) => policy::UNINSTALL,
        }
    }
}

/// Returns the annotations with the policy prefix that are not supported on a kind, or say what is not.
pub fn unsupported_keys(
    carrier: Carrier,
    annotations: &BTreeMap<String, String>,
) -> impl Iterator<Item = UnsupportedKey> {
    let understood = carrier.understood();
    let unknown = annotations
        .keys()
        .filter(|key| key.starts_with(policy::PREFIX) && !understood.contains(&key.as_str()));
    let unknown = unknown.cloned().map(UnsupportedKey::Unknown);
    unknown.chain(uninstall::check_annotation(annotations).err().map(UnsupportedKey::Uninstall))
}

/// Fails on the first of the annotations that are not supported on a kind.
pub fn check_keys(
    carrier: Carrier,
    annotations: &BTreeMap<String, String>,
) -> Result<(), UnsupportedKey> {
    unsupported_keys(carrier, annotations).next().map_or(Ok(()), Err)
}

/// Returns why nothing of the object `name` is removed, and what to do, if its annotations ask for
/// what this version cannot do.
pub fn removal_hold(
    carrier: Carrier,
    name: &str,
    annotations: &BTreeMap<String, String>,
) -> Option<String> {
    let unsupported: Vec<_> = unsupported_keys(carrier, annotations).collect();
    let keys = unsupported.iter().map(|it| format!(" {}-", it.key())).join("");
    let resource = carrier.resource();
    (!unsupported.is_empty()).then(|| {
        format!(
            "{REMOVAL_BLOCKED}{}; to remove anyway: kubectl annotate {resource} {name}{keys}",
            unsupported.iter().join("; ")
        )
    })
}

/// Says whether the annotations ask for a pause: nothing is applied.
pub fn is_paused(annotations: &BTreeMap<String, String>) -> bool {
    annotations.get(policy::PAUSED).map(String::as_str) == Some("true")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cases;

    const CASES: &str = include_str!("testdata/cases.yaml");

    fn annotations(key: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(key.to_owned(), "x".to_owned())])
    }

    #[test]
    fn keys() {
        for (kind, key, unknown) in cases::<(&str, &str, Option<&str>)>(CASES, "keys") {
            let carrier = match kind {
                "ClusterExtension" => Carrier::Extension,
                "ClusterCatalog" => Carrier::Catalog,
                _ => Carrier::ObjectSet,
            };
            let got = check_keys(carrier, &annotations(key)).err().map(|error| error.to_string());
            let want =
                unknown.map(|it| format!("annotation \"{}{it}\" is unknown", policy::PREFIX));
            assert_eq!(got, want);
        }
    }

    #[test]
    fn a_hold_says_the_way_out() {
        let hold = |carrier, key| removal_hold(carrier, "e", &annotations(key));
        assert_eq!(hold(Carrier::Extension, policy::FORCE), None);
        let text = hold(Carrier::Extension, policy::UNINSTALL).unwrap();
        let way_out =
            "kubectl annotate clusterextension e policy.olm.operatorframework.io/uninstall-";
        assert!(text.ends_with(way_out), "{text}");
        let text = hold(Carrier::ObjectSet, policy::FORCE).unwrap();
        let way_out = "kubectl annotate clusterobjectset e policy.olm.operatorframework.io/force-";
        assert!(text.ends_with(way_out), "{text}");
        let several = [policy::QUARANTINE, policy::UNINSTALL].into_iter().flat_map(annotations);
        let text = removal_hold(Carrier::Extension, "e", &several.collect()).unwrap();
        let way_out = "is not one of Delete, RetainCRDs, BlockIfInstances; to remove anyway: kubectl \
            annotate clusterextension e policy.olm.operatorframework.io/quarantine- \
            policy.olm.operatorframework.io/uninstall-";
        assert!(text.ends_with(way_out), "{text}");
    }
}
