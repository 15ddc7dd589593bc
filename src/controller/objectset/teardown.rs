//! Taking a revision down: archived, uninstalled, or released.

use std::sync::PoisonError;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use kube::runtime::events::EventType;
use olm_api::conditions::Reason;
use olm_api::keys::label;
use olm_api::{ClusterObjectSet, LifecycleState};
use olm_core::error::Chain;
use olm_core::object::Object;
use olm_core::revision::{
    Account, Outcome, archive_groups, has_finalizer, has_orphan_finalizer, has_succeeded,
    owner_name, removal_groups, states,
};
use olm_core::uninstall::UninstallPolicy;
use tokio::time::Instant;

use super::ended::Settled;
use super::observe::ExtensionState;
use super::{Context, ObjectSetError};
use crate::account::{AccountError, GuardError};
use crate::apply::{Crds, Removed, Remover};
use crate::cluster::{RequestError, message};
use crate::revision::{RefCause, RefError, read_secrets, remove_unowned_content, resolve, salvage};

/// How often remaining objects are looked at when no watch reports their end.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// How often a revision looks whether it is its turn.
const TURN: Duration = Duration::from_secs(1);
/// Most objects go within moments, so a pass waits this often, this long.
const QUICK_LOOKS: usize = 10;
const QUICK_LOOK: Duration = Duration::from_millis(200);
/// An uninstall is left to the garbage collector after so many failures of its account, no sooner
/// than this after the first (applying.md 7.4: three attempts over one minute).
const ATTEMPTS: u32 = 3;
const ATTEMPTS_WITHIN: Duration = Duration::from_secs(55);
const ATTEMPT_EVERY: Duration = Duration::from_secs(30);
/// How often the objects are counted that an uninstall waits for; nobody may watch them.
const BLOCKED_LOOK: Duration = Duration::from_secs(30);
/// How often a removal is looked at that waits for a person; the extension's change wakes it.
const HOLD: Duration = Duration::from_mins(5);
/// Objects that a message names.
const MAX_NAMED: usize = 10;

/// Removes what an archived revision still controls.
pub(super) async fn archive(
    ctx: &Context,
    set: &ClusterObjectSet,
    account: &Account,
    extension: &ExtensionState,
) -> Result<Settled, ObjectSetError> {
    // The finalizer is put on before anything is applied.
    if !has_finalizer(set) {
        return Ok(Settled::at_rest(Some(Outcome::Archived)).finished());
    }
    ctx.accounts.require(account).await?;
    let remains = take_down(ctx, set, account, Purpose::Archive(extension)).await?;
    if remains.is_some() {
        return Ok(Settled::again(Some(Outcome::Archiving), LOOK_AGAIN));
    }
    tracing::info!("archived revision removed from the cluster");
    Ok(Settled::at_rest(Some(Outcome::Archived)).finished())
}

/// Takes a revision down that is being deleted.
pub(super) async fn delete(
    ctx: &Context,
    set: &ClusterObjectSet,
    extension: &ExtensionState,
) -> Result<Settled, ObjectSetError> {
    if !has_finalizer(set) {
        return Ok(Settled::at_rest(None));
    }
    if let Some(text) = extension.removal_hold(set) {
        return Ok(Settled::again(Some(Outcome::Removing(text)), HOLD));
    }
    if has_orphan_finalizer(&set.metadata) || extension.is_orphaning() {
        return Ok(release(ctx, set, extension).await);
    }
    if matches!(extension, ExtensionState::Alive(_)) {
        return hand_over(ctx, set, extension).await;
    }
    let policy = ctx.uninstall_policy(set, extension);
    if let Some(text) = ctx.uninstall_block(set, extension, policy).await? {
        return Ok(Settled::again(Some(Outcome::Blocked(text)), BLOCKED_LOOK));
    }
    if let Some(before) = predecessor(ctx, set).await? {
        let text = format!("waiting for revision {before}");
        return Ok(Settled::again(Some(Outcome::Removing(text)), TURN));
    }
    match attempt(ctx, set, extension, policy).await {
        Err(err) if is_identity_failure(&err) => {
            let may = ctx.may_fall_back(set, extension, policy).await?;
            Ok(fall_back(ctx, set, extension, &err, may).await)
        }
        answer => {
            ctx.forgive(set);
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
pub(super) async fn stays(
    ctx: &Context,
    set: &ClusterObjectSet,
    extension: &ExtensionState,
) -> Result<bool, ObjectSetError> {
    let lives = matches!(extension, ExtensionState::Alive(_));
    let active = set.spec.lifecycle_state == LifecycleState::Active;
    let held = has_finalizer(set) && !has_orphan_finalizer(&set.metadata);
    if !(lives && active && held && has_succeeded(set)) {
        return Ok(false);
    }
    let siblings = ctx.list_siblings(set).await?;
    Ok(!siblings.iter().any(|one| {
        one.spec.revision > set.spec.revision
            && one.spec.lifecycle_state == LifecycleState::Active
            && one.metadata.deletion_timestamp.is_none()
            && has_succeeded(one)
    }))
}

/// Lets a revision go that was deleted by hand while its extension lives, and that need not stay.
///
/// What was never rolled out goes at once, as with upstream, with content that it does not own yet;
/// what another revision has taken over is archived.
async fn hand_over(
    ctx: &Context,
    set: &ClusterObjectSet,
    extension: &ExtensionState,
) -> Result<Settled, ObjectSetError> {
    if set.spec.lifecycle_state == LifecycleState::Active && !has_succeeded(set) {
        let (name, namespace) = (set.name_any(), &ctx.settings.system_namespace);
        remove_unowned_content(&ctx.client, namespace, (label::REVISION_NAME, &name))
            .await
            .map_err(RequestError::doing("deleting content without an owner"))?;
        return Ok(Settled::at_rest(None).finished());
    }
    let account = ctx.identity(set, extension).await?;
    let settled = archive(ctx, set, &account, extension).await?;
    Ok(settled.reporting(Outcome::Archiving))
}

/// Takes a revision off the objects it installed, which stay.
///
/// The revision waits for that whatever fails: while one object still names it as owner, its end
/// would be the object's end.
async fn release(ctx: &Context, set: &ClusterObjectSet, extension: &ExtensionState) -> Settled {
    match release_all(ctx, set, extension).await {
        Ok(()) => {
            tracing::info!("objects released, they stay");
            Settled::at_rest(None).finished()
        }
        Err(err) => {
            let cause = Chain(&err).to_string();
            tracing::warn!(error = cause, "objects not released yet, nothing is removed");
            let way_out = match &err {
                ObjectSetError::Ref(RefError { cause: RefCause::Lost(_), .. }) => {
                    "when no object names this revision as owner any more, remove its finalizers"
                }
                _ => "nothing is removed meanwhile",
            };
            let text = format!(
                "what was installed stays, and has to be released first: {cause}; {way_out}"
            );
            Settled::again(Some(Outcome::Removing(text)), ATTEMPT_EVERY)
        }
    }
}

async fn release_all(
    ctx: &Context,
    set: &ClusterObjectSet,
    extension: &ExtensionState,
) -> Result<(), ObjectSetError> {
    let account = ctx.identity(set, extension).await?;
    ctx.accounts.require(&account).await?;
    let namespace = &ctx.settings.system_namespace;
    let secrets = read_secrets(&ctx.client, &ctx.accounts.client(&account)?, set, namespace).await;
    let phases = resolve(set, &secrets, namespace)?.plain();
    let remover = remover(ctx, &account)?;
    let uid = set.uid().unwrap_or_default();
    for group in archive_groups(&phases) {
        remover.orphan(&uid, owner_name(set), &group).await?;
    }
    Ok(())
}

/// Returns what is waited for, or `None` when nothing is left.
async fn attempt(
    ctx: &Context,
    set: &ClusterObjectSet,
    extension: &ExtensionState,
    policy: UninstallPolicy,
) -> Result<Option<String>, ObjectSetError> {
    let account = ctx.identity(set, extension).await?;
    ctx.accounts.require(&account).await?;
    take_down(ctx, set, &account, Purpose::Uninstall(extension, policy)).await
}

/// Why objects of a revision are removed.
#[derive(Clone, Copy)]
enum Purpose<'a> {
    /// A later revision has taken over what it needs; this extension is told what is kept.
    Archive(&'a ExtensionState),
    /// Everything goes, but for CRDs that are to stay; this extension is told which.
    Uninstall(&'a ExtensionState, UninstallPolicy),
}

/// Removes what a revision controls. Returns what the first unfinished group waits for.
///
/// Where content is lost, what carries the label of the extension and names the revision is removed
/// in the same order, as far as the account may list it. The garbage collector does the rest of an
/// uninstall; an archived revision waits, because nobody else knows what only it installed.
///
/// Source: applying.md 3.9.
async fn take_down(
    ctx: &Context,
    set: &ClusterObjectSet,
    account: &Account,
    purpose: Purpose<'_>,
) -> Result<Option<String>, ObjectSetError> {
    let client = ctx.accounts.client(account)?;
    let namespace = &ctx.settings.system_namespace;
    // Secrets that changed do not stop a removal: only what we control is deleted.
    let secrets = read_secrets(&ctx.client, &client, set, namespace).await;
    let (phases, whole) = salvage(set, &secrets, namespace)?;
    let mut unlisted = Vec::new();
    if let (false, Some(owner)) = (whole, owner_name(set)) {
        let found = remover(ctx, account)?.labelled(owner).await?;
        let groups = found.groups.iter();
        let groups: Vec<Vec<&Object>> = groups.map(|group| group.iter().collect()).collect();
        if let Some(text) = remove(ctx, set, account, &groups, purpose).await? {
            return Ok(Some(text));
        }
        unlisted = found.unlisted;
    }
    let groups = match purpose {
        Purpose::Archive(_) => archive_groups(&phases),
        Purpose::Uninstall(..) => removal_groups(&phases),
    };
    let remains = remove(ctx, set, account, &groups, purpose).await?;
    match purpose {
        Purpose::Archive(_) if remains.is_none() && !unlisted.is_empty() => {
            Err(ObjectSetError::Unlisted(unlisted))
        }
        Purpose::Archive(_) | Purpose::Uninstall(..) => Ok(remains),
    }
}

fn remover(ctx: &Context, account: &Account) -> Result<Remover, ObjectSetError> {
    Ok(Remover {
        client: ctx.accounts.client(account)?,
        kinds: ctx.kinds.clone(),
        crds: Crds::Removed,
    })
}

/// Removes groups one after the other. Returns what the first unfinished one waits for.
async fn remove(
    ctx: &Context,
    set: &ClusterObjectSet,
    account: &Account,
    groups: &[Vec<&Object>],
    purpose: Purpose<'_>,
) -> Result<Option<String>, ObjectSetError> {
    let mut remover = remover(ctx, account)?;
    let owner = owner_name(set).map(str::to_owned);
    remover.crds = match purpose {
        Purpose::Archive(_) => Crds::KeptWithInstances(owner),
        Purpose::Uninstall(_, UninstallPolicy::RetainCrds) => Crds::Kept(owner),
        Purpose::Uninstall(..) => Crds::Removed,
    };
    let uid = set.uid().unwrap_or_default();
    for group in groups {
        let Removed { remaining, kept } = remove_group(ctx, &remover, &uid, group).await?;
        tell_kept(ctx, set, purpose, &kept).await;
        if !remaining.is_empty() {
            return Ok(Some(describe(&remover, &remaining).await));
        }
    }
    Ok(None)
}

/// Tells which CRDs stay for the data they hold.
async fn tell_kept(ctx: &Context, set: &ClusterObjectSet, purpose: Purpose<'_>, kept: &[String]) {
    let (extension, why) = match purpose {
        Purpose::Archive(extension) => (
            extension,
            "is not part of the new version; it is kept, because objects of it exist or cannot be \
             counted, and nobody maintains it any more",
        ),
        Purpose::Uninstall(extension, _) => (
            extension,
            "is kept with its objects, as the uninstall policy says; an extension of the same name \
             takes it up again",
        ),
    };
    for crd in kept {
        tracing::warn!(crd, "kept without the revision that made it");
        let note = format!("{crd} {why}; kubectl delete crd {crd} removes it with its objects");
        ctx.event(set, extension, (EventType::Warning, Reason::CrdRetained, note)).await;
    }
}

async fn remove_group(
    ctx: &Context,
    by: &Remover,
    uid: &str,
    group: &[&Object],
) -> Result<Removed, ObjectSetError> {
    let mut removed = by.remove(uid, group).await?;
    for _ in 0..QUICK_LOOKS {
        let now = Timestamp::now();
        removed.remaining.retain(|object| !is_overdue(ctx, object, now));
        if removed.is_done() {
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
        removed = by.remove(uid, &left).await?;
        kept.append(&mut removed.kept);
        removed.kept = kept;
    }
    Ok(removed)
}

fn is_crd(object: &Object) -> bool {
    object.kind() == "CustomResourceDefinition"
}

/// A CRD that its instances hold for too long no longer holds the rest.
fn is_overdue(ctx: &Context, object: &Object, now: Timestamp) -> bool {
    let limit = SignedDuration::try_from(ctx.settings.crd_timeout).unwrap_or(SignedDuration::MAX);
    let since = object.pointer("/metadata/deletionTimestamp");
    let since = since.and_then(|text| text.as_str()?.parse::<Timestamp>().ok());
    let overdue = is_crd(object) && since.is_some_and(|since| now.duration_since(since) > limit);
    if overdue {
        tracing::warn!(crd = object.name(), "instances remain, the CRD is left terminating");
    }
    overdue
}

async fn describe(remover: &Remover, remaining: &[Object]) -> String {
    let mut texts = Vec::new();
    for object in remaining.iter().take(MAX_NAMED) {
        texts.push(if is_crd(object) {
            remover.instances(object).await
        } else {
            format!("waiting for {}", object.identity().text())
        });
    }
    if remaining.len() > MAX_NAMED {
        texts.push(format!("waiting for {} more", remaining.len() - MAX_NAMED));
    }
    texts.join("\n")
}

/// Returns the revision that has to be taken down before this one: those never installed first,
/// newest first, the installed one last.
async fn predecessor(
    ctx: &Context,
    set: &ClusterObjectSet,
) -> Result<Option<String>, ObjectSetError> {
    let all = ctx.list_siblings(set).await?;
    let installed = states(&all).installed.and_then(|found| found.metadata.uid.clone());
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
    Ok(before.map(ClusterObjectSet::name_any))
}

fn is_identity_failure(err: &ObjectSetError) -> bool {
    match err {
        ObjectSetError::Identity(_) | ObjectSetError::Guard(GuardError::Reserved(_)) => true,
        ObjectSetError::Account(err) => match err {
            AccountError::NotFound(_) | AccountError::Name(_) => true,
            AccountError::Lookup(_) => false,
        },
        ObjectSetError::Apply(err) => err.is_forbidden(),
        ObjectSetError::Guard(_)
        | ObjectSetError::Ref(_)
        | ObjectSetError::Unlisted(_)
        | ObjectSetError::Blocked(_)
        | ObjectSetError::Request(_)
        | ObjectSetError::TooLong(_) => false,
    }
}

/// Counts a failure of the account; after enough of them the garbage collector, which has all
/// rights, does the rest unordered.
///
/// Source: applying.md 7.4.
async fn fall_back(
    ctx: &Context,
    set: &ClusterObjectSet,
    extension: &ExtensionState,
    err: &ObjectSetError,
    may: bool,
) -> Settled {
    let text = Chain(err).to_string();
    let (attempts, first) = {
        let mut failing = ctx.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let entry =
            failing.entry(set.uid().unwrap_or_default()).or_insert_with(|| (0, Instant::now()));
        entry.0 += 1;
        *entry
    };
    let enough = attempts >= ATTEMPTS && first.elapsed() >= ATTEMPTS_WITHIN;
    if !(ctx.settings.fall_back_to_gc && may && enough) {
        tracing::warn!(attempts, error = text, "account cannot remove its objects");
        return Settled::again(Some(Outcome::Failed(text)), ATTEMPT_EVERY);
    }
    tracing::warn!(error = text, "uninstall left to the garbage collector");
    let note = format!("objects are left to the garbage collector: {text}");
    ctx.event(set, extension, (EventType::Warning, Reason::UninstallFallback, note)).await;
    Settled::at_rest(Some(Outcome::Failed(text))).finished()
}
