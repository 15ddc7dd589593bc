//! Applying one object.
//!
//! Every update carries the resourceVersion that was read; a conflict leads to a new decision.

use kube::core::response::StatusCause;
use olm_api::keys::manager;
use olm_cluster::ResolvedObject;
use olm_core::object::Object;
use olm_core::revision::{
    Claim, Decision, Fixed, RefusedField, controller, desired_object, has_owner, in_one_version,
    is_unchanged, take_applied_fields, take_leftovers, upgrade_managed_fields, with_owner,
};
use serde_json::Value;

use super::applied_cache::{AppliedCache, Unready};
use super::endpoint::{Endpoint, NO_DRY_RUN};
use crate::cluster::{causes, code};

/// The most attempts of a write within one reconcile when it conflicts with others.
const MAX_ATTEMPTS: usize = 3;
/// Managers whose fields a takeover makes ours: those a Helm installation left behind.
const EARLIER_MANAGERS: [&str; 4] = [manager::OPERATOR_CONTROLLER, "helm", "olm", "catalog"];
/// The same of upstream v1.0 and v1.1; many operators have this name, too.
const FIRST_MANAGER: &str = "manager";

/// An object beside what is on the cluster.
pub(super) struct Observed<'a> {
    pub(super) claim: &'a Claim,
    /// The generation of the revision.
    pub(super) generation: i64,
    pub(super) applied: &'a AppliedCache,
    /// Where it stands in its phase.
    pub(super) position: usize,
    pub(super) wanted: &'a ResolvedObject,
    pub(super) endpoint: Endpoint,
    pub(super) live: Option<Object>,
    /// Whether it was not read.
    pub(super) presumed: bool,
    pub(super) decision: Decision,
    /// Whether it is deleted and created again, because it cannot be changed.
    pub(super) replaces: bool,
}

impl Observed<'_> {
    /// Returns whether the object is being deleted; nothing is written to it then.
    pub(super) fn is_terminating(&self) -> bool {
        let live = self.live.as_ref();
        live.is_some_and(|live| live.pointer("/metadata/deletionTimestamp").is_some())
    }

    pub(super) fn needs_write(&self) -> bool {
        match (&self.decision, &self.live) {
            (Decision::Create | Decision::Adopt, _) => !self.is_terminating(),
            (Decision::Update, Some(live)) => {
                let content = &self.wanted.object;
                !self.is_terminating()
                    && !self.applied.is_current(&self.claim.owner.uid, content, live)
            }
            // The newer revision may have made the object anew, after somebody deleted it. If that
            // revision is deleted, the object goes back to this one, and must not go with it.
            (Decision::Superseded, Some(live)) => {
                !self.is_terminating() && !has_owner(live, &self.claim.owner.uid)
            }
            (Decision::Update | Decision::Superseded, None) | (Decision::Collide(_), _) => false,
        }
    }

    /// Asks the API server whether it would take the object. When that would change nothing, the
    /// object counts as applied, so that a controller that has just started writes nothing.
    pub(super) async fn dry_run(&mut self) -> Result<(), kube::Error> {
        let refused = match self.ask().await {
            Err(err) if self.presumed || code(&err) == 409 => err,
            answer => return self.judge(answer).await,
        };
        // Somebody wrote meanwhile; or it is there already, or its create is refused for another
        // reason: then that is the verdict.
        self.refetch().await?;
        if self.live.is_none() {
            return verdict(Err(refused));
        }
        if !self.needs_write() {
            return Ok(());
        }
        let answer = self.ask().await;
        self.judge(answer).await
    }

    /// Asks, and asks again where somebody wrote the object in a version that is lost.
    async fn ask(&mut self) -> Result<(), kube::Error> {
        match self.try_write().await {
            Err(err) if is_lost_version(&err) => self.try_in_one_version(err).await,
            answer => answer,
        }
    }

    /// Returns what a dry run says of the object. One of this extension that would be taken if it were
    /// made anew, and holds no state, is replaced.
    async fn judge(&mut self, answer: Result<(), kube::Error>) -> Result<(), kube::Error> {
        let Err(refused) = verdict(answer) else { return Ok(()) };
        if !self.is_ours() || code(&refused) != 422 {
            return Err(refused);
        }
        match self.fixed(&refused) {
            None => return self.try_as_manager(refused).await,
            Some(fixed) if !fixed.is_replaced() => return Err(refused),
            Some(_) => {}
        }
        self.replaces = self.is_valid_anew().await;
        if self.replaces { Ok(()) } else { Err(refused) }
    }

    /// Asks whether the API server would take the object if it were made anew: then nothing is wrong
    /// with it but that it is there.
    async fn is_valid_anew(&self) -> bool {
        let desired = desired_object(&self.wanted.object, &self.claim.owner, None);
        let answer = self.endpoint.create(&desired, true).await;
        let Err(kube::Error::Api(status)) = answer else { return false };
        status.reason == "AlreadyExists"
            || (status.code == 403 && is_counted_twice(&status.message))
    }

    /// Asks whether the API server would take the object from its own manager: whoever has written
    /// nothing of it leaves what another version had below the same name. Where that is refused, too,
    /// but the object would be taken if it were made anew, what others or defaults have left becomes
    /// the manager's. Nothing but `managedFields` is written.
    async fn try_as_manager(&mut self, refused: kube::Error) -> Result<(), kube::Error> {
        for _ in 0..MAX_ATTEMPTS {
            match self.take_as_manager().await {
                // Somebody has written meanwhile.
                Err(err) if code(&err) == 409 => self.refetch().await?,
                answer => return answer,
            }
            if !self.is_ours() {
                break;
            }
        }
        Err(refused)
    }

    async fn take_as_manager(&mut self) -> Result<(), kube::Error> {
        let Some(live) = self.live.clone() else { return Ok(()) };
        let live = self.upgrade_managed_fields(live).await?;
        let (content, owner) = (&self.wanted.object, &self.claim.owner);
        let desired = desired_object(content, owner, Some(&live));
        let answer = self.endpoint.try_apply(&desired, manager::OBJECTS).await;
        let found = answer.as_ref().err().and_then(|refused| {
            take_leftovers(&live, &desired, manager::OBJECTS, refused_fields(refused))
        });
        self.live = Some(live.clone());
        let Some((fields, taken)) = found else { return answer.map(drop) };
        if !self.is_valid_anew().await {
            return answer.map(drop);
        }
        let object = content.identity().text();
        tracing::warn!(
            object,
            taken,
            "fields that others have left prevent the update, and are removed"
        );
        let parts = [("/metadata/managedFields", fields)];
        let live = self.endpoint.replace(&live, &parts).await?;
        let desired = desired_object(content, owner, Some(&live));
        self.live = Some(live);
        self.endpoint.try_apply(&desired, manager::OBJECTS).await.map(drop)
    }

    /// Asks again once all managers have written in the version that is applied, if that is not so already.
    /// Nothing but `managedFields` is written.
    async fn try_in_one_version(&mut self, refused: kube::Error) -> Result<(), kube::Error> {
        let fields = self.live.as_ref().and_then(|live| Some((live, in_one_version(live)?)));
        let Some((live, fields)) = fields else { return Err(refused) };
        self.live =
            Some(self.endpoint.replace(live, &[("/metadata/managedFields", fields)]).await?);
        self.try_write().await
    }

    /// Returns the fields that cannot be changed, where the API server refused the object for what it
    /// is.
    fn fixed(&self, refused: &kube::Error) -> Option<Fixed> {
        let live = self.live.as_ref().filter(|_| code(refused) == 422)?;
        Fixed::of(live, &self.wanted.object)
    }

    /// The same of an object that is not replaced, because it holds state.
    pub(super) fn kept(&self, refused: &kube::Error) -> Option<Fixed> {
        self.fixed(refused).filter(|fixed| !fixed.is_replaced())
    }

    async fn try_write(&self) -> Result<(), kube::Error> {
        if self.decision == Decision::Superseded {
            return Ok(());
        }
        // The resource version stays in: without it the question would be put to whatever is there
        // by now, and two revisions that take an object from a third would both be its controller.
        let desired = desired_object(&self.wanted.object, &self.claim.owner, self.live.as_ref());
        let Some(live) = &self.live else {
            return self.endpoint.create(&desired, true).await.map(drop);
        };
        let tried = self.endpoint.try_apply(&desired, manager::DRY_RUN).await?;
        // A write of ours that was late may have brought it back; only what folds our managed fields
        // takes it off, which a dry run does not do.
        let stale = self.claim.owner.archived.iter().any(|uid| has_owner(live, uid));
        if self.decision == Decision::Update && !stale && is_unchanged(live, &tried) {
            self.applied.record(&self.claim.owner.uid, &self.wanted.object, live);
        }
        Ok(())
    }

    /// Remembers whether an object is ready as it is, if it was applied so.
    pub(super) fn record_probed(&self, failing: Option<Unready>) {
        let (uid, content) = (&self.claim.owner.uid, &self.wanted.object);
        let ours = match self.decision {
            Decision::Create | Decision::Update | Decision::Adopt => true,
            Decision::Superseded | Decision::Collide(_) => false,
        };
        if let Some(live) = &self.live
            && ours
            && self.applied.is_current(uid, content, live)
        {
            self.applied.record_probed((uid, self.generation), content, live, failing);
        }
    }

    /// Writes the object and keeps what the API server returned. A write that met a concurrent one
    /// is decided anew on what is there now.
    pub(super) async fn write(&mut self) -> Result<(), kube::Error> {
        let mut attempt = 1;
        loop {
            match self.write_once().await {
                Ok(Some(live)) => {
                    self.applied.record(&self.claim.owner.uid, &self.wanted.object, &live);
                    self.live = Some(live);
                    return Ok(());
                }
                Ok(None) => return Ok(()),
                // Nobody has looked for it: it may be there already.
                Err(err) if (self.presumed || code(&err) == 409) && attempt < MAX_ATTEMPTS => {
                    attempt += 1;
                    self.refetch().await?;
                    if self.live.is_none() && code(&err) != 409 {
                        return Err(err);
                    }
                    if self.is_terminating() {
                        return Ok(());
                    }
                }
                Err(err) if is_lost_version(&err) && attempt < MAX_ATTEMPTS => {
                    attempt += 1;
                    self.try_in_one_version(err).await?;
                }
                // Without what we have written, what others have is refused.
                Err(err) if code(&err) == 422 && self.is_ours() && attempt < MAX_ATTEMPTS => {
                    attempt += 1;
                    self.try_as_manager(err).await?;
                }
                Err(err) => return Err(err),
            }
        }
    }

    /// Returns whether this revision, or another of its extension, controls the object.
    fn is_ours(&self) -> bool {
        self.live.as_ref().is_some_and(|live| self.claim.controls(live))
    }

    async fn refetch(&mut self) -> Result<(), kube::Error> {
        let live = self.endpoint.get(self.wanted.object.name()).await?;
        self.replaces &= uid(live.as_ref()) == uid(self.live.as_ref());
        self.live = live;
        self.presumed = false;
        self.decision = self.claim.decide(self.live.as_ref(), self.wanted.protection);
        Ok(())
    }

    /// Returns the object after the write, or `None` when nothing may be written any more.
    async fn write_once(&self) -> Result<Option<Object>, kube::Error> {
        let content = &self.wanted.object;
        match (&self.decision, &self.live) {
            (Decision::Create, _) => {
                let desired = desired_object(content, &self.claim.owner, None);
                self.endpoint.create(&desired, false).await.map(Some)
            }
            (Decision::Update | Decision::Adopt, Some(live)) if self.replaces => {
                tracing::info!(
                    object = content.identity().text(),
                    "replacing an object with immutable fields"
                );
                self.endpoint.delete(live).await?;
                let desired = desired_object(content, &self.claim.owner, None);
                self.endpoint.create(&desired, false).await.map(Some)
            }
            (Decision::Update | Decision::Adopt, Some(live)) => {
                let live = self.upgrade_managed_fields(live.clone()).await?;
                let live = self.take_applied_fields(live).await?;
                let desired = desired_object(content, &self.claim.owner, Some(&live));
                let force = self.decision == Decision::Adopt;
                let applied = match self.endpoint.apply(&desired, force).await {
                    Err(err) if is_field_conflict(&err) => {
                        self.endpoint.apply(&desired, true).await
                    }
                    answer => answer,
                };
                applied.map(Some)
            }
            (Decision::Superseded, Some(live)) if !has_owner(live, &self.claim.owner.uid) => {
                let references = with_owner(live, &self.claim.owner);
                let parts = [("/metadata/ownerReferences", references)];
                self.endpoint.replace(live, &parts).await?;
                Ok(None)
            }
            (Decision::Update | Decision::Adopt, None)
            | (Decision::Superseded | Decision::Collide(_), _) => Ok(None),
        }
    }

    /// Makes what we wrote by other means than apply part of our apply entry: without this, a field
    /// that a later version drops would never be pruned.
    async fn upgrade_managed_fields(&self, live: Object) -> Result<Object, kube::Error> {
        let others: &[&str] =
            if self.decision == Decision::Adopt { &EARLIER_MANAGERS } else { &[] };
        match upgrade_managed_fields(&live, manager::OBJECTS, others) {
            Some(fields) => {
                let parts = [("/metadata/managedFields", fields)];
                self.endpoint.replace(&live, &parts).await
            }
            None => Ok(live),
        }
    }

    /// Takes the fields of the bundle from those who managed an object that is taken over, before it is
    /// applied: that can be repeated. Of an object that nobody controls these are all: a field that they share
    /// would stay when a later version drops it.
    async fn take_applied_fields(&self, live: Object) -> Result<Object, kube::Error> {
        let former = controller(&live);
        let by_helm = former.as_ref().is_some_and(|it| it.kind == "ClusterExtension");
        let is_earlier = |name: &str| {
            former.is_none() || name == manager::NOBODY || by_helm && name == FIRST_MANAGER
        };
        let is_shared = live.list_at("/metadata/managedFields").any(|entry| {
            let name = entry["manager"].as_str().unwrap_or_default();
            name != manager::OBJECTS && is_earlier(name)
        });
        // The pull secrets of an account are known by whoever has written them.
        let is_account = live.kind() == "ServiceAccount";
        if self.decision != Decision::Adopt || !is_shared || is_account {
            return Ok(live);
        }
        let desired = desired_object(&self.wanted.object, &self.claim.owner, Some(&live));
        // A webhook may refuse to be asked by a dry run; whatever else fails, the apply tells.
        let Ok(applied) = self.endpoint.try_apply(&desired, manager::OBJECTS).await else {
            return Ok(live);
        };
        match take_applied_fields(&live, &applied, manager::OBJECTS, is_earlier) {
            Some(fields) => {
                let parts = [("/metadata/managedFields", fields)];
                match self.endpoint.replace(&live, &parts).await {
                    // What is there may be refused where what is applied is not.
                    Err(err) if code(&err) != 409 => Ok(live),
                    answer => answer,
                }
            }
            None => Ok(live),
        }
    }
}

/// Says whether a new object is refused by a quota that is just full and counts the one that is there.
/// Quotas are asked after everything else. Another one, which would refuse it, too, is not named: then the
/// object is made once that has room. Of a Service they may count more than it has now.
fn is_counted_twice(refusal: &str) -> bool {
    let counted = || {
        let (_, exceeded) = refusal.split_once("exceeded quota: ")?;
        let (requested, numbers) = exceeded.rsplit_once(", used: ")?;
        let (used, limited) = numbers.split_once(", limited: ")?;
        Some(used == limited && !requested.contains("services."))
    };
    counted().unwrap_or(false)
}

/// Returns whether the API server could not convert an object to a version in which somebody wrote it.
fn is_lost_version(err: &kube::Error) -> bool {
    let kube::Error::Api(status) = err else { return false };
    let text = &status.message;
    status.code == 500
        && (text.contains("to an invalid group/version") || text.contains("not declared in schema"))
}

fn refused_fields<'a>(err: &'a kube::Error) -> Vec<RefusedField<'a>> {
    let refused = |it: &'a StatusCause| RefusedField {
        field: &it.field,
        reason: &it.reason,
        message: &it.message,
    };
    causes(err).iter().map(refused).collect()
}

fn uid(live: Option<&Object>) -> Option<&Value> {
    live?.pointer("/metadata/uid")
}

/// Returns whether an apply was refused because other managers own fields of ours. A concurrent
/// write has the same status, but no causes.
fn is_field_conflict(err: &kube::Error) -> bool {
    code(err) == 409 && causes(err).iter().any(|cause| cause.reason == "FieldManagerConflict")
}

fn verdict(answer: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match answer {
        Err(err) if !is_no_verdict(&err) => Err(err),
        _ => Ok(()),
    }
}

/// A dry run that met a concurrent write, an object that just left, or a webhook that cannot be
/// asked says nothing about the object; the write itself will.
fn is_no_verdict(err: &kube::Error) -> bool {
    match err {
        kube::Error::Api(status) => status.code == 409 || status.message.contains(NO_DRY_RUN),
        _ => false,
    }
}
