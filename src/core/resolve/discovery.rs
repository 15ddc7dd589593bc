//! What an API server serves, from its aggregated discovery.

use serde_json::Value;

use super::{GroupVersionKind, ServedKinds};
use crate::object::{items, text_of};

/// Freshness of a group version whose API server did not answer.
const STALE: &str = "Stale";

impl ServedKinds {
    /// Adds an `APIGroupDiscoveryList`, the answer of `/api` and `/apis`, as JSON.
    pub fn add_discovery(&mut self, list: &Value) {
        for group in items(&list["items"]) {
            let name = text_of(&group["metadata"]["name"]);
            for version in items(&group["versions"]) {
                if version["freshness"] == STALE {
                    self.unreadable_groups.insert(name.clone());
                }
                for resource in items(&version["resources"]) {
                    let kind = text_of(&resource["responseKind"]["kind"]);
                    if !kind.is_empty() {
                        self.kinds.insert(GroupVersionKind {
                            group: name.clone(),
                            version: text_of(&version["version"]),
                            kind,
                        });
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::resolve::{Environment, Knowledge};

    // resolution.md 5.2, 5.4
    #[test]
    fn kinds_and_groups_that_did_not_answer_are_read() {
        let core = json!({"items": [{"metadata": {}, "versions": [
            {"version": "v1", "resources": [
                {"resource": "pods", "responseKind": {"group": "", "version": "v1", "kind": "Pod"}},
            ]},
        ]}]});
        let others = json!({"items": [
            {"metadata": {"name": "a.example.com"}, "versions": [
                {"version": "v1", "freshness": "Current", "resources": [
                    {"resource": "greens", "responseKind": {"kind": "Green"}},
                    {"resource": "without"},
                ]},
            ]},
            {"metadata": {"name": "b.example.com"}, "versions": [
                {"version": "v1", "freshness": "Stale", "resources": []},
            ]},
        ]});
        let mut served = ServedKinds::default();
        served.add_discovery(&core);
        served.add_discovery(&others);
        let kinds: Vec<_> = served.kinds.iter().map(ToString::to_string).collect();
        assert_eq!(kinds, ["v1, Kind=Pod", "a.example.com/v1, Kind=Green"]);
        let failed: Vec<_> = served.unreadable_groups.into_iter().collect();
        assert_eq!(failed, ["b.example.com"]);
    }

    // decision 21; resolution.md 5.2
    #[test]
    fn only_what_is_known_not_to_be_served_is_unserved() {
        let of = |served| Environment { served, ..Environment::default() };
        let mut served = ServedKinds::default();
        served.add_discovery(&json!({"items": [
            {"metadata": {"name": "monitoring.coreos.com"}, "versions": [
                {"version": "v1", "freshness": "Stale", "resources": []},
            ]},
            {"metadata": {"name": "autoscaling.k8s.io"}, "versions": [
                {"version": "v1", "resources": [
                    {"responseKind": {"kind": "VerticalPodAutoscaler"}},
                ]},
            ]},
        ]}));
        let known = of(Knowledge::Known(Arc::new(served)));
        let groups = ["monitoring.coreos.com", "autoscaling.k8s.io", "console.openshift.io"];
        assert_eq!(known.unserved(groups), ["console.openshift.io"]);
        for unknown in [Knowledge::Unreadable, Knowledge::NotTold] {
            assert!(of(unknown).unserved(groups).is_empty());
        }
    }

    #[test]
    fn what_is_no_discovery_adds_nothing() {
        let mut served = ServedKinds::default();
        served.add_discovery(&json!({"items": "none"}));
        assert_eq!(served, ServedKinds::default());
    }
}
