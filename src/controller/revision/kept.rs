//! The content of revisions that roll out, kept from one reconcile to the next.
//!
//! Every change of an object calls for a reconcile, and content is in Secrets that nobody can
//! change: it is the same as long as they are, which the watch of their metadata tells. What has
//! rolled out is soon forgotten.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{ObjectRef, Store};
use olm_api::ClusterObjectSet;
use olm_cluster::{Content, Secrets};
use olm_core::revision::referenced_secrets;

use crate::by_key::ByKey;
use crate::cluster::{is_complete, version};

/// Most memory that all of it may take; what has no room is read in each reconcile.
const MAX_BYTES: usize = 32 << 20;
/// The time in which objects still change after all of them are ready.
const LAST_CHANGES: Duration = Duration::from_secs(10);

pub struct KeptContents {
    system_namespace: String,
    /// Metadata of the Secrets with content, as the watch brings it.
    secrets: Store<PartialObjectMeta<Secret>>,
    kept: Arc<ByKey<Kept>>,
}

struct Kept {
    origin: Origin,
    content: Arc<Content>,
    bytes: usize,
}

/// The origin of content: generation of the revision, and version ([`version`]) of each Secret.
pub(super) type Origin = (Option<i64>, Vec<String>);

impl KeptContents {
    /// Returns an empty cache of contents in Secrets of the controller's namespace.
    pub fn new(system_namespace: String, secrets: Store<PartialObjectMeta<Secret>>) -> Self {
        Self { system_namespace, secrets, kept: Arc::default() }
    }

    /// Returns the content of a revision, if it is kept and its Secrets are the same.
    pub fn get(&self, set: &ClusterObjectSet) -> Option<Arc<Content>> {
        let origin = self.origin_now(set)?;
        let kept = self.kept.lock();
        let kept = kept.get(&set.uid()?)?;
        (kept.origin == origin).then(|| Arc::clone(&kept.content))
    }

    /// Returns the present origin of a revision's content. At the start of the process this waits
    /// a while for the watch.
    pub async fn origin_listed(&self, set: &ClusterObjectSet) -> Option<Origin> {
        is_complete(&self.secrets).await;
        self.origin_now(set)
    }

    /// Returns the present origin of a revision's content, from the watch.
    fn origin_now(&self, set: &ClusterObjectSet) -> Option<Origin> {
        self.origin(set, |name| {
            let place = ObjectRef::new(name).within(&self.system_namespace);
            version(&self.secrets.get(&place)?.metadata)
        })
    }

    /// Keeps the content of a revision that was read from these Secrets.
    pub fn keep(&self, set: &ClusterObjectSet, secrets: &Secrets, content: &Arc<Content>) {
        let read = |name: &str| {
            let place = (self.system_namespace.clone(), name.to_owned());
            version(&secrets.get(&place)?.as_ref().ok()?.metadata)
        };
        let (Some(uid), Some(origin)) = (set.uid(), self.origin(set, read)) else { return };
        let objects = content.phases.iter().flat_map(|phase| &phase.objects);
        let bytes = objects.map(|one| one.object.bytes()).sum();
        let mut kept = self.kept.lock();
        kept.remove(&uid);
        let others: usize = kept.values().map(|one| one.bytes).sum();
        if others + bytes <= MAX_BYTES {
            let content = Arc::clone(content);
            kept.insert(uid, Kept { origin, content, bytes });
        }
    }

    /// Forgets the content of a revision that has rolled out, once the last changes of its objects
    /// have been looked at.
    pub fn forget_soon(&self, set: &ClusterObjectSet) {
        let (kept, uid) = (Arc::downgrade(&self.kept), set.uid().unwrap_or_default());
        tokio::spawn(async move {
            tokio::time::sleep(LAST_CHANGES).await;
            if let Some(kept) = kept.upgrade() {
                kept.put(&uid, None);
            }
        });
    }

    pub fn forget(&self, set: &ClusterObjectSet) {
        self.kept.put(&set.uid().unwrap_or_default(), None);
    }

    /// Returns the origin of a revision's content; nothing if it has no Secrets, or if one is
    /// unknown or in another namespace: those are read as the account each time.
    fn origin(
        &self,
        set: &ClusterObjectSet,
        known: impl Fn(&str) -> Option<String>,
    ) -> Option<Origin> {
        let secrets = referenced_secrets(&set.spec, &self.system_namespace);
        let ours = secrets.iter().map(|(namespace, name)| {
            let here = *namespace == self.system_namespace;
            here.then(|| known(name)).flatten()
        });
        let ours: Vec<_> = ours.collect::<Option<_>>()?;
        (!ours.is_empty()).then_some((set.metadata.generation, ours))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use kube::runtime::reflector;
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};

    use super::*;

    fn revision(namespace: &str) -> ClusterObjectSet {
        let reference = json!({"ref": {"name": "s", "namespace": namespace, "key": "k"}});
        serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
            "metadata": {"name": "a-1", "uid": "1", "generation": 1},
            "spec": {"revision": 1, "lifecycleState": "Active", "collisionProtection": "Prevent",
                "phases": [{"name": "one", "objects": [reference]}]},
        }))
        .unwrap()
    }

    fn secret(version: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata":
            {"name": "s", "namespace": "olm", "uid": "u", "resourceVersion": version}})
    }

    // ours: content is read once for a rollout, and anew as soon as a Secret is another
    #[test]
    fn content_is_kept_while_its_secrets_are_the_same() {
        let (store, mut writer) = reflector::store();
        let mut watched = |version: &str| {
            let metadata = serde_json::from_value(secret(version)).unwrap();
            writer.apply_watcher_event(&Event::Apply(metadata));
        };
        let kept = KeptContents::new("olm".to_owned(), store);
        let content = Arc::new(Content { phases: Vec::new(), observed: Vec::new() });
        let read: Secret = serde_json::from_value(secret("5")).unwrap();
        let secrets: Secrets = [(("olm".to_owned(), "s".to_owned()), Ok(read))].into();
        let set = revision("olm");
        kept.keep(&set, &secrets, &content);
        assert!(kept.get(&set).is_none(), "the watch does not know it yet");
        watched("5");
        assert!(kept.get(&set).is_some());
        watched("6");
        assert!(kept.get(&set).is_none(), "another version");
        watched("5");
        kept.forget(&set);
        assert!(kept.get(&set).is_none());
        let elsewhere = revision("theirs");
        kept.keep(&elsewhere, &secrets, &content);
        assert!(kept.get(&elsewhere).is_none(), "read as the account");
    }

    // ours: a controller that starts again does not read what rolled out because a list is late
    #[tokio::test]
    async fn the_first_list_of_secrets_is_waited_for() {
        let (store, mut writer) = reflector::store();
        let (kept, set) = (KeptContents::new("olm".to_owned(), store), revision("olm"));
        let mut origin = std::pin::pin!(kept.origin_listed(&set));
        assert!(origin.as_mut().now_or_never().is_none(), "nothing was listed");
        let metadata = serde_json::from_value(secret("5")).unwrap();
        for event in [Event::Init, Event::InitApply(metadata), Event::InitDone] {
            writer.apply_watcher_event(&event);
        }
        assert_eq!(origin.await, Some((Some(1), vec!["5/u".to_owned()])));
    }
}
