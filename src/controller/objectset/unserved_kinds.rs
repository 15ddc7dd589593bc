//! Kinds that revisions want and the cluster does not serve, and what wakes a revision when one of
//! them appears.
//!
//! Objects of optional kinds are left out meanwhile (decision 21); an object of any other
//! kind holds up its revision (applying.md 3.11). Both wait here for a CRD of the group.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
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
use super::observe::ExtensionState;
use crate::cluster;

/// When a revision looks again after a CRD changed. The API server serves a kind some moments after
/// it calls the CRD established, and no further event tells.
const LOOKS: [Duration; 3] = [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(5)];

/// Which groups each revision misses, with the number of objects it leaves out; none where the
/// whole revision waits.
#[derive(Debug, Default)]
pub(super) struct UnservedKinds(Mutex<BTreeMap<String, BTreeMap<String, usize>>>);

impl UnservedKinds {
    /// Notes the objects that `revision` leaves out, in place of what was noted before.
    fn note(&self, revision: &str, left_out: &[Identity]) {
        let mut groups = BTreeMap::new();
        for object in left_out {
            *groups.entry(object.group.clone()).or_insert(0) += 1;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if groups.is_empty() {
            all.remove(revision);
        } else {
            all.insert(revision.to_owned(), groups);
        }
    }

    /// Notes that `revision` cannot go on without a kind of `group`.
    fn await_group(&self, revision: &str, group: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(revision.to_owned()).or_default().entry(group.to_owned()).or_insert(0);
    }

    /// Returns the revisions that miss a kind of `group`.
    fn waiting_for(&self, group: &str) -> Vec<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .filter(|(_, groups)| groups.contains_key(group))
            .map(|(revision, _)| revision.clone())
            .collect()
    }

    /// Returns how many objects are left out, per group.
    fn totals(&self) -> BTreeMap<String, usize> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut totals = BTreeMap::new();
        for (group, count) in all.values().flatten() {
            *totals.entry(group.clone()).or_insert(0) += count;
        }
        totals
    }
}

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
        self.unserved.await_group(&set.name_any(), group);
    }

    /// Notes and counts the objects that a revision leaves out.
    pub(super) fn track_unserved(&self, revision: &str, left_out: &[Identity]) {
        self.unserved.note(revision, left_out);
        self.metrics.deferred(&self.unserved.totals());
    }
}

/// Returns the objects as conditions name them.
pub(super) fn names(objects: &[Identity]) -> Vec<String> {
    objects.iter().map(Identity::text).collect()
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
                if !ctx.unserved.waiting_for(group).is_empty() {
                    looks.extend(LOOKS.map(|delay| after(delay, group.to_owned())));
                }
            }
            Some(group) = looks.next() => ctx.wake(ctx.unserved.waiting_for(&group)),
            else => return,
        }
    }
}

async fn after(delay: Duration, group: String) -> String {
    tokio::time::sleep(delay).await;
    group
}

#[cfg(test)]
mod tests {
    use super::*;

    fn monitor(name: &str) -> Identity {
        Identity {
            group: "monitoring.coreos.com".to_owned(),
            version: "v1".to_owned(),
            kind: "ServiceMonitor".to_owned(),
            namespace: "ns".to_owned(),
            name: name.to_owned(),
        }
    }

    // decision 21
    #[test]
    fn a_revision_is_woken_for_the_groups_it_misses_and_no_others() {
        let missing = UnservedKinds::default();
        missing.note("a-1", &[monitor("x"), monitor("y")]);
        missing.await_group("b-1", "acme.example.com");
        assert_eq!(missing.waiting_for("monitoring.coreos.com"), ["a-1"]);
        assert_eq!(missing.waiting_for("acme.example.com"), ["b-1"]);
        assert_eq!(missing.waiting_for("apps"), [""; 0]);
    }

    #[test]
    fn objects_are_counted_until_they_are_applied() {
        let missing = UnservedKinds::default();
        missing.note("a-1", &[monitor("x"), monitor("y")]);
        missing.note("b-1", &[monitor("z")]);
        missing.await_group("b-1", "acme.example.com");
        assert_eq!(missing.totals()["monitoring.coreos.com"], 3);
        assert_eq!(missing.totals()["acme.example.com"], 0);
        missing.note("a-1", &[]);
        assert_eq!(missing.totals()["monitoring.coreos.com"], 1);
    }
}
