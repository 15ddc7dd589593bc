//! Making the revision of the bundle that an extension is to have.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::runtime::events::EventType;
use olm_api::conditions::Reason;
use olm_api::keys::{self, annotation};
use olm_api::{ClusterObjectSet, LifecycleState};
use olm_core::error::Chain;
use olm_core::extension::holds::{
    self, Awaited, CrdUpgrades, Facts, Hold, Judged, Judgement, RbacPreflight, asks_for_approval,
};
use olm_core::extension::{
    Goal, Policy, RevisionSource, desired, forced_step, plan_digest, retagged,
};
use olm_core::guard;
use olm_core::object::Object;
use olm_core::render::CertificateRequest;
use olm_core::revision::{
    BundleRecord, Change, Desired, Origin, changed_by, is_of_classic, is_rolled_out, passed_over,
    states,
};
use olm_core::status::{Note, Statement};
use olm_image::Resolved;
use serde_json::Value;

use super::Attempt;
use super::certificates::Certificates;
use super::content::BundleContent;
use super::error::{ContentError, ExtensionError};
use crate::backoff::jittered;
use crate::pull_secrets::Offered;
use crate::revision::newest;

/// The interval of retries of an image that the running objects do not need.
const WITHOUT_IMAGE: Duration = Duration::from_mins(2);

/// The result of creating a revision.
#[derive(Debug, Default)]
pub(super) struct Enacted {
    /// The revisions afterwards, if there is another.
    pub(super) revisions: Option<Vec<ClusterObjectSet>>,
    /// The notes of `Ready`, which are warnings too.
    pub(super) notes: Vec<Note>,
    /// A note of `Ready` only: what has not happened yet.
    pub(super) pending: Option<Note>,
    /// Why nothing was made, if something holds it.
    pub(super) refused: Option<ExtensionError>,
    /// Condition `PermissionsSufficient`, if somebody looked.
    pub(super) permissions: Option<Statement>,
    /// When to reconcile again although nothing changes.
    pub(super) look_again: Option<Duration>,
    /// Whether the certificates of webhooks were maintained.
    pub(super) certificates_kept: bool,
    /// Whether the copies of pull secrets were maintained.
    pub(super) copies_kept: bool,
}

impl Enacted {
    /// Keeps the running revision.
    pub(super) fn kept(note: Note, look_again: Option<Duration>) -> Self {
        Self { notes: vec![note], look_again, ..Self::default() }
    }

    /// Keeps the running revision, because its image cannot be pulled, and retries.
    fn without_image(error: &ContentError) -> Self {
        let cause = Chain(error).to_string();
        tracing::info!(error = cause, "bundle unavailable, the revision is kept");
        let note = Note {
            reason: Reason::BundleUnavailable,
            message: format!("the installed bundle stays, and changes of the spec wait: {cause}"),
        };
        Self::kept(note, Some(jittered(WITHOUT_IMAGE)))
    }

    /// Reconciles again after `delay` at the latest, if there is one.
    pub(super) fn look_again_within(&mut self, delay: Option<Duration>) {
        self.look_again = self.look_again.into_iter().chain(delay).min();
    }
}

/// A revision and the certificates it needs.
pub(super) struct RevisionPlan<'a> {
    pub(super) policy: &'a Policy,
    pub(super) target: &'a BundleRecord,
    /// The installed objects, if more rights than theirs have to be approved.
    pub(super) present: Option<Vec<Object>>,
    pub(super) origin: Origin,
    pub(super) desired: Desired,
    pub(super) certificates: Certificates,
    pub(super) requests: &'a [CertificateRequest],
}

impl Attempt<'_> {
    /// Makes the revision of the goal, if it is not there.
    pub(super) async fn enact(
        &self,
        goal: &Goal,
        policy: &Policy,
    ) -> Result<Enacted, ExtensionError> {
        let target = &goal.target;
        let failed = ExtensionError::of_bundle(target);
        let newest =
            newest(self.revisions).filter(|newest| BundleRecord::of(newest).is_same_bundle(target));
        if newest.is_some_and(is_of_classic) {
            let (certificates_kept, copies_kept) = (true, true);
            return Ok(Enacted { certificates_kept, copies_kept, ..Enacted::default() });
        }
        let resolved = match self.resolved(target).await {
            Ok(resolved) => resolved,
            // What runs does not need its image: the newest revision holds its content.
            Err(error) if newest.is_some() && error.is_of_registry() => {
                return Ok(Enacted::without_image(&error));
            }
            Err(error) => return Err(failed(error)),
        };
        let recorded = newest.and_then(|set| set.annotation(annotation::BUNDLE_DIGEST));
        let offered = resolved.digest().to_string();
        if let Some(note) = retagged(policy, recorded, &offered) {
            return Ok(Enacted::kept(note, None));
        }
        if let Some(newest) = newest {
            let settled = Box::pin(self.keep_settled(newest, target, &resolved));
            if let Some(enacted) = settled.await.map_err(failed)? {
                return Ok(enacted);
            }
        }
        let (held, certificates) = match self.content(target, &resolved).await {
            Ok(both) => both,
            Err(error) if newest.is_some() && error.is_of_registry() => {
                return Ok(Enacted::without_image(&error));
            }
            Err(error) => return Err(failed(error)),
        };
        let provider = certificates.provider();
        let requests = held.content.certificate_requests.clone();
        let plan = RevisionPlan {
            policy,
            target,
            present: self.rights_before(target, policy).await.map_err(failed)?,
            origin: goal.origin(self.revisions),
            desired: self.desired(target, &resolved, &held.content),
            requests: &requests,
            certificates,
        };
        let made = self.write(plan).await.map_err(failed)?;
        // What is restored below waits for a turn of its own.
        drop(held);
        let enacted = Box::pin(self.made(made)).await;
        let quiet = enacted.permissions.is_none() && enacted.notes.is_empty();
        let changed = enacted.revisions.is_some() || enacted.refused.is_some();
        if let (true, false, Some(newest)) = (quiet, changed, newest) {
            self.note_settled(newest, target, &resolved, provider, requests);
            if let Err(error) = self.drop_release(newest).await {
                tracing::warn!(error = %Chain(&error), "Helm release not removed yet");
            }
        }
        Ok(enacted)
    }

    /// Announces a revision that was written; where what is there stays, restores what it has lost.
    pub(super) async fn made(&self, mut enacted: Enacted) -> Enacted {
        match &enacted.revisions {
            None if enacted.refused.is_some() => {}
            None => enacted.look_again_within(Box::pin(self.restore_content()).await),
            Some(revisions) => {
                self.ctx.revisions.wrote(self.extension.object, revisions);
                if let Some(newest) = revisions.last() {
                    self.announce(newest).await;
                }
            }
        }
        enacted
    }

    /// Returns whether writing a revision of `target` needs the approval of its plan, regardless of
    /// the extension.
    async fn takes_approval(
        &self,
        (policy, target): (&Policy, &BundleRecord),
        (desired, change): (&Desired, Change),
    ) -> Result<bool, ContentError> {
        if change == Change::Unchanged || !self.requires_approval().await? {
            return Ok(false);
        }
        let plan = plan_digest(self.extension, desired);
        let mut counted = Ok(());
        if policy.demand(target, None, true).allows(&plan) {
            // It counts if whoever wrote it was asked whether they may.
            counted = self.ctx.guard.admit(guard::Policy::Approve, false).await;
            if counted.is_ok() {
                return Ok(true);
            }
        }
        if self.carries_out(&plan, desired).await {
            return Ok(false);
        }
        Ok(counted.map(|()| true)?)
    }

    /// Returns whether the newest revision matches a plan already: it may differ in the CA of
    /// webhooks, or in the objects that may be taken over.
    async fn carries_out(&self, plan: &str, desired: &Desired) -> bool {
        let is_active =
            |set: &&ClusterObjectSet| set.spec.lifecycle_state == LifecycleState::Active;
        let Some(newest) = newest(self.revisions).filter(is_active) else { return false };
        let Ok(phases) = self.stored(newest).await else { return false };
        let annotations = newest.annotations().clone();
        let before = Desired { phases, annotations, ..desired.clone() };
        plan_digest(self.extension, &before) == plan
    }

    /// Reads the installed objects, if more rights than they give have to be approved for `target`.
    pub(super) async fn rights_before(
        &self,
        target: &BundleRecord,
        policy: &Policy,
    ) -> Result<Option<Vec<Object>>, ContentError> {
        let installed = states(self.revisions).installed;
        let asks = |set: &&ClusterObjectSet| {
            asks_for_approval(policy, Some(&BundleRecord::of(set)), target)
        };
        match installed.filter(asks) {
            Some(set) => {
                let phases = self.stored(set).await?.into_iter();
                Ok(Some(phases.flat_map(|phase| phase.objects).collect()))
            }
            None => Ok(None),
        }
    }

    fn desired(
        &self,
        target: &BundleRecord,
        resolved: &Resolved,
        content: &BundleContent,
    ) -> Desired {
        let source = RevisionSource {
            bundle: target,
            digest: &resolved.digest().to_string(),
            properties: content.properties.as_deref(),
            phases: &content.phases,
        };
        desired(self.extension, self.account, source)
    }

    /// Checks and writes a revision, its certificates before it, and removes certificates that it
    /// does not need.
    pub(super) async fn write(&self, plan: RevisionPlan<'_>) -> Result<Enacted, ContentError> {
        let RevisionPlan {
            policy,
            target,
            present,
            mut origin,
            mut desired,
            certificates,
            requests,
        } = plan;
        let provider = certificates.provider();
        let source = provider.as_ref().map(|provider| provider.source.to_string());
        let key = keys::policy::WEBHOOK_CERTIFICATES.to_owned();
        desired.annotations.extend(source.map(|source| (key, source)));
        let offered = self.offered_pull_secrets().await?;
        let record =
            offered.record().map(|names| (annotation::COPIED_PULL_SECRETS.to_owned(), names));
        desired.annotations.extend(record);
        let (known, revisions) = (&self.ctx.revisions, self.revisions);
        let change = known.plan(&desired, revisions).await?;
        let issued = if certificates.are_ours() { requests } else { &[] };
        let secrets = issued.iter().map(CertificateRequest::secret_object);
        let copies = offered.objects(&self.extension.spec.namespace);
        let secrets: Vec<Object> = secrets.chain(copies).collect();
        let (takes_approval, permissions, live, leaving) = tokio::join!(
            self.takes_approval((policy, target), (&desired, change)),
            self.judge_permissions((&desired, change), secrets),
            self.live_crds(&desired, change),
            self.leaving_crds(&desired, change),
        );
        let (takes_approval, live, leaving) = (takes_approval?, live?, leaving?);
        let empty = self.empty_crds(&desired, live.as_ref()).await;
        let installed = states(revisions).installed.map(BundleRecord::of);
        let check = |empty: &BTreeSet<String>| {
            self.check(&Facts {
                takes_approval,
                revision: Some((&desired, change)),
                present: present.as_deref(),
                permissions: permissions.as_ref().map(|judgement| self.judged(judgement)),
                crds: live.as_ref().map(|live| CrdUpgrades {
                    live,
                    empty,
                    leaving: &leaving,
                    waivers: &policy.waivers,
                    rules: holds::rules(self.extension, self.ctx.settings.crd_rules()),
                    now: Timestamp::now(),
                }),
                ..Facts::of(self.extension, policy, target, installed.as_ref())
            })
        };
        let checked = match check(&empty) {
            Ok(_) if !self.trim(&empty, live.as_ref()).await => check(&BTreeSet::new()),
            checked => checked,
        };
        let permissions = permissions.map(|found| found.statement(self.account));
        let notes = match checked {
            Ok(notes) => notes,
            Err(hold) => {
                let refused = self.refused(hold, target, (&desired, live.as_ref())).await;
                return Ok(Enacted { permissions, ..refused });
            }
        };
        if change != Change::Unchanged {
            let extension = self.extension.object;
            desired.record_waivers(extension.annotations());
            origin.changed_by = changed_by(extension);
            desired.annotations.extend(origin.annotations());
        }
        let written = (&desired, change);
        let enacted = self.write_allowed(written, (certificates, requests), &offered).await?;
        Ok(Enacted { notes, permissions, ..enacted })
    }

    /// Writes a revision that nothing holds, the Secrets that its pods need before it, and removes those
    /// that it does not need.
    async fn write_allowed(
        &self,
        (desired, change): (&Desired, Change),
        (certificates, requests): (Certificates, &[CertificateRequest]),
        offered: &Offered,
    ) -> Result<Enacted, ContentError> {
        let revisions = self.revisions;
        if change != Change::Unchanged {
            self.ctx.revisions.confirm(self.extension.object).await?;
        }
        let rolled_out = change == Change::Unchanged && is_rolled_out(revisions);
        let (ours, provider) = (certificates.are_ours(), certificates.provider());
        let issued = self.issue_certificates(certificates, rolled_out).await?;
        let next_copy = self.copy_pull_secrets(offered, rolled_out).await?;
        let made = self.ctx.revisions.write(desired, revisions, change).await?;
        if rolled_out {
            self.ctx.rendered.forget(&desired.extension.name);
        }
        let retired = self.retire_unneeded(provider.as_ref(), requests, rolled_out).await?;
        Ok(Enacted {
            revisions: made,
            look_again: issued.into_iter().chain(next_copy).min(),
            certificates_kept: ours || retired,
            copies_kept: true,
            ..Enacted::default()
        })
    }

    /// Keeps the running revision, because a new one is held.
    async fn refused(
        &self,
        mut hold: Hold,
        target: &BundleRecord,
        (desired, live): (&Desired, Option<&BTreeMap<String, Value>>),
    ) -> Enacted {
        if let Some(live) = live {
            self.add_evidence(&mut hold, (desired, live)).await;
        }
        let notes = vec![hold.note.clone()];
        let refused = Some(ExtensionError::of_bundle(target)(hold.into()));
        Enacted { notes, refused, ..Enacted::default() }
    }

    /// Looks for what holds a revision, and notes what it waits for then.
    fn check(&self, facts: &Facts<'_>) -> Result<Vec<Note>, Hold> {
        let checked = holds::first(facts);
        let awaits = checked.as_ref().err().and_then(|hold| hold.awaits);
        let of_crds = awaits == Some(Awaited::CustomResourceDefinitions);
        let name = self.extension.object.name_any();
        self.ctx.kept.refused.put(&name, of_crds.then_some(()));
        if checked.is_ok() {
            self.ctx.kept.evidence.put(&name, None);
        }
        checked
    }

    /// Makes anew the content that revisions have lost and still need: what is rendered from their
    /// bundle, if it is the same. Returns when to try again what could not be had.
    pub(super) async fn restore_content(&self) -> Option<Duration> {
        let error = Box::pin(self.try_restore_content()).await.err()?;
        let cause = Chain(&error).to_string();
        tracing::warn!(error = cause, "lost content of revisions cannot be restored");
        Some(jittered(WITHOUT_IMAGE))
    }

    async fn try_restore_content(&self) -> Result<(), ContentError> {
        let known = &self.ctx.revisions;
        for set in known.without_content(self.revisions).await? {
            let target = BundleRecord::of(set);
            let resolved = self.resolved(&target).await?;
            let (held, _) = Box::pin(self.content(&target, &resolved)).await?;
            let desired = self.desired(&target, &resolved, &held.content);
            known.complete_content(&desired, set).await?;
        }
        Ok(())
    }

    fn judged<'a>(&'a self, judgement: &'a Judgement) -> Judged<'a> {
        let enforced = self.ctx.settings.rbac_preflight == RbacPreflight::Enforce;
        Judged { judgement, account: self.account, enforced }
    }

    /// Publishes that there is a new revision.
    async fn announce(&self, made: &ClusterObjectSet) {
        let (revision, bundle) = (made.name_any(), BundleRecord::of(made));
        let Origin { catalog, forced_from, .. } = Origin::of(made);
        let version = &bundle.version;
        let forced = forced_from.is_some();
        tracing::info!(revision, version, forced, "revision created");
        let mut note = format!("revision {revision} of bundle {} created", bundle.name);
        if let Some(text) = passed_over(self.revisions, made) {
            note = format!("{note}: {text}");
        }
        let (reconciler, extension) = (&self.ctx.reconciler, self.extension.object);
        reconciler.publish(extension, EventType::Normal, Reason::RevisionCreated, note).await;
        let before = states(self.revisions).installed.map(Origin::of);
        let before = before.and_then(|origin| origin.catalog);
        if let (Some(before), Some(catalog)) = (before, catalog)
            && before != catalog
        {
            let note = format!(
                "{} comes from catalog {catalog}; the installed bundle came from catalog {before}",
                bundle.name
            );
            reconciler.publish(extension, EventType::Warning, Reason::CatalogChanged, note).await;
        }
        if let Some(from) = forced_from {
            let reason = forced_step(&from, version);
            let note = format!("from {from} to {version}, which no catalog edge allows");
            reconciler.publish(extension, EventType::Warning, reason, note).await;
        }
    }
}
