//! `kubectl olm migrate from-classic --apply`: the verdicts, the backup and the steps.

use olm_core::classic::takeover::{
    Step, Verdict, installs_for, is_as_judged, replacing, steps, uid,
};

use super::backup::{Backup, Entry};
use super::candidate::{Candidate, Plan, World};
use super::objects;
use crate::changes::ATTEMPTS;
use crate::commands::from_classic::FromClassicArgs;
use crate::commands::prelude::*;
use crate::output::Written;

impl FromClassicArgs {
    /// Checks, shows the verdicts, asks, backs up and moves. `objects` are those of Classic.
    pub(crate) async fn move_running(
        &self,
        cluster: &Cluster,
        objects: Vec<Object>,
        global: &Global,
        out: &mut dyn Write,
    ) -> Ended {
        let (client, out) = (cluster.own_client(), &mut self.confirm.rehearsal.written(out));
        let mut backup = Backup::open(&self.backup, &objects::cluster_id(client).await?)?;
        let wanted = (self.subscriptions.as_slice(), self.place.namespace.as_deref(), self.follow);
        let (mut world, wanted) = World::new(cluster, objects, &backup, wanted).await?;
        anyhow::ensure!(!wanted.is_empty(), "no Subscriptions found");
        let mut candidates = world.judge(&wanted).await?;
        candidates.iter().try_for_each(|it| show(it, out))?;
        if self.all {
            // What was removed since its move is in the backup only.
            candidates.retain(|it| !it.is_removed);
        }
        let all = candidates.len();
        candidates.retain(|it| it.failed.is_empty());
        let outcome = Outcome::of(candidates.len() < all, false);
        let due = candidates.iter().filter(|it| it.plan.is_some()).count();
        if global.dry_run.is_some() {
            for plan in candidates.iter().filter_map(|it| it.plan.as_ref()) {
                let extension = plan.follow.as_ref().unwrap_or(&plan.extension);
                let made = plan.rights.iter().chain(&plan.stored).chain([extension]);
                made.into_iter().try_for_each(|object| out.object(&object.0))?;
            }
            return Ok(outcome);
        }
        if due > 0 {
            // Whoever names one has decided about it.
            for candidate in candidates.iter().filter(|_| self.all) {
                if let Some(keeper) = candidate.keeper() {
                    let named = changes::named(&candidate.subscription);
                    let hint =
                        "once its source no longer has it, name it: --apply SUBSCRIPTION --yes";
                    changes::unless_seen(&format!("{named} is not moved"), &keeper, hint, false)?;
                }
            }
            let question = format!("Move {due} of {all}?");
            self.confirm.agreed(&question, "--yes confirms it, --dry-run shows it")?;
            let unkept = candidates.iter().filter(|it| it.progress.subscribed);
            backup.add(unkept.filter_map(|it| it.entry.clone()))?;
            writeln!(out, "backup: {}", self.backup.display())?;
        }
        // All of them first: what is subscribed to would have Classic install again what is not.
        for candidate in &candidates {
            prepare(client, candidate, out).await?;
        }
        for candidate in &candidates {
            unsubscribe(client, candidate, out).await?;
        }
        for candidate in &candidates {
            let moved = self.finish((client, &world.namespace), candidate, global, out).await?;
            if moved != Outcome::Done {
                let file = self.backup.display();
                notice(&format!(
                    "hint: run it again to continue, or kubectl olm migrate rollback {file}"
                ));
                return Ok(moved);
            }
        }
        Ok(outcome)
    }

    /// Does what follows the deletion of the Subscription.
    async fn finish(
        &self,
        place: (&Client, &str),
        candidate: &Candidate,
        global: &Global,
        out: &mut Written<'_>,
    ) -> Ended {
        let Some(entry) = &candidate.entry else { return Ok(Outcome::Done) };
        let (client, csv) = (place.0, &entry.csv);
        if !candidate.progress.extended {
            self.refuse_replaced(client, csv).await?;
        }
        for step in steps(candidate.progress) {
            match (step, &candidate.plan) {
                (Step::Prepare | Step::Unsubscribe, _) | (Step::Extend, None) => {}
                (Step::Hold, _) => objects::hold_csv(client, csv).await?,
                (Step::Release, _) => {
                    let count = objects::release_all(client, csv, &entry.running).await?;
                    let objects = counted(count, "object");
                    writeln!(out, "{}: {objects} released from Classic", csv.name())?;
                }
                (Step::Dismiss, _) => {
                    objects::dismiss_csv(client, csv, self.wait.timeout).await?;
                    writeln!(out, "{} deleted", changes::named(csv))?;
                }
                (Step::Extend, Some(plan)) => {
                    let outcome = self.extend(place, plan, global, out).await?;
                    if outcome != Outcome::Done {
                        return Ok(outcome);
                    }
                }
                (Step::CleanUp, _) => clean_up(place, entry, out).await?,
            }
        }
        // Also where it was moved before.
        if let Some(follow) = candidate.plan.as_ref().and_then(|plan| plan.follow.as_ref()) {
            changes::apply(client, std::slice::from_ref(follow), out).await?;
            // `upgrade` and others write the version by a merge, which an apply leaves alone.
            let pinned = "/spec/source/catalog/version";
            let unpin = json!({"spec": {"source": {"catalog": {"version": null}}}});
            let is_pinned =
                |live: &Object| follow.pointer(pinned).is_none() && live.pointer(pinned).is_some();
            objects::change(client, follow, |live| is_pinned(live).then(|| unpin.clone())).await?;
        }
        Ok(Outcome::Done)
    }

    /// Refuses a CSV whose upgrade began before its Subscription was deleted.
    async fn refuse_replaced(&self, client: &Client, csv: &Object) -> anyhow::Result<()> {
        let csvs = objects::alike(client, csv).await?;
        let mut again = csvs.iter().filter(|it| it.name() == csv.name() && uid(it) != uid(csv));
        let text = match (replacing(csv, csvs.iter()), again.next()) {
            (Some(other), _) => format!("{} is being replaced by {}", csv.name(), other.name()),
            (None, Some(_)) => format!("{} was created again", csv.name()),
            (None, None) => return Ok(()),
        };
        let file = self.backup.display();
        let hint = format!("kubectl olm migrate rollback {file} creates its Subscription again");
        Err(Failure::failed(text, hint))
    }

    /// Makes the extension, and waits for it.
    async fn extend(
        &self,
        (client, namespace): (&Client, &str),
        plan: &Plan,
        global: &Global,
        out: &mut Written<'_>,
    ) -> Ended {
        changes::apply(client, std::slice::from_ref(&plan.extension), out).await?;
        let name = plan.extension.name();
        let live = objects::live(client, &plan.extension).await?;
        let live = live.with_context(|| format!("ClusterExtension {name} is gone"))?;
        objects::own_stored(client, namespace, &live).await?;
        let mut written: ClusterExtension = serde_json::from_value(live.into_value())
            .with_context(|| format!("reading ClusterExtension {name}"))?;
        // A status that it has by now is already about this move.
        written.status = None;
        if self.wait.is_wanted(global) {
            let version = Awaited::Version(&plan.version);
            return waiting::ready(client, &written, version, self.wait.timeout, out).await;
        }
        Ok(Outcome::Done)
    }
}

fn show(candidate: &Candidate, out: &mut dyn Write) -> anyhow::Result<()> {
    let Candidate { subscription, failed, notes, progress, .. } = candidate;
    let verdict = candidate.verdict();
    writeln!(out, "{}: {verdict}", subscription.place())?;
    for check in failed {
        writeln!(out, "  {}: {}", check.subject, plain(&check.text))?;
        writeln!(out, "    {}", plain(&check.hint))?;
    }
    for note in notes {
        writeln!(out, "  note: {}", plain(note))?;
    }
    if verdict == Verdict::Ready {
        for (number, step) in steps(*progress).iter().enumerate() {
            writeln!(out, "  {}. {step}", number + 1)?;
        }
    }
    Ok(())
}

/// Makes the account, gives it its rights, and stores what runs where the controller finds it.
async fn prepare(
    client: &Client,
    candidate: &Candidate,
    out: &mut Written<'_>,
) -> anyhow::Result<()> {
    let Some(plan) = &candidate.plan else { return Ok(()) };
    changes::apply(client, &plan.rights, out).await?;
    // Once the Subscription is gone, what runs may be half released.
    if !candidate.progress.subscribed && objects::are_live(client, &plan.stored).await? {
        return Ok(());
    }
    changes::apply(client, &plan.stored, out).await
}

/// Deletes a Subscription as it was judged: Classic may have begun an upgrade since.
async fn unsubscribe(
    client: &Client,
    candidate: &Candidate,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let judged = &candidate.subscription;
    if !candidate.progress.subscribed {
        return Ok(());
    }
    for _ in 0..ATTEMPTS {
        let Some(now) = objects::live(client, judged).await? else { return Ok(()) };
        if !is_as_judged(judged, &now) {
            break;
        }
        let params = objects::as_seen(&now, DeleteParams::background());
        if objects::delete(client, judged, params).await? {
            writeln!(out, "{} deleted", changes::named(judged))?;
            return Ok(());
        }
    }
    bail!("{} was modified concurrently; rerun the command", judged.identity())
}

/// Deletes what Classic keeps of an operator besides.
async fn clean_up(
    (client, namespace): (&Client, &str),
    entry: &Entry,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let extension = objects::extension(&entry.extension);
    if let Some(extension) = objects::live(client, &extension).await? {
        objects::give_certificates(client, &entry.csv, &extension).await?;
        objects::own_stored(client, namespace, &extension).await?;
    }
    let beside = objects::beside(client, [&entry.subscription, &entry.csv]).await?;
    let mut left: Vec<_> = entry.others("InstallPlan").collect();
    left.retain(|plan| !beside.iter().any(|it| installs_for(plan, it)));
    if beside.is_empty() {
        for group in entry.others("OperatorGroup") {
            if objects::are_selected_by(client, group, &entry.running).await? {
                let kept = changes::named(group);
                writeln!(
                    out,
                    "{kept} kept: its label selects the namespaces of webhooks until the next version"
                )?;
            } else {
                left.push(group);
            }
        }
    }
    for object in left {
        if objects::delete(client, object, DeleteParams::background()).await? {
            writeln!(out, "{} deleted", changes::named(object))?;
        }
    }
    Ok(())
}
