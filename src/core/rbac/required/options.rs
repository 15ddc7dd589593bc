//! What is granted in addition to, or instead of, the minimum.
//!
//! Source: applying.md 5.4.

use super::{NAMED_VERBS, WATCH_VERBS, is_rbac};
use crate::rbac::permission::Permissions;
use crate::rbac::resource::{Resource, bundled_resources};

/// What is granted in addition to, or instead of, the minimum.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Adds `list` and `watch` on whole resources, so that one watch serves all objects of a kind.
    pub collection_watch: bool,
    /// Grants what stays the same between versions: no names of roles, of bindings and in the
    /// install namespace, and the kinds that a later version may have there.
    pub stable: bool,
    /// Grants `escalate` and `bind` instead of the rules that the bundle's roles hold: shorter and
    /// far stronger.
    pub bind_escalate: bool,
    /// Adds what making this install namespace takes.
    pub create_namespace: Option<String>,
}

impl Options {
    /// Says whether rights on the objects of a resource name none of them.
    ///
    /// The names of roles change with every version, and RBAC knows no prefix of a name. In the install
    /// namespace a name protects little from an account that may create Deployments there; Secrets
    /// are named all the same.
    pub(super) fn leaves_unnamed(&self, resource: &Resource, in_install_namespace: bool) -> bool {
        let is_secret = resource.group.is_empty() && resource.plural == "secrets";
        self.stable && (is_rbac(&resource.group) || (in_install_namespace && !is_secret))
    }

    /// Returns the rights that no version takes yet and a later one may take in the install namespace.
    pub(super) fn of_later_versions(&self, install_namespace: &str) -> Permissions {
        let mut rights = Permissions::default();
        if self.stable {
            for on in bundled_resources() {
                let verbs = ["create"].iter().chain(NAMED_VERBS).chain(WATCH_VERBS);
                rights.allow(install_namespace, verbs, on, None);
            }
        }
        rights
    }
}
