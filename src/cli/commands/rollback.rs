//! `kubectl olm rollback`: go back to the content of an earlier revision.
//!
//! Source: plugin.md 1.4, applying.md 10 (F10).

use olm_core::crd_safety::Waivers;
use olm_core::plan::{CrdVerdict, Plan};
use olm_core::revision::{Origin, States, has_succeeded};
use tokio::time::{Instant, sleep};

use crate::commands::prelude::*;
use crate::commands::{approve, plan};
use crate::verb;

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
            if let Some(refused) = refused(&plan) {
                notice(&format!(
                    "error: cannot go back to revision {number} ({version}): {refused}"
                ));
                hint(&plan, &extension, &version);
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

/// Prints the ways out of a refusal.
fn hint(plan: &Plan, extension: &ClusterExtension, version: &str) {
    let name = extension.name_any();
    if plan.held_by.contains("rights") {
        notice(&format!(
            "hint: kubectl olm rbac {name} --missing --for-upgrade-to {version} | kubectl apply -f -"
        ));
    }
    let crds = plan.crds.iter().filter(|crd| !crd.findings.is_empty());
    let is_final = crds.clone().any(|crd| crd.allow.is_empty());
    let allow: Vec<_> = crds.flat_map(|crd| &crd.allow).map(String::as_str).collect();
    if is_final {
        let hold = plan.holds.iter().find(|hold| hold.word() == "crds");
        if let Some(hold) = hold {
            notice(&format!("hint: {}", hold.note.message));
        }
    } else if !allow.is_empty() {
        let annotations = extension.annotations();
        let before = annotations.get(policy::CRD_SAFETY_ALLOW);
        let before = before.and_then(|text| Waivers::parse(text).ok());
        let before = before.unwrap_or_default();
        let allow = allow.into_iter().map(str::to_owned);
        let allow: Vec<_> = before.entries(Timestamp::now()).chain(allow).collect();
        let is_set = [policy::CRD_SAFETY_ALLOW, policy::CRD_SAFETY_REASON]
            .iter()
            .any(|key| annotations.contains_key(*key));
        let overwrite = if is_set { "--overwrite " } else { "" };
        notice(&format!(
            "hint: to allow it: kubectl annotate {overwrite}clusterextension {name} {}={} {}=WHY",
            policy::CRD_SAFETY_ALLOW,
            allow.join(","),
            policy::CRD_SAFETY_REASON
        ));
    }
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

/// Returns why the controller would not write it.
fn refused(plan: &Plan) -> Option<String> {
    let held = |word: &str| plan.held_by.contains(word);
    if held("crds") {
        let of_crd = |crd: &CrdVerdict| {
            crd.findings.iter().map(|it| format!("CRD {}: {it}", crd.name)).collect::<Vec<_>>()
        };
        return Some(plan.crds.iter().flat_map(of_crd).collect::<Vec<_>>().join("; "));
    }
    held("rights").then(|| format!("the account lacks {}", plan.account.missing.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cases;

    #[test]
    fn what_was_rolled_out_last_comes_back() {
        type Case = (Vec<(i64, String, String)>, Vec<[Option<i64>; 2]>);
        let revision = |(number, state, succeeded): &(i64, String, String)| -> ClusterObjectSet {
            serde_json::from_value(json!({
                "metadata": {"name": format!("e-{number}")},
                "spec": {"lifecycleState": state, "revision": number, "collisionProtection": "Prevent"},
                "status": {"conditions": [{"type": "Succeeded", "status": succeeded, "reason": "R",
                    "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
            }))
            .unwrap()
        };
        for (name, (kept, asked)) in cases::<Case>("what_was_rolled_out_last_comes_back") {
            let kept: Vec<_> = kept.iter().map(revision).collect();
            for [to, want] in asked {
                let found = chosen(&kept, to).map(|set| set.spec.revision);
                assert_eq!(found, want, "{name}: {to:?}");
            }
        }
    }
}
