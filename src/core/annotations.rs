//! Which policy annotations an extension may carry.
//!
//! An unknown key may be one that protects data, so it is never ignored (applying.md 10).

use std::collections::BTreeMap;

use olm_api::keys::policy;

use crate::error::quote;
use crate::uninstall;

/// Keys that are supported on a ClusterExtension.
pub const UNDERSTOOD: [&str; 18] = [
    policy::ACCEPT_IMAGE,
    policy::ADOPT,
    policy::APPROVE,
    policy::CATALOG_MOVE,
    policy::CLUSTER_PROXY,
    policy::CRD_SAFETY_ALLOW,
    policy::CRD_SAFETY_REASON,
    policy::CREATE_NAMESPACE,
    policy::FORCE,
    policy::ON_FAILURE,
    policy::OPERATOR_CONDITIONS,
    policy::PAUSED,
    policy::PERMISSION_INCREASE,
    policy::ROLLBACK_TO,
    policy::UNINSTALL,
    policy::UPDATE_WINDOW,
    policy::UPGRADE,
    policy::USER_ROLES,
];

/// A policy annotation that would be ignored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedKey {
    /// The key is unknown.
    #[error("annotation {} is unknown", quote(_0))]
    Unknown(String),
    /// Nobody knows what is to become of objects when the extension is deleted.
    #[error(transparent)]
    Uninstall(#[from] uninstall::UnknownPolicy),
}

impl UnsupportedKey {
    /// Returns the key.
    pub fn key(&self) -> &str {
        match self {
            Self::Unknown(key) => key,
            Self::Uninstall(_) => policy::UNINSTALL,
        }
    }
}

/// Fails on the first annotation with the policy prefix that is not supported, or says what is not.
pub fn check_keys(annotations: &BTreeMap<String, String>) -> Result<(), UnsupportedKey> {
    let mut policies = annotations
        .keys()
        .filter(|key| key.starts_with(policy::PREFIX) && !UNDERSTOOD.contains(&key.as_str()));
    match policies.next() {
        None => Ok(uninstall::check_annotation(annotations)?),
        Some(key) => Err(UnsupportedKey::Unknown(key.clone())),
    }
}

/// Returns why nothing of the extension `name` is removed, and what to do, if its annotations ask
/// for what this version cannot do.
pub fn removal_hold(name: &str, annotations: &BTreeMap<String, String>) -> Option<String> {
    let unsupported = check_keys(annotations).err()?;
    let key = unsupported.key();
    Some(format!(
        "nothing is removed: {unsupported}; to go on without it: kubectl annotate \
         clusterextension {name} {key}-"
    ))
}

/// Says whether the annotations ask for a pause: nothing is applied.
pub fn is_paused(annotations: &BTreeMap<String, String>) -> bool {
    annotations.get(policy::PAUSED).map(String::as_str) == Some("true")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn annotations(key: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(key.to_owned(), "x".to_owned())])
    }

    #[rstest]
    #[case::somebody_elses("example.com/uninstall", None)]
    #[case::understood(policy::PAUSED, None)]
    #[case::unknown(
        "policy.olm.operatorframework.io/uninstal",
        Some("annotation \"policy.olm.operatorframework.io/uninstal\" is unknown")
    )]
    fn keys(#[case] key: &str, #[case] want: Option<&str>) {
        let got = check_keys(&annotations(key)).err();
        assert_eq!(got.map(|error| error.to_string()).as_deref(), want);
    }

    #[test]
    fn a_hold_says_the_way_out() {
        assert_eq!(removal_hold("e", &annotations(policy::FORCE)), None);
        let hold = removal_hold("e", &annotations(policy::UNINSTALL)).unwrap();
        assert!(
            hold.ends_with(
                "kubectl annotate clusterextension e policy.olm.operatorframework.io/uninstall-"
            ),
            "{hold}"
        );
    }
}
