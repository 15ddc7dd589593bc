//! Taking revisions down: archiving, and the ordered removal of an extension.

use std::sync::PoisonError;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::runtime::events::EventType;
use kube::{Client, ResourceExt as _};
use olm_api::conditions::types;
use olm_api::keys::finalizer;
use olm_api::{ClusterExtension, ClusterObjectSet};
use olm_core::error::Chain;
use olm_core::object::Object;
use olm_core::revision::{
    Account, Outcome, Phase, archive_groups, object_text, removal_groups, states,
};
use olm_core::status::find;
use tokio::time::Instant;

use crate::account::{AccountError, GuardError};
use crate::apply::{Removed, Remover};
use crate::backoff::resync;

use super::content::{read_secrets, resolve};
use super::context::extension_reference;
use super::own::{delete_revision, has_finalizer, note_failure};
use super::reconcile::{Pass, Settled, owner_name};
use super::{Context, ExtensionState, ObjectSetError, list_revisions};

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
/// Objects that a message names.
const MAX_NAMED: usize = 10;

/// How far the removal of an extension is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Teardown {
    /// No revision is left: the extension's finalizers may go.
    Done,
    /// Revisions are being taken down; what is waited for.
    Waiting(String),
}

/// Starts or continues the removal of everything an extension that is being deleted has installed.
///
/// Deletes its revisions; their own reconciler takes them down in order. To be called on every
/// pass over the extension until it returns [`Teardown::Done`].
pub async fn teardown_extension(
    client: &Client,
    extension: &ClusterExtension,
) -> Result<Teardown, kube::Error> {
    let mut revisions = list_revisions(client, &extension.name_any()).await?;
    let uid = extension.metadata.uid.as_ref();
    // A revision without reference lost it to an orphaning deletion; it must not live on.
    revisions
        .retain(|set| extension_reference(set).is_none_or(|reference| Some(&reference.uid) == uid));
    if revisions.is_empty() {
        return Ok(Teardown::Done);
    }
    for set in &revisions {
        if set.metadata.deletion_timestamp.is_none() {
            delete_revision(client, set).await?;
        }
    }
    let waiting: Vec<String> = revisions
        .iter()
        .filter(|set| set.metadata.deletion_timestamp.is_some())
        .filter_map(|set| {
            let status = set.status.as_ref()?;
            let progressing = find(&status.conditions, types::PROGRESSING)?;
            Some(format!("{}: {}", set.name_any(), progressing.message))
        })
        .collect();
    if waiting.is_empty() {
        return Ok(Teardown::Waiting("removing revisions".to_owned()));
    }
    Ok(Teardown::Waiting(waiting.join("\n")))
}

/// Removes what an archived revision still controls.
pub(super) async fn archive(
    ctx: &Context,
    pass: &mut Pass,
    account: &Account,
) -> Result<Settled, ObjectSetError> {
    let archived = Settled {
        outcome: Some(Outcome::Archived),
        next: resync(),
        finished: true,
    };
    // The finalizer is put on before anything is applied.
    if !has_finalizer(&pass.set) {
        return Ok(archived);
    }
    ctx.accounts.require(account).await?;
    let phases = content(ctx, &pass.set, account).await?;
    let groups = archive_groups(&phases);
    if remove(ctx, &pass.set, account, &groups).await?.is_some() {
        return Ok(Settled {
            outcome: Some(Outcome::Archiving),
            next: LOOK_AGAIN,
            finished: false,
        });
    }
    tracing::info!("archived revision removed from the cluster");
    Ok(archived)
}

/// Takes a revision down that is being deleted.
pub(super) async fn delete(
    ctx: &Context,
    pass: &mut Pass,
    extension: &ExtensionState,
) -> Result<Settled, ObjectSetError> {
    let settled = |outcome, next, finished| Settled {
        outcome,
        next,
        finished,
    };
    if !has_finalizer(&pass.set) {
        return Ok(settled(None, resync(), false));
    }
    let orphans = is_orphaning(&pass.set, extension);
    // Deleted by hand while its extension lives: that is no uninstall, another revision follows.
    if matches!(extension, ExtensionState::Alive(_)) && !orphans {
        return Ok(settled(None, resync(), true));
    }
    if let Some(before) = predecessor(ctx, &pass.set).await? {
        let text = format!("waiting for revision {before}");
        return Ok(settled(Some(Outcome::Removing(text)), TURN, false));
    }
    match attempt(ctx, &pass.set, extension, orphans).await {
        Ok(None) => Ok(settled(None, resync(), true)),
        Ok(Some(text)) => Ok(settled(Some(Outcome::Removing(text)), LOOK_AGAIN, false)),
        Err(ObjectSetError::Ref { phase, cause }) => {
            // Without its content nothing can be ordered; owner references remove the objects.
            tracing::warn!(
                phase,
                cause,
                "content is gone, objects are left to the garbage collector"
            );
            Ok(settled(None, resync(), true))
        }
        Err(err) if is_identity_failure(&err) => {
            Ok(fall_back(ctx, &pass.set, extension, &err).await)
        }
        Err(err) => Err(err),
    }
}

/// Returns what is waited for, or `None` when nothing is left.
async fn attempt(
    ctx: &Context,
    set: &ClusterObjectSet,
    extension: &ExtensionState,
    orphans: bool,
) -> Result<Option<String>, ObjectSetError> {
    let account = ctx.identity(set, extension).await?;
    ctx.accounts.require(&account).await?;
    let phases = content(ctx, set, &account).await?;
    if orphans {
        let remover = remover(ctx, &account)?;
        let uid = set.uid().unwrap_or_default();
        for group in archive_groups(&phases) {
            remover.orphan(&uid, &group).await?;
        }
        return Ok(None);
    }
    remove(ctx, set, &account, &removal_groups(&phases)).await
}

async fn content(
    ctx: &Context,
    set: &ClusterObjectSet,
    account: &Account,
) -> Result<Vec<Phase>, ObjectSetError> {
    let client = ctx.accounts.client(account)?;
    let namespace = &ctx.settings.system_namespace;
    // Secrets that changed do not stop a removal: only what we control is deleted.
    let secrets = read_secrets(&ctx.client, &client, set, namespace).await;
    Ok(resolve(set, &secrets, namespace)?.plain())
}

fn remover(ctx: &Context, account: &Account) -> Result<Remover, ObjectSetError> {
    Ok(Remover {
        client: ctx.accounts.client(account)?,
        kinds: ctx.kinds.clone(),
    })
}

/// Removes groups one after the other. Returns what the first unfinished one waits for.
async fn remove(
    ctx: &Context,
    set: &ClusterObjectSet,
    account: &Account,
    groups: &[Vec<&Object>],
) -> Result<Option<String>, ObjectSetError> {
    let remover = remover(ctx, account)?;
    let uid = set.uid().unwrap_or_default();
    for group in groups {
        let remaining = remove_group(ctx, &remover, &uid, group).await?;
        if !remaining.is_empty() {
            return Ok(Some(describe(&remover, &remaining).await));
        }
    }
    Ok(None)
}

async fn remove_group(
    ctx: &Context,
    by: &Remover,
    uid: &str,
    group: &[&Object],
) -> Result<Vec<Object>, ObjectSetError> {
    let mut removed = by.remove(uid, group).await?;
    for _ in 0..QUICK_LOOKS {
        let now = Timestamp::now();
        removed
            .remaining
            .retain(|object| !is_overdue(ctx, object, now));
        if removed.is_done() {
            break;
        }
        for crd in removed.remaining.iter().filter(|object| is_crd(object)) {
            if let Err(err) = by.wake_stuck_crd(crd, now).await {
                note_failure("waking a CRD", &err);
            }
        }
        tokio::time::sleep(QUICK_LOOK).await;
        let Removed { remaining } = removed;
        let left: Vec<&Object> = remaining.iter().collect();
        removed = by.remove(uid, &left).await?;
    }
    Ok(removed.remaining)
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
        tracing::warn!(
            crd = object.name(),
            "instances remain, the CRD is left terminating"
        );
    }
    overdue
}

async fn describe(remover: &Remover, remaining: &[Object]) -> String {
    let mut texts = Vec::new();
    for object in remaining.iter().take(MAX_NAMED) {
        texts.push(if is_crd(object) {
            remover.instances(object).await
        } else {
            format!("waiting for {}", object_text(&object.identity()))
        });
    }
    if remaining.len() > MAX_NAMED {
        texts.push(format!("waiting for {} more", remaining.len() - MAX_NAMED));
    }
    texts.join("\n")
}

/// Says whether the objects are to be kept: the deletion of the revision or of its extension asks
/// for that. Of an extension only a trace may be left, the reference the garbage collector took
/// away.
fn is_orphaning(set: &ClusterObjectSet, extension: &ExtensionState) -> bool {
    let has = |finalizers: Option<&Vec<String>>| {
        finalizers.is_some_and(|all| all.iter().any(|name| name == finalizer::ORPHAN))
    };
    let of_extension = match extension {
        ExtensionState::Deleting(extension) => {
            has(extension.metadata.finalizers.as_ref()) || extension_reference(set).is_none()
        }
        ExtensionState::None | ExtensionState::Alive(_) | ExtensionState::Gone => false,
    };
    has(set.metadata.finalizers.as_ref()) || of_extension
}

/// Returns the revision that has to be taken down before this one: those never installed first,
/// newest first, the installed one last.
async fn predecessor(
    ctx: &Context,
    set: &ClusterObjectSet,
) -> Result<Option<String>, ObjectSetError> {
    let Some(owner) = owner_name(set) else {
        return Ok(None);
    };
    let all = list_revisions(&ctx.client, owner)
        .await
        .map_err(|err| ObjectSetError::own("listing revisions", err))?;
    let installed = states(&all)
        .installed
        .and_then(|found| found.metadata.uid.clone());
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
        | ObjectSetError::Ref { .. }
        | ObjectSetError::Blocked(_)
        | ObjectSetError::Own(..) => false,
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
) -> Settled {
    let text = Chain(err).to_string();
    let (attempts, first) = {
        let mut failing = ctx.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = failing
            .entry(set.uid().unwrap_or_default())
            .or_insert_with(|| (0, Instant::now()));
        entry.0 += 1;
        *entry
    };
    let enough = attempts >= ATTEMPTS && first.elapsed() >= ATTEMPTS_WITHIN;
    if !(ctx.settings.fall_back_to_gc && enough) {
        tracing::warn!(attempts, error = text, "account cannot remove its objects");
        return Settled {
            outcome: Some(Outcome::Failed(text)),
            next: ATTEMPT_EVERY,
            finished: false,
        };
    }
    tracing::warn!(error = text, "uninstall left to the garbage collector");
    let note = format!("objects are left to the garbage collector: {text}");
    ctx.event(
        set,
        extension,
        (EventType::Warning, "UninstallFallback", note),
    )
    .await;
    Settled {
        outcome: Some(Outcome::Failed(text)),
        next: resync(),
        finished: true,
    }
}
