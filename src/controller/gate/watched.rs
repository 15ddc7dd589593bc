//! The input of the verdict, from the watches: the version of the cluster and the relevant
//! revisions.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, Stream, StreamExt as _};
use futures::{FutureExt as _, TryStreamExt as _};
use kube::api::Api;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use olm_api::{ClusterExtension, ClusterObjectSet, keys};
use olm_core::extension::counting;
use olm_core::gate::{Bundle, MinorRelease};
use olm_core::revision::{Kin, by_extension, extension_of, keep_makers};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::{Known, openshift};
use crate::cluster::{self, told};

/// The state at one moment.
pub(super) struct Observed {
    /// The release to judge by, where the cluster does not say it.
    pub(super) given: Option<MinorRelease>,
    pub(super) cluster_version: Option<Value>,
    pub(super) revisions: Revisions,
}

/// The revisions of all extensions. Nobody can say of those that do not follow their schema whether
/// they are installed, so they count.
pub(super) struct Revisions(Vec<Arc<Guarded>>);

type Guarded = DeserializeGuard<ClusterObjectSet>;

pub(super) struct Watched {
    news: BoxStream<'static, News>,
    revisions: Store<Guarded>,
    /// The extensions, where one that is not taken over counts.
    extensions: Option<Store<DeserializeGuard<ClusterExtension>>>,
    /// The release to judge by, where the cluster does not say it.
    given: Option<MinorRelease>,
    /// The `ClusterVersion`, if there is one.
    cluster_version: Option<Value>,
    /// Whether it was read.
    looked: bool,
}

enum News {
    /// The store of revisions has changed, or what lifts the hold of an extension.
    Revisions,
    ClusterVersion(Option<Value>),
}

impl Watched {
    /// Returns the watches, which bring something while they are waited for; revisions are watched
    /// where they are not known already.
    pub(super) fn new(
        (client, known): (&Client, Option<&Known>),
        given: Option<MinorRelease>,
        ways_out: impl Stream<Item = ()> + Send + 'static,
    ) -> Self {
        let extensions = known.map(|known| known.extensions.clone());
        let (store, changes) = match known {
            Some(Known { revisions, extensions }) => {
                let extensions = extensions.clone();
                let listed = async move {
                    // It fails when the process ends.
                    let _ = extensions.wait_until_ready().await;
                };
                let changes = stream::select(told(&revisions.changed), stream::once(listed));
                (revisions.store.clone(), changes.boxed())
            }
            None => watch(client),
        };
        let versions = match given {
            Some(_) => stream::pending().boxed(),
            None => cluster::named(openshift(client.clone(), "ClusterVersion"), "version")
                .map(|found| News::ClusterVersion(found.map(|found| found.data)))
                .boxed(),
        };
        let revisions = stream::select(changes, ways_out).map(|()| News::Revisions);
        Self {
            news: stream::select(revisions, versions).boxed(),
            revisions: store,
            extensions,
            given,
            cluster_version: None,
            looked: given.is_some(),
        }
    }

    /// Waits until everything was read once; says so every `patience` that it was not.
    pub(super) async fn begin(&mut self, patience: Duration) {
        while self.observed().is_none() {
            if timeout(patience, self.next()).await.is_err() {
                tracing::warn!("the gate cannot read revisions, extensions or the ClusterVersion");
            }
        }
    }

    /// Waits until something changes, and what changes with it, or the pause ends; says whether
    /// nothing but revisions has changed.
    pub(super) async fn rest(&mut self, pause: Duration, debounce: Duration) -> bool {
        let Ok(mut only_revisions) = timeout(pause, self.next()).await else { return false };
        let mut end = std::pin::pin!(sleep(debounce));
        loop {
            tokio::select! {
                () = &mut end => return only_revisions,
                of_revisions = self.next() => only_revisions &= of_revisions,
            }
        }
    }

    /// Takes what a watch brings; says whether it is about revisions.
    async fn next(&mut self) -> bool {
        match self.news.next().await {
            Some(News::ClusterVersion(found)) => {
                self.cluster_version = found;
                self.looked = true;
                false
            }
            Some(News::Revisions) => true,
            // Watches do not end.
            None => std::future::pending().await,
        }
    }

    /// Returns the state, once everything was read.
    pub(super) fn observed(&self) -> Option<Observed> {
        self.revisions.wait_until_ready().now_or_never()?.ok()?;
        if let Some(extensions) = &self.extensions {
            extensions.wait_until_ready().now_or_never()?.ok()?;
        }
        if !self.looked {
            return None;
        }
        let mut revisions = self.revisions.state();
        revisions.retain(|set| set.labels().contains_key(keys::label::OWNER_NAME));
        for guarded in &revisions {
            if let Err(invalid) = &guarded.0 {
                let name = guarded.name_any();
                tracing::warn!(revision = name, error = %invalid.error, "unreadable, counted as installed");
            }
        }
        Some(Observed {
            given: self.given,
            cluster_version: self.cluster_version.clone(),
            revisions: Revisions(revisions),
        })
    }
}

/// Watches the revisions, without their content, which decides nothing.
fn watch(client: &Client) -> (Store<Guarded>, BoxStream<'static, ()>) {
    let owned = watcher::Config::default().labels(keys::label::OWNER_NAME);
    let (store, writer) = reflector::store();
    let revisions = cluster::watched(Api::<Guarded>::all(client.clone()), owned, keep_makers)
        .map_ok(|event| {
            event.modify(|revision| {
                if let Ok(revision) = &mut revision.0 {
                    revision.spec.phases.clear();
                }
            })
        })
        .reflect(writer);
    (store, revisions.map(drop).boxed())
}

impl Revisions {
    /// Returns the relevant bundles.
    pub(super) fn bundles(&self) -> impl Iterator<Item = Bundle<'_>> {
        let unreadable = self.0.iter().filter_map(|guarded| {
            let metadata = &guarded.0.as_ref().err()?.metadata;
            let extension = Kin::of(metadata, None).extension()?;
            Some(Bundle::recorded(&extension.name, metadata))
        });
        let readable = self.0.iter().filter_map(|guarded| guarded.0.as_ref().ok());
        let readable = by_extension(readable).into_values().flat_map(|revisions| {
            let extension = revisions.first().copied().and_then(extension_of);
            extension.into_iter().flat_map(move |it| counting(&it.name, revisions.clone()))
        });
        readable.chain(unreadable)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube::core::ObjectMeta;
    use kube::core::error_boundary::InvalidObject;
    use olm_api::ClusterObjectSetSpec;
    use olm_core::gate::{self, Cluster};
    use serde_json::json;

    use super::*;
    use crate::cluster::answering::{answering, refusal};
    use crate::revision::KnownRevisions;

    // applying.md 9.7: among the extensions that are not listed yet may be one that is not taken over
    #[tokio::test]
    async fn nothing_is_judged_before_the_extensions_are_listed() {
        const LONG: Duration = Duration::from_mins(1);
        let client = answering(|_| refusal(404));
        let (revisions, mut feed, _names) = KnownRevisions::new(client.clone(), "s".to_owned());
        let (extensions, mut listed) = reflector::store();
        let known = Known { extensions, revisions };
        let release = "4.18".parse().ok();
        let mut watched = Watched::new((&client, Some(&known)), release, stream::pending());
        feed.revisions.apply_watcher_event(&watcher::Event::Init);
        feed.revisions.apply_watcher_event(&watcher::Event::InitDone);
        assert!(watched.observed().is_none());
        let listing = async {
            tokio::task::yield_now().await;
            listed.apply_watcher_event(&watcher::Event::Init);
            listed.apply_watcher_event(&watcher::Event::InitDone);
        };
        let begun = async { tokio::join!(watched.begin(LONG * 2), listing) };
        timeout(LONG, begun).await.expect("it hears of the list");
        assert!(watched.observed().is_some());
    }

    /// The metadata of a set that says it is a revision of extension lamp, and that its bundle
    /// supports no release after 4.18.
    fn metadata(name: &str) -> ObjectMeta {
        let properties = r#"[{"type":"olm.maxOpenShiftVersion","value":"4.18"}]"#;
        let metadata = json!({
            "name": name, "labels": {keys::label::OWNER_NAME: "lamp"},
            "annotations": {keys::annotation::BUNDLE_NAME: "lamp.v1.0.0",
                keys::annotation::PROPERTIES: properties},
            "ownerReferences": [{"apiVersion": olm_api::API_VERSION, "kind": "ClusterExtension",
                "name": "lamp", "uid": "u", "controller": true}],
        });
        serde_json::from_value(metadata).expect("metadata")
    }

    fn verdict(revisions: &Revisions) -> String {
        let bundles: Vec<_> = revisions.bundles().collect();
        gate::verdict(Cluster::At(Some("4.18.3")), &bundles, &BTreeMap::new()).status.to_owned()
    }

    #[test]
    fn an_unreadable_revision_counts_by_its_annotations() {
        let revisions = |name: &str| {
            let invalid = InvalidObject { error: String::new(), metadata: metadata(name) };
            Revisions(vec![Arc::new(DeserializeGuard(Err(invalid)))])
        };
        assert_eq!(verdict(&revisions("lamp-1")), "False");
        assert_eq!(verdict(&revisions("tenant")), "True");
    }

    #[test]
    fn what_is_no_revision_of_the_extension_it_names_does_not_count() {
        let revisions = |name: &str| {
            let spec = ClusterObjectSetSpec { revision: 1, ..ClusterObjectSetSpec::default() };
            let mut set = ClusterObjectSet::new(name, spec);
            set.metadata = metadata(name);
            Revisions(vec![Arc::new(DeserializeGuard(Ok(set)))])
        };
        assert_eq!(verdict(&revisions("lamp-1")), "False");
        assert_eq!(verdict(&revisions("lamp-2")), "True");
        assert_eq!(verdict(&revisions("tenant")), "True");
    }
}
