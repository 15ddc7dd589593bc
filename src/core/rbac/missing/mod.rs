//! What an account lacks, and what is known of what it holds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::permission::{Permission, Permissions};
use super::rule::{PolicyRule, RBAC, role_kind, role_plural};
use crate::error::quote;

/// A Role, or a `ClusterRole` where the namespace is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoleKey {
    pub namespace: String,
    pub name: String,
}

impl RoleKey {
    /// Returns the role of a kind and name that a binding in `namespace` (empty: cluster-wide) refers to.
    pub fn named(kind: &str, name: &str, namespace: &str) -> Self {
        let namespace = if kind == "Role" { namespace } else { "" };
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// As the API server names a role that it does not find.
impl fmt::Display for RoleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = role_plural(role_kind(&self.namespace));
        write!(f, "{plural}.{RBAC} {}", quote(&self.name))
    }
}

/// What an account holds.
#[derive(Debug, Clone, Copy)]
pub struct Held<'a> {
    pub rights: &'a Permissions,
    /// The rules of roles outside the bundle, as far as they were read; `None` for one that does
    /// not exist.
    pub roles: &'a BTreeMap<RoleKey, Option<Vec<PolicyRule>>>,
}

/// What an account lacks to install a bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Missing {
    /// The rights, in their smallest form.
    pub rights: Permissions,
    /// Rights to `escalate` and `bind` that the account does not hold either, and that would make
    /// others unnecessary.
    pub alternatives: Permissions,
    /// Roles outside the bundle whose rules decide and were not read.
    pub unread_roles: BTreeSet<RoleKey>,
    /// Why more rights may be missing, and other errors.
    pub errors: BTreeSet<String>,
}

impl Missing {
    /// Adds what the account lacks to install another bundle.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.rights.extend(&other.rights);
        self.alternatives.extend(&other.alternatives);
        self.unread_roles.extend(other.unread_roles);
        self.errors.extend(other.errors);
        self
    }
}

/// Returns whether a missing right would be held if resource name `*` meant every name, which RBAC
/// does not do.
pub fn has_wildcard_name(held: &Permissions, missing: &Permissions) -> bool {
    let mut meant = Permissions::default();
    for (namespace, right) in held.iter() {
        if let Permission::Resource { group, resource, name: Some(name), verb } = right
            && name == "*"
        {
            meant.insert(namespace, Permission::on(verb, group, resource, None));
        }
    }
    missing.iter().any(|(namespace, right)| meant.covers(namespace, right))
}

#[cfg(test)]
mod tests;
