//! Deleting revisions.
//!
//! Nothing is removed on the word of a copy that may be old: a revision that goes away is read
//! again, after its extension. An orphaning deletion is handed to Kubernetes as one. Only content
//! that is really gone ends the order of an uninstall.

use kube::api::DeleteParams;
use kube::{Api, Client, ResourceExt as _};
use olm_api::conditions::types;
use olm_api::{ClusterExtension, ClusterObjectSet};
use olm_core::revision::is_orphaned;
use olm_core::uninstall::BLOCKED;

use super::list::{list_abandoned, list_revisions};
use crate::cluster::delete_as_read;

/// The progress of the removal of an extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Teardown {
    /// No revision is left: the extension's finalizers may go.
    Done,
    /// Revisions are being taken down; what is waited for.
    Waiting(String),
    /// Nothing is taken down, because users' objects would go; how many, and the ways out.
    Blocked(String),
}

/// Starts or continues the removal of everything an extension that is being deleted has installed.
///
/// Deletes its revisions; their own reconciler takes them down in order. Where what they installed
/// is to stay, they are deleted so that Kubernetes itself keeps it, whatever becomes of us. To be
/// called in every reconcile of the extension until it returns [`Teardown::Done`].
pub async fn teardown_extension(
    client: &Client,
    extension: &ClusterExtension,
) -> Result<Teardown, kube::Error> {
    let mut revisions = list_revisions(client, extension).await?.revisions;
    let mut abandoned = list_abandoned(client, extension).await?;
    // The garbage collector takes the reference off a revision whose extension is orphaned.
    let orphans = is_orphaned(&extension.metadata) || !abandoned.is_empty();
    // A revision without reference must not live on.
    revisions.append(&mut abandoned);
    if revisions.is_empty() {
        return Ok(Teardown::Done);
    }
    for set in &revisions {
        if set.metadata.deletion_timestamp.is_none() {
            delete_revision(client, set, orphans).await?;
        }
    }
    let deleting = |set: &&ClusterObjectSet| set.metadata.deletion_timestamp.is_some();
    let progress: Vec<(&ClusterObjectSet, &str)> = revisions
        .iter()
        .filter(deleting)
        .filter_map(|set| Some((set, set.condition(types::PROGRESSING)?.message.as_str())))
        .collect();
    // The first in turn says it; the others wait for it, or say the same.
    let blocked = |(_, text): &&(_, &str)| text.starts_with(BLOCKED);
    if let Some((_, text)) = progress.iter().find(blocked) {
        return Ok(Teardown::Blocked((*text).to_owned()));
    }
    let waiting = progress.iter();
    let waiting: Vec<String> =
        waiting.map(|(set, text)| format!("{}: {text}", set.name_any())).collect();
    if waiting.is_empty() {
        return Ok(Teardown::Waiting("removing revisions".to_owned()));
    }
    Ok(Teardown::Waiting(waiting.join("\n")))
}

/// Deletes a revision if nobody replaced it meanwhile. Absent is success. With `orphans` Kubernetes
/// keeps what the revision owns, whatever becomes of its finalizer.
pub(crate) async fn delete_revision(
    client: &Client,
    set: &ClusterObjectSet,
    orphans: bool,
) -> Result<(), kube::Error> {
    let params = if orphans { DeleteParams::orphan() } else { DeleteParams::background() };
    let api = Api::<ClusterObjectSet>::all(client.clone());
    delete_as_read(&api, set, params, false).await.map(drop)
}
