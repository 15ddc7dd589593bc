//! Which phase an object belongs to, and the order inside a phase.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use itertools::Itertools as _;

use crate::object::Object;

use super::RevisionError;

/// Most objects the API allows in one phase.
pub const MAX_OBJECTS: usize = 50;
/// Most phases the API allows in one revision.
pub const MAX_PHASES: usize = 20;

/// The phase of every kind that the table does not list.
const DEFAULT_PHASE: &str = "deploy";
const CRDS: &str = "crds";

/// Group and kind.
type Kind = (&'static str, &'static str);

/// Phases in the order they are applied, each with its kinds as (group, kind).
///
/// Source: operator-controller `internal/operator-controller/applier/phase.go`, which does not list
/// OperatorCondition and APIService.
static TABLE: LazyLock<Vec<(&str, Vec<Kind>)>> = LazyLock::new(|| {
    let rows = include_str!("phases.tsv").lines();
    let rows: Vec<_> =
        rows.filter_map(|row| row.split('\t').collect_tuple::<(_, _, _)>()).collect();
    let phases = rows.chunk_by(|(one, ..), (other, ..)| one == other);
    let kinds = |of: &[(_, _, _)]| of.iter().map(|(_, group, kind)| (*group, *kind)).collect();
    phases.map(|phase| (phase[0].0, kinds(phase))).collect()
});

/// The order in which an uninstall removes phases. A webhook or an API service without its server would
/// block the deletions that follow, so `admission` and `publish` are removed first; CRDs are removed while the operator
/// still runs and can process the finalizers of their instances.
///
/// Source: applying.md 7.2.
#[rustfmt::skip]
const REMOVAL: [&str; 13] = [
    "admission", "publish", "scaling", CRDS, DEFAULT_PHASE, "infrastructure", "bindings", "roles",
    "storage", "configuration", "identity", "policies", "namespaces",
];

/// Returns the kinds of the table, as (group, kind), in the order an uninstall removes them; all of
/// them are served as `v1` if they are served at all.
///
/// It is used to find the objects of a revision whose content is lost (applying.md 3.9).
pub fn removal_kinds() -> impl Iterator<Item = &'static [Kind]> {
    REMOVAL.iter().filter_map(|phase| {
        let mut rows = TABLE.iter();
        rows.find(|(name, _)| name == phase).map(|(_, kinds)| kinds.as_slice())
    })
}

/// Objects that are applied together and must all be ready before the next phase starts.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// Name, unique in the revision, a DNS-1123 label.
    pub name: String,
    /// The objects, sorted by group, version, kind, namespace, name where we made the phase.
    pub objects: Vec<Object>,
}

/// Returns the phase that a kind belongs to.
pub fn phase_of(group: &str, kind: &str) -> &'static str {
    TABLE
        .iter()
        .find(|(_, kinds)| kinds.contains(&(group, kind)))
        .map_or(DEFAULT_PHASE, |(phase, _)| phase)
}

/// Sorts objects into phases, in the order they are applied.
///
/// Empty phases are left out. A phase of more than [`MAX_OBJECTS`] is continued in `<phase>-2`,
/// `<phase>-3` and so on, in the same sorted order.
///
/// # Errors
/// Fails when more than [`MAX_PHASES`] phases result, or one object appears twice.
///
/// Source: applying.md 3.2.
pub fn phases(objects: Vec<Object>) -> Result<Vec<Phase>, RevisionError> {
    let mut by_phase: BTreeMap<&'static str, Vec<Object>> = BTreeMap::new();
    for object in objects {
        let phase = phase_of(object.group(), object.kind());
        by_phase.entry(phase).or_default().push(object);
    }
    let mut phases = Vec::new();
    for (name, _) in TABLE.iter() {
        let mut objects = by_phase.remove(name).unwrap_or_default();
        objects.sort_by_cached_key(Object::identity);
        for (index, part) in objects.chunks(MAX_OBJECTS).enumerate() {
            let name = match index {
                0 => (*name).to_owned(),
                more => format!("{name}-{}", more + 1),
            };
            phases.push(Phase { name, objects: part.to_vec() });
        }
    }
    if phases.len() > MAX_PHASES {
        return Err(RevisionError::TooManyPhases(phases.len()));
    }
    reject_duplicates(&phases)?;
    Ok(phases)
}

/// Fails when the same object, whatever its API version, appears twice.
///
/// # Errors
/// Names every phase that holds the first object met twice.
pub fn reject_duplicates(phases: &[Phase]) -> Result<(), RevisionError> {
    let mut seen = BTreeMap::<_, &str>::new();
    for phase in phases {
        for object in &phase.objects {
            let Some(first) = seen.insert(object.key(), &phase.name) else { continue };
            let mut names = vec![first.to_owned(), phase.name.clone()];
            names.dedup();
            return Err(RevisionError::Duplicate(object.identity().text(), names.join(", ")));
        }
    }
    Ok(())
}

/// Returns the objects of a revision in the order an uninstall removes them, in groups that must
/// be gone before the next group starts.
///
/// Instances of CRDs that are part of the same revision come first. Phases made by [`phases`]
/// follow in the order that lets finalizers run; a revision with other phase names is removed in
/// reverse order, as archiving does.
///
/// Source: applying.md 7.2.
pub fn removal_groups(phases: &[Phase]) -> Vec<Vec<&Object>> {
    let defined = defined_kinds(phases);
    let is_instance =
        |object: &Object| defined.contains(&(object.group().to_owned(), object.kind().to_owned()));
    let rank = |name: &str| REMOVAL.iter().position(|phase| *phase == base_name(name));
    let mut ordered: Vec<&Phase> = phases.iter().rev().collect();
    if phases.iter().all(|phase| rank(&phase.name).is_some()) {
        // The sort is stable, so `deploy-2` stays before `deploy`.
        ordered.sort_by_key(|phase| rank(&phase.name));
    }
    let instances: Vec<&Object> = ordered
        .iter()
        .flat_map(|phase| phase.objects.iter().rev())
        .filter(|object| is_instance(object))
        .collect();
    let rest = ordered
        .iter()
        .map(|phase| phase.objects.iter().rev().filter(|object| !is_instance(object)).collect());
    std::iter::once(instances)
        .chain(rest)
        .filter(|group: &Vec<&Object>| !group.is_empty())
        .collect()
}

/// Returns the objects of a revision in the order archiving removes them: phases and objects
/// reversed, one group per phase.
pub fn archive_groups(phases: &[Phase]) -> Vec<Vec<&Object>> {
    phases.iter().rev().map(|phase| phase.objects.iter().rev().collect()).collect()
}

/// Returns the kinds, as (group, kind), that CRDs of the revision define.
pub fn defined_kinds(phases: &[Phase]) -> Vec<(String, String)> {
    let text = |object: &Object, pointer: &str| {
        let value = object.pointer(pointer)?;
        value.as_str().map(str::to_owned)
    };
    phases
        .iter()
        .flat_map(|phase| &phase.objects)
        .filter(|object| object.kind() == "CustomResourceDefinition")
        .filter_map(|crd| Some((text(crd, "/spec/group")?, text(crd, "/spec/names/kind")?)))
        .collect()
}

fn base_name(phase: &str) -> &str {
    match phase.rsplit_once('-') {
        Some((base, number)) if number.parse::<u8>().is_ok() => base,
        _ => phase,
    }
}
