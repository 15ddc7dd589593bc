//! Going back: to the content of an earlier revision, because somebody asks for it or because a
//! rollout failed.
//!
//! Source: applying.md 10 (F10, F23).

use jiff::Timestamp;
use olm_api::conditions::{Reason, types};
use olm_api::keys::policy;
use olm_api::{ClusterExtension, ClusterObjectSet, LifecycleState};

use super::Policy;
use super::rollout::is_as_asked;
use crate::revision::{BundleRecord, Origin, has_succeeded, is_late, recorded_generation, states};
use crate::status::{Note, find};

/// An earlier revision whose content counts, whatever the catalogs say.
#[derive(Debug, Clone, Copy)]
pub struct Return<'a> {
    /// The revision that holds it: the newest one once that is made.
    pub source: &'a ClusterObjectSet,
    /// The newest revision, where its rollout has failed and the new one takes its place.
    pub failed: Option<&'a ClusterObjectSet>,
    /// Whether the newest revision is the one that was made for it.
    pub is_made: bool,
}

/// Annotation `rollback-to` names a revision that cannot be gone back to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RollbackError {
    /// It is not there.
    /// `kept` names those that are there.
    #[error("annotation {} is invalid: there is no revision {number}: {kept}", policy::ROLLBACK_TO)]
    Unknown { number: i64, kept: String },
    /// It never worked.
    #[error("annotation {} is invalid: revision {_0} was never rolled out", policy::ROLLBACK_TO)]
    NeverRolledOut(i64),
}

/// Returns what is gone back to: what annotation `rollback-to` names, else, where `on-failure` says
/// so, what was installed before the newest rollout failed. That happens once: a rollout that goes
/// back is never gone back from. A changed spec is followed first, also where the way back is refused.
///
/// `revisions` is sorted by number.
///
/// # Errors
/// Where the annotation names a revision that is not there or was never rolled out.
pub fn going_back<'a>(
    wanted: &Policy,
    extension: &ClusterExtension,
    revisions: &'a [ClusterObjectSet],
    now: Timestamp,
) -> Result<Option<Return<'a>>, RollbackError> {
    let there = |set: &&ClusterObjectSet| set.metadata.deletion_timestamp.is_none();
    let kept = revisions.iter().filter(there);
    let Some(newest) = kept.clone().next_back() else {
        return wanted.rollback_to.map_or(Ok(None), |number| Err(unknown(number, kept)));
    };
    let Some(number) = wanted.rollback_to else {
        let failed = is_as_asked(newest, extension) && is_late(newest, now);
        let is_return = Origin::of(newest).content_of.is_some();
        let source = states(revisions).installed.filter(|_| wanted.reverts && failed && !is_return);
        let back = |source| Return { source, failed: Some(newest), is_made: false };
        return Ok(source.map(back));
    };
    let holds = newest.spec.revision == number || Origin::of(newest).content_of == Some(number);
    let is_made = holds && newest.spec.lifecycle_state == LifecycleState::Active;
    let found = kept.clone().find(|set| set.spec.revision == number);
    let source = match found {
        _ if is_made => newest,
        Some(found) if has_succeeded(found) => found,
        Some(_) => return Err(RollbackError::NeverRolledOut(number)),
        None => return Err(unknown(number, kept)),
    };
    Ok(Some(Return { source, failed: None, is_made }))
}

fn unknown<'a>(number: i64, kept: impl Iterator<Item = &'a ClusterObjectSet>) -> RollbackError {
    let numbers: Vec<_> = kept.map(|set| set.spec.revision.to_string()).collect();
    let kept = match numbers.as_slice() {
        [] => "none is kept".to_owned(),
        numbers => format!("kept are {}", numbers.join(", ")),
    };
    RollbackError::Unknown { number, kept }
}

/// Returns the newest revision, if it took the place of a rollout of `target` that failed and
/// nobody has changed anything since: that rollout is not tried again. One that is being deleted counts
/// for nothing: it would never be taken over.
pub fn reverted<'a>(
    wanted: &Policy,
    extension: &ClusterExtension,
    revisions: &'a [ClusterObjectSet],
    target: &BundleRecord,
) -> Option<Return<'a>> {
    let mut kept = revisions.iter().rev();
    let newest = kept.find(|set| set.metadata.deletion_timestamp.is_none())?;
    let (bundle, _) = Origin::of(newest).reverted?;
    let same_spec = recorded_generation(newest) == extension.metadata.generation;
    // What is installed again stays as it was, too: its bundle may become other objects by now.
    let stays = BundleRecord::of(newest).is_same_bundle(target);
    let held = bundle == target.name || stays;
    (wanted.reverts && same_spec && held).then_some(Return {
        source: newest,
        failed: None,
        is_made: true,
    })
}

impl Return<'_> {
    /// Returns how the revision comes about that is made for it.
    pub fn origin(&self) -> Origin {
        let made = Origin::of(self.source);
        if self.is_made && made.content_of.is_some() {
            return made;
        }
        Origin {
            content_of: Some(self.source.spec.revision),
            reverted: self.failed.map(|failed| {
                let bundle = BundleRecord::of(failed).name;
                (bundle, evidence(failed))
            }),
            ..Origin::default()
        }
    }

    /// Says whether the revision that was made for it has rolled out.
    pub fn is_done(&self) -> bool {
        self.is_made && has_succeeded(self.source)
    }

    /// Says what an administrator should know as long as it lasts.
    pub fn note(&self) -> Note {
        let origin = self.origin();
        let version = BundleRecord::of(self.source).version;
        let number = origin.content_of.unwrap_or(self.source.spec.revision);
        let done = if self.is_done() { "is installed" } else { "is to be installed" };
        match origin.reverted {
            Some((bundle, because)) => Note {
                reason: Reason::RolloutReverted,
                message: format!(
                    "{bundle} was not rolled out in time, and {version} of revision {number} {done} \
                     again; {bundle} is tried again when the spec changes or annotation {} is \
                     removed: {because}",
                    policy::ON_FAILURE
                ),
            },
            None => Note {
                reason: Reason::RolledBack,
                message: format!(
                    "{version} of revision {number} {done} again; updates and changes of the \
                     spec wait until annotation {} is removed",
                    policy::ROLLBACK_TO
                ),
            },
        }
    }
}

/// Says how a rollout stands: what is not ready, else what it does.
fn evidence(revision: &ClusterObjectSet) -> String {
    let conditions = revision.status.as_ref().map(|status| &status.conditions);
    let message = |type_| {
        let found = find(conditions?, type_)?;
        (found.status != "True").then(|| found.message.clone())
    };
    let found = message(types::AVAILABLE).or_else(|| message(types::PROGRESSING));
    found.unwrap_or_else(|| "nothing is known of it".to_owned())
}

#[cfg(test)]
mod tests {
    use olm_api::keys::annotation;
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::{cases, condition};

    const CASES: &str = include_str!("../testdata/extension/cases.yaml");

    const LATE: &str = "2026-01-01T00:11:00Z";

    fn revision(number: i64, succeeded: bool, origin: &Origin) -> ClusterObjectSet {
        let status = if succeeded { "True" } else { "False" };
        let conditions = ["Succeeded", "Available", "Progressing"]
            .map(|type_| condition(type_, status, "R", &format!("{type_} of {number}")));
        let bundle = BundleRecord {
            name: format!("p.v{number}"),
            ..BundleRecord::example(&format!("{number}.0.0"))
        };
        let mut annotations = bundle.annotations();
        annotations.extend(origin.annotations());
        annotations.insert(annotation::EXTENSION_GENERATION.to_owned(), "1".to_owned());
        let metadata =
            json!({"creationTimestamp": "2026-01-01T00:00:00Z", "annotations": annotations});
        let more = json!({"metadata": metadata, "spec": {"progressDeadlineMinutes": 10},
            "status": {"conditions": conditions}});
        crate::fixture::revision(number, &more)
    }

    fn of(content: i64) -> Origin {
        Origin { content_of: Some(content), ..Origin::default() }
    }

    fn extension(generation: i64) -> ClusterExtension {
        crate::fixture::extension(&json!({"metadata": {"generation": generation}}))
    }

    // applying.md j3
    #[test]
    fn an_earlier_revision_is_gone_back_to() {
        for (number, state, want) in cases::<(&str, LifecycleState, Result<(i64, bool), &str>)>(
            CASES,
            "an_earlier_revision_is_gone_back_to",
        ) {
            let none = Origin::default();
            let mut revisions = [1, 2, 3, 5].map(|number| revision(number, number != 2, &none));
            let leaving = json!("2026-01-01T00:00:00Z");
            revisions[2].metadata.deletion_timestamp = serde_json::from_value(leaving).unwrap();
            revisions[3] = revision(5, true, &of(4));
            revisions[3].spec.lifecycle_state = state;
            let wanted = Policy::example(&[(policy::ROLLBACK_TO, number)]);
            let got = going_back(&wanted, &extension(1), &revisions, LATE.parse().unwrap());
            let got = got.map(|back| back.map(|back| (back.source.spec.revision, back.is_made)));
            let got = got.map_err(|error| error.to_string());
            assert_eq!(got, want.map(Some).map_err(str::to_owned));
        }
    }

    // applying.md j3: nothing is installed again before it has rolled out
    #[test]
    fn a_step_back_says_whether_it_is_made() {
        for (number, succeeded, want) in
            cases::<(&str, bool, &str)>(CASES, "a_step_back_says_whether_it_is_made")
        {
            let revisions = [revision(1, true, &Origin::default()), revision(5, succeeded, &of(4))];
            let wanted = Policy::example(&[(policy::ROLLBACK_TO, number)]);
            let now = LATE.parse().unwrap();
            let back = going_back(&wanted, &extension(1), &revisions, now).unwrap().unwrap();
            let note = back.note();
            assert_eq!(note.reason, Reason::RolledBack);
            assert!(note.message.contains(want), "{}", note.message);
        }
    }

    // applying.md F23: once, at the deadline, with the evidence
    #[test]
    fn a_failed_roll_out_is_reverted_once() {
        for (now, word, content_of, generation, want) in
            cases::<(&str, &str, Option<i64>, i64, Option<i64>)>(
                CASES,
                "a_failed_roll_out_is_reverted_once",
            )
        {
            let none = Origin::default();
            let origin = content_of.map_or_else(|| none.clone(), of);
            let revisions = [revision(1, true, &none), revision(2, false, &origin)];
            let wanted = Policy::example(&[(policy::ON_FAILURE, word)]);
            let extension = extension(generation);
            let back = going_back(&wanted, &extension, &revisions, now.parse().unwrap()).unwrap();
            assert_eq!(back.as_ref().map(|back| back.source.spec.revision), want);
            let Some(back) = back else { continue };
            let reverted = back.origin().reverted;
            assert_eq!(reverted, Some(("p.v2".into(), "Available of 2".into())));
            assert!(back.note().message.contains("is to be installed again"));
            assert_eq!(back.note().reason, Reason::RolloutReverted);
        }
    }

    #[test]
    fn what_failed_is_not_tried_again() {
        for (target, generation, deleted, held) in
            cases::<(&str, i64, Value, bool)>(CASES, "what_failed_is_not_tried_again")
        {
            let origin = Origin { reverted: Some(("p.v2".into(), "not ready".into())), ..of(1) };
            let mut revisions = [revision(3, true, &origin)];
            revisions[0].metadata.deletion_timestamp = serde_json::from_value(deleted).unwrap();
            let extension = extension(generation);
            let target =
                BundleRecord { name: target.to_owned(), ..BundleRecord::of(&revisions[0]) };
            let wanted = Policy::example(&[(policy::ON_FAILURE, "Rollback")]);
            let back = reverted(&wanted, &extension, &revisions, &target);
            assert_eq!(back.is_some(), held);
            if let Some(back) = back {
                let note = back.note().message;
                assert!(
                    note.starts_with("p.v2 was not rolled out in time, and 3.0.0 of revision 1"),
                    "{note}"
                );
            }
        }
    }
}
