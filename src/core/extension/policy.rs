//! What the annotations of an extension say about how it is kept.
//!
//! Unknown values are refused, never replaced by a default (applying.md 10).

use std::collections::BTreeMap;

use olm_api::keys::policy;

use super::window::{WindowError, Windows};
use crate::annotations::{UnsupportedKey, check_keys};
use crate::crd_safety::{WaiverError, Waivers};
use crate::error::quote;
use crate::resolve::{UnknownUpdatePolicy, UpdatePolicy};
use crate::version::{VersionRelease, VersionReleaseError};

/// Value of `force` that passes over constraints; the second is its older name.
const CONSTRAINTS: [&str; 2] = ["constraints", "dependencies"];

/// How an extension is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// What an automatic update may change.
    pub updates: UpdatePolicy,
    /// When automatic updates may begin; at any time where there are none.
    pub windows: Option<Windows>,
    /// The one version that the update policy does not hold.
    pub approved: Option<VersionRelease>,
    /// Whether nothing is applied.
    pub paused: bool,
    /// Whether constraints are passed over.
    pub ignore_constraints: bool,
    /// Digest of other content of the installed version that may be taken.
    pub accepted_image: Option<String>,
    /// What is let pass in upgrades of CRDs.
    pub waivers: Waivers,
}

/// An annotation that cannot be followed; nothing is changed until it can.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// It asks for what is not known, or not done.
    #[error("{_0}: remove it, nothing is changed until then")]
    Key(UnsupportedKey),
    /// Its value is not one of those that are known.
    #[error("annotation {annotation} is invalid")]
    Value {
        /// Key of the annotation.
        annotation: &'static str,
        /// What is wrong with the value.
        #[source]
        cause: ValueError,
    },
    /// Upgrades of CRDs are let pass for no reason.
    #[error(
        "annotation {} requires annotation {}",
        policy::CRD_SAFETY_ALLOW,
        policy::CRD_SAFETY_REASON
    )]
    NoReason,
}

/// The value of an annotation is not one of those that are known.
#[derive(Debug, thiserror::Error)]
pub enum ValueError {
    /// It is not an update policy.
    #[error(transparent)]
    Update(#[from] UnknownUpdatePolicy),
    /// It is not one of a few words.
    #[error("unknown value {}: must be {must_be}", quote(found))]
    Word {
        /// The value.
        found: String,
        /// The words.
        must_be: &'static str,
    },
    /// It is not a version.
    #[error("{} is not a version", quote(found))]
    Version {
        /// The value.
        found: String,
        /// What keeps it from being one.
        #[source]
        cause: Box<VersionReleaseError>,
    },
    /// It is not a list of windows.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// It is not a list of waivers.
    #[error(transparent)]
    Waiver(#[from] WaiverError),
}

impl Policy {
    /// Reads the annotations of an extension; `updates` applies where they say nothing.
    pub fn of(
        annotations: &BTreeMap<String, String>,
        updates: UpdatePolicy,
    ) -> Result<Self, PolicyError> {
        check_keys(annotations).map_err(PolicyError::Key)?;
        let upgrade = read(annotations, policy::UPGRADE, |text| Ok(text.parse()?))?;
        let waivers = read(annotations, policy::CRD_SAFETY_ALLOW, |text| {
            Ok(Waivers::parse(text)?)
        })?;
        let reason = annotations.get(policy::CRD_SAFETY_REASON);
        if waivers.is_some() && reason.is_none_or(|reason| reason.trim().is_empty()) {
            return Err(PolicyError::NoReason);
        }
        Ok(Self {
            updates: upgrade.unwrap_or(updates),
            windows: read(annotations, policy::UPDATE_WINDOW, |text| Ok(text.parse()?))?,
            approved: read(annotations, policy::APPROVE, version)?,
            paused: read(annotations, policy::PAUSED, paused)?.unwrap_or(false),
            ignore_constraints: read(annotations, policy::FORCE, force)?.unwrap_or(false),
            accepted_image: annotations.get(policy::ACCEPT_IMAGE).cloned(),
            waivers: waivers.unwrap_or_default(),
        })
    }

    /// Says whether the administrator accepted the content with this digest in place of another.
    pub fn accepts(&self, digest: &str) -> bool {
        self.accepted_image.as_deref() == Some(digest)
    }
}

fn read<T>(
    annotations: &BTreeMap<String, String>,
    annotation: &'static str,
    parse: impl FnOnce(&str) -> Result<T, ValueError>,
) -> Result<Option<T>, PolicyError> {
    let text = annotations.get(annotation);
    let parsed = text.map(|text| parse(text)).transpose();
    parsed.map_err(|cause| PolicyError::Value { annotation, cause })
}

fn version(text: &str) -> Result<VersionRelease, ValueError> {
    VersionRelease::legacy(text).map_err(|cause| ValueError::Version {
        found: text.to_owned(),
        cause: Box::new(cause),
    })
}

fn paused(text: &str) -> Result<bool, ValueError> {
    text.parse().map_err(|_| ValueError::Word {
        found: text.to_owned(),
        must_be: "true or false",
    })
}

fn force(text: &str) -> Result<bool, ValueError> {
    let words = || text.split(',').map(str::trim);
    match words().find(|word| !CONSTRAINTS.contains(word)) {
        None => Ok(true),
        Some(found) => Err(ValueError::Word {
            found: found.to_owned(),
            must_be: "constraints or dependencies, or both joined by a comma",
        }),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::error::Chain;

    fn policy(annotation: &str, value: &str) -> Result<Policy, String> {
        let annotations = BTreeMap::from([(annotation.to_owned(), value.to_owned())]);
        Policy::of(&annotations, UpdatePolicy::MinorOnly).map_err(|error| Chain(&error).to_string())
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
    #[case::window(policy::UPDATE_WINDOW, "at night", "\"at night\" is not a window: ")]
    #[case::waiver(
        policy::CRD_SAFETY_ALLOW,
        "patern",
        "unknown check \"patern\" in \"patern\""
    )]
    fn unknown_values_are_refused(#[case] key: &str, #[case] value: &str, #[case] message: &str) {
        let error = policy(key, value).unwrap_err();
        let want = format!("annotation {key} is invalid: {message}");
        assert!(error.starts_with(&want), "{error}");
    }

    // decision 36
    #[test]
    fn waivers_need_a_reason() {
        let mut annotations =
            BTreeMap::from([(policy::CRD_SAFETY_ALLOW.to_owned(), "unhandled".to_owned())]);
        let read = |annotations: &_| Policy::of(annotations, UpdatePolicy::MinorOnly);
        assert_eq!(
            read(&annotations).unwrap_err().to_string(),
            "annotation policy.olm.operatorframework.io/crd-safety-allow requires annotation \
             policy.olm.operatorframework.io/crd-safety-reason"
        );
        annotations.insert(policy::CRD_SAFETY_REASON.to_owned(), "tested".to_owned());
        assert_ne!(read(&annotations).unwrap().waivers, Waivers::default());
    }
}
