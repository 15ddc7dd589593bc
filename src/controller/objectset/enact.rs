//! Doing what was planned for a ClusterObjectSet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use olm_api::keys::{finalizer, label, manager};
use olm_api::{ClusterObjectSet, LifecycleState};
use olm_cluster::{Content, ResolvedObject, ResolvedPhase, read_secrets, resolve};
use olm_core::annotations::{is_paused, paused};
use olm_core::error::Chain;
use olm_core::guard::Policy;
use olm_core::object::Identity;
use olm_core::revision::{
    Account, Adoption, Claim, Outcome, RevisionOwner, Sibling, changed, check_probes,
    has_succeeded, owner_name,
};
use olm_core::status::Statement;
use olm_core::status::object_set::{self, mutable_secrets, probe_line, stalled_workload};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::ended::{Ended, Settled};
use super::extension_state::ExtensionState;
use super::per_revision::PodFault;
use super::plan::Plan;
use super::{Attempt, Context, ObjectSetError};
use crate::account::{impersonating, require};
use crate::apply::{Applier, ApplyError, Existence, PhaseReport, Unready, check_content};
use crate::backoff::{RESYNC, jittered, resync};
use crate::cluster::{RequestError, Target};
use crate::reconcile::{Deadline, within};
use crate::revision::{known_strangers, mutable};

/// The interval of checks of objects that fail their probes and cannot be watched.
const POLL_FAILING: Duration = Duration::from_secs(10);
/// The interval of reconciles of an incomplete revision, in case an event is missed.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// The time that a reconcile waits for the objects it has written to become ready.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest that doing it may take before it is reported as failed.
const LIMIT: Duration = Duration::from_mins(5);
/// Longest that is waited for the record of an earlier process to be confirmed; then all is read.
const SETTLED_LIMIT: Duration = Duration::from_secs(30);

impl Attempt<'_> {
    pub(super) async fn enact(&self, plan: Plan) -> Ended {
        let result = match plan {
            Plan::TearDown => return Box::pin(self.tear_down()).await,
            Plan::AwaitDeletion => Ok(Settled::again(None, jittered(LOOK_AGAIN))),
            Plan::Pause => Ok(self.look().await),
            Plan::Archive => within(LIMIT, self.archive()).await,
            Plan::RollOut => match self.identity().await {
                Err(error) => Err(error),
                Ok(account) => return self.roll_out(&account).await,
            },
        };
        self.early(result)
    }

    /// Takes a revision down that is being deleted.
    ///
    /// Nothing is removed by a copy that may be old: in a backup it is not being deleted. The extension
    /// was read before, so a reference that is still on the revision now was not taken off to keep what
    /// it installed.
    async fn tear_down(&self) -> Ended {
        match self.ctx.read_again(self.set).await {
            Ok(Some(live)) if live.metadata.deletion_timestamp.is_some() => {
                let extension = self.extension.clone().seen_from(&live);
                let live = Attempt { set: &live, extension: &extension, ..*self };
                match within(LIMIT, live.stays()).await {
                    Ok(true) => live.keep().await,
                    Ok(false) => live.early(within(LIMIT, live.delete()).await),
                    Err(error) => live.early(Err(error)),
                }
            }
            Ok(_) => self.early(Ok(Settled::at_rest(None))),
            Err(error) => self.early(Err(error)),
        }
    }

    /// Keeps what a revision installed that somebody deleted by hand, as if it were not being deleted.
    /// The revision that takes it over archives this one, and so wakes it.
    async fn keep(&self) -> Ended {
        const UNTIL: &str = "the installed objects stay until another revision has taken them over";
        if is_paused(self.set.annotations()) || self.extension.is_paused() {
            return self.early(Ok(self.look().await.staying(UNTIL)));
        }
        match self.identity().await {
            Ok(account) => {
                let kept = self.roll_out(&account).await;
                Ended { result: kept.result.map(|settled| settled.staying(UNTIL)), ..kept }
            }
            Err(error) => self.early(Err(error)),
        }
    }

    /// Reads how the objects of a paused revision are, and writes none. What keeps it from that is
    /// reported as their state: whether the revision progresses is not decided meanwhile.
    async fn look(&self) -> Settled {
        let looked = within(LIMIT, self.observe_content()).await;
        let settled = looked.unwrap_or_else(|error| {
            let text = Chain(&error).to_string();
            tracing::debug!(error = text, "objects of a paused revision not read");
            let before = self.set.status.as_ref();
            Settled {
                stalled: before.and_then(|status| object_set::of_workload(&status.conditions)),
                ..Settled::again(Some(Outcome::Failed(text)), jittered(LOOK_AGAIN))
            }
        });
        settled.paused()
    }

    async fn observe_content(&self) -> Result<Settled, ObjectSetError> {
        let Self { ctx, set, .. } = *self;
        let account = self.identity().await?;
        let client = self.admit(&account).await?;
        let content = self.read(&client).await?;
        check_probes(&set.spec.progression_probes).map_err(ObjectSetError::Probe)?;
        let existence = Existence::new(ctx.client.clone(), false);
        let (mut applier, _) = self.applier((&account, client), &content, existence).await?;
        // What nobody has applied yet is read, too.
        applier.first = false;
        let mut superseded = false;
        for (index, phase) in content.phases.iter().enumerate() {
            let report = applier.observe_phase(index, phase).await?;
            superseded |= report.superseded;
            if report.unready.is_some() {
                return Ok(self.incomplete(&applier, phase, report, superseded).await);
            }
        }
        if superseded && !has_succeeded(set) {
            return Ok(self.superseded());
        }
        ctx.contents.forget_soon(set);
        let next = ctx.next_look(set, ctx.settings.managed_resync, RESYNC);
        Ok(Settled::again(Some(Outcome::Complete), next))
    }

    /// Reads the content, holds the object, and applies the content.
    async fn roll_out(&self, account: &Account) -> Ended {
        let Self { ctx, set, .. } = *self;
        let deadline = Deadline::after(LIMIT);
        let client = match deadline.hold(self.admit(account)).await {
            Ok(client) => client,
            Err(error) => return self.early(Err(error)),
        };
        let settled = ctx.still_settled(set, (account, &client));
        if let Ok(Some(settled)) = tokio::time::timeout(SETTLED_LIMIT, settled).await {
            return self.early(Ok(settled));
        }
        let content = match deadline.hold(self.read(&client)).await {
            Ok(content) => content,
            Err(error) => return self.early(Err(error)),
        };
        // A content that no revision may have is not applied; its digests are stored all the same.
        let checked = check_probes(&set.spec.progression_probes).map_err(ObjectSetError::Probe);
        let held = match checked.and_then(|()| Ok(check_content(&content)?)) {
            Ok(()) => {
                let added = ctx.reconciler.add_finalizer(set, finalizer::TEARDOWN).await;
                added.map_err(RequestError::doing("updating finalizers")).map_err(Into::into)
            }
            Err(error) => Err(error),
        };
        let (set, result) = match held {
            Ok(added) => {
                let existence = Existence::new(ctx.client.clone(), added.is_some());
                let set = added.unwrap_or_else(|| set.clone());
                let attempt = Attempt { set: &set, ..*self };
                let applying = attempt.apply((account, client), &content, existence);
                let result = deadline.hold(applying).await;
                (set, result)
            }
            Err(error) => (set.clone(), Err(error)),
        };
        let result = result.map(|settled| {
            let complete = settled.outcome == Some(Outcome::Complete);
            if complete {
                ctx.contents.forget_soon(&set);
                ctx.kept.looks.put(&set.uid().unwrap_or_default(), None);
            }
            Settled { applied_by: complete.then(|| account.clone()), ..settled }
        });
        Ended { set, observed: content.observed.clone(), result }
    }

    /// Returns the client of the account of the revision, if it may be applied at all.
    async fn admit(&self, account: &Account) -> Result<Client, ObjectSetError> {
        let Self { ctx, set, .. } = *self;
        paused(set.annotations())
            .map_err(|error| ObjectSetError::Blocked(Chain(&error).to_string()))?;
        ctx.settings.guard.admit(Policy::ObjectSet, was_read(set)).await?;
        if !ctx.seen.has_account(account).await {
            require(&ctx.client, account).await?;
        }
        Ok(impersonating(&ctx.client, account)?)
    }

    /// Reads the content of the revision, which nobody may have changed.
    async fn read(&self, account: &Client) -> Result<Arc<Content>, ObjectSetError> {
        let content = match self.ctx.contents.get(self.set) {
            Some(kept) => kept,
            None => self.read_content(account).await?,
        };
        let status = self.set.status.as_ref();
        let known = status.map_or(&[][..], |status| &status.observed_phases);
        match changed(known, &content.observed) {
            Some(text) => Err(ObjectSetError::Blocked(text)),
            None => Ok(content),
        }
    }

    async fn read_content(&self, account: &Client) -> Result<Arc<Content>, ObjectSetError> {
        let Self { ctx, set, .. } = *self;
        let namespace = &ctx.settings.system_namespace;
        let secrets = read_secrets(&ctx.client, account, set, namespace).await;
        let mutable = mutable(&secrets);
        if !mutable.is_empty() {
            return Err(ObjectSetError::Blocked(mutable_secrets(&mutable)));
        }
        let content = Arc::new(resolve(set, &secrets, namespace)?);
        ctx.contents.keep(set, &secrets, &content);
        Ok(content)
    }

    /// Returns what reads and writes the objects, which wake the revision from now on, and its siblings
    /// in use.
    async fn applier(
        &self,
        (account, client): (&Account, Client),
        content: &Content,
        existence: Existence,
    ) -> Result<(Applier, Vec<ClusterObjectSet>), ObjectSetError> {
        let Self { ctx, set, extension } = *self;
        let objects = content.phases.iter().flat_map(|phase| &phase.objects);
        let objects = objects.map(|wanted| wanted.object.identity());
        watch(ctx, set, (account, &client), objects.collect()).await;
        let (siblings, archived) = ctx.siblings(set).await?;
        let first = siblings.is_empty() && archived.is_empty() && !has_succeeded(set);
        let claim = Claim {
            owner: RevisionOwner::of(set, &archived),
            siblings: owners(&siblings, extension),
            strangers: known_strangers(&ctx.revisions, set),
            adoption: extension
                .extension()
                .map(|extension| Adoption::of(extension.annotations()))
                .unwrap_or_default(),
        };
        let applier = Applier {
            claim,
            generation: set.metadata.generation.unwrap_or_default(),
            probes: set.spec.progression_probes.clone(),
            first,
            client,
            kinds: ctx.kinds.clone(),
            applied: ctx.applied.clone(),
            defer_optional: ctx.settings.defer_optional_kinds,
            seen: ctx.watches.seen(&set.name_any()),
            existence,
        };
        Ok((applier, siblings))
    }

    /// Applies the phases, one after the other, each when the one before is complete.
    async fn apply(
        &self,
        account: (&Account, Client),
        content: &Content,
        existence: Existence,
    ) -> Result<Settled, ObjectSetError> {
        let Self { ctx, set, .. } = *self;
        let (mut applier, siblings) = self.applier(account, content, existence).await?;
        let name = set.name_any();
        let news = ctx.watches.listen(&name);
        let mut deferred = Vec::new();
        let mut superseded = false;
        applier.refuse_collisions(&content.phases).await?;
        for (index, phase) in content.phases.iter().enumerate() {
            let mut report = applier.apply_phase(index, phase).await;
            if let Err(ApplyError::Unserved { object, .. }) = &report {
                ctx.kept.unserved.await_group(&name, &object.group);
            }
            // What was just written is often ready before anybody could read that it is not.
            let patience = Instant::now() + PATIENCE;
            while report.as_ref().is_ok_and(|report| report.wrote && report.unready.is_some())
                && timeout_at(patience, news.come()).await.is_ok()
            {
                applier.seen = ctx.watches.seen(&name);
                let again = applier.apply_phase(index, phase).await;
                report = again.map(|again| PhaseReport { wrote: true, ..again });
            }
            let mut report = report?;
            deferred.append(&mut report.deferred);
            superseded |= report.superseded;
            if report.unready.is_some() {
                return Ok(self.incomplete(&applier, phase, report, superseded).await);
            }
        }
        self.defer(&deferred).await;
        // What a newer revision made ready is not this one's success: it must never pass for installed.
        if superseded && !has_succeeded(set) {
            return Ok(Settled { deferred: Some(deferred), ..self.superseded() });
        }
        Ok(rolled_out(ctx, set, siblings, deferred))
    }

    async fn incomplete(
        &self,
        applier: &Applier,
        phase: &ResolvedPhase,
        report: PhaseReport,
        superseded: bool,
    ) -> Settled {
        let Self { ctx, set, .. } = *self;
        let mut next = ctx.next_look(set, POLL_FAILING, LOOK_AGAIN);
        let failing = report.unready.as_ref().map(|(_, unready)| unready.why.clone());
        // What stalled stands there until a newer revision is rolled out in its place.
        let stalled = if superseded {
            stalled(set).filter(|_| !has_succeeded(set))
        } else {
            let mut fault = None;
            if let Some((position, Unready { told, .. })) = report.unready
                && let Some(ResolvedObject { object, .. }) = phase.objects.get(position)
            {
                let pods = ctx.pod_fault(set, applier, object, told.clone()).await;
                let told = told.map(|why| probe_line(&object.identity(), &why));
                let told = told.map(|why| PodFault { why, is_lasting: false });
                let (found, wait) = pods.unwrap_or((told, next));
                (fault, next) = (found, next.min(wait));
            }
            hindrance(set, report.stalled, fault)
        };
        let outcome = Outcome::RollingOut(failing);
        Settled { stalled, ..Settled::again(Some(outcome), next) }
    }

    /// All is ready, part of it as a newer revision has it.
    fn superseded(&self) -> Settled {
        let Self { ctx, set, .. } = *self;
        let next = ctx.next_look(set, POLL_FAILING, LOOK_AGAIN);
        let outcome = Outcome::RollingOut(None);
        Settled { stalled: stalled(set), ..Settled::again(Some(outcome), next) }
    }

    fn early(&self, result: Result<Settled, ObjectSetError>) -> Ended {
        Ended::early(self.set, result)
    }
}

/// All of a revision is applied and ready, but for what is `deferred`.
pub(super) fn rolled_out(
    ctx: &Context,
    set: &ClusterObjectSet,
    siblings: Vec<ClusterObjectSet>,
    deferred: Vec<Identity>,
) -> Settled {
    // Kinds come with a CRD, which wakes the revision; those of an aggregated API come unannounced.
    let quiet = if deferred.is_empty() { resync() } else { jittered(ctx.settings.managed_resync) };
    let replaced =
        siblings.into_iter().filter(|one| one.spec.revision < set.spec.revision).collect();
    let next = ctx.next_look(set, ctx.settings.managed_resync, RESYNC);
    Settled {
        replaced,
        deferred: Some(deferred),
        ..Settled::again(Some(Outcome::Complete), next.min(quiet))
    }
}

/// Has the revision woken by changes of its objects.
pub(super) async fn watch(
    ctx: &Context,
    set: &ClusterObjectSet,
    (account, client): (&Account, &Client),
    objects: Vec<Identity>,
) {
    let mut kinds: BTreeMap<_, Vec<Identity>> = BTreeMap::new();
    for object in objects {
        kinds.entry((object.api_version(), object.kind.clone())).or_default().push(object);
    }
    let mut targets = Vec::new();
    for objects in kinds.into_values() {
        let Some(first) = objects.first() else { continue };
        // A kind may come with an earlier phase; the next reconcile checks again.
        let Ok(Some(kind)) = ctx.kinds.find(first).await else { continue };
        let mut places: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for Identity { namespace, name, .. } in objects {
            let namespace = if kind.namespaced { namespace } else { String::new() };
            places.entry(namespace).or_default().insert(name);
        }
        let target = |(namespace, names)| Target { kind: kind.clone(), namespace, names };
        targets.extend(places.into_iter().map(target));
    }
    let selector = match owner_name(set) {
        Some(owner) => format!("{}={owner}", label::OWNER_NAME),
        None => format!("{}={}", label::MANAGED_BY, label::MANAGED_BY_OLM),
    };
    ctx.watches.ensure(&set.name_any(), account, client, &selector, targets);
}

/// Retires a revision that a later one has replaced, and no other that has got its name since.
pub(super) async fn archive(client: &Client, set: &ClusterObjectSet) -> Result<(), RequestError> {
    let api = Api::<ClusterObjectSet>::all(client.clone());
    let patch = json!({"metadata": {"uid": set.uid()}, "spec": {"lifecycleState": LifecycleState::Archived}});
    let params = PatchParams::apply(manager::OPERATOR_CONTROLLER);
    let answer = api.patch(&set.name_any(), &params, &Patch::Merge(patch)).await;
    match answer {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(err) => Err(RequestError::doing("archiving previous revision")(err)),
        Ok(_) => {
            tracing::info!(revision = set.name_any(), "previous revision archived");
            Ok(())
        }
    }
}

/// Returns whether the content of a revision was read for its account before. Only the controller
/// writes the status, so that nobody can claim it.
fn was_read(set: &ClusterObjectSet) -> bool {
    let status = set.status.as_ref();
    has_succeeded(set) || status.is_some_and(|status| !status.observed_phases.is_empty())
}

/// Returns which object of a revision said that it cannot progress, as its condition has it.
fn stalled(set: &ClusterObjectSet) -> Option<Statement> {
    stalled_workload(&set.status.as_ref()?.conditions).map(object_set::stalled)
}

/// Returns the reason why a revision is not complete: the reports of its workload and of its pods.
/// Only a first rollout gives way to it; to pods, if an image cannot be pulled or they are refused.
fn hindrance(
    set: &ClusterObjectSet,
    stalled: Option<String>,
    fault: Option<PodFault>,
) -> Option<Statement> {
    let lasts = stalled.is_some() || fault.as_ref().is_some_and(|fault| fault.is_lasting);
    let gives_way = lasts && !has_succeeded(set);
    let lines: Vec<_> = stalled.into_iter().chain(fault.map(|fault| fault.why)).collect();
    let text = lines.join("\n");
    (!text.is_empty())
        .then(|| if gives_way { object_set::stalled(&text) } else { object_set::hindered(&text) })
}

/// The owners whose objects this revision may take: its siblings, and its extension itself, which
/// controls what a failed Helm installation left behind.
fn owners(siblings: &[ClusterObjectSet], extension: &ExtensionState) -> Vec<Sibling> {
    let extension = match extension {
        ExtensionState::Alive(extension) => extension.metadata.uid.clone(),
        ExtensionState::None
        | ExtensionState::Deleting(_)
        | ExtensionState::Orphaning(_)
        | ExtensionState::Gone => None,
    };
    let extension = extension.map(|uid| Sibling { uid, revision: 0 });
    siblings
        .iter()
        .map(|set| Sibling { uid: set.uid().unwrap_or_default(), revision: set.spec.revision })
        .chain(extension)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use rstest::rstest;
    use serde_json::Value;

    use super::*;
    use crate::cluster::answering::answering;

    // applying.md 1.3
    #[rstest]
    #[case::for_minutes(true, false, "True")]
    #[case::not_yet(false, false, "False")]
    #[case::after_success(true, true, "False")]
    fn a_first_rollout_gives_way_to_an_image_that_cannot_be_pulled(
        #[case] is_lasting: bool,
        #[case] succeeded: bool,
        #[case] want: &str,
    ) {
        let mut set = ClusterObjectSet::default();
        if succeeded {
            let conditions = &mut set.status.get_or_insert_default().conditions;
            object_set::succeeded().put(conditions, None, jiff::Timestamp::UNIX_EPOCH);
        }
        let fault = PodFault { why: "Object d: pod p: x".to_owned(), is_lasting };
        let found = hindrance(&set, None, Some(fault)).unwrap();
        assert_eq!((found.status, found.message.as_str()), (want, "Object d: pod p: x"));
        assert_eq!(hindrance(&set, None, None), None);
    }

    // applying.md 3.5: a revision that was made since under the same name is not replaced
    #[tokio::test]
    async fn a_revision_is_archived_as_the_one_that_was_seen() {
        let mut set = ClusterObjectSet::default();
        (set.metadata.name, set.metadata.uid) = (Some("e-1".to_owned()), Some("u".to_owned()));
        let asked = Arc::new(Mutex::new(Value::Null));
        let (noted, found) = (Arc::clone(&asked), json!(set));
        let client = answering(move |request| {
            noted.lock().unwrap().clone_from(request.body());
            (200, found.clone())
        });
        archive(&client, &set).await.unwrap();
        let want = json!({"metadata": {"uid": "u"}, "spec": {"lifecycleState": "Archived"}});
        assert_eq!(*asked.lock().unwrap(), want);
    }
}
