//! Objects of kinds that the cluster does not serve: told of, and looked at again when a CRD appears.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::PartialObjectMeta;
use kube::runtime::events::EventType;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use olm_api::ClusterObjectSet;
use olm_api::conditions::{Reason, types};
use olm_core::object::Identity;
use olm_core::status::find;

use super::Context;
use super::extension_state::ExtensionState;
use super::unserved_kinds::names;
use crate::cluster;

/// When a revision looks again after a CRD changed. The API server serves a kind some moments after
/// it calls the CRD established, and no further event tells.
const LOOKS: [Duration; 3] = [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(5)];

impl Context {
    /// Notes and counts what a revision leaves out, and tells of it when it is news.
    pub(super) async fn defer(
        &self,
        set: &ClusterObjectSet,
        extension: &ExtensionState,
        left_out: &[Identity],
    ) {
        self.track_unserved(&set.name_any(), left_out);
        let status = set.status.as_ref();
        let before = status.and_then(|status| find(&status.conditions, types::DEFERRED));
        if left_out.is_empty() {
            if before.is_some() {
                let note = "all objects that were left out are applied".to_owned();
                let event = (EventType::Normal, Reason::DeferredObjectsApplied, note);
                self.event(set, extension, event).await;
            }
            return;
        }
        let now = olm_core::status::object_set::deferred(&names(left_out));
        if before.is_none_or(|before| before.message != now.message) {
            tracing::info!(objects = ?names(left_out), "objects of unserved kinds are left out");
            let event = (EventType::Warning, now.reason, now.message);
            self.event(set, extension, event).await;
        }
    }

    /// Has a revision woken when a kind of `group` may have appeared.
    pub(super) fn await_group(&self, set: &ClusterObjectSet, group: &str) {
        self.kept.unserved.await_group(&set.name_any(), group);
    }

    /// Notes and counts the objects that a revision leaves out.
    pub(super) fn track_unserved(&self, revision: &str, left_out: &[Identity]) {
        self.kept.unserved.note(revision, left_out);
        self.metrics.deferred(&self.kept.unserved.totals());
    }
}

/// Wakes the revisions that miss a kind whenever a CRD of its group changes. Never returns.
pub(super) async fn follow_crds(ctx: &Context) {
    let api = Api::<PartialObjectMeta<CustomResourceDefinition>>::all(ctx.client.clone());
    let crds = cluster::changes(api, watcher::Config::default()).touched_objects();
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
            Some(group) = looks.next() => ctx.wake(ctx.kept.unserved.waiting_for(&group)),
            else => return,
        }
    }
}

async fn after(delay: Duration, group: String) -> String {
    tokio::time::sleep(delay).await;
    group
}
