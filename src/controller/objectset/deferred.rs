//! Objects of kinds that the cluster does not serve: told of, and looked at again when a CRD appears.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ObjectMeta;
use kube::core::PartialObjectMeta;
use kube::runtime::events::EventType;
use kube::runtime::reflector::store::Writer;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use olm_api::conditions::{Reason, types};
use olm_api::keys::annotation;
use olm_core::object::Identity;

use super::unserved_kinds::names;
use super::{Attempt, Context};
use crate::cluster;

type Crd = PartialObjectMeta<CustomResourceDefinition>;

/// The delays of checks after a change of a CRD. The API server serves a kind some moments after it
/// reports the CRD as established, without a further event.
const LOOKS: [Duration; 4] =
    [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(30)];

impl Attempt<'_> {
    /// Notes and counts what the revision leaves out, and tells of it when it is news.
    pub(super) async fn defer(&self, left_out: &[Identity]) {
        let unserved = &self.ctx.kept.unserved;
        unserved.note(&self.set.name_any(), left_out);
        self.ctx.metrics.deferred(&unserved.totals());
        let before = self.set.condition(types::DEFERRED);
        if left_out.is_empty() {
            if before.is_some() {
                let note = "all objects that were left out are applied".to_owned();
                self.event(EventType::Normal, Reason::DeferredObjectsApplied, note).await;
            }
            return;
        }
        let now = olm_core::status::object_set::deferred(&names(left_out));
        if before.is_none_or(|before| before.message != now.message) {
            tracing::info!(objects = ?names(left_out), "objects of unserved kinds are left out");
            self.event(EventType::Warning, now.reason, now.message).await;
        }
    }
}

/// Stores the CRDs, and wakes the revisions that miss a kind whenever one of its group changes. Never
/// returns.
pub(super) async fn follow_crds(ctx: &Context, stored: Writer<Crd>) {
    let api = Api::<Crd>::all(ctx.client.clone());
    let crds = cluster::watched(api, watcher::Config::default(), keep_version);
    let crds = crds.reflect(stored).touched_objects();
    let mut crds = pin!(crds.fuse());
    let mut looks = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(crd) = crds.next() => {
                let Ok(crd) = crd else { continue };
                let name = crd.name_any();
                // The API server wants the name to be `<plural>.<group>`.
                let Some((_, group)) = name.split_once('.') else { continue };
                ctx.kinds.forget_group(group);
                if !ctx.kept.unserved.waiting_for(group).is_empty() {
                    looks.extend(LOOKS.map(|delay| after(delay, group.to_owned())));
                }
            }
            Some(group) = looks.next() => ctx.watches.wake(ctx.kept.unserved.waiting_for(&group)),
            else => return,
        }
    }
}

/// Takes the annotations off a CRD that do not tell of which bundle it is: one may hold all of it.
fn keep_version(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        let kept = [annotation::PACKAGE_NAME, annotation::BUNDLE_VERSION];
        annotations.retain(|key, _| kept.contains(&key.as_str()));
    }
}

async fn after(delay: Duration, group: String) -> String {
    tokio::time::sleep(delay).await;
    group
}
