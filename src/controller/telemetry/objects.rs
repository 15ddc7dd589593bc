//! Metrics of our own objects: their numbers and conditions.
//!
//! In: the stores of the controllers. They are filled while this process leads, so that the series
//! are the leader's alone and go with the object.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::Store;
use kube::{Resource as _, ResourceExt as _};
use olm_api::conditions::types;
use olm_api::{
    AvailabilityMode, ClusterCatalog, ClusterExtension, ClusterObjectSet, LifecycleState,
};
use olm_core::revision::has_succeeded;
use olm_core::status::find;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::registered::{Registered, metrics};
use super::{Label, Metrics, whole};

/// Conditions of a `ClusterExtension` that are shown: those of upstream and ours, and no others.
const EXTENSION: [&str; 10] = [
    types::INSTALLED,
    types::PROGRESSING,
    types::AVAILABLE,
    types::READY,
    types::PAUSED,
    types::DEPRECATED,
    types::PACKAGE_DEPRECATED,
    types::CHANNEL_DEPRECATED,
    types::BUNDLE_DEPRECATED,
    types::SUPPORTED,
];
/// Conditions of a `ClusterCatalog` that are shown.
const CATALOG: [&str; 4] = [types::SERVING, types::PROGRESSING, types::READY, types::CONTENT_VALID];
/// The statuses of a condition.
const STATUSES: [&str; 3] = ["True", "False", "Unknown"];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConditionLabels {
    name: String,
    r#type: &'static str,
    status: &'static str,
}

metrics! {
    Objects {
        extensions: Family<Label<&'static str, 0>, Gauge> =
            "olm_clusterextensions", "Number of ClusterExtensions";
        extension_conditions: Family<ConditionLabels, Gauge> = "olm_clusterextension_condition",
            "Conditions of ClusterExtensions: 1 for the present status, else 0";
        deleted: Family<Label<String>, Gauge> = "olm_clusterextension_deletion_timestamp_seconds",
            "When the deletion of a ClusterExtension that still \
             exists was requested, in seconds since 1970";
        catalogs: Family<Label<&'static str, 0>, Gauge> =
            "olm_clustercatalogs", "Number of ClusterCatalogs";
        catalog_conditions: Family<ConditionLabels, Gauge> = "olm_clustercatalog_condition",
            "Conditions of ClusterCatalogs: 1 for the present status, else 0";
        enabled: Family<Label<String>, Gauge> =
            "olm_clustercatalog_enabled", "Whether a ClusterCatalog is enabled";
        revisions: Family<Label, Gauge> = "olm_clusterobjectsets",
            "ClusterObjectSets per state: rolling_out, succeeded, archived, deleting, unreadable";
        watches: Family<Label, Gauge> = "olm_managed_watch_mode",
            "Groups of managed objects per watch mode: shared, collection, named, poll, starting";
    }
}

impl Objects {
    fn show_extensions(&self, all: &[Arc<DeserializeGuard<ClusterExtension>>]) {
        set_count(&self.extensions, all.len());
        self.extension_conditions.clear();
        self.deleted.clear();
        for extension in all {
            let name = extension.name_any();
            if let Some(at) = &extension.meta().deletion_timestamp {
                let labels = [("name", name.clone())];
                self.deleted.get_or_create(&labels).set(at.0.as_second());
            }
            let status = extension.0.as_ref().ok().and_then(|extension| extension.status.as_ref());
            let conditions = status.map_or(&[][..], |status| &status.conditions);
            show(&self.extension_conditions, &name, &EXTENSION, conditions);
        }
    }

    fn show_catalogs(&self, all: &[Arc<DeserializeGuard<ClusterCatalog>>]) {
        set_count(&self.catalogs, all.len());
        self.catalog_conditions.clear();
        self.enabled.clear();
        for catalog in all {
            let name = catalog.name_any();
            let Ok(catalog) = &catalog.0 else { continue };
            let enabled = catalog.spec.availability() == AvailabilityMode::Available;
            let status = catalog.status.as_ref();
            let conditions = status.map_or(&[][..], |status| &status.conditions);
            show(&self.catalog_conditions, &name, &CATALOG, conditions);
            self.enabled.get_or_create(&[("name", name)]).set(enabled.into());
        }
    }

    fn show_revisions(&self, all: &[Arc<DeserializeGuard<ClusterObjectSet>>]) {
        self.revisions.clear();
        for state in ["rolling_out", "succeeded", "archived", "deleting", "unreadable"] {
            let count = all.iter().filter(|one| state_of(one) == state).count();
            self.revisions.get_or_create(&[("state", state)]).set(whole(count));
        }
    }
}

fn set_count(gauge: &Family<Label<&'static str, 0>, Gauge>, count: usize) {
    gauge.get_or_create(&[]).set(whole(count));
}

/// Shows each condition of `types` that an object has, as one series for each status.
fn show(
    gauge: &Family<ConditionLabels, Gauge>,
    name: &str,
    types: &[&'static str],
    conditions: &[Condition],
) {
    for r#type in types {
        let Some(condition) = find(conditions, r#type) else { continue };
        for status in STATUSES {
            let labels = ConditionLabels { name: name.to_owned(), r#type, status };
            gauge.get_or_create(&labels).set((condition.status == status).into());
        }
    }
}

fn state_of(guarded: &DeserializeGuard<ClusterObjectSet>) -> &'static str {
    if guarded.meta().deletion_timestamp.is_some() {
        return "deleting";
    }
    let Ok(set) = &guarded.0 else { return "unreadable" };
    if set.spec.lifecycle_state == LifecycleState::Archived {
        return "archived";
    }
    if has_succeeded(set) { "succeeded" } else { "rolling_out" }
}

impl Metrics {
    /// Shows the `ClusterExtensions` of a store in every answer from now on.
    pub fn follow_extensions(&self, store: Store<DeserializeGuard<ClusterExtension>>) {
        let objects = self.objects.clone();
        self.refresh_with(move || objects.show_extensions(&store.state()));
    }

    /// Shows the `ClusterCatalogs` of a store in every answer from now on.
    pub fn follow_catalogs(&self, store: Store<DeserializeGuard<ClusterCatalog>>) {
        let objects = self.objects.clone();
        self.refresh_with(move || objects.show_catalogs(&store.state()));
    }

    /// Shows the `ClusterObjectSets` of a store in every answer from now on.
    pub fn follow_revisions(&self, store: Store<DeserializeGuard<ClusterObjectSet>>) {
        let objects = self.objects.clone();
        self.refresh_with(move || objects.show_revisions(&store.state()));
    }

    /// Shows how managed objects are watched in every answer from now on.
    pub fn follow_watches(
        &self,
        modes: impl Fn() -> BTreeMap<&'static str, usize> + Send + Sync + 'static,
    ) {
        let watches = self.objects.watches.clone();
        self.refresh_with(move || {
            for (mode, count) in modes() {
                watches.get_or_create(&[("mode", mode)]).set(whole(count));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::reflector;
    use kube::runtime::watcher::Event;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    /// Returns a store with these objects, and what changes it.
    fn store<K>(objects: Vec<Value>) -> (Store<K>, reflector::store::Writer<K>)
    where
        K: kube::Resource<DynamicType = ()> + DeserializeOwned + Clone + Send + Sync + 'static,
    {
        let (store, mut writer) = reflector::store();
        for object in objects {
            let object = serde_json::from_value(object).unwrap();
            writer.apply_watcher_event(&Event::Apply(object));
        }
        (store, writer)
    }

    fn conditions(pairs: &[(&str, &str)]) -> Value {
        let one = |(r#type, status): &(&str, &str)| {
            json!({"type": r#type, "status": status, "reason": "R", "message": "",
                   "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        json!({"conditions": pairs.iter().map(one).collect::<Vec<_>>()})
    }

    fn extension(name: &str, status: &Value) -> Value {
        json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
               "metadata": {"name": name}, "status": status})
    }

    // deploying.md 9.1
    #[test]
    fn extensions_are_shown_as_they_are_when_asked() {
        let metrics = Metrics::default();
        let before = metrics.encode();
        assert!(!before.contains("olm_clusterextension"), "{before}");
        let status = conditions(&[("Installed", "True"), ("Available", "False"), ("X", "True")]);
        let mut going = extension("blue", &json!({}));
        going["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:01:00Z");
        let (store, mut writer) = store(vec![extension("red", &status), going.clone()]);
        metrics.follow_extensions(store);
        let text = metrics.assert_shows(&[
            "olm_clusterextensions{} 2",
            "olm_clusterextension_condition{name=\"red\",type=\"Installed\",status=\"True\"} 1",
            "olm_clusterextension_condition{name=\"red\",type=\"Installed\",status=\"False\"} 0",
            "olm_clusterextension_condition{name=\"red\",type=\"Available\",status=\"False\"} 1",
            "olm_clusterextension_deletion_timestamp_seconds{name=\"blue\"} 60",
        ]);
        assert!(!text.contains("type=\"X\""), "{text}");
        let gone = serde_json::from_value(going).unwrap();
        writer.apply_watcher_event(&Event::Delete(gone));
        let text = metrics.assert_shows(&["olm_clusterextensions{} 1"]);
        assert!(!text.contains("blue"), "{text}");
    }

    // deploying.md 9.1
    #[test]
    fn a_catalog_that_is_switched_off_is_not_meant_to_be_served() {
        let catalog = |name: &str, mode: &str| {
            json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
                   "metadata": {"name": name},
                   "spec": {"availabilityMode": mode,
                            "source": {"type": "Image", "image": {"ref": "r.test/c:1"}}},
                   "status": conditions(&[("Serving", "False")])})
        };
        let (store, _writer) =
            store(vec![catalog("on", "Available"), catalog("off", "Unavailable")]);
        let metrics = Metrics::default();
        metrics.follow_catalogs(store);
        metrics.assert_shows(&[
            "olm_clustercatalogs{} 2",
            "olm_clustercatalog_enabled{name=\"on\"} 1",
            "olm_clustercatalog_enabled{name=\"off\"} 0",
            "olm_clustercatalog_condition{name=\"off\",type=\"Serving\",status=\"False\"} 1",
        ]);
    }

    // deploying.md 9.1
    #[test]
    fn revisions_are_counted_by_state() {
        let revision = |name: &str, state: &str, status: Value| {
            json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
                   "metadata": {"name": name}, "status": status,
                   "spec": {"lifecycleState": state, "revision": 1, "collisionProtection": "Prevent"}})
        };
        let succeeded = conditions(&[("Succeeded", "True")]);
        let mut going = revision("d", "Active", json!({}));
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let (store, _writer) = store(vec![
            revision("a", "Active", json!({})),
            revision("b", "Active", succeeded.clone()),
            revision("c", "Archived", succeeded),
            going,
        ]);
        let metrics = Metrics::default();
        metrics.follow_revisions(store);
        for state in ["rolling_out", "succeeded", "archived", "deleting"] {
            metrics.assert_shows(&[&format!("olm_clusterobjectsets{{state=\"{state}\"}} 1")]);
        }
    }
}
