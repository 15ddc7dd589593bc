//! Roles and bindings of a cluster, and what they give an account.
//!
//! As the RBAC authorizer of Kubernetes does it: a binding concerns an account by its user name, by
//! its service account or by one of its three groups; a binding in a namespace gives the rules of
//! its role there. A role that does not exist gives nothing.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{self as rbac, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::missing::RoleKey;
use super::permission::Permissions;
use super::rule::PolicyRule;
use crate::revision::Account;

/// A binding that concerns an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Its namespace; empty for a `ClusterRoleBinding`.
    pub namespace: String,
    pub name: String,
    /// The role it refers to.
    pub role: RoleKey,
    /// What it gives; `None` where the role does not exist.
    pub rights: Option<Permissions>,
}

/// The roles and bindings of a cluster.
#[derive(Debug, Clone, Default)]
pub struct RbacObjects {
    roles: BTreeMap<RoleKey, Vec<PolicyRule>>,
    bindings: Vec<Binding>,
}

#[derive(Debug, Clone)]
struct Binding {
    namespace: String,
    name: String,
    role: RoleKey,
    subjects: Vec<Subject>,
}

impl RbacObjects {
    /// Adds a `Role`, or a `ClusterRole` with the rules that the controller of Kubernetes aggregated.
    pub fn add_role(&mut self, metadata: ObjectMeta, rules: Option<Vec<rbac::PolicyRule>>) {
        let key = RoleKey {
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
        };
        let rules = rules.unwrap_or_default();
        self.roles.insert(key, rules.into_iter().map(PolicyRule::from).collect());
    }

    /// Adds a `RoleBinding` or `ClusterRoleBinding`.
    pub fn add_binding(
        &mut self,
        metadata: ObjectMeta,
        role: &rbac::RoleRef,
        subjects: Option<Vec<Subject>>,
    ) {
        let namespace = metadata.namespace.unwrap_or_default();
        self.bindings.push(Binding {
            role: RoleKey::named(&role.kind, &role.name, &namespace),
            namespace,
            name: metadata.name.unwrap_or_default(),
            subjects: subjects.unwrap_or_default(),
        });
    }

    /// Returns the rules of a role, if it exists.
    pub fn rules(&self, role: &RoleKey) -> Option<&[PolicyRule]> {
        self.roles.get(role).map(Vec::as_slice)
    }

    /// Returns the bindings that concern `account`, with what each gives it.
    pub fn grants(&self, account: &Account) -> Vec<Grant> {
        let of_it = |binding: &&Binding| concerns(&binding.subjects, &binding.namespace, account);
        let grants = self.bindings.iter().filter(of_it).map(|binding| Grant {
            namespace: binding.namespace.clone(),
            name: binding.name.clone(),
            role: binding.role.clone(),
            rights: self.rules(&binding.role).map(|rules| {
                let mut rights = Permissions::default();
                rights.insert_rules(&binding.namespace, rules);
                rights
            }),
        });
        grants.collect()
    }
}

/// Says whether `account` is among the subjects of a binding in `namespace`.
pub fn concerns(subjects: &[Subject], namespace: &str, account: &Account) -> bool {
    subjects.iter().any(|subject| match subject.kind.as_str() {
        "ServiceAccount" => {
            let stated = subject.namespace.as_deref().unwrap_or_default();
            let place = if stated.is_empty() { namespace } else { stated };
            place == account.namespace && subject.name == account.name
        }
        "User" => subject.name == account.user(),
        "Group" => account.groups().contains(&subject.name),
        _ => false,
    })
}

impl From<rbac::PolicyRule> for PolicyRule {
    fn from(rule: rbac::PolicyRule) -> Self {
        Self {
            api_groups: rule.api_groups.unwrap_or_default(),
            resources: rule.resources.unwrap_or_default(),
            resource_names: rule.resource_names.unwrap_or_default(),
            verbs: rule.verbs,
            non_resource_urls: rule.non_resource_urls.unwrap_or_default(),
        }
    }
}
