//! Sets of rights, and when one right contains another.
//!
//! A rule is split into single rights before anything is compared, as the API server does in its
//! escalation check, and rights are combined into rules again only for output.
//!
//! Source: Kubernetes, `RBAC` documentation, "Referring to resources" and "Privilege escalation
//! prevention".

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use super::rule::PolicyRule;

/// The verb of acting as somebody else.
pub const IMPERSONATE: &str = "impersonate";

/// The wildcard of verbs, groups and resources.
const ALL: &str = "*";

/// One verb on one resource or path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    /// A verb on the objects of a resource.
    /// `group` is empty for the core group; `resource` may have a subresource; without a `name` every
    /// object is covered. `*` stands for any group, resource or verb.
    Resource { group: String, resource: String, name: Option<String>, verb: String },
    /// A verb on a path that is not a resource.
    /// A final `*` of `path` stands for any rest; `verb` may be `*`.
    Url { path: String, verb: String },
}

impl Permission {
    /// Returns `verb` on `resource` of `group`, limited to the object `name` if given.
    pub fn on(verb: &str, group: &str, resource: &str, name: Option<&str>) -> Self {
        Self::Resource {
            group: group.to_owned(),
            resource: resource.to_owned(),
            name: name.map(str::to_owned),
            verb: verb.to_owned(),
        }
    }

    /// Says whether the right `self` includes the right `other`.
    pub fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Resource { group, resource, name, verb },
                Self::Resource {
                    group: other_group,
                    resource: other_resource,
                    name: other_name,
                    verb: other_verb,
                },
            ) => {
                is_or_all(verb, other_verb)
                    && is_or_all(group, other_group)
                    && resource_contains(resource, other_resource)
                    && (name.is_none() || name == other_name)
            }
            (Self::Url { path, verb }, Self::Url { path: other_path, verb: other_verb }) => {
                is_or_all(verb, other_verb) && path_contains(path, other_path)
            }
            (Self::Resource { .. }, Self::Url { .. })
            | (Self::Url { .. }, Self::Resource { .. }) => false,
        }
    }

    /// Returns every right on resources that contains this one, itself included.
    ///
    /// At most 24, which makes looking a right up in a large set cheap. Empty for paths, whose
    /// prefixes are not enumerable.
    fn containing(&self) -> Vec<Self> {
        let Self::Resource { group, resource, name, verb } = self else { return Vec::new() };
        let any_parent = resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
        let mut resources = vec![resource.as_str(), ALL];
        resources.extend(any_parent.as_deref());
        let mut rights = Vec::new();
        for verb in [verb.as_str(), ALL] {
            for group in [group.as_str(), ALL] {
                for resource in &resources {
                    rights.push(Self::on(verb, group, resource, None));
                    if name.is_some() {
                        rights.push(Self::on(verb, group, resource, name.as_deref()));
                    }
                }
            }
        }
        rights
    }
}

fn is_or_all(pattern: &str, value: &str) -> bool {
    pattern == ALL || pattern == value
}

/// `*` contains everything, `*/scale` the subresource `scale` of everything.
fn resource_contains(pattern: &str, resource: &str) -> bool {
    is_or_all(pattern, resource)
        || resource
            .split_once('/')
            .zip(pattern.strip_prefix("*/"))
            .is_some_and(|((_, sub), wanted)| sub == wanted)
}

fn path_contains(pattern: &str, path: &str) -> bool {
    pattern == path || (pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*')))
}

/// Permissions by namespace; those under the empty namespace hold in the whole cluster.
///
/// The order of insertion does not matter and nothing is stored twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions(BTreeMap<String, BTreeSet<Permission>>);

impl Permissions {
    /// Adds one right in a namespace, or cluster-wide when it is empty.
    ///
    /// A path in a namespace is ignored: RBAC grants paths cluster-wide only.
    pub fn insert(&mut self, namespace: &str, right: Permission) {
        if !namespace.is_empty() && matches!(right, Permission::Url { .. }) {
            return;
        }
        self.0.entry(namespace.to_owned()).or_default().insert(right);
    }

    /// Adds verbs on a resource, given as group and plural, limited to the object `name` if given.
    pub fn allow<'v>(
        &mut self,
        namespace: &str,
        verbs: impl IntoIterator<Item = &'v &'v str>,
        (group, plural): (&str, &str),
        name: Option<&str>,
    ) {
        for verb in verbs {
            self.insert(namespace, Permission::on(verb, group, plural, name));
        }
    }

    /// Adds everything a rule grants in a namespace, or cluster-wide when it is empty.
    pub fn insert_rule(&mut self, namespace: &str, rule: &PolicyRule) {
        for verb in &rule.verbs {
            for group in &rule.api_groups {
                for resource in &rule.resources {
                    if rule.resource_names.is_empty() {
                        self.insert(namespace, Permission::on(verb, group, resource, None));
                    }
                    for name in &rule.resource_names {
                        self.insert(namespace, Permission::on(verb, group, resource, Some(name)));
                    }
                }
            }
            for path in &rule.non_resource_urls {
                let (path, verb) = (path.clone(), verb.clone());
                self.insert(namespace, Permission::Url { path, verb });
            }
        }
    }

    /// Adds everything that rules grant in a namespace, or cluster-wide when it is empty.
    pub fn insert_rules(
        &mut self,
        namespace: &str,
        rules: impl IntoIterator<Item = impl Borrow<PolicyRule>>,
    ) {
        rules.into_iter().for_each(|rule| self.insert_rule(namespace, rule.borrow()));
    }

    /// Adds all rights of another set.
    pub fn extend(&mut self, other: &Self) {
        for (namespace, right) in other.iter() {
            self.insert(namespace, right.clone());
        }
    }

    /// Returns every right with its namespace, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Permission)> {
        self.0
            .iter()
            .flat_map(|(namespace, rights)| rights.iter().map(move |right| (&**namespace, right)))
    }

    /// Says whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(BTreeSet::is_empty)
    }

    /// Returns the namespaces that hold rights, the empty one (cluster-wide) first.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, rights)| !rights.is_empty()).map(|(namespace, _)| &**namespace)
    }

    /// Says whether a holder of this set may do `right` in a namespace (empty: cluster-wide).
    pub fn covers(&self, namespace: &str, right: &Permission) -> bool {
        ["", namespace].iter().filter_map(|scope| self.0.get(*scope)).any(|held| match right {
            Permission::Resource { .. } => right.containing().iter().any(|one| held.contains(one)),
            Permission::Url { .. } => held.iter().any(|one| one.contains(right)),
        })
    }

    /// Returns the rights of this set that a holder of `granted` lacks, without those that others
    /// of the result contain.
    #[must_use]
    pub fn missing(&self, granted: &Self) -> Self {
        let mut lacking = Self::default();
        for (namespace, right) in self.reduced().iter() {
            if !granted.covers(namespace, right) {
                lacking.insert(namespace, right.clone());
            }
        }
        lacking
    }

    /// Returns the smallest set that allows the same: no right is contained in another.
    #[must_use]
    pub fn reduced(&self) -> Self {
        let mut reduced = Self::default();
        for (namespace, right) in self.iter() {
            if !self.is_redundant(namespace, right) {
                reduced.insert(namespace, right.clone());
            }
        }
        reduced
    }

    fn is_redundant(&self, namespace: &str, right: &Permission) -> bool {
        if !namespace.is_empty() && self.covers("", right) {
            return true;
        }
        let Some(held) = self.0.get(namespace) else { return false };
        match right {
            Permission::Resource { .. } => {
                right.containing().iter().any(|one| one != right && held.contains(one))
            }
            // `/a*` and `/a**` contain each other: the smaller stays.
            Permission::Url { .. } => held.iter().any(|one| {
                one != right && one.contains(right) && (!right.contains(one) || one < right)
            }),
        }
    }

    /// Returns the rights of one namespace (empty: cluster-wide) as few rules, sorted.
    ///
    /// Rules that differ only in their verbs become one, then those that differ only in their
    /// names, then in their resources, last in their paths. API groups are never joined, so each
    /// rule reads as one API's. Lists are sorted.
    pub fn rules(&self, namespace: &str) -> Vec<PolicyRule> {
        let Some(held) = self.0.get(namespace) else { return Vec::new() };
        let mut rules = resource_rules(held);
        rules.extend(url_rules(held));
        rules
    }
}

type Names = BTreeSet<String>;

/// Collects `(key, member)` pairs into sets of members by key.
fn group<K: Ord, V: Ord>(pairs: impl Iterator<Item = (K, V)>) -> BTreeMap<K, BTreeSet<V>> {
    let mut groups: BTreeMap<K, BTreeSet<V>> = BTreeMap::new();
    for (key, member) in pairs {
        groups.entry(key).or_default().insert(member);
    }
    groups
}

fn resource_rules(held: &BTreeSet<Permission>) -> Vec<PolicyRule> {
    let verbs = group(held.iter().filter_map(|right| match right {
        Permission::Resource { group, resource, name, verb } => {
            Some(((group, resource, name), verb.clone()))
        }
        Permission::Url { .. } => None,
    }));
    // Unnamed and named rights stay apart: an empty list of names means every object.
    let names = group(verbs.into_iter().map(|((group, resource, name), verbs)| {
        ((group, resource, name.is_some(), verbs), name.clone())
    }));
    let resources = group(names.into_iter().map(|((group, resource, _, verbs), names)| {
        let names: Names = names.into_iter().flatten().collect();
        ((group, names, verbs), resource.clone())
    }));
    let mut rules: Vec<PolicyRule> = resources
        .into_iter()
        .map(|((group, names, verbs), resources)| PolicyRule {
            api_groups: vec![group.clone()],
            resources: resources.into_iter().collect(),
            resource_names: names.into_iter().collect(),
            verbs: verbs.into_iter().collect(),
            non_resource_urls: Vec::new(),
        })
        .collect();
    rules.sort();
    rules
}

fn url_rules(held: &BTreeSet<Permission>) -> Vec<PolicyRule> {
    let verbs = group(held.iter().filter_map(|right| match right {
        Permission::Url { path, verb } => Some((path.clone(), verb.clone())),
        Permission::Resource { .. } => None,
    }));
    let paths = group(verbs.into_iter().map(|(path, verbs)| (verbs, path)));
    let mut rules: Vec<PolicyRule> = paths
        .into_iter()
        .map(|(verbs, paths)| PolicyRule {
            verbs: verbs.into_iter().collect(),
            non_resource_urls: paths.into_iter().collect(),
            ..PolicyRule::default()
        })
        .collect();
    rules.sort();
    rules
}

#[cfg(test)]
mod tests;
