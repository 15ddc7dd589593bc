//! One rule of a Role or `ClusterRole`, as RBAC writes it.

use serde::Deserialize;
use serde_json::Value;

use crate::object::items;

/// Most rights that the roles and bindings of a bundle may give: a rule of a few kilobytes can name
/// millions.
pub(super) const MAX_RIGHTS: usize = 100_000;

/// The API group of roles and bindings.
pub(super) const RBAC: &str = "rbac.authorization.k8s.io";
/// OpenShift's older API for the same objects.
pub(super) const OPENSHIFT_RBAC: &str = "authorization.openshift.io";

/// Says whether roles and bindings of a group are those of RBAC.
pub(super) fn is_rbac(group: &str) -> bool {
    group == RBAC || group == OPENSHIFT_RBAC
}

/// A rule of RBAC: every verb of `verbs` on everything that the other lists name.
///
/// Lists keep their order. A rule that names both resources and paths grants both, though the API
/// server refuses to store it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct PolicyRule {
    /// API groups, `""` for the core group, `*` for all.
    pub api_groups: Vec<String>,
    /// Resources, possibly with a subresource (`pods/log`, `*/scale`), `*` for all.
    pub resources: Vec<String>,
    /// Object names; empty means every object. There is no wildcard: `*` is a name like any other.
    pub resource_names: Vec<String>,
    /// Verbs, `*` for all.
    pub verbs: Vec<String>,
    /// Paths, where a final `*` stands for any rest. Only cluster-wide rules may have them.
    #[serde(rename = "nonResourceURLs")]
    pub non_resource_urls: Vec<String>,
}

impl PolicyRule {
    /// Reads one entry of `rules`; values that are not an object, list or string count as absent.
    ///
    /// The API server refuses such values, so nothing that this leaves out is granted.
    pub fn from_value(value: &Value) -> Self {
        let list = |key: &str| -> Vec<String> {
            items(&value[key]).filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            api_groups: list("apiGroups"),
            resources: list("resources"),
            resource_names: list("resourceNames"),
            verbs: list("verbs"),
            non_resource_urls: list("nonResourceURLs"),
        }
    }

    /// Returns how many single rights it grants.
    pub(super) fn count(&self) -> usize {
        let names = self.resource_names.len().max(1);
        let resources = self.api_groups.len().saturating_mul(self.resources.len());
        let objects = resources.saturating_mul(names).saturating_add(self.non_resource_urls.len());
        self.verbs.len().saturating_mul(objects)
    }

    /// Returns its lists that are not empty, by name, in the order of manifests.
    pub fn lists(&self) -> impl Iterator<Item = (&'static str, &Vec<String>)> {
        let lists = [
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.resource_names),
            ("nonResourceURLs", &self.non_resource_urls),
            ("verbs", &self.verbs),
        ];
        lists.into_iter().filter(|(_, list)| !list.is_empty())
    }

    /// Returns the rule as an entry of `rules`, without its empty lists.
    pub fn to_value(&self) -> Value {
        let entries = self.lists().map(|(key, list)| (key.to_owned(), Value::from(list.clone())));
        Value::Object(entries.collect())
    }
}

/// Returns the kind of role that holds in a namespace, or cluster-wide if it is empty.
pub(crate) fn role_kind(namespace: &str) -> &'static str {
    if namespace.is_empty() { "ClusterRole" } else { "Role" }
}

pub(super) fn role_plural(kind: &str) -> &'static str {
    if kind == "Role" { "roles" } else { "clusterroles" }
}
