//! What the annotations of an extension say about how it is kept.
//!
//! Unknown values are refused, never replaced by a default (applying.md 10).

use kube::ResourceExt as _;
use olm_api::ClusterExtension;
use olm_api::keys::policy;
use olm_core::error::quote;
use olm_core::policy::check_keys;
use olm_core::resolve::{UnknownUpdatePolicy, UpdatePolicy};
use olm_core::version::{VersionRelease, VersionReleaseError};

use super::error::ExtensionError;

/// Value of `force` that passes over constraints; the second is its older name.
const CONSTRAINTS: [&str; 2] = ["constraints", "dependencies"];

/// How an extension is kept.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Policy {
    /// What an automatic update may change.
    pub(super) updates: UpdatePolicy,
    /// The one version that the update policy does not hold.
    pub(super) approved: Option<VersionRelease>,
    /// Whether nothing is applied.
    pub(super) paused: bool,
    /// Whether constraints are passed over.
    pub(super) ignore_constraints: bool,
}

/// An annotation holds what it cannot.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// It is no update policy.
    #[error(transparent)]
    Update(#[from] UnknownUpdatePolicy),
    /// It is none of a few words.
    #[error("unknown value {}: must be {must_be}", quote(found))]
    Word {
        /// What it is.
        found: String,
        /// What it may be.
        must_be: &'static str,
    },
    /// It is no version.
    #[error("{} is not a version", quote(found))]
    Version {
        /// What it is.
        found: String,
        /// Why it is none.
        #[source]
        cause: Box<VersionReleaseError>,
    },
}

impl Policy {
    /// Reads the annotations; `updates` is what goes without one.
    pub(super) fn of(
        extension: &ClusterExtension,
        updates: UpdatePolicy,
    ) -> Result<Self, ExtensionError> {
        check_keys(extension.annotations()).map_err(ExtensionError::PolicyKey)?;
        Ok(Self {
            updates: read(extension, policy::UPGRADE, |text| Ok(text.parse()?))?.unwrap_or(updates),
            approved: read(extension, policy::APPROVE, version)?,
            paused: read(extension, policy::PAUSED, paused)?.unwrap_or(false),
            ignore_constraints: read(extension, policy::FORCE, force)?.unwrap_or(false),
        })
    }
}

fn read<T>(
    extension: &ClusterExtension,
    annotation: &'static str,
    parse: impl FnOnce(&str) -> Result<T, PolicyError>,
) -> Result<Option<T>, ExtensionError> {
    let text = extension.annotations().get(annotation);
    let parsed = text.map(|text| parse(text)).transpose();
    parsed.map_err(|cause| ExtensionError::Policy { annotation, cause })
}

fn version(text: &str) -> Result<VersionRelease, PolicyError> {
    VersionRelease::legacy(text).map_err(|cause| PolicyError::Version {
        found: text.to_owned(),
        cause: Box::new(cause),
    })
}

fn paused(text: &str) -> Result<bool, PolicyError> {
    text.parse().map_err(|_| PolicyError::Word {
        found: text.to_owned(),
        must_be: "true or false",
    })
}

fn force(text: &str) -> Result<bool, PolicyError> {
    let words = || text.split(',').map(str::trim);
    match words().find(|word| !CONSTRAINTS.contains(word)) {
        None => Ok(true),
        Some(found) => Err(PolicyError::Word {
            found: found.to_owned(),
            must_be: "constraints or dependencies, or both joined by a comma",
        }),
    }
}

#[cfg(test)]
mod tests {
    use olm_core::error::Chain;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn policy(annotation: &str, value: &str) -> Result<Policy, String> {
        let extension: ClusterExtension = serde_json::from_value(json!({
            "metadata": {"name": "e", "annotations": {annotation: value}},
        }))
        .unwrap();
        Policy::of(&extension, UpdatePolicy::MinorOnly).map_err(|error| Chain(&error).to_string())
    }

    #[test]
    fn annotations_are_read() {
        assert_eq!(
            policy(policy::UPGRADE, "None").unwrap().updates,
            UpdatePolicy::None
        );
        let approved = policy(policy::APPROVE, "2.0.0").unwrap().approved.unwrap();
        assert_eq!(approved.recorded(), "2.0.0");
        assert!(policy(policy::PAUSED, "true").unwrap().paused);
        assert!(!policy(policy::PAUSED, "false").unwrap().paused);
        assert!(
            policy(policy::FORCE, "constraints")
                .unwrap()
                .ignore_constraints
        );
        assert!(!policy("else", "x").unwrap().ignore_constraints);
    }

    #[rstest]
    #[case::upgrade(policy::UPGRADE, "Always", "unknown update policy \"Always\"")]
    #[case::approve(policy::APPROVE, "2", "\"2\" is not a version: ")]
    #[case::paused(policy::PAUSED, "yes", "unknown value \"yes\": must be true or false")]
    #[case::force(
        policy::FORCE,
        "constraints,rbac",
        "unknown value \"rbac\": must be constraints"
    )]
    fn unknown_values_are_refused(#[case] key: &str, #[case] value: &str, #[case] message: &str) {
        let error = policy(key, value).unwrap_err();
        let want = format!("annotation {key} is invalid: {message}");
        assert!(error.starts_with(&want), "{error}");
    }
}
