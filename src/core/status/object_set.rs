//! The conditions of a `ClusterObjectSet` (api.md 3.6).

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference};
use olm_api::ObservedPhase;
use olm_api::conditions::{Reason, status, types};

use super::{Statement, find, is_true};
use crate::error::{first_of, quote};
use crate::manager::{CLASSIC, manager_of};
use crate::object::{Identity, Object};

/// Managers that are named of those of objects that collide.
const NAMED: usize = 3;

pub(super) const ARCHIVED: &str = "revision is archived";

/// Text while a revision is rolled out. `version` is that of the bundle, empty for an object set
/// made by hand, which leaves two blanks.
pub fn rolling_out_text(version: &str) -> String {
    format!("Revision {version} is rolling out.")
}

/// `Progressing`: being rolled out.
pub fn rolling_out(version: &str) -> Statement {
    Statement::yes(types::PROGRESSING, Reason::RollingOut, rolling_out_text(version))
}

/// `Progressing`: rolled out.
pub fn rolled_out(version: &str) -> Statement {
    let text = format!("Revision {version} has rolled out.");
    Statement::yes(types::PROGRESSING, Reason::Succeeded, text)
}

/// `Progressing`: not rolled out in time. `last` is the message it would otherwise have.
pub fn deadline_exceeded(minutes: i32, last: &str) -> Statement {
    let text = format!("Revision has not rolled out for {minutes} minute(s). Last status: {last}");
    Statement::no(types::PROGRESSING, Reason::ProgressDeadlineExceeded, text)
}

/// `Progressing`: objects that no other revision took over are being removed.
pub fn archiving() -> Statement {
    super::retrying("removing revision resources that are not owned by another revision")
}

/// `Progressing` and `Available` of an archived revision.
pub fn archived() -> [Statement; 2] {
    [
        Statement::no(types::PROGRESSING, Reason::Archived, ARCHIVED),
        Statement::unknown(types::AVAILABLE, Reason::Archived, ARCHIVED),
    ]
}

/// `Available`: all objects exist and pass their probes.
pub fn probes_succeeded() -> Statement {
    let text = "Objects are available and pass all probes.";
    Statement::yes(types::AVAILABLE, Reason::ProbesSucceeded, text)
}

/// `Available`: objects fail their probes; `line` is of [`probe_line`].
pub fn probe_failure(line: &str) -> Statement {
    Statement::no(types::AVAILABLE, Reason::ProbeFailure, line)
}

/// `Available`: incomplete, with no failing probe.
pub fn not_yet_available(version: &str) -> Statement {
    Statement::no(types::AVAILABLE, Reason::RollingOut, rolling_out_text(version))
}

/// `Available`: an error kept the probes from being evaluated. Only for an object set that has the
/// condition already.
pub fn reconciling(error: impl Into<String>) -> Statement {
    Statement::unknown(types::AVAILABLE, Reason::Reconciling, error)
}

/// `Deferred`: objects of optional kinds wait until the cluster serves their kind; each as
/// [`Identity::text`] writes it.
pub fn deferred(objects: &[String]) -> Statement {
    let text = format!("Left out until the cluster serves their kind: {}", objects.join(", "));
    Statement::yes(types::DEFERRED, Reason::ObjectsDeferred, text)
}

/// `Stalled`: a workload says that it cannot progress; `line` is of [`stalled_line`].
pub fn stalled(line: &str) -> Statement {
    Statement::yes(types::STALLED, Reason::ProbeFailure, line)
}

/// `Stalled` is false: what keeps a workload from becoming ready, which may still change; `line` is of
/// [`probe_line`].
pub fn hindered(line: &str) -> Statement {
    Statement::no(types::STALLED, Reason::ProbeFailure, line)
}

/// Returns what the condition `Stalled` of a revision has of its workload; it may have other reasons.
pub fn of_workload(conditions: &[Condition]) -> Option<Statement> {
    let found = find(conditions, types::STALLED)?;
    (found.reason == Reason::ProbeFailure.as_str()).then(|| match found.status.as_str() {
        status::TRUE => stalled(&found.message),
        _ => hindered(&found.message),
    })
}

/// Returns what a workload of a revision reports of why it cannot progress.
pub fn stalled_workload(conditions: &[Condition]) -> Option<&str> {
    is_true(conditions, types::STALLED).then(|| hindrance(conditions))?
}

/// Returns what keeps a workload of a revision from becoming ready.
pub fn hindrance(conditions: &[Condition]) -> Option<&str> {
    let found = find(conditions, types::STALLED)?;
    (found.reason == Reason::ProbeFailure.as_str()).then_some(&found.message)
}

/// Returns the line about an object that cannot progress, and what it says of it.
pub fn stalled_line(object: &Identity, why: &str) -> String {
    format!("Object {} cannot progress: {why}", object.text())
}

/// `Paused` is false: the time of the rollout counts from here.
pub fn resumed(version: &str) -> Statement {
    Statement::no(types::PAUSED, Reason::RollingOut, rolling_out_text(version))
}

/// `Succeeded`: rolled out completely. Set once and never removed.
pub fn succeeded() -> Statement {
    Statement::yes(types::SUCCEEDED, Reason::Succeeded, "Revision succeeded rolling out.")
}

/// `Succeeded` of a revision that was built from a Helm release, or from what OLM Classic installed.
pub fn migrated(of_classic: bool) -> Statement {
    let from = if of_classic { "OLM Classic" } else { "Helm release" };
    let text = format!("Revision succeeded - migrated from {from}");
    Statement::yes(types::SUCCEEDED, Reason::Succeeded, text)
}

/// Returns the line about the first object of a phase that fails its probes, and why.
pub fn probe_line(object: &Identity, why: &str) -> String {
    format!("Object {}: {why}", object.text())
}

/// Text about referenced Secrets that can still be changed; each `<namespace>/<name>`.
pub fn mutable_secrets(secrets: &[String]) -> String {
    format!(
        "the following secrets are not immutable \
         (referenced secrets must have immutable set to true): {}",
        secrets.join(", ")
    )
}

/// Text about phases that were added or removed after they were first observed.
pub fn phase_count_changed(expected: usize, got: usize) -> String {
    format!("number of phases has changed (expected {expected} phases, got {got})")
}

/// Text about phases whose content was changed: each as first observed, and as it is.
pub fn content_changed(phases: &[(&ObservedPhase, &ObservedPhase)]) -> String {
    let phase = |(expected, got): &(&ObservedPhase, &ObservedPhase)| {
        let name = quote(&got.name);
        format!("phase {name} (expected digest {}, got {})", expected.digest, got.digest)
    };
    let each: Vec<_> = phases.iter().map(phase).collect();
    format!(
        "resolved content of {} phase(s) has changed: {}; a referenced object source may have been \
         deleted and recreated with different content",
        phases.len(),
        each.join("; ")
    )
}

/// An object that has another owner.
#[derive(Debug, Clone, PartialEq)]
pub struct Collision {
    pub object: Identity,
    /// The controller of the object, if it has one.
    pub owner: Option<OwnerReference>,
    /// Who manages it without being its controller, if that shows.
    pub manager: Option<String>,
}

impl Collision {
    /// Returns the collision with an object as it is on the cluster.
    pub fn of(object: Identity, owner: Option<OwnerReference>, live: Option<&Object>) -> Self {
        let live = live.filter(|_| owner.is_none());
        Self { object, owner, manager: live.and_then(manager_of) }
    }
}

const MANAGED: &str = "objects that this bundle also contains are managed by ";

/// Returns the line about who manages objects that have no controller, and what to do.
pub fn managed(collisions: &[Collision]) -> Option<String> {
    let managers: BTreeSet<_> = collisions.iter().filter_map(|it| it.manager.as_deref()).collect();
    let way = if managers.contains(CLASSIC) {
        "move them first, with kubectl olm migrate from-classic"
    } else {
        "remove or detach them there first"
    };
    let is_any = !managers.is_empty();
    is_any.then(|| format!("{MANAGED}{}: {way}", first_of(managers, NAMED)))
}

/// Returns the line of [`managed`] in `Ready` of an object set.
pub fn managed_line(ready: &str) -> Option<&str> {
    ready.lines().find(|line| line.starts_with(MANAGED))
}

const COLLISIONS: &str = "revision object collisions";
const OWNER: &str = "Conflicting Owner: ";
const NOBODY: &str = "nil";
const REFERENCE: &str = "&OwnerReference{";

/// Returns whether a text is one of [`collisions`] with an object without a controlling owner: it
/// was created manually, or restored from a backup without its owner. The user may have it adopted.
pub fn may_be_adopted(text: &str) -> bool {
    let unowned = |line: &str| line.strip_prefix(OWNER) == Some(NOBODY);
    text.contains(COLLISIONS) && text.lines().any(unowned)
}

/// Returns kind and name of the first owner in a text of [`collisions`].
pub fn other_owner(text: &str) -> Option<(&str, &str)> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(OWNER));
    let (kind, rest) = lines.find_map(|owner| {
        let owner = owner.strip_prefix(REFERENCE)?.strip_prefix("Kind:")?;
        owner.split_once(",Name:")
    })?;
    Some((kind, rest.split_once(",UID:")?.0))
}

/// Text about objects of a phase, counted from 0, that have another owner.
///
/// Clients look for `revision object collisions` and `Conflicting`.
pub fn collisions(phase: usize, collisions: &[Collision]) -> String {
    let each: Vec<_> = collisions
        .iter()
        .map(|collision| {
            format!(
                "Object {}\nAction: \"Collision\"\n{OWNER}{}",
                collision.object.text(),
                owner_text(collision.owner.as_ref())
            )
        })
        .collect();
    format!("{COLLISIONS} in phase {phase}\n{}", each.join("\n\n"))
}

/// Prints an owner reference as Go's generated types print themselves.
fn owner_text(owner: Option<&OwnerReference>) -> String {
    let Some(owner) = owner else { return NOBODY.to_owned() };
    let flag = |flag: Option<bool>| flag.map_or_else(|| "nil".to_owned(), |on| format!("*{on}"));
    format!(
        "{REFERENCE}Kind:{},Name:{},UID:{},APIVersion:{},Controller:{},BlockOwnerDeletion:{},}}",
        owner.kind,
        owner.name,
        owner.uid,
        owner.api_version,
        flag(owner.controller),
        flag(owner.block_owner_deletion)
    )
}
