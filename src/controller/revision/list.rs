//! Which revisions belong together: those of one extension, as [`Kin`] tells. The label with its
//! name only finds them.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::api::ObjectMeta;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::reflector::Store;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use olm_api::keys::label;
use olm_api::{ClusterExtension, ClusterObjectSet};
use olm_core::revision::{Extension, Kin, fits_label, is_made_for, mislabelled, owner_name, sort};

#[derive(Debug)]
pub(super) struct Listed {
    pub version: String,
    /// The revisions, sorted by number.
    pub revisions: Vec<ClusterObjectSet>,
}

/// Lists the revisions of an extension, straight from the API server.
///
/// A revision that cannot be read is an error: its number must not be used twice.
pub(super) async fn list_revisions(
    client: &Client,
    extension: &ClusterExtension,
) -> Result<Listed, kube::Error> {
    labelled(client, &extension.name_any(), of_extension(extension)).await
}

/// Returns a predicate for revisions of an extension.
pub(super) fn of_extension(extension: &ClusterExtension) -> impl Fn(Kin<'_>) -> bool + use<> {
    let extension = Extension::of(extension);
    move |kin| kin.is_of(&extension)
}

/// Lists the revisions of the extension that have lost the reference to it, as happens when the
/// extension is deleted and what it installed is to stay.
pub(super) async fn list_abandoned(
    client: &Client,
    extension: &ClusterExtension,
) -> Result<Vec<ClusterObjectSet>, kube::Error> {
    let name = extension.name_any();
    let mut found = labelled(client, &name, |kin| kin == Kin::Unowned).await?.revisions;
    found.retain(|set| is_made_for(set.meta(), &name, Some(set.spec.revision)));
    Ok(found)
}

/// Lists a revision and those that belong together with it: of the same extension, or with the same
/// label and of none. A set that is of an extension only by what it says is with nobody.
pub async fn list_siblings(
    client: &Client,
    set: &ClusterObjectSet,
) -> Result<Vec<ClusterObjectSet>, kube::Error> {
    let Some(owner) = owner_name(set) else { return Ok(Vec::new()) };
    let own = Kin::of(set.meta(), Some(set.spec.revision));
    Ok(labelled(client, owner, |kin| own.is_with(kin)).await?.revisions)
}

/// The same, of what a watch has brought; nothing while that is not everything, or cannot be
/// understood.
pub fn known_siblings(
    store: &Store<DeserializeGuard<ClusterObjectSet>>,
    set: &ClusterObjectSet,
) -> Option<Vec<ClusterObjectSet>> {
    store.wait_until_ready().now_or_never()?.ok()?;
    let Some(owner) = owner_name(set) else { return Some(Vec::new()) };
    let own = Kin::of(set.meta(), Some(set.spec.revision));
    let found = labelled_in(store, owner).into_iter().map(Arc::unwrap_or_clone);
    select(found, |kin| own.is_with(kin)).ok()
}

/// Returns the UIDs of the revisions of another extension with the same name, which is deleted, of
/// what a watch has brought.
pub fn known_strangers(
    store: &Store<DeserializeGuard<ClusterObjectSet>>,
    set: &ClusterObjectSet,
) -> BTreeSet<String> {
    let own = Kin::of(set.meta(), Some(set.spec.revision));
    let mut found = owner_name(set).map_or_else(Vec::new, |owner| labelled_in(store, owner));
    let is_extension = |it: Kin<'_>| it.extension().is_some();
    found.retain(|other| is_extension(own) && is_extension(kin(other)) && !own.is_with(kin(other)));
    found.iter().filter_map(|other| other.uid()).collect()
}

/// Returns what a set belongs to, also one that cannot be read.
fn kin(set: &DeserializeGuard<ClusterObjectSet>) -> Kin<'_> {
    Kin::of(set.meta(), set.0.as_ref().ok().map(|set| set.spec.revision))
}

/// Returns the revisions in a store that have the label of an extension.
pub fn labelled_in(
    store: &Store<DeserializeGuard<ClusterObjectSet>>,
    extension: &str,
) -> Vec<Arc<DeserializeGuard<ClusterObjectSet>>> {
    let mut found = store.state();
    found.retain(|guarded| {
        let owner = guarded.labels().get(label::OWNER_NAME);
        owner.is_some_and(|owner| owner == extension)
    });
    found
}

/// Lists the sets with the label of `extension` whose kin passes.
async fn labelled(
    client: &Client,
    extension: &str,
    passes: impl Fn(Kin<'_>) -> bool,
) -> Result<Listed, kube::Error> {
    if !fits_label(extension) {
        // No revision can name it.
        return Ok(Listed { version: String::new(), revisions: Vec::new() });
    }
    let api = Api::<DeserializeGuard<ClusterObjectSet>>::all(client.clone());
    let labels = ListParams::default().labels(&format!("{}={extension}", label::OWNER_NAME));
    let list = api.list(&labels).await?;
    Ok(Listed {
        version: list.metadata.resource_version.unwrap_or_default(),
        revisions: select(list.items, passes)?,
    })
}

/// Returns those whose kin passes, sorted by number.
pub(super) fn select(
    all: impl IntoIterator<Item = DeserializeGuard<ClusterObjectSet>>,
    passes: impl Fn(Kin<'_>) -> bool,
) -> Result<Vec<ClusterObjectSet>, kube::Error> {
    let mut revisions = Vec::new();
    for guarded in all {
        let name = guarded.name_any();
        if !passes(kin(&guarded)) {
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

/// Returns whether a set is a revision of an extension, also one whose label has been taken off or
/// changed and that gets it back.
pub(super) fn is_of(set: &DeserializeGuard<ClusterObjectSet>, extension: &Extension) -> bool {
    let unlabelled = set.0.as_ref().ok().and_then(mislabelled);
    kin(set).is_of(extension) || unlabelled.is_some_and(|owner| owner.uid == extension.uid)
}

/// Returns whether a Secret belongs to the revision with this metadata.
pub(super) fn is_owned(secret: &PartialObjectMeta<Secret>, set: &ObjectMeta) -> bool {
    let mut owners = secret.metadata.owner_references.iter().flatten();
    owners.any(|owner| Some(&owner.uid) == set.uid.as_ref())
}
