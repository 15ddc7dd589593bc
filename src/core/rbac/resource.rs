//! Which resource a kind is, and whether it is namespaced, without asking a cluster.
//!
//! Two sources: the kinds that a registry+v1 bundle can hold or that rendering adds, and the custom
//! resource definitions of the bundles themselves. Nothing is guessed from the spelling of a kind:
//! a wrong plural would grant rights on a resource that does not exist, and the install would stop
//! half-way.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::bundle::supported_kind;
use crate::object::Object;

use super::rule::OPENSHIFT_RBAC;

use Scope::{Cluster, Namespaced};

/// Whether the objects of a resource live in namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Namespaced,
    /// In no namespace, whatever their `metadata.namespace` says.
    Cluster,
}

/// A resource: the name of a kind in paths and rules of the API server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resource {
    /// API group, empty for the core group.
    pub group: String,
    /// Plural name in lower case.
    pub plural: String,
    /// Whether its objects live in namespaces.
    pub scope: Scope,
}

/// Group, kind, plural and scope of the kinds known without a custom resource definition.
///
/// Source: rendering.md 1.5 (manifests a bundle may hold) and 4 (what rendering adds), applying.md
/// 3.2 (kinds of hand-written revisions and of later bundle formats).
static KNOWN: LazyLock<Vec<(&str, &str, &str, Scope)>> = LazyLock::new(|| {
    let rows = include_str!("known_kinds.tsv").lines().map(|row| row.split('\t'));
    let known = rows.filter_map(|mut row| {
        let (group, kind, plural) = (row.next()?, row.next()?, row.next()?);
        Some((group, kind, plural, if row.next()? == "Cluster" { Cluster } else { Namespaced }))
    });
    known.collect()
});

/// Returns the plurals of the kinds known without a custom resource definition, by their groups.
pub fn known_resources() -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    for (group, _, plural, _) in KNOWN.iter() {
        groups.entry(*group).or_default().push(*plural);
    }
    groups
}

/// Returns group and plural of the namespaced kinds that any version of a bundle may have, but for
/// Secrets.
pub(super) fn bundled_resources() -> impl Iterator<Item = (&'static str, &'static str)> {
    let bundled = KNOWN.iter().filter(|(group, kind, _, scope)| {
        *scope == Namespaced
            && (*kind == "Deployment" || supported_kind(kind) == Some(true))
            && *kind != "Secret"
            && *group != OPENSHIFT_RBAC
    });
    bundled.map(|(group, _, plural, _)| (*group, *plural))
}

/// The known kinds and those that custom resource definitions among some objects add.
#[derive(Debug, Clone, Default)]
pub struct Resources {
    /// Defined resources, by group and kind.
    defined: BTreeMap<(String, String), Resource>,
}

impl Resources {
    /// Adds the kinds defined by the custom resource definitions among `objects`.
    ///
    /// An incomplete definition is skipped; of two for one kind the last counts.
    pub fn learn<'a>(&mut self, objects: impl IntoIterator<Item = &'a Object>) {
        for object in objects {
            if object.kind() == "CustomResourceDefinition"
                && let Some((key, resource)) = definition(object)
            {
                self.defined.insert(key, resource);
            }
        }
    }

    /// Returns the resources that custom resource definitions define.
    pub fn defined(&self) -> impl Iterator<Item = &Resource> {
        self.defined.values()
    }

    /// Returns the resource of a kind, or `None` when nothing defines it.
    ///
    /// The API server has only one resource for a group and kind, so a definition for a kind of the
    /// table can only repeat it; the definition wins.
    pub fn find(&self, group: &str, kind: &str) -> Option<Resource> {
        let defined = self.defined.get(&(group.to_owned(), kind.to_owned()));
        defined.cloned().or_else(|| known(group, kind))
    }
}

fn known(group: &str, kind: &str) -> Option<Resource> {
    let (_, _, plural, scope) = KNOWN
        .iter()
        .find(|(known_group, known_kind, ..)| *known_group == group && *known_kind == kind)?;
    Some(Resource { group: group.to_owned(), plural: (*plural).to_owned(), scope: *scope })
}

fn definition(object: &Object) -> Option<((String, String), Resource)> {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
    let group = text("/spec/group")?.to_owned();
    let kind = text("/spec/names/kind")?.to_owned();
    let resource = Resource {
        group: group.clone(),
        plural: text("/spec/names/plural")?.to_owned(),
        scope: if text("/spec/scope")? == "Cluster" { Cluster } else { Namespaced },
    };
    Some(((group, kind), resource))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sorted_and_names_each_kind_once() {
        let keys: Vec<_> = KNOWN.iter().map(|(group, kind, ..)| (group, kind)).collect();
        let mut sorted = keys.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(keys, sorted);
        assert_eq!(keys.len(), include_str!("known_kinds.tsv").lines().count());
    }
}
