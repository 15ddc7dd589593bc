//! Waiting for what the controller makes of a change.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use olm_api::conditions::Reason;
use olm_core::extension::holds::holder;
use tokio::time::Instant;

use crate::limit::patiently;
use crate::output::{Ended, Outcome, notice};
use crate::prelude::*;

/// Told until the controller has acted on a change.
const WAITING: &str = "waiting for the controller";
/// The interval of checks while waiting.
pub(crate) const LOOK: Duration = Duration::from_millis(500);
/// The time until a hold is reported: new rights take a moment to become effective.
const STANDS: Duration = Duration::from_secs(3);
/// For so long the status that stood before a change of an annotation counts for nothing: unlike one
/// of the spec it makes no new generation by which its effect could be told.
pub(crate) const NOTICED: Duration = Duration::from_secs(15);

#[derive(Debug, Clone, Copy)]
pub(crate) enum Awaited<'a> {
    Any,
    Version(&'a str),
    /// Another one than this.
    Other(&'a str),
}

impl Awaited<'_> {
    fn is(self, installed: Option<&str>) -> bool {
        match self {
            Self::Any => true,
            Self::Version(version) => installed == Some(version),
            Self::Other(version) => installed != Some(version),
        }
    }
}

/// Waits until an extension is ready as it was written, with the version that is awaited. What it
/// says meanwhile is told; a failure that nothing but a change ends is the answer.
pub(crate) async fn ready(
    client: &Client,
    written: &ClusterExtension,
    version: Awaited<'_>,
    timeout: u64,
    out: &mut dyn Write,
) -> Ended {
    let (name, before) = (written.name_any(), progress(written, version));
    let api = Api::<ClusterExtension>::all(client.clone());
    let mut held: Option<Instant> = None;
    let mut is_seen = false;
    let ended = wait(timeout, &format!("{name} is not ready yet"), async |begun| {
        let found = patiently(begun, timeout, async || api.get_opt(&name).await).await;
        let found = found.with_context(|| format!("reading ClusterExtension {name}"))?;
        let Some(found) = found.filter(|found| found.metadata.uid == written.metadata.uid) else {
            bail!("ClusterExtension {name} is gone");
        };
        let progress = since(&before, progress(&found, version), begun.elapsed());
        if !matches!(progress, Progress::Held { .. }) {
            held = None;
        }
        is_seen = progress != Progress::Unseen;
        Ok(match progress {
            Progress::Ready(version) => {
                let seconds = begun.elapsed().as_secs();
                writeln!(out, "{name}: {version} ready after {seconds} s")?;
                Look::Ended(Outcome::Done)
            }
            Progress::Stopped(why) => {
                notice(&format!("error: {name}: {why}"));
                Look::Ended(Outcome::Failed)
            }
            Progress::Held { why, command }
                if held.get_or_insert_with(Instant::now).elapsed() >= STANDS =>
            {
                notice(&format!("error: {name}: {why}"));
                if let Some(command) = command {
                    notice(&format!("hint: {command}"));
                }
                Look::Ended(Outcome::Failed)
            }
            Progress::Held { .. } => Look::Going(None),
            Progress::Going(what) => Look::Going(Some(format!("{name}: {what}"))),
            Progress::Unseen => Look::Unseen(Some(format!("{name}: {WAITING}"))),
        })
    })
    .await;
    if is_seen && matches!(ended, Ok(Outcome::TimedOut)) {
        notice(&format!("hint: kubectl olm status {name} shows what it waits for"));
    }
    ended
}

/// The result of a check while waiting.
pub(crate) enum Look {
    /// It is over.
    Ended(Outcome),
    /// The current activity, if known.
    Going(Option<String>),
    /// The same, while the controller has not acted on the object as it was written.
    Unseen(Option<String>),
}

/// Looks at something until it is over, and tells how far it is; `late` is what to say once the time is
/// over.
pub(crate) async fn wait(
    timeout: u64,
    late: &str,
    mut look: impl AsyncFnMut(Instant) -> anyhow::Result<Look>,
) -> Ended {
    let (begun, mut told) = (Instant::now(), None);
    loop {
        let (what, is_seen) = match look(begun).await? {
            Look::Ended(outcome) => return Ok(outcome),
            Look::Going(what) => (what, true),
            Look::Unseen(what) => (what, false),
        };
        if let Some(what) = what.filter(|what| told.as_ref() != Some(what)) {
            notice(&what);
            told = Some(what);
        }
        if begun.elapsed() >= Duration::from_secs(timeout) {
            for line in timed_out(timeout, late, is_seen) {
                notice(&line);
            }
            return Ok(Outcome::TimedOut);
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn timed_out(timeout: u64, late: &str, is_seen: bool) -> Vec<String> {
    let error = format!("error: timed out after {timeout} s: {late}");
    if is_seen {
        return vec![format!("{error}; the controller keeps trying")];
    }
    let hint = "hint: kubectl olm doctor checks whether the controller runs".to_owned();
    vec![format!("{error}; the controller has not acted on it"), hint]
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Progress {
    /// Its installed version.
    Ready(String),
    /// Why nothing more will happen.
    Stopped(String),
    /// Why nothing more will happen until a person decides, and the command that leads on.
    Held { why: String, command: Option<String> },
    /// The current activity, or the reason of the wait.
    Going(String),
    /// The controller has not acted on what was written.
    Unseen,
}

/// Returns the progress since a change: for a while, an unchanged status does not count as its result.
fn since(before: &Progress, now: Progress, elapsed: Duration) -> Progress {
    match now {
        Progress::Ready(_) | Progress::Unseen => now,
        _ if now == *before && elapsed < NOTICED => Progress::Going(WAITING.to_owned()),
        _ => now,
    }
}

fn progress(extension: &ClusterExtension, version: Awaited<'_>) -> Progress {
    let generation = extension.metadata.generation;
    let condition = |type_| {
        let found = extension.condition(type_)?;
        (found.observed_generation == generation).then_some(found)
    };
    let installed = extension.installed().map(|it| it.version.as_str());
    let ready = condition(types::READY);
    let progressing = condition(types::PROGRESSING);
    let is_ready = match (extension.condition(types::READY), progressing) {
        // Upstream's controller does not write it.
        (None, Some(progressing)) => {
            condition(types::INSTALLED).is_some_and(|it| it.status == status::TRUE)
                && progressing.reason == Reason::Succeeded.as_str()
        }
        _ => ready.is_some_and(|ready| ready.status == status::TRUE),
    };
    if let (true, Some(installed), true) = (is_ready, installed, version.is(installed)) {
        return Progress::Ready(installed.to_owned());
    }
    if let Some(stopped) = progressing.filter(|it| it.status == status::FALSE) {
        return Progress::Stopped(stopped.message.clone());
    }
    // What was installed before is ready again.
    let is_taken_back = |it: &Condition| it.reason == Reason::RolloutReverted.as_str();
    if let Some(hold) = ready.filter(|it| it.status == status::FALSE || is_taken_back(it))
        && let Some(holder) = hold.reason.parse().ok().map(holder)
        && holder.needs_person()
    {
        let command = holder.command(&extension.name_any());
        return Progress::Held { why: hold.message.clone(), command };
    }
    let says = ready.or(progressing);
    says.map_or(Progress::Unseen, |says| Progress::Going(says.message.clone()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::cases;

    fn extension(conditions: &Value) -> ClusterExtension {
        let conditions = conditions.as_array().unwrap().iter().map(|found| {
            json!({"type": found[0], "status": found[1], "message": found[2],
                "observedGeneration": found[3], "reason": found[4].as_str().unwrap_or("R"),
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        });
        let conditions: Vec<_> = conditions.collect();
        serde_json::from_value(json!({
            "metadata": {"name": "e", "generation": 2},
            "status": {"conditions": conditions,
                "install": {"bundle": {"name": "p.v1", "version": "1.0.0"}}},
        }))
        .unwrap()
    }

    #[test]
    fn an_extension_is_waited_for_as_it_was_written() {
        type Case = (Value, Value, String);
        for (name, case) in cases::<Case>("an_extension_is_waited_for_as_it_was_written") {
            let (conditions, awaited, want) = case;
            let awaited = match (awaited["version"].as_str(), awaited["other"].as_str()) {
                (Some(version), _) => Awaited::Version(version),
                (_, Some(version)) => Awaited::Other(version),
                _ => Awaited::Any,
            };
            let found = progress(&extension(&conditions), awaited);
            assert_eq!(format!("{found:?}"), want, "{name}");
        }
    }

    #[test]
    fn what_stood_before_a_change_is_not_its_effect() {
        let going = |what: &str| Progress::Going(what.to_owned());
        let stopped = || Progress::Stopped("bad".to_owned());
        let ready = || Progress::Ready("1.0.0".to_owned());
        for (before, now, seconds, want) in [
            (going("old"), going("old"), 1, going(WAITING)),
            (going("old"), going("old"), NOTICED.as_secs(), going("old")),
            (going("old"), stopped(), 1, stopped()),
            (stopped(), stopped(), 1, going(WAITING)),
            (stopped(), stopped(), NOTICED.as_secs(), stopped()),
            (going("old"), Progress::Unseen, 1, Progress::Unseen),
            (ready(), ready(), 1, ready()),
        ] {
            assert_eq!(since(&before, now, Duration::from_secs(seconds)), want);
        }
    }

    #[test]
    fn where_the_controller_does_nothing_doctor_is_named() {
        let [error, hint] = &*timed_out(5, "e is not ready yet", false) else {
            panic!("two lines")
        };
        let want =
            "error: timed out after 5 s: e is not ready yet; the controller has not acted on it";
        assert_eq!(error, want);
        assert!(hint.contains("kubectl olm doctor"), "{hint}");
        let seen = timed_out(5, "e is not ready yet", true);
        assert!(seen.concat().ends_with("; the controller keeps trying"), "{seen:?}");
    }
}
