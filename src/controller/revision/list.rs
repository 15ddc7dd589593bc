//! Which revisions belong together: those of one extension, told by the UID it had when it made
//! them. The label with its name only finds them; anybody can write it.

use kube::api::ListParams;
use kube::core::DeserializeGuard;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use olm_api::keys::label;
use olm_api::{ClusterExtension, ClusterObjectSet};
use olm_core::revision::{extension_reference, owner_name, sort};

/// Lists the revisions of an extension, sorted by number, straight from the API server.
///
/// A revision that cannot be read is an error: its number must not be used twice.
pub async fn list_revisions(
    client: &Client,
    extension: &ClusterExtension,
) -> Result<Vec<ClusterObjectSet>, kube::Error> {
    let uid = extension.metadata.uid.as_deref();
    labelled(client, &extension.name_any(), |reference| {
        uid.is_some() && reference == uid
    })
    .await
}

/// Lists what looks like a revision of the extension and has lost the reference to it, as happens
/// when the extension is deleted and what it installed is to stay.
pub(super) async fn list_abandoned(
    client: &Client,
    extension: &ClusterExtension,
) -> Result<Vec<ClusterObjectSet>, kube::Error> {
    let mut found = labelled(client, &extension.name_any(), |reference| {
        reference.is_none()
    })
    .await?;
    let made = |set: &ClusterObjectSet| {
        let kind = set.labels().get(label::OWNER_KIND);
        kind.is_some_and(|kind| kind == label::OWNER_KIND_EXTENSION)
    };
    found.retain(made);
    Ok(found)
}

/// Lists a revision and those that belong together with it: of the same extension, or with the same
/// label and of none.
pub async fn list_siblings(
    client: &Client,
    set: &ClusterObjectSet,
) -> Result<Vec<ClusterObjectSet>, kube::Error> {
    let Some(owner) = owner_name(set) else {
        return Ok(Vec::new());
    };
    let uid = extension_reference(&set.metadata).map(|reference| reference.uid.clone());
    labelled(client, owner, |reference| reference == uid.as_deref()).await
}

/// Lists the revisions with the label of `extension` whose reference to an extension, by UID,
/// passes.
async fn labelled(
    client: &Client,
    extension: &str,
    passes: impl Fn(Option<&str>) -> bool,
) -> Result<Vec<ClusterObjectSet>, kube::Error> {
    let api = Api::<DeserializeGuard<ClusterObjectSet>>::all(client.clone());
    let labels = ListParams::default().labels(&format!("{}={extension}", label::OWNER_NAME));
    let list = api.list(&labels).await?;
    let mut revisions = Vec::with_capacity(list.items.len());
    for guarded in list.items {
        let name = guarded.name_any();
        let reference = extension_reference(guarded.meta()).map(|found| found.uid.as_str());
        if !passes(reference) {
            continue;
        }
        let read = guarded.0.map_err(|err| {
            kube::Error::Service(format!("ClusterObjectSet {name} cannot be read: {err}").into())
        })?;
        revisions.push(read);
    }
    sort(&mut revisions);
    Ok(revisions)
}
