//! Deleting revisions.
//!
//! Nothing is removed on the word of a copy that may be old: a revision that goes away is read
//! again, after its extension. An orphaning deletion is handed to Kubernetes as one. Only content
//! that is really gone ends the order of an uninstall.

use kube::api::DeleteParams;
use kube::{Api, Client, ResourceExt as _};
use olm_api::conditions::types;
use olm_api::{ClusterExtension, ClusterObjectSet, LifecycleState};
use olm_core::revision::is_orphaned;
use olm_core::uninstall::BLOCKED;

use super::list::{list_abandoned, list_revisions};
use crate::cluster::delete_as_read;

/// The progress of the removal of an extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Teardown {
    /// No revision is left: the extension's finalizers may go.
    Done,
    /// Kubernetes has let go of every revision, because what is installed is to stay: that has to be
    /// recorded on the extension first.
    Orphaned,
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
    let owned = list_revisions(client, extension).await?.revisions;
    let abandoned = list_abandoned(client, extension).await?;
    let remains = |set: &&ClusterObjectSet| set.metadata.deletion_timestamp.is_none();
    let orphans = is_orphaned(&extension.metadata);
    // The garbage collector takes the reference off every revision of an extension that is orphaned.
    // One alone may have lost it in a backup.
    let in_use = |set: &ClusterObjectSet| set.spec.lifecycle_state != LifecycleState::Archived;
    if !orphans && !owned.iter().any(in_use) && abandoned.iter().filter(remains).any(in_use) {
        return Ok(Teardown::Orphaned);
    }
    // A revision without reference must not live on. These go first, so that they are never all that
    // is left to be deleted of an extension whose objects go.
    for set in abandoned.iter().filter(remains) {
        delete_revision(client, set, true).await?;
    }
    for set in owned.iter().filter(remains) {
        delete_revision(client, set, orphans).await?;
    }
    let revisions = [owned, abandoned].concat();
    if revisions.is_empty() {
        return Ok(Teardown::Done);
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::Method;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use olm_api::{API_VERSION, ClusterExtensionSpec};
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::answering::answering;

    const OWNED: (bool, &str) = (true, "Active");
    const LOST: (bool, &str) = (false, "Active");

    fn revision(number: i64, (is_owned, state): (bool, &str)) -> Value {
        let owner = json!([{"apiVersion": API_VERSION, "kind": "ClusterExtension", "name": "e",
            "uid": "x", "controller": true}]);
        json!({"apiVersion": API_VERSION, "kind": "ClusterObjectSet",
            "metadata": {"name": format!("e-{number}"), "uid": format!("u{number}"),
                "labels": {"olm.operatorframework.io/owner-name": "e"},
                "ownerReferences": is_owned.then_some(owner)},
            "spec": {"revision": number, "lifecycleState": state,
                "collisionProtection": "Prevent"}})
    }

    // applying.md 7.3
    #[rstest]
    #[case::plain(&[OWNED, OWNED], false, &["e-1 Background", "e-2 Background"], false)]
    #[case::orphaning(&[OWNED], true, &["e-1 Orphan"], false)]
    #[case::orphaned_by_the_collector(&[LOST, LOST], false, &[], true)]
    #[case::that_is_recorded(&[LOST], true, &["e-1 Orphan"], false)]
    #[case::one_restored_without_owner(&[LOST, OWNED], false,
        &["e-1 Orphan", "e-2 Background"], false)]
    #[case::archived_ones_do_not_count(&[(true, "Archived"), LOST], false, &[], true)]
    #[case::archived_ones_are_not_lost(&[(false, "Archived"), OWNED], false,
        &["e-1 Orphan", "e-2 Background"], false)]
    #[tokio::test]
    async fn one_revision_without_owner_keeps_nothing_of_the_others(
        #[case] given: &[(bool, &str)],
        #[case] orphans: bool,
        #[case] deleted: &[&str],
        #[case] is_orphaned: bool,
    ) {
        let sets: Vec<_> =
            (1..).zip(given).map(|(number, given)| revision(number, *given)).collect();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        let client = answering(move |request| {
            if request.method() != Method::DELETE {
                return (200, json!({"metadata": {"resourceVersion": "1"}, "items": sets}));
            }
            let policy = request.body()["propagationPolicy"].as_str().unwrap();
            let name = request.uri().path().rsplit('/').next().unwrap_or_default();
            noted.lock().unwrap().push(format!("{name} {policy}"));
            (200, sets[0].clone())
        });
        let mut extension = ClusterExtension::new("e", ClusterExtensionSpec::default());
        extension.metadata.uid = Some("x".to_owned());
        extension.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        extension.metadata.finalizers = orphans.then(|| vec!["orphan".to_owned()]);
        let ended = teardown_extension(&client, &extension).await.unwrap();
        assert_eq!(*asked.lock().unwrap(), deleted);
        assert_eq!(ended == Teardown::Orphaned, is_orphaned);
    }
}
