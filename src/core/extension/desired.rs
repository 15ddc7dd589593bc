//! The revision that a bundle becomes, before it has a number.

use std::collections::BTreeMap;

use olm_api::CollisionProtection;
use olm_api::conditions::Reason;
use olm_api::keys::{annotation, policy};

use super::ValidExtension;
use crate::revision::{Account, BundleRecord, Desired, Extension, Phase, built_in};
use crate::uninstall::UninstallPolicy;
use crate::version::Version;

/// What a revision is made of.
#[derive(Debug, Clone, Copy)]
pub struct RevisionSource<'a> {
    /// The bundle as the catalog names it.
    pub bundle: &'a BundleRecord,
    /// Digest of its image.
    pub digest: &'a str,
    /// Its properties, as its annotation holds them.
    pub properties: Option<&'a str>,
    /// What it was rendered to.
    pub phases: &'a [Phase],
}

/// Returns the revision a bundle should have in an extension, applied as `account`.
///
/// Source: applying.md 3.1.
pub fn desired(
    extension: ValidExtension<'_>,
    account: &Account,
    source: RevisionSource<'_>,
) -> Desired {
    let mut annotations: BTreeMap<String, String> = source.bundle.annotations();
    let generation = extension.object.metadata.generation.unwrap_or_default();
    let recorded = [
        (annotation::BUNDLE_DIGEST, source.digest.to_owned()),
        (annotation::SERVICE_ACCOUNT_NAME, account.name.clone()),
        (annotation::SERVICE_ACCOUNT_NAMESPACE, account.namespace.clone()),
        (annotation::EXTENSION_GENERATION, generation.to_string()),
    ];
    annotations.extend(recorded.map(|(key, value)| (key.to_owned(), value)));
    if let Some(properties) = source.properties {
        annotations.insert(annotation::PROPERTIES.to_owned(), properties.to_owned());
    }
    let said = extension.object.metadata.annotations.as_ref();
    if let Some(uninstall) = said.and_then(UninstallPolicy::recorded) {
        let word: &str = uninstall.into();
        annotations.insert(policy::UNINSTALL.to_owned(), word.to_owned());
    }
    Desired {
        extension: Extension::of(extension.object),
        phases: source.phases.to_vec(),
        annotations,
        probes: built_in(),
        deadline_minutes: extension.spec.progress_deadline_minutes,
        collision_protection: CollisionProtection::Prevent,
        migrated_from: None,
    }
}

/// Returns the reason of the Event about a step between versions that no catalog edge allows.
pub fn forced_step(from: &str, to: &str) -> Reason {
    match (from.parse::<Version>(), to.parse::<Version>()) {
        (Ok(from), Ok(to)) if to.precedence(&from).is_lt() => Reason::ForcedRollback,
        _ => Reason::ForcedUpgrade,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_forced_step_has_a_direction() {
        assert_eq!(forced_step("2.0.0", "1.9.0"), Reason::ForcedRollback);
        assert_eq!(forced_step("1.0.0", "3.0.0"), Reason::ForcedUpgrade);
        assert_eq!(forced_step("one", "3.0.0"), Reason::ForcedUpgrade);
    }

    #[test]
    fn a_revision_records_what_made_it() {
        let extension = crate::fixture::extension(&json!({
            "metadata": {"uid": "u", "generation": 7}, "spec": {"progressDeadlineMinutes": 20}}));
        let account = Account { namespace: "ns".to_owned(), name: "sa".to_owned() };
        let bundle = BundleRecord::example("1.0.0");
        let source = RevisionSource {
            bundle: &bundle,
            digest: "sha256:a",
            properties: Some("[]"),
            phases: &[],
        };
        let valid = ValidExtension::of(&extension).unwrap();
        let desired = desired(valid, &account, source);
        assert_eq!(desired.deadline_minutes, Some(20));
        assert_eq!((desired.extension.name.as_str(), desired.extension.uid.as_str()), ("e", "u"));
        let recorded = |key: &str| desired.annotations.get(key).map(String::as_str);
        assert_eq!(recorded(annotation::BUNDLE_VERSION), Some("1.0.0"));
        assert_eq!(recorded(annotation::BUNDLE_DIGEST), Some("sha256:a"));
        assert_eq!(recorded(annotation::EXTENSION_GENERATION), Some("7"));
        assert_eq!(recorded(annotation::SERVICE_ACCOUNT_NAME), Some("sa"));
        assert_eq!(recorded(annotation::PROPERTIES), Some("[]"));
    }
}
