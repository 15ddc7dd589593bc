//! The revisions as the watch of this process brings them.
//!
//! One watch serves both reconcilers, so that a reconcile of a settled extension asks the API
//! server nothing. It wakes extensions itself, after what they will read is there. What this
//! process has written and the watch has not brought yet is read from the API server, as is
//! everything before a removal or an adoption.
//!
//! The same order holds for all stores that reconciles read (`cluster::stored`): into the store, then
//! the wake-up, and after a list all of it.

use std::collections::HashMap;
use std::sync::Arc;

use futures::channel::mpsc;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::reflector::{self, ObjectRef, Store, store::Writer};
use kube::runtime::watcher;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use olm_api::keys::label;
use olm_api::{ClusterExtension, ClusterObjectSet};
use olm_core::extension::left_version;
use olm_core::revision::{Extension, installed, referenced_secrets, states};
use olm_core::version::Version;
use tokio::sync::Notify;

use super::list::{is_owned, labelled_in, list_revisions, of_extension, select};
use crate::by_key::ByKey;
use crate::cluster::is_complete;

/// The kind as it is watched: one object that cannot be read does not stop the others.
pub(super) type Guarded = DeserializeGuard<ClusterObjectSet>;
type Crd = PartialObjectMeta<CustomResourceDefinition>;

/// The revisions on the cluster. Shared by both reconcilers.
pub struct KnownRevisions {
    pub(super) client: Client,
    /// The namespace of the Secrets with their content.
    pub(super) system_namespace: String,
    /// The revisions, as the watch brings them.
    pub store: Store<Guarded>,
    /// The Secrets with their content, as the watch brings them.
    pub contents: Store<PartialObjectMeta<Secret>>,
    crds: Store<Crd>,
    /// Takes the names of extensions whose revisions have changed.
    touched: mpsc::UnboundedSender<String>,
    /// Told of every change of `store`.
    pub changed: Arc<Notify>,
    /// What stood on the cluster after this process had written, by UID of the extension; nothing that a
    /// watch has brought counts where that is not known.
    written: ByKey<Option<Versions>>,
}

/// The versions of revisions at a moment.
#[derive(Debug, PartialEq, Eq)]
struct Versions {
    /// Of the list, or of what was written last.
    all: String,
    /// Of each, by name.
    each: HashMap<String, String>,
}

/// The writers for the watches.
pub struct Feed {
    pub revisions: Writer<Guarded>,
    /// The Secrets with their content.
    pub contents: Writer<PartialObjectMeta<Secret>>,
    pub crds: Writer<Crd>,
    /// What they are read from, told of every change once it is written.
    pub known: Arc<KnownRevisions>,
}

impl KnownRevisions {
    /// Returns an empty state, the writer for the watches, and the names of extensions whose
    /// revisions have changed.
    pub fn new(
        client: Client,
        system_namespace: String,
    ) -> (Arc<Self>, Feed, mpsc::UnboundedReceiver<String>) {
        let (store, of_revisions) = reflector::store();
        let (contents, of_contents) = reflector::store();
        let (crds, of_crds) = reflector::store();
        let (touched, names) = mpsc::unbounded();
        let known = Arc::new(Self {
            client,
            system_namespace,
            store,
            contents,
            crds,
            touched,
            changed: Arc::default(),
            written: ByKey::default(),
        });
        let feed = Feed {
            revisions: of_revisions,
            contents: of_contents,
            crds: of_crds,
            known: Arc::clone(&known),
        };
        (known, feed, names)
    }

    /// Returns the revisions of an extension, sorted by number.
    ///
    /// # Errors
    /// Fails when they have to be read from the API server, and that fails. A revision that cannot
    /// be understood is an error: its number must not be used twice.
    pub async fn of(
        &self,
        extension: &ClusterExtension,
    ) -> Result<Vec<ClusterObjectSet>, kube::Error> {
        if let Some(known) = self.fresh(extension).await {
            return Ok(known);
        }
        let uid = extension.uid().unwrap_or_default();
        if !self.written.lock().contains_key(&uid) {
            return Ok(list_revisions(&self.client, extension).await?.revisions);
        }
        // Whatever becomes of the list: until there is one, nothing that the watch brought counts.
        self.written.put(&uid, Some(None));
        let listed = list_revisions(&self.client, extension).await?;
        let versions = Versions::of(listed.version, &listed.revisions);
        self.written.put(&uid, Some(Some(versions)));
        Ok(listed.revisions)
    }

    /// Returns the installed revision of each extension that is not being removed, by its name; `own`
    /// are the revisions of the one that asks. A revision that cannot be read is ignored.
    pub async fn installed(
        &self,
        extensions: &Store<DeserializeGuard<ClusterExtension>>,
        (asking, own): (&str, &[ClusterObjectSet]),
    ) -> Vec<(String, ClusterObjectSet)> {
        // They fail when the process ends.
        let _ = tokio::join!(self.store.wait_until_ready(), extensions.wait_until_ready());
        let sets = self.store.state();
        let known = installed(sets.iter().filter_map(|set| set.0.as_ref().ok()));
        let mut found = Vec::new();
        for extension in extensions.state() {
            let (name, meta) = (extension.name_any(), extension.meta());
            if meta.deletion_timestamp.is_some() {
                continue;
            }
            let set = if name == asking {
                states(own).installed.cloned()
            } else if let Ok(extension) = &extension.0
                && self.is_behind(extension).await
                && let Ok(listed) = list_revisions(&self.client, extension).await
            {
                states(&listed.revisions).installed.cloned()
            } else {
                let uid = meta.uid.clone().unwrap_or_default();
                known.get(&Extension { name: name.clone(), uid }).copied().cloned()
            };
            found.extend(set.map(|set| (name, set)));
        }
        found
    }

    /// Returns whether the watch has not brought yet what this process has written.
    async fn is_behind(&self, extension: &ClusterExtension) -> bool {
        let uid = extension.uid().unwrap_or_default();
        self.written.lock().contains_key(&uid) && self.fresh(extension).await.is_none()
    }

    /// Notes that these are the revisions of an extension after this process has written the last of
    /// them.
    pub fn wrote(&self, extension: &ClusterExtension, revisions: &[ClusterObjectSet]) {
        let version = revisions.last().and_then(kube::ResourceExt::resource_version);
        let versions = Versions::of(version.unwrap_or_default(), revisions);
        let uid = extension.uid().unwrap_or_default();
        self.written.put(&uid, Some(Some(versions)));
    }

    /// Lists the revisions of the extension with this UID the next time, because the watch may not have
    /// brought all of them: one is about to be made, or was made since they were read.
    pub(super) fn list_next_time(&self, extension: &str) {
        self.written.put(extension, Some(None));
    }

    /// Returns the set of this name, whether it is a revision of an extension or not. A set from the
    /// watch may be gone, so it is read again.
    pub(super) async fn named(&self, name: &str) -> Result<Option<Guarded>, kube::Error> {
        if self.store.get(&ObjectRef::new(name)).is_none() {
            return Ok(None);
        }
        Api::<Guarded>::all(self.client.clone()).get_opt(name).await
    }

    /// Returns whether all content of a revision is known to exist and to belong to it.
    pub async fn has_content(&self, set: &ClusterObjectSet) -> bool {
        if !is_complete(&self.contents).await {
            return false;
        }
        let namespace = &self.system_namespace;
        let referenced = referenced_secrets(&set.spec, namespace);
        referenced.iter().filter(|(place, _)| place == namespace).all(|(place, name)| {
            let secret = self.contents.get(&ObjectRef::new(name).within(place));
            secret.is_some_and(|secret| is_owned(&secret, set.meta()))
        })
    }

    /// Returns which version of a package an extension had before everything lost its owner.
    ///
    /// # Errors
    /// Fails when that has to be read from the API server, and that fails.
    pub async fn left_version(
        &self,
        extension: &str,
        package: &str,
    ) -> Result<Option<Version>, kube::Error> {
        if !(is_complete(&self.store).await && is_complete(&self.crds).await) {
            return olm_cluster::left_version(&self.client, extension, package).await;
        }
        let sets = labelled_in(&self.store, extension);
        let sets: Vec<_> = sets.iter().filter_map(|set| set.0.as_ref().ok().cloned()).collect();
        let crds = self.crds.state();
        Ok(left_version((extension, package), &sets, crds.iter().map(|crd| &crd.metadata)))
    }

    pub fn forget(&self, extension: &ClusterExtension) {
        self.written.put(&extension.uid().unwrap_or_default(), None);
    }

    /// Returns the revisions from the watch, if they are not older than the writes of this process.
    async fn fresh(&self, extension: &ClusterExtension) -> Option<Vec<ClusterObjectSet>> {
        if !is_complete(&self.store).await {
            return None;
        }
        let found = labelled_in(&self.store, &extension.name_any());
        let found = found.into_iter().map(Arc::unwrap_or_clone);
        let found = select(found, of_extension(extension)).ok()?;
        let uid = extension.uid().unwrap_or_default();
        let mut written = self.written.lock();
        if let Some(versions) = written.get(&uid) {
            if versions.as_ref().is_none_or(|versions| !versions.are_in(&found)) {
                return None;
            }
            written.remove(&uid);
        }
        Some(found)
    }

    /// Tells whose revisions an event of the watch is about, once it is in the store.
    pub fn tell(&self, event: &watcher::Event<Guarded>) {
        match event {
            watcher::Event::Apply(set) | watcher::Event::Delete(set) => self.touched(set),
            watcher::Event::InitDone => {
                for set in self.store.state() {
                    self.touched(&set);
                }
            }
            watcher::Event::Init | watcher::Event::InitApply(_) => return,
        }
        self.changed.notify_one();
    }

    /// Tells whose content lost its owner, so that its extension gives it back, once an event of the
    /// watch is in the store.
    pub fn tell_content(&self, event: &watcher::Event<PartialObjectMeta<Secret>>) {
        let unowned = |secret: &PartialObjectMeta<Secret>| {
            let revision = secret.labels().get(label::REVISION_NAME)?;
            let set = self.store.get(&ObjectRef::new(revision))?;
            (!is_owned(secret, set.meta())).then_some(set)
        };
        match event {
            watcher::Event::Apply(secret) => {
                if let Some(set) = unowned(secret) {
                    self.touched(&set);
                }
            }
            watcher::Event::InitDone => {
                for set in self.contents.state().iter().filter_map(|secret| unowned(secret)) {
                    self.touched(&set);
                }
            }
            // What is gone, the revision itself reports.
            watcher::Event::Delete(_) | watcher::Event::Init | watcher::Event::InitApply(_) => {}
        }
    }

    fn touched(&self, set: &Guarded) {
        if let Some(owner) = set.labels().get(label::OWNER_NAME) {
            // Nobody listens when the process stops.
            drop(self.touched.unbounded_send(owner.clone()));
        }
    }
}

impl Versions {
    fn of(all: String, revisions: &[ClusterObjectSet]) -> Self {
        let each = revisions.iter().map(|set| {
            let version = set.resource_version().unwrap_or_default();
            (set.name_any(), version)
        });
        Self { all, each: each.collect() }
    }

    /// Returns whether nothing in `found` is older than these versions.
    fn are_in(&self, found: &[ClusterObjectSet]) -> bool {
        let version = |set: &ClusterObjectSet| set.resource_version().unwrap_or_default();
        let brought = |(name, least): (&String, &String)| {
            let set = found.iter().find(|set| set.name_any() == *name);
            set.is_some_and(|set| is_at_least(&version(set), least))
        };
        // What was not there then is newer, or was deleted and the watch has not said so yet.
        let new = |set: &ClusterObjectSet| {
            self.each.contains_key(&set.name_any()) || is_at_least(&version(set), &self.all)
        };
        self.each.iter().all(brought) && found.iter().all(new)
    }
}

/// Returns whether a resource version is at least as new as another. Kubernetes documents since
/// 1.35 that they are increasing numbers, which they always were; other values are compared for
/// equality.
fn is_at_least(version: &str, least: &str) -> bool {
    match (version.parse::<u64>(), least.parse::<u64>()) {
        (Ok(version), Ok(least)) => version >= least,
        _ => version == least,
    }
}

#[cfg(test)]
mod tests {
    use olm_api::ClusterObjectSetSpec;
    use rstest::rstest;

    use super::*;

    fn set((name, version): &(&str, &str)) -> ClusterObjectSet {
        let mut set = ClusterObjectSet::new(name, ClusterObjectSetSpec::default());
        set.metadata.resource_version = Some((*version).to_owned());
        set
    }

    // ours: what was written a moment ago is never read from a store that has not got it yet.
    #[rstest]
    #[case::as_written(&[("a-1", "7")], true)]
    #[case::newer(&[("a-1", "10")], true)]
    #[case::older(&[("a-1", "6")], false)]
    #[case::not_there_yet(&[], false)]
    #[case::another_since(&[("a-1", "7"), ("a-2", "9")], true)]
    #[case::deleted_and_still_there(&[("a-0", "5"), ("a-1", "7")], false)]
    #[case::no_number(&[("a-1", "x")], false)]
    fn a_store_that_is_behind_is_not_used(#[case] found: &[(&str, &str)], #[case] fresh: bool) {
        let known = Versions::of("8".to_owned(), &[set(&("a-1", "7"))]);
        let found: Vec<_> = found.iter().map(set).collect();
        assert_eq!(known.are_in(&found), fresh);
    }
}
