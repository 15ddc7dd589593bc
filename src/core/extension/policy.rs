//! What the annotations of an extension say about how it is kept.
//!
//! Unknown values are refused, never replaced by a default (applying.md 10).

use std::collections::BTreeMap;

use olm_api::keys::policy;

use super::approval::{Approval, Demand};
use super::window::Windows;
use crate::annotations::{Carrier, PolicyError, Reader, ValueError, one_of};
use crate::crd_safety::Waivers;
use crate::error::quote;
use crate::render::Additions;
use crate::resolve::UpdatePolicy;
use crate::revision::BundleRecord;
use crate::version::{VersionRelease, VersionReleaseError};

/// Value of `force` that passes over constraints; the second is its older name.
const CONSTRAINTS: [&str; 2] = ["constraints", "dependencies"];

/// What counts where the annotations of an extension say nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Defaults {
    /// What an automatic update may change.
    pub updates: UpdatePolicy,
    /// What is added to the objects of the bundle.
    pub additions: Additions,
}

impl From<UpdatePolicy> for Defaults {
    fn from(updates: UpdatePolicy) -> Self {
        Self { updates, ..Self::default() }
    }
}

/// How an extension is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// What an automatic update may change.
    pub updates: UpdatePolicy,
    /// When automatic updates may begin; at any time where there are none.
    pub windows: Option<Windows>,
    /// The one version that the update policy does not hold, and by which plan.
    pub approved: Option<Approval>,
    /// Whether nothing is applied.
    pub paused: bool,
    /// Whether constraints are passed over.
    pub ignore_constraints: bool,
    /// Digest of other content of the installed version that may be taken.
    pub accepted_image: Option<String>,
    /// Number of the revision that is gone back to.
    pub rollback_to: Option<i64>,
    /// Whether a rollout whose time is over is taken back.
    pub reverts: bool,
    /// What becomes of an update, or a step back, whose operator gets more rights.
    pub permission_increase: PermissionIncrease,
    /// What becomes of an update from another catalog.
    pub catalog_move: CatalogMove,
    /// What is let pass in upgrades of CRDs.
    pub waivers: Waivers,
    /// What is added to the objects of the bundle.
    pub additions: Additions,
}

/// What becomes of an update, or a step back, whose operator gets more rights (applying.md 10, F14).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::EnumString)]
pub enum PermissionIncrease {
    /// It is made.
    #[default]
    Allow,
    /// It waits for the approval of its plan.
    RequireApproval,
}

/// What becomes of an update from another catalog than that of the installed bundle
/// (applying.md 10).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::EnumString)]
pub enum CatalogMove {
    /// It is made.
    #[default]
    Allow,
    /// It waits for the approval of its version.
    Hold,
}

/// The value of an annotation is not a version.
#[derive(Debug, thiserror::Error)]
#[error("{} is not a version", quote(found))]
struct NotAVersion {
    found: String,
    source: VersionReleaseError,
}

impl Policy {
    /// Reads the annotations of an extension.
    ///
    /// # Errors
    /// Names all of them that cannot be followed.
    pub fn of(
        annotations: &BTreeMap<String, String>,
        defaults: impl Into<Defaults>,
    ) -> Result<Self, PolicyError> {
        let defaults = defaults.into();
        let mut reader = Reader::of(Carrier::Extension, annotations);
        let upgrade = reader.read(policy::UPGRADE, |text| Ok(text.parse()?));
        let waivers = reader.read(policy::CRD_SAFETY_ALLOW, |text| Ok(Waivers::parse(text)?));
        let reason = annotations.get(policy::CRD_SAFETY_REASON);
        if waivers.is_some() && reason.is_none_or(|reason| reason.trim().is_empty()) {
            reader.refuse(PolicyError::NoReason);
        }
        let increase = reader.word(policy::PERMISSION_INCREASE, "Allow or RequireApproval");
        let moves = reader.word(policy::CATALOG_MOVE, "Allow or Hold");
        let policy = Self {
            updates: upgrade.unwrap_or(defaults.updates),
            windows: reader.read(policy::UPDATE_WINDOW, |text| Ok(text.parse()?)),
            approved: reader.read(policy::APPROVE, approval),
            paused: reader.paused(),
            ignore_constraints: reader.read(policy::FORCE, force).unwrap_or(false),
            accepted_image: reader.read(policy::ACCEPT_IMAGE, accepted_image),
            rollback_to: reader.read(policy::ROLLBACK_TO, number),
            reverts: reader.switch(policy::ON_FAILURE, ["Rollback", "Keep"]).unwrap_or(false),
            permission_increase: increase.unwrap_or_default(),
            catalog_move: moves.unwrap_or_default(),
            waivers: waivers.unwrap_or_default(),
            additions: additions(&mut reader, &defaults.additions),
        };
        reader.end(policy)
    }

    /// Says whether the administrator accepted the content with this digest in place of another.
    pub fn accepts(&self, digest: &str) -> bool {
        self.accepted_image.as_deref() == Some(digest)
    }

    /// Returns which approval a step to `target` takes. Where approval is required
    /// ([`super::requires_approval`]), nothing else in the extension counts, and a version alone does not
    /// approve a plan.
    pub fn demand(
        &self,
        target: &BundleRecord,
        installed: Option<&BundleRecord>,
        required: bool,
    ) -> Demand<'_> {
        let approved = self.approved.as_ref();
        if required {
            return Demand::Approval(approved.and_then(|approved| approved.plan.as_deref()));
        }
        let binding = approved.and_then(|approved| approved.binding(target, installed));
        binding.map_or(Demand::Nothing, Demand::Plan)
    }
}

#[cfg(test)]
impl Policy {
    /// What these annotations say, for unit tests.
    pub(crate) fn example(annotations: &[(&str, &str)]) -> Self {
        let owned = annotations.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
        Self::of(&owned.collect(), UpdatePolicy::default()).unwrap()
    }
}

fn additions(reader: &mut Reader<'_>, default: &Additions) -> Additions {
    let proxy = reader.switch(policy::CLUSTER_PROXY, ["Inject", "None"]);
    let conditions = reader.switch(policy::OPERATOR_CONDITIONS, ["Enabled", "Disabled"]);
    let roles = reader.word(policy::USER_ROLES, "none, create or aggregate");
    let namespace = reader.word(policy::CREATE_NAMESPACE, "true or false");
    Additions {
        cluster_proxy: proxy.unwrap_or(default.cluster_proxy),
        operator_conditions: conditions.unwrap_or(default.operator_conditions),
        user_roles: roles.unwrap_or(default.user_roles),
        create_namespace: namespace.unwrap_or(default.create_namespace),
    }
}

/// Reads `<version>` or `<version>@sha256:<plan>`.
fn approval(text: &str) -> Result<Approval, ValueError> {
    let (approved, plan) = match text.split_once('@') {
        Some((approved, plan)) => (approved, Some(plan)),
        None => (text, None),
    };
    Ok(Approval { version: version(approved)?, plan: plan.map(approved_plan).transpose()? })
}

fn accepted_image(text: &str) -> Result<String, ValueError> {
    let known = is_digest(text, "sha256", 64) || is_digest(text, "sha512", 128);
    let must_be = "a digest: sha256: and 64 hexadecimal digits, or sha512: and 128";
    one_of(text, known.then(|| text.to_owned()), must_be)
}

fn approved_plan(text: &str) -> Result<String, ValueError> {
    let known = is_digest(text, "sha256", 64);
    one_of(text, known.then(|| text.to_owned()), "sha256: and 64 hexadecimal digits")
}

fn is_digest(text: &str, algorithm: &str, length: usize) -> bool {
    text.split_once(':').is_some_and(|(name, digits)| {
        let is_hex = digits.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
        name == algorithm && digits.len() == length && is_hex
    })
}

fn version(text: &str) -> Result<VersionRelease, ValueError> {
    let wrong = |source| NotAVersion { found: text.to_owned(), source };
    Ok(VersionRelease::legacy(text).map_err(wrong)?)
}

fn number(text: &str) -> Result<i64, ValueError> {
    let number = text.parse().ok().filter(|number| *number > 0);
    one_of(text, number, "the number of a revision")
}

fn force(text: &str) -> Result<bool, ValueError> {
    let mut words = text.split(',').map(str::trim);
    let wrong = words.find(|word| !CONSTRAINTS.contains(word));
    let read = wrong.is_none().then_some(true);
    one_of(
        wrong.unwrap_or_default(),
        read,
        "constraints or dependencies, or both joined by a comma",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Chain;
    use crate::fixture::{rows, text};
    use crate::render::UserRoles;

    fn policy(annotation: &str, value: &str) -> Result<Policy, String> {
        let annotations = BTreeMap::from([(annotation.to_owned(), value.to_owned())]);
        Policy::of(&annotations, UpdatePolicy::MinorOnly).map_err(|error| Chain(&error).to_string())
    }

    #[test]
    fn annotations_are_read() {
        assert_eq!(policy(policy::UPGRADE, "None").unwrap().updates, UpdatePolicy::None);
        let approved = policy(policy::APPROVE, "2.0.0").unwrap().approved.unwrap();
        assert_eq!(approved.version.recorded(), "2.0.0");
        assert!(policy(policy::PAUSED, "true").unwrap().paused);
        assert!(!policy(policy::PAUSED, "false").unwrap().paused);
        assert!(policy(policy::FORCE, "constraints").unwrap().ignore_constraints);
        assert!(!policy("else", "x").unwrap().ignore_constraints);
        assert_eq!(policy(policy::ROLLBACK_TO, "3").unwrap().rollback_to, Some(3));
        assert!(policy(policy::ON_FAILURE, "Rollback").unwrap().reverts);
        assert!(!policy(policy::ON_FAILURE, "Keep").unwrap().reverts);
        let moved = |value| policy(policy::CATALOG_MOVE, value).unwrap().catalog_move;
        assert_eq!(moved("Hold"), CatalogMove::Hold);
        assert_eq!(moved("Allow"), CatalogMove::Allow);
        let added = |key, value| policy(key, value).unwrap().additions;
        assert!(added(policy::CLUSTER_PROXY, "Inject").cluster_proxy);
        assert!(added(policy::OPERATOR_CONDITIONS, "Enabled").operator_conditions);
        assert!(added(policy::CREATE_NAMESPACE, "true").create_namespace);
        let roles = added(policy::USER_ROLES, "aggregate").user_roles;
        assert_eq!(roles, UserRoles::Aggregate);
        assert_eq!(added("else", "x"), Additions::default());
        let increase = policy(policy::PERMISSION_INCREASE, "RequireApproval").unwrap();
        let waits = PermissionIncrease::RequireApproval;
        assert_eq!(increase.permission_increase, waits);
    }

    #[test]
    fn unknown_values_are_refused() {
        for row in rows(include_str!("../testdata/extension/unknown_values.yaml")) {
            let key = format!("{}{}", policy::PREFIX, text(&row, "key"));
            let error = policy(&key, text(&row, "value")).unwrap_err();
            let want = format!("annotation {key} is invalid: {}", text(&row, "message"));
            assert!(error.starts_with(&want), "{error}");
        }
    }

    #[test]
    fn all_that_cannot_be_followed_are_named() {
        let all = [
            ("pased", "x"),
            ("uninstall", "Keep"),
            ("upgrade", "Any"),
            ("force", "y"),
            ("crd-safety-allow", "unhandled"),
        ];
        let all = all.map(|(key, value)| (format!("{}{key}", policy::PREFIX), value.to_owned()));
        let error = Policy::of(&all.into(), UpdatePolicy::MinorOnly).unwrap_err();
        let text = Chain(&error).to_string();
        let named = text.split("; annotation ").map(|it| it.split("operatorframework.io/").nth(1));
        let named = named.map(|it| it.unwrap().split([' ', '"']).next().unwrap());
        assert_eq!(named.collect::<Vec<_>>(), ["pased", "uninstall", "crd-safety-allow", "force"]);
    }

    #[test]
    fn an_annotation_wins_over_the_default_of_the_controller() {
        let additions = Additions {
            cluster_proxy: true,
            operator_conditions: true,
            user_roles: UserRoles::Create,
            create_namespace: false,
        };
        let defaults = Defaults { updates: UpdatePolicy::Any, additions: additions.clone() };
        let read = |annotations: &[(&str, &str)]| {
            let owned =
                annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            Policy::of(&owned.collect(), defaults.clone()).unwrap()
        };
        assert_eq!(read(&[]).additions, additions);
        assert_eq!(read(&[]).updates, UpdatePolicy::Any);
        let without = read(&[
            (policy::CLUSTER_PROXY, "None"),
            (policy::OPERATOR_CONDITIONS, "Disabled"),
            (policy::USER_ROLES, "none"),
        ]);
        assert_eq!(without.additions, Additions::default());
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
