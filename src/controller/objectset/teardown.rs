//! Taking a revision down: archived, uninstalled, or released.
//!
//! There is no finalizer but upstream's, so that a controller of upstream that takes over in the
//! middle leaves the rest to the garbage collector.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::runtime::events::EventType;
use olm_api::conditions::Reason;
use olm_api::keys::label;
use olm_api::{ClusterObjectSet, LifecycleState};
use olm_cluster::{RefCause, RefError, read_secrets, resolve};
use olm_core::error::Chain;
use olm_core::object::Object;
use olm_core::revision::{
    Outcome, archive_groups, defined_kinds, has_finalizer, has_orphan_finalizer, has_owner,
    has_succeeded, is_marked_orphaned, owner_name, removal_groups, states,
};
use olm_core::uninstall::UninstallPolicy;
use tokio::time::Instant;

use super::ended::Settled;
use super::extension_state::ExtensionState;
use super::{Attempt, ObjectSetError};
use crate::account::{AccountError, GuardError};
use crate::apply::{Crds, Kept, Removed, Remover, finalizers};
use crate::cluster::{RequestError, message};
use crate::revision::{
    delete_revision, known_siblings, mark_orphaned, remove_unowned_content, salvage,
};

/// The interval of checks of remaining objects whose end no watch reports.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The interval of checks whether it is a revision's turn.
const TURN: Duration = Duration::from_secs(1);
/// Most objects go within moments, so a reconcile waits this often, this long.
const QUICK_LOOKS: usize = 10;
const QUICK_LOOK: Duration = Duration::from_millis(200);
/// A removal is left to the garbage collector after three attempts over one minute of an account that
/// is refused, and after two over five seconds of one that is gone (applying.md 7.4).
const REFUSED: Patience =
    Patience { attempts: 3, within: Duration::from_secs(55), every: Duration::from_secs(30) };
const ABSENT: Patience =
    Patience { attempts: 2, within: Duration::from_secs(5), every: Duration::from_secs(5) };
/// The interval of checks whether the garbage collector has released the objects of a revision.
const RELEASE_LOOK: Duration = Duration::from_secs(2);
/// The interval of checks of a removal that waits for a person; a change of the extension wakes it.
const HOLD: Duration = Duration::from_mins(5);
/// Why a CRD stays: on archiving, on an uninstall, and when a revision is deleted by hand.
const NOT_PART: &str = "is not part of the new version; it is kept, because objects of it exist or \
     cannot be counted, and is no longer maintained";
const AS_THE_POLICY_ASKS: &str = "is kept with its objects, as the uninstall policy asks; an extension \
     of the same name takes it over again";
const BY_HAND: &str = "is kept with its objects although its revision was deleted; the next revision \
     takes it over again";
/// What else is said of a CRD that stays and whose versions differ.
const NOT_CONVERTED: &str = "; a webhook converts its objects, and without it they can be read only in \
     the version in which they are stored";
/// Objects that a message names.
const MAX_NAMED: usize = 10;

/// The time that an account has to remove its objects before the fallback.
struct Patience {
    attempts: u32,
    within: Duration,
    every: Duration,
}

impl Attempt<'_> {
    /// Removes what an archived revision still controls.
    pub(super) async fn archive(&self) -> Result<Settled, ObjectSetError> {
        // The finalizer is put on before anything is applied.
        if !has_finalizer(self.set) {
            return Ok(Settled::at_rest(Some(Outcome::Archived)).finished());
        }
        // Nothing is removed by a copy that may be old: in a backup the revision may be active.
        let live = self.ctx.read_again(self.set).await?;
        if live.is_none_or(|live| live.spec.lifecycle_state != self.set.spec.lifecycle_state) {
            return Ok(Settled::at_rest(None));
        }
        if self.take_down(Crds::KeptWithInstances).await?.is_some() {
            return Ok(Settled::again(Some(Outcome::Archiving), LOOK_AGAIN));
        }
        tracing::info!("archived revision removed from the cluster");
        Ok(Settled::at_rest(Some(Outcome::Archived)).finished())
    }

    /// Takes a revision down that is being deleted.
    pub(super) async fn delete(&self) -> Result<Settled, ObjectSetError> {
        let Self { ctx, set, extension } = *self;
        if !has_finalizer(set) {
            // All is done but what somebody else waits for, with whose finalizers it stays.
            let others = set.finalizers().join(", ");
            let text = format!("waiting for its finalizers [{others}]");
            let held = (!others.is_empty()).then_some(Outcome::Removing(text));
            return Ok(Settled::at_rest(held));
        }
        if let Some(text) = extension.removal_hold(set) {
            return Ok(Settled::again(Some(Outcome::Removing(text)), HOLD));
        }
        if is_marked_orphaned(&set.metadata) {
            return self.await_release().await;
        }
        match extension {
            ExtensionState::Orphaning(_) => return Ok(self.release().await),
            _ if has_orphan_finalizer(&set.metadata) => return Ok(self.release().await),
            ExtensionState::Alive(_) => return self.hand_over().await,
            ExtensionState::None | ExtensionState::Deleting(_) | ExtensionState::Gone => {}
        }
        let turn = |before: String| {
            let text = format!("waiting for revision {before}");
            Settled::again(Some(Outcome::Removing(text)), TURN)
        };
        // To wait, what the watch has brought is enough; what acts asks the API server.
        let known = known_siblings(&ctx.revisions, set);
        if let Some(before) = known.and_then(|all| predecessor(set, &all)) {
            return Ok(turn(before));
        }
        let siblings = ctx.list_siblings(set).await?;
        let policy = self.uninstall_policy(&siblings);
        if let Some((outcome, next)) = self.uninstall_block(policy, &siblings).await? {
            return Ok(Settled::again(Some(outcome), next));
        }
        if let Some(before) = predecessor(set, &ctx.list_siblings(set).await?) {
            return Ok(turn(before));
        }
        let crds = match policy {
            UninstallPolicy::RetainCrds => Crds::Kept,
            UninstallPolicy::Delete | UninstallPolicy::BlockIfInstances => Crds::Removed,
        };
        match self.take_down(crds).await {
            Err(err) if is_identity_failure(&err) => {
                // The garbage collector would take them, too.
                let loses_crds = policy == UninstallPolicy::RetainCrds
                    && !self.installed_crds(&siblings).await?.0.is_empty();
                let text = Chain(&err).to_string();
                match self.out_of_patience(&err) {
                    Some(next) => Ok(Settled::again(Some(Outcome::Failed(text)), next)),
                    None if loses_crds => self.leave_to_release(text).await,
                    None => Ok(self.fall_back(text).await),
                }
            }
            answer => {
                ctx.kept.failing.put(&set.uid().unwrap_or_default(), None);
                Ok(match answer? {
                    None => Settled::at_rest(None).finished(),
                    Some(text) => Settled::again(Some(Outcome::Removing(text)), LOOK_AGAIN),
                })
            }
        }
    }

    /// Says whether what a revision installed stays although somebody deletes the revision by hand:
    /// its extension lives, and no other revision has taken over. That is not an uninstall, and without
    /// owner the garbage collector would remove it, CRDs and their instances included.
    pub(super) async fn stays(&self) -> Result<bool, ObjectSetError> {
        let Self { ctx, set, extension } = *self;
        let lives = matches!(extension, ExtensionState::Alive(_));
        let active = set.spec.lifecycle_state == LifecycleState::Active;
        let held = has_finalizer(set) && !has_orphan_finalizer(&set.metadata);
        if !(lives && active && held && has_succeeded(set)) {
            return Ok(false);
        }
        Ok(!ctx.list_siblings(set).await?.iter().any(|one| {
            one.spec.revision > set.spec.revision && is_in_use(one) && has_succeeded(one)
        }))
    }

    /// Lets a revision go that was deleted by hand while its extension lives, and that need not stay.
    ///
    /// What was never rolled out goes to the garbage collector, as with upstream, with content that it
    /// does not own yet; only CRDs with objects are let go of first, for the next revision to take up.
    /// What another revision has taken over is archived.
    async fn hand_over(&self) -> Result<Settled, ObjectSetError> {
        let Self { ctx, set, .. } = *self;
        if set.spec.lifecycle_state == LifecycleState::Active && !has_succeeded(set) {
            if let Err(error) = self.keep_data().await {
                let text = format!(
                    "objects of its CRDs would be deleted with {}, and the CRDs cannot be released: {}; \
                     nothing is removed until they are, or another revision has taken them over",
                    set.name_any(),
                    Chain(&error)
                );
                tracing::warn!(error = text, "CRDs with objects not released yet");
                return Ok(Settled::again(Some(Outcome::Removing(text)), REFUSED.every));
            }
            let (name, namespace) = (set.name_any(), &ctx.settings.system_namespace);
            remove_unowned_content(&ctx.client, namespace, (label::REVISION_NAME, &name))
                .await
                .map_err(RequestError::doing("deleting content without an owner"))?;
            return Ok(Settled::at_rest(None).finished());
        }
        let settled = self.archive().await?;
        Ok(Settled { outcome: Some(Outcome::Archiving), ..settled })
    }

    /// Lets go of the CRDs of this revision that no other one owns which lives on, and that have objects, or
    /// may have some: with its end the garbage collector would delete them, and every object of theirs.
    /// The next revision of the extension takes them up.
    async fn keep_data(&self) -> Result<(), ObjectSetError> {
        let owners = self.set.uid().into_iter().collect();
        let mut crds = self.ctx.crds_of(&owners).await?;
        if !crds.is_empty() {
            // Of several that are deleted or replaced together, none keeps a CRD for the others.
            let heirs = self.heirs(is_in_use).await?;
            crds.retain(|crd| !heirs.iter().any(|heir| has_owner(crd, heir)));
        }
        if crds.is_empty() {
            return Ok(());
        }
        let remover = self.as_account(Crds::KeptWithInstances).await?;
        self.release_crds(&remover, (&owners, &crds), BY_HAND).await
    }

    /// Returns the UIDs of those other revisions of the extension to which goes back what they own as well.
    async fn heirs(
        &self,
        stays: impl Fn(&ClusterObjectSet) -> bool,
    ) -> Result<BTreeSet<String>, ObjectSetError> {
        let siblings = self.ctx.list_siblings(self.set).await?.into_iter();
        let heirs = siblings.filter(|other| other.uid() != self.set.uid() && stays(other));
        Ok(heirs.filter_map(|other| other.uid()).collect())
    }

    /// Lets go of those CRDs of these owners that stay.
    async fn release_crds(
        &self,
        remover: &Remover,
        (owners, crds): (&BTreeSet<String>, &[Object]),
        why: &str,
    ) -> Result<(), ObjectSetError> {
        for crd in crds {
            let kept = remover.keep_data(owners, crd).await?;
            self.tell_kept(why, kept.as_slice()).await;
        }
        Ok(())
    }

    /// Takes a revision off the objects it installed, which stay.
    ///
    /// The revision waits for that whatever fails: while one object still names it as owner, its end
    /// would be the object's end.
    async fn release(&self) -> Settled {
        match self.release_all().await {
            Ok(()) => {
                tracing::info!("objects released, they stay");
                Settled::at_rest(None).finished()
            }
            Err(err) => {
                let cause = Chain(&err).to_string();
                tracing::warn!(error = cause, "objects not released yet, nothing is removed");
                let way_out = match &err {
                    ObjectSetError::Ref(RefError { cause: RefCause::Lost(_), .. }) => {
                        "when no object names this revision as owner, remove its finalizers"
                    }
                    _ => "nothing is removed meanwhile",
                };
                let text = format!(
                    "installed objects stay, and must be released first: {cause}; {way_out}"
                );
                Settled::again(Some(Outcome::Removing(text)), REFUSED.every)
            }
        }
    }

    async fn release_all(&self) -> Result<(), ObjectSetError> {
        let Self { ctx, set, .. } = *self;
        let remover = self.as_account(Crds::Kept).await?;
        let namespace = &ctx.settings.system_namespace;
        let secrets = read_secrets(&ctx.client, &remover.client, set, namespace).await;
        let phases = resolve(set, &secrets, namespace)?.plain();
        for group in archive_groups(&phases) {
            remover.orphan(&group).await?;
        }
        let crds = ctx.crds_of(&set.uid().into_iter().collect()).await?;
        let unnamed: Vec<&Object> = crds.iter().collect();
        Ok(remover.orphan(&unnamed).await?)
    }

    /// Removes what a revision controls. Returns what the first unfinished group waits for.
    ///
    /// Where content is lost, what carries the label of the extension and names the revision is removed
    /// in the same order, as far as the account may list it. The garbage collector does the rest of an
    /// uninstall, but for CRDs that may have to stay, which are asked for by their owner; an archived
    /// revision waits, because nobody else knows what only it installed.
    ///
    /// Source: applying.md 3.9.
    async fn take_down(&self, crds: Crds) -> Result<Option<String>, ObjectSetError> {
        let Self { ctx, set, .. } = *self;
        let mut remover = self.as_account(crds).await?;
        let archives = crds == Crds::KeptWithInstances;
        match crds {
            // One that never became the installed one may have taken over what that needs.
            Crds::KeptWithInstances => remover.heirs = self.heirs(stays).await?,
            Crds::Kept => self.keep_all_data(&remover).await?,
            Crds::Removed => {}
        }
        let namespace = &ctx.settings.system_namespace;
        // Secrets that changed do not stop a removal: only what we control is deleted.
        let secrets = read_secrets(&ctx.client, &remover.client, set, namespace).await;
        let (phases, whole) = salvage(set, &secrets, namespace)?;
        let defined = if archives { Vec::new() } else { defined_kinds(&phases) };
        let mut unlisted = Vec::new();
        if let (false, Some(owner)) = (whole, owner_name(set)) {
            let found = remover.labelled(owner).await?;
            let groups = found.groups.iter();
            let groups: Vec<Vec<&Object>> = groups.map(|group| group.iter().collect()).collect();
            if let Some(text) = self.remove(&remover, &groups, &defined).await? {
                return Ok(Some(text));
            }
            unlisted = found.unlisted;
        }
        let mut groups = if archives { archive_groups(&phases) } else { removal_groups(&phases) };
        if let Some(text) = self.remove(&remover, &groups, &defined).await? {
            return Ok(Some(text));
        }
        if crds != Crds::Removed {
            let crds = ctx.crds_of(&set.uid().into_iter().collect()).await?;
            groups = vec![crds.iter().collect()];
            if let Some(text) = self.remove(&remover, &groups, &defined).await? {
                return Ok(Some(text));
            }
        }
        if archives && !unlisted.is_empty() {
            return Err(ObjectSetError::Unlisted(unlisted));
        }
        Ok(None)
    }

    /// Lets go of the CRDs of all revisions of the extension: those that go after this one may ask for less.
    async fn keep_all_data(&self, remover: &Remover) -> Result<(), ObjectSetError> {
        let siblings = self.ctx.list_siblings(self.set).await?;
        let owners = siblings.iter().chain([self.set]).filter_map(ResourceExt::uid).collect();
        let crds = self.ctx.crds_of(&owners).await?;
        self.release_crds(remover, (&owners, &crds), AS_THE_POLICY_ASKS).await
    }

    /// Removes groups one after the other; `defined` are the kinds of the revision's own CRDs. Returns
    /// what the first unfinished one waits for.
    async fn remove(
        &self,
        remover: &Remover,
        groups: &[Vec<&Object>],
        defined: &[(String, String)],
    ) -> Result<Option<String>, ObjectSetError> {
        let patience = CrdPatience { limit: self.ctx.settings.crd_timeout, defined };
        let why = match remover.crds {
            Crds::KeptWithInstances => NOT_PART,
            Crds::Kept | Crds::Removed => AS_THE_POLICY_ASKS,
        };
        for group in groups {
            let Removed { remaining, kept } = remove_group(&patience, remover, group).await?;
            self.tell_kept(why, &kept).await;
            if !remaining.is_empty() {
                return Ok(Some(describe(remover, &remaining).await));
            }
        }
        Ok(None)
    }

    /// Tells which CRDs stay for the data they hold.
    async fn tell_kept(&self, why: &str, kept: &[Kept]) {
        for crd in kept {
            let name = &crd.name;
            tracing::warn!(crd = name, "kept without the revision that created it");
            self.event(EventType::Warning, Reason::CrdRetained, kept_note(why, crd)).await;
        }
    }

    /// Counts a failure of the account. Returns `None` when it has had time enough, else when to try
    /// again.
    fn out_of_patience(&self, err: &ObjectSetError) -> Option<Duration> {
        let Self { ctx, set, .. } = *self;
        let patience = match err {
            ObjectSetError::Account(AccountError::NotFound(_)) => ABSENT,
            _ => REFUSED,
        };
        let mut failing = ctx.kept.failing.lock();
        let (attempts, first) =
            failing.entry(set.uid().unwrap_or_default()).or_insert_with(|| (0, Instant::now()));
        *attempts += 1;
        let enough = *attempts >= patience.attempts && first.elapsed() >= patience.within;
        let gives_up = enough && ctx.settings.fall_back_to_gc;
        if !gives_up {
            let (attempts, error) = (*attempts, Chain(err).to_string());
            tracing::warn!(attempts, error, "account cannot remove its objects");
        }
        (!gives_up).then_some(patience.every)
    }

    /// After enough failures of the account, the garbage collector, which has all rights, does the rest
    /// unordered.
    ///
    /// Source: applying.md 7.4.
    async fn fall_back(&self, text: String) -> Settled {
        tracing::warn!(error = text, "uninstall left to the garbage collector");
        let note = format!("objects are left to the garbage collector: {text}");
        self.event(EventType::Warning, Reason::UninstallFallback, note).await;
        Settled::at_rest(Some(Outcome::Failed(text))).finished()
    }

    /// After enough failures of the account, the garbage collector, which has all rights, takes the owner
    /// references off everything that the revision installed, so that it stays.
    ///
    /// Source: applying.md 7.4.
    async fn leave_to_release(&self, text: String) -> Result<Settled, ObjectSetError> {
        mark_orphaned(&self.ctx.client, self.set)
            .await
            .map_err(RequestError::doing("marking a revision whose objects stay"))?;
        tracing::warn!(error = text, "release of the objects left to the garbage collector");
        Ok(Settled::again(Some(Outcome::Removing(text)), RELEASE_LOOK))
    }

    /// Waits until the garbage collector has released what a revision installed, CRDs for certain.
    async fn await_release(&self) -> Result<Settled, ObjectSetError> {
        let Self { ctx, set, .. } = *self;
        let waiting = "waiting for the garbage collector to release the installed objects";
        let again = Settled::again(Some(Outcome::Removing(waiting.to_owned())), RELEASE_LOOK);
        if has_orphan_finalizer(&set.metadata) {
            return Ok(again);
        }
        if !ctx.crds_of(&[set.uid().unwrap_or_default()].into()).await?.is_empty() {
            delete_revision(&ctx.client, set, true)
                .await
                .map_err(RequestError::doing("having the garbage collector release objects"))?;
            return Ok(again);
        }
        let note = "the installed objects stay: the service account cannot remove them".to_owned();
        self.event(EventType::Warning, Reason::UninstallFallback, note).await;
        Ok(Settled::at_rest(None).finished())
    }
}

fn is_in_use(revision: &ClusterObjectSet) -> bool {
    revision.spec.lifecycle_state == LifecycleState::Active
        && revision.metadata.deletion_timestamp.is_none()
}

/// Returns whether a revision stays, so that what it owns as well goes back to it: one that is being
/// deleted does so only as what is installed.
fn stays(revision: &ClusterObjectSet) -> bool {
    let installed = has_finalizer(revision) && has_succeeded(revision);
    is_in_use(revision) || installed && revision.spec.lifecycle_state == LifecycleState::Active
}

/// Returns what is said of a CRD that stays.
fn kept_note(why: &str, Kept { name, needs_conversion }: &Kept) -> String {
    let conversion = if *needs_conversion { NOT_CONVERTED } else { "" };
    format!("{name} {why}{conversion}; kubectl delete crd {name} removes it with its objects")
}

async fn remove_group(
    patience: &CrdPatience<'_>,
    by: &Remover,
    group: &[&Object],
) -> Result<Removed, ObjectSetError> {
    let mut removed = by.remove(group).await?;
    for _ in 0..QUICK_LOOKS {
        let now = Timestamp::now();
        removed.remaining.retain(|object| !patience.ends(object, now));
        if removed.remaining.is_empty() {
            break;
        }
        for crd in removed.remaining.iter().filter(|object| is_crd(object)) {
            if let Err(err) = by.wake_stuck_crd(crd, now).await {
                tracing::debug!(error = message(&err), crd = crd.name(), "CRD not woken");
            }
        }
        tokio::time::sleep(QUICK_LOOK).await;
        let Removed { remaining, mut kept } = removed;
        let left: Vec<&Object> = remaining.iter().collect();
        removed = by.remove(&left).await?;
        kept.append(&mut removed.kept);
        removed.kept = kept;
    }
    Ok(removed)
}

fn is_crd(object: &Object) -> bool {
    object.kind() == "CustomResourceDefinition"
}

/// The time that the instances of CRDs have to go.
struct CrdPatience<'a> {
    /// `--uninstall-crd-timeout`.
    limit: Duration,
    /// The kinds, as (group, kind), whose objects have no more time than their CRD.
    defined: &'a [(String, String)],
}

impl CrdPatience<'_> {
    /// Returns whether an object that is held for too long no longer holds the rest: a CRD by its
    /// instances, or an instance by its finalizers.
    fn ends(&self, object: &Object, now: Timestamp) -> bool {
        let limit = SignedDuration::try_from(self.limit).unwrap_or(SignedDuration::MAX);
        let since = object.pointer("/metadata/deletionTimestamp");
        let since = since.and_then(|text| text.as_str()?.parse::<Timestamp>().ok());
        let mut defined = self.defined.iter();
        let is_instance =
            defined.any(|(group, kind)| group == object.group() && kind == object.kind());
        let overdue = (is_crd(object) || is_instance)
            && since.is_some_and(|since| now.duration_since(since) > limit);
        if overdue {
            let object = object.identity().text();
            tracing::warn!(object, "finalizers remain, it is left terminating");
        }
        overdue
    }
}

async fn describe(remover: &Remover, remaining: &[Object]) -> String {
    let mut texts = Vec::new();
    for object in remaining.iter().take(MAX_NAMED) {
        texts.push(if is_crd(object) {
            remover.instances(object).await
        } else {
            format!("waiting for {}{}", object.identity().text(), finalizers(object))
        });
    }
    if remaining.len() > MAX_NAMED {
        texts.push(format!("waiting for {} more", remaining.len() - MAX_NAMED));
    }
    texts.join("\n")
}

/// Returns which of all revisions of its extension has to be taken down before this one: those never
/// installed first, newest first, the installed one last.
fn predecessor(set: &ClusterObjectSet, all: &[ClusterObjectSet]) -> Option<String> {
    let installed = states(all).installed.and_then(|found| found.metadata.uid.clone());
    let turn = |one: &ClusterObjectSet| {
        let last = installed.is_some() && one.metadata.uid == installed;
        (last, -one.spec.revision)
    };
    let mine = turn(set);
    let before = all
        .iter()
        .filter(|one| one.metadata.uid != set.metadata.uid && has_finalizer(one))
        .filter(|one| one.metadata.deletion_timestamp.is_some())
        .find(|one| turn(one) < mine);
    before.map(ClusterObjectSet::name_any)
}

fn is_identity_failure(err: &ObjectSetError) -> bool {
    match err {
        ObjectSetError::Identity(_) | ObjectSetError::Guard(GuardError::Reserved(_)) => true,
        ObjectSetError::Account(err) => match err {
            AccountError::NotFound(_) | AccountError::Name(_) => true,
            AccountError::Lookup(_) => false,
        },
        // What admission refuses goes on being tried, whatever else fails.
        ObjectSetError::Apply(err) => err.is_forbidden() && !err.is_denied(),
        ObjectSetError::Guard(_)
        | ObjectSetError::Probe(_)
        | ObjectSetError::Ref(_)
        | ObjectSetError::Unlisted(_)
        | ObjectSetError::Blocked(_)
        | ObjectSetError::Request(_)
        | ObjectSetError::TooLong(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use olm_core::status::object_set;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::cluster::Kinds;
    use crate::cluster::answering::{answering, refusal};

    // applying.md 7.2
    #[rstest]
    #[case::instance("example.com/v1", "Foo", "00:11:00", true)]
    #[case::instance_in_time("example.com/v1", "Foo", "00:09:00", false)]
    #[case::same_kind_of_another_group("other.com/v1", "Foo", "00:11:00", false)]
    #[case::something_else("apps/v1", "Deployment", "00:11:00", false)]
    #[case::crd("apiextensions.k8s.io/v1", "CustomResourceDefinition", "00:11:00", true)]
    fn crds_and_their_instances_hold_an_uninstall_for_a_limited_time(
        #[case] api_version: &str,
        #[case] kind: &str,
        #[case] now: &str,
        #[case] ends: bool,
    ) {
        let defined = [("example.com".to_owned(), "Foo".to_owned())];
        let patience = CrdPatience { limit: Duration::from_mins(10), defined: &defined };
        let object = |metadata| {
            let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
            Object::from_value(object).unwrap()
        };
        let now = format!("2026-01-01T{now}Z").parse().unwrap();
        let held = object(json!({"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}));
        assert_eq!(patience.ends(&held, now), ends);
        assert!(!patience.ends(&object(json!({"name": "a"})), now));
    }

    // applying.md 7.2
    #[tokio::test]
    async fn a_removal_names_the_finalizers_it_waits_for() {
        let client = answering(|_| refusal(404));
        let kinds = Arc::new(Kinds::new(client.clone()));
        let (uid, owner, heirs) = Default::default();
        let remover = Remover { client, kinds, uid, owner, crds: Crds::Removed, heirs };
        let object = |finalizers| {
            let metadata = json!({"namespace": "n", "name": "a", "finalizers": finalizers});
            let object = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata});
            Object::from_value(object).unwrap()
        };
        let remaining = [object(json!(["example.com/a", "example.com/b"])), object(json!([]))];
        assert_eq!(
            describe(&remover, &remaining).await,
            "waiting for Service.v1 n/a [example.com/a, example.com/b]\nwaiting for Service.v1 n/a"
        );
    }

    // applying.md 7.2: what is deleted or archived beside a stuck revision keeps no CRD for it
    #[rstest]
    #[case::active("Active", false, (true, true))]
    #[case::archived("Archived", false, (false, false))]
    #[case::installed_and_deleted("Active", true, (false, true))]
    fn a_revision_keeps_what_another_leaves_while_it_stays(
        #[case] state: &str,
        #[case] deleted: bool,
        #[case] want: (bool, bool),
    ) {
        let deleted = deleted.then_some("2026-01-01T00:00:00Z");
        let set = json!({"metadata": {"name": "e-1", "deletionTimestamp": deleted,
                "finalizers": [olm_api::keys::finalizer::TEARDOWN]},
            "spec": {"revision": 1, "lifecycleState": state, "collisionProtection": "Prevent"}});
        let mut set: ClusterObjectSet = serde_json::from_value(set).unwrap();
        let conditions = &mut set.status.get_or_insert_default().conditions;
        object_set::succeeded().put(conditions, None, Timestamp::UNIX_EPOCH);
        assert_eq!((is_in_use(&set), stays(&set)), want);
    }

    // applying.md 3.9
    #[test]
    fn a_kept_crd_whose_objects_need_a_webhook_says_so() {
        let kept = |needs_conversion| {
            kept_note("stays", &Kept { name: "foos.example.com".to_owned(), needs_conversion })
        };
        let end = "; kubectl delete crd foos.example.com removes it with its objects";
        assert_eq!(kept(false), format!("foos.example.com stays{end}"));
        assert_eq!(kept(true), format!("foos.example.com stays{NOT_CONVERTED}{end}"));
    }
}
