//! Every right of the controller's own account, with its reason.
//!
//! `rights.yaml` is the one table behind the roles of `config/rbac`, the controller's look at its own rights,
//! `kubectl olm doctor`, and the test that compares it with the audit log. Objects of a bundle are
//! written by the service account that the extension names, so nothing here may write them.
//!
//! Source: applying.md 4.3, deploying.md 2.8.

use std::sync::LazyLock;

use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use olm_api::keys::name;
use serde::Deserialize;

use crate::rbac::{IMPERSONATE, Permission, Permissions, PolicyRule};
use crate::revision::Account;
use crate::yaml::to_json;

const CORE: &str = "";
const ADMISSION: &str = "admissionregistration.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const COORDINATION: &str = "coordination.k8s.io";
/// The API group of what configures an OpenShift cluster.
pub const OPENSHIFT: &str = "config.openshift.io";
const LEASES: &str = "leases";
/// Policy of upstream v1.11 that warns of `spec.serviceAccount`.
pub const UPSTREAMS_DEPRECATION: &str = "clusterextension-serviceaccount-deprecated";
/// The Deployment of OpenShift's operator for OLM, which may write the verdict of the gate.
pub const UPSTREAMS_OPERATOR: &str = "cluster-olm-operator";

/// A part of the controller that may run as an account of its own, with two roles of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Half {
    /// Extensions, their revisions and the gate.
    Extensions,
    /// Catalogs.
    Catalogs,
}

/// Where a right holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reach {
    /// In the whole cluster.
    Cluster,
    /// In the whole cluster, unless the cluster's administrator takes this role away (component
    /// `no-shared-watches`): the accounts of extensions watch then.
    Watches,
    /// In the namespace the half runs in.
    Namespace,
}

impl Reach {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cluster, Self::Watches, Self::Namespace];
}

/// A rule of one of the roles, and what needs it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Right {
    /// Whose it is: of both, if it names none.
    half: Option<Half>,
    /// Where it holds.
    pub reach: Reach,
    /// What needs it, one sentence or more.
    pub reason: String,
    /// The rule, as RBAC writes it.
    pub rule: PolicyRule,
}

#[expect(clippy::expect_used, reason = "tests read the table")]
static TABLE: LazyLock<Vec<Right>> =
    LazyLock::new(|| parse(include_str!("rights.yaml")).expect("the table is sound"));

/// Reads a table; the error names the row.
fn parse(text: &str) -> Result<Vec<Right>, String> {
    let documents = to_json(text).map_err(|error| error.to_string())?;
    let rows = documents.into_iter().next().unwrap_or_default();
    serde_path_to_error::deserialize(rows).map_err(|error| error.to_string())
}

impl Half {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Extensions, Self::Catalogs];

    /// Returns the name of the role that holds its rights of this reach. Those of its `ClusterRole` and
    /// of its Role are upstream's.
    pub fn role(self, reach: Reach) -> &'static str {
        match (self, reach) {
            (_, Reach::Watches) => "operator-controller-shared-watches",
            (Self::Extensions, Reach::Cluster | Reach::Namespace) => {
                "operator-controller-manager-role"
            }
            (Self::Catalogs, Reach::Cluster | Reach::Namespace) => "catalogd-manager-role",
        }
    }

    /// Returns the name of its Lease, unless a flag gives another.
    pub fn lease(self) -> &'static str {
        match self {
            Self::Extensions => name::LEASE_OPERATOR_CONTROLLER,
            Self::Catalogs => name::LEASE_CATALOGD,
        }
    }

    /// Returns its rights, in the order of the table.
    pub fn rights(self) -> impl Iterator<Item = &'static Right> {
        TABLE.iter().filter(move |right| right.half.is_none_or(|half| half == self))
    }

    /// Returns every right of a half that runs in `namespace`, one by one.
    pub fn permissions(self, namespace: &str) -> Permissions {
        self.within(&Reach::ALL, namespace)
    }

    fn within(self, reaches: &[Reach], namespace: &str) -> Permissions {
        let mut all = Permissions::default();
        for right in self.rights().filter(|right| reaches.contains(&right.reach)) {
            let place = match right.reach {
                Reach::Cluster | Reach::Watches => "",
                Reach::Namespace => namespace,
            };
            all.insert_rule(place, &right.rule);
        }
        all
    }

    /// Returns what a half that runs in `namespace` cannot do without, and takes the lease at
    /// (namespace, name), if it takes one.
    ///
    /// Acting as an account is left out: it may be granted for single accounts alone (components
    /// `narrow-impersonation` and `constrained-impersonation`), and an extension whose account is
    /// out of reach says so itself. So are the shared watches: without them, accounts watch.
    pub fn needed(self, namespace: &str, lease: Option<(&str, &str)>) -> Permissions {
        let mut needed = Permissions::default();
        let strict = self.within(&[Reach::Cluster, Reach::Namespace], namespace);
        for (place, right) in strict.iter() {
            match (right, lease) {
                (Permission::Resource { verb, .. }, _) if verb == IMPERSONATE => {}
                (Permission::Resource { resource, .. }, None) if resource == LEASES => {}
                (Permission::Resource { resource, name, verb, .. }, Some((place, lease)))
                    if resource == LEASES =>
                {
                    let name = name.is_some().then_some(lease);
                    needed.insert(place, Permission::on(verb, COORDINATION, LEASES, name));
                }
                _ => needed.insert(place, right.clone()),
            }
        }
        needed
    }
}

/// Returns the rights that reading and watching one Secret takes.
pub fn on_secret(namespace: &str, secret: &str) -> Permissions {
    let mut rights = Permissions::default();
    rights.allow(namespace, &["get", "list", "watch"], (CORE, "secrets"), Some(secret));
    rights
}

/// Returns a right as an access review asks for it: on an object, or on a path.
pub fn attributes(
    namespace: &str,
    right: &Permission,
) -> (Option<ResourceAttributes>, Option<NonResourceAttributes>) {
    let some = |text: &str| Some(text.to_owned());
    match right {
        Permission::Resource { group, resource, name, verb } => {
            let (resource, subresource) = match resource.split_once('/') {
                Some((resource, subresource)) => (resource, some(subresource)),
                None => (resource.as_str(), None),
            };
            let on = ResourceAttributes {
                namespace: some(namespace),
                group: some(group),
                resource: some(resource),
                subresource,
                name: name.clone(),
                verb: some(verb),
                ..ResourceAttributes::default()
            };
            (Some(on), None)
        }
        Permission::Url { path, verb } => {
            let at = NonResourceAttributes { path: some(path), verb: some(verb) };
            (None, Some(at))
        }
    }
}

/// Kinds of bundles whose objects hold no secrets, by group: their objects are watched with the
/// controller's own rights, one watch a kind for all extensions.
///
/// Source: decision 42.
#[rustfmt::skip]
pub const SHARED_WATCHES: [(&str, &str); 14] = [
    ("", "Service"), ("", "ServiceAccount"), ("apps", "Deployment"),
    (RBAC, "ClusterRole"), (RBAC, "ClusterRoleBinding"), (RBAC, "Role"), (RBAC, "RoleBinding"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"), ("apiregistration.k8s.io", "APIService"),
    (ADMISSION, "MutatingWebhookConfiguration"), (ADMISSION, "ValidatingWebhookConfiguration"),
    ("networking.k8s.io", "NetworkPolicy"), ("policy", "PodDisruptionBudget"),
    ("scheduling.k8s.io", "PriorityClass"),
];

/// Returns the question whether a service account has a right.
pub fn access_review(
    account: &Account,
    namespace: &str,
    right: &Permission,
) -> SubjectAccessReview {
    let (resource_attributes, non_resource_attributes) = attributes(namespace, right);
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(account.user()),
            groups: Some(account.groups()),
            resource_attributes,
            non_resource_attributes,
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cases;

    const CASES: &str = include_str!("testdata/cases.yaml");

    #[test]
    fn no_right_is_in_the_table_twice() {
        for half in Half::ALL {
            let all = half.permissions("system");
            let written: usize = half
                .rights()
                .map(|Right { rule, reason, .. }| {
                    assert!(reason.ends_with('.'), "{reason}");
                    let subjects = rule.resources.len() * rule.resource_names.len().max(1);
                    rule.verbs.len() * (subjects + rule.non_resource_urls.len())
                })
                .sum();
            assert_eq!(all.iter().count(), written, "{half:?}");
            assert_eq!(all.reduced(), all, "{half:?}");
        }
    }

    #[test]
    fn the_table_names_objects_as_the_code_does() {
        use Half::{Catalogs, Extensions};
        for (half, place, verb, group, resource, name) in [
            (Extensions, "system", "update", COORDINATION, LEASES, Extensions.lease()),
            (Catalogs, "system", "update", COORDINATION, LEASES, Catalogs.lease()),
            (Extensions, "", "patch", OPENSHIFT, "clusteroperators", name::CLUSTER_OPERATOR),
            (Extensions, "", "patch", OPENSHIFT, "clusteroperators", name::CLUSTER_OPERATOR_OURS),
            (Extensions, "", "patch", "operator.openshift.io", "olms/status", name::OLM),
            (Extensions, "", "get", "apps", "deployments", UPSTREAMS_OPERATOR),
            (Catalogs, "", "get", ADMISSION, "validatingadmissionpolicies", UPSTREAMS_DEPRECATION),
            (Extensions, "system", "patch", CORE, "configmaps", name::CONTROLLER_CONFIG),
            (Extensions, "system", "get", CORE, "configmaps", name::PUBLISHED_CA),
            (Catalogs, "system", "patch", CORE, "configmaps", name::PUBLISHED_CA),
            (Catalogs, "system", "update", CORE, "secrets", name::SERVING_CA),
            (Catalogs, "system", "patch", CORE, "secrets", name::PUBLISHED_CA_SECRET),
        ] {
            let right = Permission::on(verb, group, resource, Some(name));
            assert!(half.permissions("system").covers(place, &right), "{half:?}: {right:?}");
        }
    }

    #[test]
    fn an_error_names_its_row() {
        for (table, error) in cases::<(&str, &str)>(CASES, "an_error_names_its_row") {
            let read = parse(table).unwrap_err();
            assert!(read.starts_with(error), "{read}");
        }
    }

    #[test]
    fn what_is_needed_is_all_but_acting_as_accounts_and_watching_for_them() {
        let half = Half::Extensions;
        let all = half.within(&[Reach::Cluster, Reach::Namespace], "system");
        assert!(half.permissions("system").iter().count() > all.iter().count());
        let needed = half.needed("system", Some(("system", half.lease())));
        let left = all.missing(&needed);
        let act = Permission::on(IMPERSONATE, "", "serviceaccounts", None);
        assert_eq!(left.iter().collect::<Vec<_>>(), [("", &act)]);

        let moved = half.needed("system", Some(("there", "mine")));
        let update = |name| Permission::on("update", COORDINATION, LEASES, Some(name));
        assert!(moved.covers("there", &update("mine")));
        assert!(!moved.covers("system", &update(half.lease())));
        let unled = half.needed("system", None);
        assert!(unled.iter().count() < moved.iter().count());
    }

    #[test]
    fn subresources_and_paths_are_asked_for_as_such() {
        let status = Permission::on("update", olm_api::GROUP, "clustercatalogs/status", None);
        let (on, at) = attributes("", &status);
        let on = on.unwrap();
        assert_eq!(on.resource.as_deref(), Some("clustercatalogs"));
        assert_eq!(on.subresource.as_deref(), Some("status"));
        assert!(at.is_none());
        let path = Permission::Url { path: "/apis/*".into(), verb: "get".into() };
        let (on, at) = attributes("", &path);
        assert!(on.is_none());
        assert_eq!(at.unwrap().path.as_deref(), Some("/apis/*"));
    }
}
