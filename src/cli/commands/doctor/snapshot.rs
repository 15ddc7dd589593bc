//! What has to be the same before and after a take-over: what extensions installed, the pods of it,
//! and what users made of its CRDs. Names, UIDs and generations, no content.
//!
//! Source: deploying.md 7.1.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, bail};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::{Client, ResourceExt as _};
use olm_image::digest::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Level, Row};
use crate::document::Document as _;
use crate::managed::{Managed, all, failure, text};

const SUBJECT: &str = "objects";

/// Whose an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Of {
    /// What an extension installed.
    Extension,
    /// A `ReplicaSet` or pod of it.
    Workload,
    /// Made by users of a CRD of it.
    User,
}

/// An object as it was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
struct Seen {
    of: Of,
    /// Its UID.
    uid: String,
    /// What changes with its content.
    state: String,
}

/// What has to stay the same when a cluster is taken over: the file of
/// `kubectl olm doctor --take-over --save`.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Snapshot {
    /// Everything that has to stay, by what a person calls it.
    objects: BTreeMap<String, Seen>,
    /// What could not be listed, and why.
    unknown: Vec<String>,
}

impl Snapshot {
    /// Reads what `managed`, all that extensions installed, consists of now.
    pub(super) async fn take(
        client: &Client,
        kinds: &[ApiResource],
        (managed, unknown): (&[Managed], Vec<String>),
    ) -> Self {
        let objects = BTreeMap::new();
        let mut snapshot = Self { objects, unknown };
        let mut deployments = BTreeSet::new();
        for one in managed {
            let uid = one.object.uid().unwrap_or_default();
            let state = match (&*one.resource.group, &*one.resource.kind) {
                // The API server counts annotations of a Deployment into its generation.
                ("apps", "Deployment") => {
                    deployments.insert(uid.clone());
                    let found = one.api(client).get(&one.object.name_any()).await;
                    let found = found.map(|it| it.data["spec"].to_string());
                    let unknown = |error| snapshot.unknown.push(failure(&error));
                    let spec = found.map_err(unknown).unwrap_or_default();
                    Digest::sha256(spec.as_bytes()).to_string()
                }
                _ => generation(&one.object),
            };
            let of = Of::Extension;
            snapshot.objects.insert(one.text(), Seen { of, uid, state });
        }
        let crds = managed.iter().filter(|one| one.resource.kind == "CustomResourceDefinition");
        let crds: BTreeSet<String> = crds.map(|one| one.object.name_any()).collect();
        let defined =
            |kind: &&ApiResource| crds.contains(&format!("{}.{}", kind.plural, kind.group));
        for kind in kinds.iter().filter(defined) {
            snapshot.add(client, kind, Of::User, None).await;
        }
        let kind = |group: &str, name: &str| {
            let mut kinds = kinds.iter();
            kinds.find(|kind| kind.group == group && kind.kind == name)
        };
        if let (Some(sets), Some(pods)) = (kind("apps", "ReplicaSet"), kind("", "Pod")) {
            let sets = snapshot.add(client, sets, Of::Workload, Some(&deployments));
            let sets = sets.await;
            snapshot.add(client, pods, Of::Workload, Some(&sets)).await;
        }
        snapshot
    }

    /// Adds the objects of a kind, or those that `owners` control; returns their UIDs.
    async fn add(
        &mut self,
        client: &Client,
        kind: &ApiResource,
        of: Of,
        owners: Option<&BTreeSet<String>>,
    ) -> BTreeSet<String> {
        let mut uids = BTreeSet::new();
        let found = match all(&Api::<DynamicObject>::all_with(client.clone(), kind), "").await {
            Ok(found) => found,
            Err(error) => {
                self.unknown.push(format!("{}: {}", kind.plural, failure(&error)));
                return uids;
            }
        };
        for object in found {
            let owned = |uid| owners.is_none_or(|owners| owners.contains(uid));
            let controllers = object.owner_references().iter();
            let mut controllers = controllers.filter(|owner| owner.controller == Some(true));
            if owners.is_some() && !controllers.any(|owner| owned(&owner.uid)) {
                continue;
            }
            let uid = object.uid().unwrap_or_default();
            uids.insert(uid.clone());
            let state = match of {
                Of::User => generation(&object),
                Of::Extension | Of::Workload => String::new(),
            };
            self.objects.insert(text(kind, &object), Seen { of, uid, state });
        }
        uids
    }

    /// Writes it to a file.
    pub(super) fn save(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(&self.headed()?)?;
        std::fs::write(path, text + "\n").with_context(|| format!("writing {}", path.display()))
    }

    /// Reads it from a file.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let place = || format!("reading {}", path.display());
        let text = std::fs::read_to_string(path).with_context(place)?;
        let document: Value = serde_json::from_str(&text).with_context(place)?;
        if document["schema"] != Self::SCHEMA {
            bail!("{} is nothing that --take-over --save wrote", path.display());
        }
        serde_json::from_value(document).with_context(place)
    }

    /// Says what is not as it was.
    pub(super) fn compare(&self, now: &Self) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut found = |seen: &Seen, text: String| {
            let level = match seen.of {
                Of::Extension | Of::Workload => Level::Problem,
                Of::User => Level::Warning,
            };
            rows.push(Row::new(level, SUBJECT, text));
        };
        for (what, before) in &self.objects {
            match now.objects.get(what) {
                // Users' objects that go are what must never happen.
                None => {
                    found(&Seen { of: Of::Workload, ..before.clone() }, format!("{what} is gone"));
                }
                Some(now) if now.uid != before.uid => {
                    found(before, format!("{what} was made anew"));
                }
                Some(now) if now.state != before.state => found(before, format!("{what} changed")),
                Some(_) => {}
            }
        }
        for (what, seen) in &now.objects {
            // Certificates of webhooks come from us.
            let of = if seen.of == Of::Extension { Of::User } else { seen.of };
            if !self.objects.contains_key(what) {
                found(&Seen { of, ..seen.clone() }, format!("{what} is new"));
            }
        }
        for what in self.unknown.iter().chain(&now.unknown) {
            rows.push(Row::new(Level::Unknown, SUBJECT, what));
        }
        if rows.is_empty() {
            let text = format!("{} objects, all as they were", self.objects.len());
            rows.push(Row::new(Level::Ok, SUBJECT, text));
        }
        rows
    }

    /// Returns how much there is.
    pub(super) fn row(&self) -> Row {
        let count = |of: Of| self.objects.values().filter(|seen| seen.of == of).count();
        let text = format!(
            "{} of extensions, {} ReplicaSets and pods of them, {} of users",
            count(Of::Extension),
            count(Of::Workload),
            count(Of::User)
        );
        Row::new(Level::Ok, SUBJECT, text)
    }

    /// Returns what could not be listed.
    pub(super) fn unknown(&self) -> impl Iterator<Item = Row> {
        let unknown = self.unknown.iter();
        unknown.map(|what| Row::new(Level::Unknown, SUBJECT, what))
    }
}

fn generation(object: &kube::core::PartialObjectMeta<DynamicObject>) -> String {
    let generation = object.metadata.generation;
    generation.map(|it| it.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(objects: &[(&str, Of, &str, &str)]) -> Snapshot {
        let objects = objects.iter().map(|(what, of, uid, state)| {
            let (uid, state) = ((*uid).to_owned(), (*state).to_owned());
            let seen = Seen { of: *of, uid, state };
            ((*what).to_owned(), seen)
        });
        Snapshot { objects: objects.collect(), unknown: Vec::new() }
    }

    // deploying.md P55
    #[test]
    fn what_is_not_as_it_was_is_named() {
        let before = snapshot(&[
            ("a", Of::Extension, "1", "1"),
            ("b", Of::Extension, "2", "1"),
            ("pod", Of::Workload, "3", ""),
            ("mine", Of::User, "4", "1"),
            ("his", Of::User, "5", "1"),
        ]);
        let same = before.compare(&before);
        assert_eq!(same[0].level, Level::Ok);
        assert_eq!(same[0].text, "5 objects, all as they were");
        let after = snapshot(&[
            ("a", Of::Extension, "9", "1"),
            ("b", Of::Extension, "2", "2"),
            ("pod-2", Of::Workload, "8", ""),
            ("mine", Of::User, "4", "2"),
        ]);
        let found = before.compare(&after);
        let found: Vec<_> = found.iter().map(|row| (row.level, &*row.text)).collect();
        let want = [
            (Level::Problem, "a was made anew"),
            (Level::Problem, "b changed"),
            (Level::Problem, "his is gone"),
            (Level::Warning, "mine changed"),
            (Level::Problem, "pod is gone"),
            (Level::Problem, "pod-2 is new"),
        ];
        assert_eq!(found, want);
    }
}
