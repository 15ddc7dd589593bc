//! The admission policies on who may name a service account.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use olm_api::keys::admission;

/// The default failure policy of an admission policy, and the action its binding must have.
const FAIL: &str = "Fail";
const DENY: &str = "Deny";

/// A policy of `config/policy`, or of the component with the default service account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Who may name a service account in a ClusterExtension.
    Extension,
    /// Who may name a service account in a ClusterObjectSet.
    ObjectSet,
    /// Who may write a ClusterExtension that names no service account.
    DefaultAccount,
    /// Who may approve a version.
    Approve,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Extension, Self::ObjectSet, Self::DefaultAccount, Self::Approve];

    /// Returns the name of the `ValidatingAdmissionPolicy`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Extension => admission::EXTENSION_ACCOUNT,
            Self::ObjectSet => admission::OBJECT_SET_ACCOUNT,
            Self::DefaultAccount => admission::DEFAULT_ACCOUNT,
            Self::Approve => admission::APPROVE,
        }
    }

    /// Describes what users can do while it is not in force, and which manifests apply it.
    pub fn without_it(self) -> &'static str {
        match self {
            Self::Extension | Self::ObjectSet => {
                "anyone who can create these objects can use any service account; apply \
                 config/policy"
            }
            Self::DefaultAccount => {
                "anyone who can edit extensions can use the default service account; apply \
                 config/components/default-account"
            }
            Self::Approve => {
                "anyone who can edit extensions can approve versions; apply config/policy"
            }
        }
    }
}

/// What the administrator decided about the policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum AccountPolicy {
    /// While a policy is not in force, nothing new is reconciled.
    Require,
    /// Warn that policies are not in force.
    Warn,
    /// Do not check the policies.
    Off,
}

/// Says whether a policy takes effect: it fails closed, the API server has observed its current
/// generation, and a binding denies everywhere.
pub fn in_force(
    policy: &ValidatingAdmissionPolicy,
    bindings: &[ValidatingAdmissionPolicyBinding],
) -> bool {
    let fails_closed = policy
        .spec
        .as_ref()
        .is_some_and(|spec| spec.failure_policy.as_deref().is_none_or(|fails| fails == FAIL));
    let observed = policy.status.as_ref().and_then(|status| status.observed_generation);
    let known = observed.is_some() && observed == policy.metadata.generation;
    let bound = bindings
        .iter()
        .filter_map(|binding| binding.spec.as_ref())
        .filter(|spec| spec.policy_name == policy.metadata.name)
        .any(|spec| {
            let mut actions = spec.validation_actions.iter().flatten();
            spec.match_resources.is_none() && actions.any(|action| action == DENY)
        });
    fails_closed && known && bound
}

/// Says whether an object waits until its policy is in force. What was admitted for its service
/// account before does not wait, so that an installed extension is still maintained.
pub fn waits(decided: AccountPolicy, in_force: bool, admitted_before: bool) -> bool {
    decided == AccountPolicy::Require && !in_force && !admitted_before
}
