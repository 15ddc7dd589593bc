//! Which revisions exist, whether another is needed, and what it looks like.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use olm_api::conditions::types;
use olm_api::keys::{annotation, label, policy};
use olm_api::{
    API_VERSION, ClusterObjectSet, ClusterObjectSetSpec, CollisionProtection, LifecycleState,
    MAX_REVISION, ObjectSourceRef, PhaseObject, ProgressionProbe,
};

use super::RevisionError;
use super::origin::RECORDED;
use super::owner::{Extension, extension_of};
use super::pack::{Packed, digest_packed};
use super::phase::Phase;
use crate::status::is_true;

/// How many of the newest revisions are kept even if they are archived.
pub const RETENTION: usize = 5;
/// Longest label value, in characters; the name of a revision has to fit into one.
const MAX_NAME: usize = 63;

/// A revision as it should be, before it has a number.
#[derive(Debug, Clone, PartialEq)]
pub struct Desired {
    /// The ClusterExtension it belongs to.
    pub extension: Extension,
    /// Its phases, made by [`super::phases`] from objects that went through
    /// [`crate::render::handover`].
    pub phases: Vec<Phase>,
    /// Annotations of the ClusterObjectSet: bundle metadata, recorded identity, generation.
    pub annotations: BTreeMap<String, String>,
    /// Probes, normally [`super::built_in`].
    pub probes: Vec<ProgressionProbe>,
    /// `spec.progressDeadlineMinutes` of the extension; absent or 0 means none.
    pub deadline_minutes: Option<i32>,
    /// Protection of existing objects, normally `Prevent`.
    pub collision_protection: CollisionProtection,
    /// The label that tells who else installed what it holds, if somebody did.
    pub migrated_from: Option<&'static str>,
}

impl Desired {
    /// Records which checks of CRDs the extension let pass when the revision was made, and why.
    pub fn record_waivers(&mut self, extension: &BTreeMap<String, String>) {
        for key in [policy::CRD_SAFETY_ALLOW, policy::CRD_SAFETY_REASON] {
            let value = extension.get(key).cloned();
            self.annotations.extend(value.map(|value| (key.to_owned(), value)));
        }
    }
}

#[cfg(test)]
impl Desired {
    /// A revision of one phase, for unit tests.
    pub(crate) fn example(
        extension: Extension,
        phase: &str,
        objects: Vec<crate::object::Object>,
    ) -> Self {
        Self {
            extension,
            phases: vec![Phase { name: phase.to_owned(), objects }],
            annotations: BTreeMap::new(),
            probes: Vec::new(),
            deadline_minutes: None,
            collision_protection: CollisionProtection::Prevent,
            migrated_from: None,
        }
    }
}

/// What has to happen to reach a desired revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// There is no revision yet.
    Install,
    /// The content differs from the newest revision.
    Upgrade,
    /// The content is that of the newest revision; at most annotations, probes or the deadline are
    /// patched.
    Unchanged,
}

/// The revisions of an extension that are in use.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct States<'a> {
    /// The highest-numbered revision that was rolled out completely once.
    pub installed: Option<&'a ClusterObjectSet>,
    /// Revisions that were never rolled out completely, in ascending order.
    pub rolling: Vec<&'a ClusterObjectSet>,
}

/// Sorts revisions by number, ties by name.
pub fn sort(revisions: &mut [impl Borrow<ClusterObjectSet>]) {
    revisions.sort_by(|a, b| {
        let (a, b) = (a.borrow(), b.borrow());
        let number = a.spec.revision.cmp(&b.spec.revision);
        number.then_with(|| a.metadata.name.cmp(&b.metadata.name))
    });
}

/// Returns the revisions of each extension, sorted by number; what is not a revision of one is left
/// out.
pub fn by_extension<S: Borrow<ClusterObjectSet>>(
    sets: impl IntoIterator<Item = S>,
) -> BTreeMap<Extension, Vec<S>> {
    let mut found = BTreeMap::<Extension, Vec<S>>::new();
    for set in sets {
        if let Some(OwnerReference { name, uid, .. }) = extension_of(set.borrow()).cloned() {
            found.entry(Extension { name, uid }).or_default().push(set);
        }
    }
    for revisions in found.values_mut() {
        sort(revisions);
    }
    found
}

/// Separates installed revisions from those that are rolling out; archived ones are neither.
///
/// `revisions` is sorted by [`sort`].
///
/// Source: applying.md 1.2.
pub fn states<'a>(revisions: impl IntoIterator<Item = &'a ClusterObjectSet>) -> States<'a> {
    let mut states = States::default();
    for revision in revisions {
        if revision.spec.lifecycle_state == LifecycleState::Archived {
            continue;
        }
        if has_succeeded(revision) {
            states.installed = Some(revision);
        } else {
            states.rolling.push(revision);
        }
    }
    states
}

/// Says whether a revision holds what OLM Classic installed: it stays as it is until another version
/// replaces it, so that no pod restarts.
pub fn is_of_classic(revision: &ClusterObjectSet) -> bool {
    let labels = revision.metadata.labels.as_ref();
    labels.is_some_and(|labels| labels.contains_key(label::MIGRATED_FROM_CLASSIC))
}

/// Says whether a revision was ever rolled out completely.
pub fn has_succeeded(revision: &ClusterObjectSet) -> bool {
    let status = revision.status.as_ref();
    status.is_some_and(|status| is_true(&status.conditions, types::SUCCEEDED))
}

/// Returns true if the newest revision is rolled out and no other one is rolling out.
pub fn is_rolled_out(revisions: &[ClusterObjectSet]) -> bool {
    states(revisions).rolling.is_empty() && revisions.last().is_some_and(has_succeeded)
}

/// Compares the desired revision with the newest one.
///
/// `digests` are name and digest of each phase of the newest revision: from
/// `status.observedPhases`, or computed from its resolved content while that is empty; their order
/// does not count.
///
/// Source: applying.md 3.4.
pub fn compare(
    desired: &Desired,
    newest: Option<&ClusterObjectSet>,
    digests: &[(String, String)],
) -> Change {
    let Some(newest) = newest else { return Change::Install };
    let wanted = desired.phases.iter().map(|phase| (phase.name.clone(), digest_packed(phase)));
    let same = wanted.collect::<BTreeMap<_, _>>() == digests.iter().cloned().collect()
        && newest.spec.lifecycle_state == LifecycleState::Active
        && newest.spec.collision_protection == desired.collision_protection;
    if same { Change::Unchanged } else { Change::Upgrade }
}

/// Says whether the newest revision differs from `desired` in fields that may be patched.
///
/// Annotations that others put on the revision do not count.
pub fn needs_patch(desired: &Desired, newest: &ClusterObjectSet) -> bool {
    let annotations = newest.metadata.annotations.clone().unwrap_or_default();
    let annotated =
        desired.annotations.iter().all(|(key, value)| annotations.get(key) == Some(value));
    // Annotations of ours that the desired revision no longer has are removed by the patch.
    let stale = annotations.keys().any(|key| {
        OWN_ANNOTATIONS.contains(&key.as_str()) && !desired.annotations.contains_key(key)
    });
    !annotated
        || stale
        || newest.spec.progression_probes != desired.probes
        || newest.spec.progress_deadline_minutes != deadline(desired)
}

#[rustfmt::skip]
const OWN_ANNOTATIONS: [&str; 13] = [
    annotation::BUNDLE_NAME, annotation::BUNDLE_VERSION, annotation::BUNDLE_RELEASE,
    annotation::BUNDLE_REFERENCE, annotation::BUNDLE_CONSTRAINTS, annotation::PACKAGE_NAME,
    annotation::PROPERTIES, annotation::EXTENSION_GENERATION, annotation::COPIED_PULL_SECRETS,
    annotation::SERVICE_ACCOUNT_NAME, annotation::SERVICE_ACCOUNT_NAMESPACE, policy::UNINSTALL,
    policy::WEBHOOK_CERTIFICATES,
];

/// Returns the number of the revision that follows `revisions`, all of one extension: the highest
/// plus one, archived ones counted, or 1.
///
/// # Errors
/// Fails when the highest is the greatest that a revision may have.
pub fn next_number(revisions: &[ClusterObjectSet]) -> Result<i64, RevisionError> {
    let highest = revisions.iter().map(|revision| revision.spec.revision).max();
    number_after(highest.unwrap_or(0))
}

/// Returns the number after this one.
///
/// # Errors
/// Fails when it is greater than the greatest number.
pub fn number_after(number: i64) -> Result<i64, RevisionError> {
    let next = number.checked_add(1).filter(|next| *next <= MAX_REVISION);
    next.ok_or(RevisionError::NoNumber(number))
}

/// Returns what is to be said of a new revision whose number does not follow that of `before`, the
/// revisions there were: which names were passed over, and why.
pub fn passed_over(before: &[ClusterObjectSet], made: &ClusterObjectSet) -> Option<String> {
    let owner = &extension_of(made)?.name;
    let (first, number) = (next_number(before).ok()?, made.spec.revision);
    let text = match number.checked_sub(first)? {
        ..1 => return None,
        1 => format!("ClusterObjectSet {owner}-{first} is not a revision"),
        _ => {
            format!("ClusterObjectSets {owner}-{first} to {owner}-{} are not revisions", number - 1)
        }
    };
    Some(format!("{text} of this extension, so {number} is the next free number"))
}

/// Says whether a name fits into the value of a label.
pub fn fits_label(name: &str) -> bool {
    name.len() <= MAX_NAME
}

/// Returns the name of a revision.
///
/// # Errors
/// Fails when the name does not fit into a label value.
pub fn revision_name(extension: &str, number: i64) -> Result<String, RevisionError> {
    let name = format!("{extension}-{number}");
    if !fits_label(&name) {
        return Err(RevisionError::NameTooLong(name));
    }
    Ok(name)
}

/// Returns the archived revisions to delete once another one, `made`, is written.
///
/// `revisions` is sorted and without `made`; those with an index below `len - 5` are deleted if they
/// are archived. The one whose content `made` has stays: it is what somebody asked for.
///
/// Source: applying.md 3.4.
pub fn outdated<'a>(
    revisions: &'a [ClusterObjectSet],
    made: &ClusterObjectSet,
) -> Vec<&'a ClusterObjectSet> {
    let kept_from = revisions.len().saturating_sub(RETENTION);
    let source = made.annotation(annotation::CONTENT_OF);
    let source = source.and_then(|number| number.parse::<i64>().ok());
    revisions[..kept_from]
        .iter()
        .filter(|revision| revision.spec.lifecycle_state == LifecycleState::Archived)
        .filter(|revision| Some(revision.spec.revision) != source)
        .collect()
}

/// Returns the ClusterObjectSet to apply for a new revision, with its content in Secrets.
///
/// `system_namespace` is the namespace of those Secrets.
pub fn build(
    desired: &Desired,
    name: &str,
    number: i64,
    packed: &Packed,
    system_namespace: &str,
) -> ClusterObjectSet {
    let phases = packed
        .phases
        .iter()
        .map(|(phase, refs)| olm_api::Phase {
            name: phase.clone(),
            objects: refs
                .iter()
                .map(|stored| PhaseObject {
                    ref_: Some(ObjectSourceRef {
                        name: stored.secret.clone(),
                        namespace: system_namespace.to_owned(),
                        key: stored.key.clone(),
                    }),
                    ..PhaseObject::default()
                })
                .collect(),
            collision_protection: None,
        })
        .collect();
    object_set(desired, name, number, phases)
}

/// Returns the ClusterObjectSet to apply when only mutable fields differ: content, number and how it
/// came about are those of `newest`.
pub fn rebuild(desired: &Desired, newest: &ClusterObjectSet) -> ClusterObjectSet {
    let name = newest.metadata.name.clone().unwrap_or_default();
    let phases = newest.spec.phases.clone();
    let mut set = object_set(desired, &name, newest.spec.revision, phases);
    let recorded = newest.metadata.annotations.iter().flatten();
    let recorded = recorded.filter(|(key, _)| RECORDED.contains(&key.as_str()));
    let annotations = set.metadata.annotations.get_or_insert_default();
    annotations.extend(recorded.map(|(key, value)| (key.clone(), value.clone())));
    set
}

fn object_set(
    desired: &Desired,
    name: &str,
    number: i64,
    phases: Vec<olm_api::Phase>,
) -> ClusterObjectSet {
    let Extension { name: owner, uid } = &desired.extension;
    let mut labels = BTreeMap::from([
        (label::OWNER_KIND.to_owned(), label::OWNER_KIND_EXTENSION.to_owned()),
        (label::OWNER_NAME.to_owned(), owner.clone()),
    ]);
    if let Some(label) = desired.migrated_from {
        labels.insert(label.to_owned(), "true".to_owned());
    }
    ClusterObjectSet {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels),
            annotations: Some(desired.annotations.clone()),
            owner_references: Some(vec![OwnerReference {
                api_version: API_VERSION.to_owned(),
                kind: label::OWNER_KIND_EXTENSION.to_owned(),
                name: owner.clone(),
                uid: uid.clone(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }]),
            ..ObjectMeta::default()
        },
        spec: ClusterObjectSetSpec {
            lifecycle_state: LifecycleState::Active,
            revision: number,
            phases,
            progress_deadline_minutes: deadline(desired),
            progression_probes: desired.probes.clone(),
            collision_protection: desired.collision_protection,
        },
        status: None,
    }
}

fn deadline(desired: &Desired) -> Option<i32> {
    desired.deadline_minutes.filter(|minutes| *minutes > 0)
}

/// Returns `(namespace, name)` of every Secret a revision refers to, each once.
pub fn referenced_secrets(
    spec: &ClusterObjectSetSpec,
    system_namespace: &str,
) -> BTreeSet<(String, String)> {
    let objects = spec.phases.iter().flat_map(|phase| &phase.objects);
    objects
        .filter_map(|object| object.ref_.as_ref())
        .map(|stored| (namespace_of(stored, system_namespace), stored.name.clone()))
        .collect()
}

/// Returns the namespace of a reference; absent means the controller's.
pub fn namespace_of(stored: &ObjectSourceRef, system_namespace: &str) -> String {
    if stored.namespace.is_empty() { system_namespace.to_owned() } else { stored.namespace.clone() }
}
