//! Doing what was planned for a ClusterObjectSet.

use std::sync::Arc;
use std::time::Duration;

use kube::api::Patch;
use kube::{Api, Client, ResourceExt};
use olm_api::ClusterObjectSet;
use olm_api::keys::{finalizer, label};
use olm_cluster::{Content, ResolvedObject, read_secrets, resolve};
use olm_core::annotations::{Carrier, check_keys, is_paused};
use olm_core::extension::PolicyError;
use olm_core::guard::Policy;
use olm_core::object::Identity;
use olm_core::revision::{
    Account, Adoption, Outcome, RevisionOwner, Sibling, changed, has_succeeded, owner_name,
};
use olm_core::status::Statement;
use olm_core::status::object_set::{self, mutable_secrets, probe_line, stalled_workload};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::ended::{Ended, Settled};
use super::extension_state::ExtensionState;
use super::plan::Plan;
use super::{Context, ObjectSetError, teardown};
use crate::apply::{Applier, ApplyError, PhaseReport, Revision, check_content};
use crate::backoff::{RESYNC, jittered, resync};
use crate::cluster::{RequestError, Target};
use crate::reconcile::{Deadline, within};
use crate::revision::{mutable, own_params};

/// How often objects that fail their probes are looked at where they cannot be watched.
const POLL_FAILING: Duration = Duration::from_secs(10);
/// How often a revision that is not complete is looked at although nothing called for it: news that
/// never came costs no more than this.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// How long a reconcile waits for objects it has just written to become ready.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest that doing it may take before it is reported as failed.
const LIMIT: Duration = Duration::from_mins(5);

/// Does what is planned.
pub(super) async fn enact(
    ctx: &Context,
    set: &ClusterObjectSet,
    extension: &ExtensionState,
    plan: Plan,
) -> Ended {
    let result = match plan {
        Plan::TearDown => return Box::pin(tear_down(ctx, set, extension)).await,
        Plan::AwaitDeletion => Ok(Settled::again(None, jittered(LOOK_AGAIN))),
        Plan::Archive | Plan::Pause | Plan::RollOut => match ctx.identity(set, extension).await {
            Err(error) => Err(error),
            Ok(account) if plan == Plan::RollOut => {
                return roll_out(ctx, set, extension, &account).await;
            }
            Ok(account) if plan == Plan::Archive => {
                let archiving = teardown::archive(ctx, set, &account, extension);
                within(LIMIT, archiving).await
            }
            Ok(_) => Ok(Settled::at_rest(None)),
        },
    };
    Ended::early(set, result)
}

/// Takes a revision down that is being deleted.
///
/// Nothing is removed by a copy that may be old: the extension was read before, so a reference that
/// is still on the revision now was not taken off to keep what it installed.
async fn tear_down(ctx: &Context, set: &ClusterObjectSet, extension: &ExtensionState) -> Ended {
    match ctx.read_again(set).await {
        Ok(Some(live)) => {
            let extension = extension.clone().seen_from(&live);
            match within(LIMIT, teardown::stays(ctx, &live, &extension)).await {
                Ok(true) => keep(ctx, &live, &extension).await,
                Ok(false) => {
                    let deleting = teardown::delete(ctx, &live, &extension);
                    Ended::early(&live, within(LIMIT, deleting).await)
                }
                Err(error) => Ended::early(&live, Err(error)),
            }
        }
        Ok(None) => Ended::early(set, Ok(Settled::at_rest(None))),
        Err(error) => Ended::early(set, Err(error)),
    }
}

/// Keeps what a revision installed that somebody deleted by hand, as if it were not being deleted.
/// The revision that takes it over archives this one, and so wakes it.
async fn keep(ctx: &Context, set: &ClusterObjectSet, extension: &ExtensionState) -> Ended {
    const UNTIL: &str = "what is installed stays until another revision has taken it over";
    if is_paused(set.annotations()) || extension.is_paused() {
        let outcome = Outcome::Removing(UNTIL.to_owned());
        return Ended::early(set, Ok(Settled::at_rest(Some(outcome))));
    }
    let account = match ctx.identity(set, extension).await {
        Ok(account) => account,
        Err(error) => return Ended::early(set, Err(error)),
    };
    let kept = roll_out(ctx, set, extension, &account).await;
    Ended { result: kept.result.map(|settled| settled.staying(UNTIL)), ..kept }
}

/// Reads the content, holds the object, and applies the content.
async fn roll_out(
    ctx: &Context,
    set: &ClusterObjectSet,
    extension: &ExtensionState,
    account: &Account,
) -> Ended {
    let deadline = Deadline::after(LIMIT);
    let client = match deadline.hold(admit(ctx, set, account)).await {
        Ok(client) => client,
        Err(error) => return Ended::early(set, Err(error)),
    };
    if let Some(settled) = ctx.still_settled(set, (account, &client)).await {
        return Ended::early(set, Ok(settled));
    }
    let content = match deadline.hold(read(ctx, set, &client)).await {
        Ok(content) => content,
        Err(error) => return Ended::early(set, Err(error)),
    };
    // A content that no revision may have is not applied; its digests are stored all the same.
    let held = match check_content(&content) {
        Ok(()) => add_finalizer(ctx, set).await,
        Err(error) => Err(error.into()),
    };
    let (set, result) = match held {
        Ok(set) => {
            let applying = apply(ctx, &set, extension, (account, client), &content);
            let result = deadline.hold(applying).await;
            (set, result)
        }
        Err(error) => (set.clone(), Err(error)),
    };
    let result = result.map(|settled| {
        let complete = settled.is_complete();
        if complete {
            ctx.contents.forget_soon(&set);
            ctx.kept.looks.put(&set.uid().unwrap_or_default(), None);
        }
        Settled { applied_by: complete.then(|| account.clone()), ..settled }
    });
    Ended { set, observed: content.observed.clone(), result }
}

/// Returns the client of the account of a revision, if it may be applied at all.
async fn admit(
    ctx: &Context,
    set: &ClusterObjectSet,
    account: &Account,
) -> Result<Client, ObjectSetError> {
    let checked = check_keys(Carrier::ObjectSet, set.annotations()).map_err(PolicyError::Key);
    checked.map_err(|error| ObjectSetError::Blocked(error.to_string()))?;
    let guard = &ctx.settings.guard;
    guard.admit(Policy::ObjectSet, was_read(set)).await?;
    if !ctx.seen.has_account(account).await {
        ctx.accounts.require(account).await?;
    }
    Ok(ctx.accounts.client(account)?)
}

/// Reads the content of a revision, which nobody may have changed.
async fn read(
    ctx: &Context,
    set: &ClusterObjectSet,
    account: &Client,
) -> Result<Arc<Content>, ObjectSetError> {
    let content = match ctx.contents.get(set) {
        Some(kept) => kept,
        None => read_content(ctx, set, account).await?,
    };
    let status = set.status.as_ref();
    let known = status.map_or(&[][..], |status| &status.observed_phases);
    // An empty list means that this is the first look, unless the revision was rolled out before.
    if !known.is_empty()
        && let Some(text) = changed(known, &content.observed)
    {
        return Err(ObjectSetError::Blocked(text));
    }
    Ok(content)
}

async fn read_content(
    ctx: &Context,
    set: &ClusterObjectSet,
    account: &Client,
) -> Result<Arc<Content>, ObjectSetError> {
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

/// Applies the phases, one after the other, each when the one before is complete.
async fn apply(
    ctx: &Context,
    set: &ClusterObjectSet,
    extension: &ExtensionState,
    (account, client): (&Account, Client),
    content: &Content,
) -> Result<Settled, ObjectSetError> {
    let objects = content.phases.iter().flat_map(|phase| &phase.objects);
    let objects = objects.map(|wanted| wanted.object.identity());
    watch(ctx, set, (account, &client), objects.collect()).await;
    let (siblings, archived) = ctx.siblings(set).await?;
    let revision = Revision {
        owner: owner(set, &archived),
        generation: set.metadata.generation.unwrap_or_default(),
        siblings: owners(&siblings, extension),
        adoption: extension
            .extension()
            .map(|extension| Adoption::of(extension.annotations()))
            .unwrap_or_default(),
        probes: set.spec.progression_probes.clone(),
        first: siblings.is_empty() && archived.is_empty() && !has_succeeded(set),
    };
    let name = set.name_any();
    let mut applier = Applier {
        client,
        kinds: ctx.kinds.clone(),
        applied: ctx.applied.clone(),
        defer_optional: ctx.settings.defer_optional_kinds,
        seen: ctx.watches.seen(&name),
    };
    let news = ctx.watches.listen(&name);
    let mut deferred = Vec::new();
    let mut superseded = false;
    applier.refuse_collisions(&revision, &content.phases).await?;
    for (index, phase) in content.phases.iter().enumerate() {
        let mut report = applier.apply_phase(&revision, index, phase).await;
        if let Err(ApplyError::Unserved { group, .. }) = &report {
            ctx.await_group(set, group);
        }
        // What was just written is often ready before anybody could read that it is not.
        let patience = Instant::now() + PATIENCE;
        while report.as_ref().is_ok_and(|report| report.wrote && !report.complete)
            && timeout_at(patience, news.come()).await.is_ok()
        {
            applier.seen = ctx.watches.seen(&name);
            let again = applier.apply_phase(&revision, index, phase).await;
            report = again.map(|again| PhaseReport { wrote: true, ..again });
        }
        let report = report?;
        deferred.extend(report.deferred);
        superseded |= report.superseded;
        if !report.complete {
            let mut next = ctx.next_look(set, POLL_FAILING, LOOK_AGAIN);
            // What stalled stands there until a newer revision is rolled out in its place.
            let stalled = if superseded {
                stalled(set).filter(|_| !has_succeeded(set))
            } else {
                let object = report.unready.and_then(|position| phase.objects.get(position));
                let mut fault = None;
                if let Some(ResolvedObject { object, .. }) = object
                    && let Some((found, wait)) = ctx.pod_fault(set, &applier, object).await
                {
                    fault = found.map(|why| probe_line(&object.identity(), &why));
                    next = next.min(wait);
                }
                hindrance(set, report.stalled, fault)
            };
            let outcome = Outcome::RollingOut(report.failing);
            return Ok(Settled { stalled, ..Settled::again(Some(outcome), next) });
        }
    }
    ctx.defer(set, extension, &deferred).await;
    // What a newer revision made ready is not this one's success: it must never pass for installed.
    if superseded && !has_succeeded(set) {
        let next = ctx.next_look(set, POLL_FAILING, LOOK_AGAIN);
        return Ok(Settled {
            deferred: Some(deferred),
            stalled: stalled(set),
            ..Settled::again(Some(Outcome::RollingOut(None)), next)
        });
    }
    Ok(rolled_out(ctx, set, siblings, deferred))
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
    let mut targets: Vec<Target> = Vec::new();
    for object in objects {
        let found = ctx.kinds.find(&object).await;
        // A kind may come with an earlier phase; the next reconcile checks again.
        let Ok(Some(kind)) = found else {
            continue;
        };
        let namespace = if kind.namespaced { object.namespace } else { String::new() };
        let same =
            targets.iter_mut().find(|target| target.kind == kind && target.namespace == namespace);
        match same {
            Some(target) => {
                target.names.insert(object.name);
            }
            None => targets.push(Target { kind, namespace, names: [object.name].into() }),
        }
    }
    let selector = match owner_name(set) {
        Some(owner) => format!("{}={owner}", label::OWNER_NAME),
        None => format!("{}={}", label::MANAGED_BY, label::MANAGED_BY_OLM),
    };
    ctx.watches.ensure(&set.name_any(), account, client, &selector, targets);
}

/// Puts our finalizer on, before anything is applied. Returns the object as it is then.
async fn add_finalizer(
    ctx: &Context,
    set: &ClusterObjectSet,
) -> Result<ClusterObjectSet, ObjectSetError> {
    let added = ctx.reconciler.add_finalizer(set, finalizer::TEARDOWN).await;
    let added = added.map_err(RequestError::doing("updating finalizers"))?;
    Ok(added.unwrap_or_else(|| set.clone()))
}

/// Takes our finalizer off.
pub(super) async fn remove_finalizer(
    ctx: &Context,
    set: &ClusterObjectSet,
) -> Result<(), ObjectSetError> {
    let removed = ctx.reconciler.remove_finalizers(set, &[finalizer::TEARDOWN]);
    Ok(removed.await.map_err(RequestError::doing("updating finalizers"))?)
}

/// Retires a revision that a later one has replaced.
pub(super) async fn archive(ctx: &Context, set: &ClusterObjectSet) -> Result<(), ObjectSetError> {
    let api = Api::<ClusterObjectSet>::all(ctx.client.clone());
    let patch = json!({"spec": {"lifecycleState": "Archived"}});
    let answer = api.patch(&set.name_any(), &own_params(), &Patch::Merge(patch)).await;
    match answer {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(err) => Err(RequestError::doing("archiving previous revision")(err).into()),
        Ok(_) => {
            tracing::info!(revision = set.name_any(), "previous revision archived");
            Ok(())
        }
    }
}

/// Says whether the content of a revision was read for its account before. Only the controller
/// writes the status, so that nobody can claim it.
fn was_read(set: &ClusterObjectSet) -> bool {
    let status = set.status.as_ref();
    has_succeeded(set) || status.is_some_and(|status| !status.observed_phases.is_empty())
}

/// Returns which object of a revision said that it cannot progress, as its condition has it.
fn stalled(set: &ClusterObjectSet) -> Option<Statement> {
    stalled_workload(&set.status.as_ref()?.conditions).map(object_set::stalled)
}

/// Returns what keeps a revision from being complete: what its workload reports, which only a first
/// rollout gives way to, and what its pods report.
fn hindrance(
    set: &ClusterObjectSet,
    stalled: Option<String>,
    fault: Option<String>,
) -> Option<Statement> {
    let gives_way = stalled.is_some() && !has_succeeded(set);
    let lines: Vec<_> = stalled.into_iter().chain(fault).collect();
    let text = lines.join("\n");
    (!text.is_empty())
        .then(|| if gives_way { object_set::stalled(&text) } else { object_set::hindered(&text) })
}

fn owner(set: &ClusterObjectSet, archived: &[ClusterObjectSet]) -> RevisionOwner {
    RevisionOwner {
        name: set.name_any(),
        uid: set.uid().unwrap_or_default(),
        revision: set.spec.revision,
        owner_name: owner_name(set).map(str::to_owned),
        archived: archived.iter().filter_map(ResourceExt::uid).collect(),
    }
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
