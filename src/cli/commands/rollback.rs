//! `kubectl olm rollback`: go back to the content of an earlier revision.
//!
//! Source: plugin.md 1.4, applying.md 10 (F10).

use olm_core::revision::{Origin, States, has_succeeded};
use tokio::time::{Instant, sleep};

use crate::commands::prelude::*;
use crate::commands::{approve, plan};
use crate::verb;

/// What the controller does not write a rollback for.
const REFUSING: [&str; 2] = ["crds", "rights"];

#[derive(Debug, Args)]
pub(crate) struct RollbackArgs {
    /// Name of the extension
    #[arg(value_parser = verb::extension())]
    name: String,
    /// Revision to roll back to, by its number in `history`; by default the one before, or
    /// the installed one where a newer one is still rolling out
    #[arg(value_parser = revision)]
    revision: Option<i64>,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    settings: SettingsFlags,
}

/// Reads the number of a revision.
fn revision(text: &str) -> Result<i64, &'static str> {
    text.parse().map_err(|_| "must be the number of a revision, which `history` lists")
}

/// Finds the revision, shows what would change, asks, writes and waits.
pub(crate) async fn run(args: RollbackArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let (global, out) = &mut args.confirm.rehearsal.begin(global, out);
    let on = OnCluster { settings: args.settings, ..OnCluster::default() };
    let cluster = on.connect(global).await?;
    cluster.heeds(policy::ROLLBACK_TO).await?;
    let extension = cluster.extension(&args.name).await?;
    let name = &args.name;
    changes::refuse_paused(&extension)?;
    let revisions = cluster.revisions(name).await?;
    let Some(set) = chosen(&revisions, args.revision) else {
        return Err(Failure::failed(
            match args.revision {
                Some(number) => format!("{name}: no revision {number} is left that was rolled out"),
                None => format!("{name}: there is no earlier revision to go back to"),
            },
            format!("kubectl olm history {name}"),
        ));
    };
    let (number, version) = (set.spec.revision, BundleRecord::of(set).version);
    let mut awaits = None;
    match plan::back(&cluster, &extension, set).await {
        Ok(plan) => {
            plan::show(&plan, out)?;
            let mut refusing =
                plan.holds.iter().filter(|it| REFUSING.contains(&it.word())).peekable();
            if refusing.peek().is_some() {
                for hold in refusing {
                    let why: Vec<_> = hold.message.lines().map(str::trim).collect();
                    let way_out = plan::of_version(hold.note.clone(), Some(&version)).text;
                    notice(&format!(
                        "error: cannot go back to revision {number} ({version}): {}",
                        why.join("; ")
                    ));
                    notice(&format!("hint: {way_out}"));
                }
                return Ok(Outcome::Failed);
            }
            awaits = approve::release(&plan);
        }
        // The controller checks the same.
        Err(error) => {
            let Failure { text, .. } = Failure::of(&error);
            notice(&format!("note: cannot compute the changes: {text}"));
        }
    }
    let back = number.to_string();
    let change = json!({"metadata": {"annotations": {policy::ROLLBACK_TO: back}}});
    changes::yields(&extension, &change, global.dry_run.is_some())?;
    let question = format!("Go back to revision {number} ({version})?");
    args.confirm.agreed(&question, "--yes confirms it")?;
    let client = cluster.own_client();
    let written = changes::merge(client, &extension, change).await?;
    out.object(&written)?;
    writeln!(out, "{name}: updates are held until: kubectl olm upgrade {name}")?;
    if let Some(command) = awaits {
        notice(&format!("hint: nothing is applied before its approval: {command}"));
    }
    if !args.wait.is_wanted(global) {
        return Ok(Outcome::Done);
    }
    // The annotation does not change the generation: until the new revision is there, the conditions
    // are those of the one before.
    let begun = Instant::now();
    // A controller that refuses it makes none.
    while begun.elapsed() < waiting::NOTICED && !is_made(&cluster.revisions(name).await?, number) {
        sleep(waiting::LOOK).await;
    }
    waiting::ready(client, &written, Awaited::Version(&version), args.wait.timeout, out).await
}

/// Returns whether the newest revision has the content of this one.
fn is_made(revisions: &[ClusterObjectSet], number: i64) -> bool {
    revisions.last().is_some_and(|set| {
        set.spec.revision == number || Origin::of(set).content_of == Some(number)
    })
}

/// Returns the revision of this number, if it was rolled out; without a number the installed one while
/// a newer one is rolling out, else the one before it.
fn chosen(revisions: &[ClusterObjectSet], to: Option<i64>) -> Option<&ClusterObjectSet> {
    let States { installed, rolling } = states(revisions);
    let installed = installed?.spec.revision;
    let is_rolling = rolling
        .iter()
        .any(|set| set.spec.revision > installed && set.metadata.deletion_timestamp.is_none());
    revisions.iter().rev().filter(|set| has_succeeded(set)).find(|set| match to {
        Some(number) => set.spec.revision == number,
        None if is_rolling => set.spec.revision == installed,
        None => set.spec.revision < installed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{cases, revision};

    #[test]
    fn what_was_rolled_out_last_comes_back() {
        type Case = (Vec<(i64, String, String)>, Vec<[Option<i64>; 2]>);
        for (name, (kept, asked)) in cases::<Case>("what_was_rolled_out_last_comes_back") {
            let kept = kept.iter().map(|(number, state, done)| revision(*number, "", state, done));
            let kept: Vec<_> = kept.collect();
            for [to, want] in asked {
                let found = chosen(&kept, to).map(|set| set.spec.revision);
                assert_eq!(found, want, "{name}: {to:?}");
            }
        }
    }
}
