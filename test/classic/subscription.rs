//! The Subscription of an operator and its `InstallPlan`s.

use olm_core::render::hash;
use serde_json::{Value, json};

use super::objects::{Making, SINCE, V1ALPHA1, owner, variables};
use super::{CATALOGS, Operator, create};

/// Name of the `InstallPlan` that waits for an approval.
const WAITING: &str = "install-waits";

impl Operator<'_> {
    /// Makes the `InstallPlan` that waits for an approval, if one does.
    pub(super) fn wait(&self, subscription: &Value) {
        let Some(version) = self.waiting else { return };
        create(
            self.scene.cluster.plane,
            &json!({"apiVersion": V1ALPHA1, "kind": "InstallPlan",
                "metadata": {"name": WAITING, "namespace": self.scene.name,
                    "ownerReferences": [owner(subscription, false)]},
                "spec": {"approval": "Manual", "approved": false, "generation": 2,
                    "clusterServiceVersionNames": [self.scene.package.bundle_name(version)]},
                "status": {"phase": "RequiresApproval", "catalogSources": []}}),
        );
    }

    /// Returns the status of a Subscription whose operator is installed, and up to date unless an
    /// upgrade waits.
    pub(super) fn subscribed(&self, csv: &str, plan: &str) -> Value {
        let namespace = &self.scene.name;
        let source = json!({"apiVersion": V1ALPHA1, "kind": "CatalogSource", "name": namespace,
            "namespace": CATALOGS});
        let (current, state, plan) = match self.waiting {
            Some(version) => (self.scene.package.bundle_name(version), "UpgradePending", WAITING),
            None => (csv.to_owned(), "AtLatestKnown", plan),
        };
        let reference = json!({"apiVersion": V1ALPHA1, "kind": "InstallPlan", "name": plan,
            "namespace": namespace});
        let mut old = reference.clone();
        old["uuid"] = json!("");
        json!({"currentCSV": current, "installedCSV": csv, "state": state,
            "installPlanGeneration": 1, "installPlanRef": reference, "installplan": old,
            "lastUpdated": SINCE,
            "catalogHealth": [{"catalogSourceRef": source, "healthy": true, "lastUpdated": SINCE}],
            "conditions": [{"type": "CatalogSourcesUnhealthy", "status": "False",
                "reason": "AllCatalogSourcesHealthy", "lastTransitionTime": SINCE}]})
    }

    /// Makes Subscription and `InstallPlan`; returns the name of the latter.
    pub(super) fn subscription(&self, making: &Making<'_>) -> String {
        let (name, namespace, csv) = (&making.package, &making.namespace, making.csv_name());
        let plan = format!("install-{}", &hash(namespace)[..5]);
        let approval = if self.waiting.is_some() { "Manual" } else { "Automatic" };
        let mut spec = json!({"name": name, "channel": "stable", "source": namespace,
            "sourceNamespace": CATALOGS, "installPlanApproval": approval});
        if !self.variables.is_empty() {
            spec["config"] = json!({"env": variables(self.variables)});
        }
        let subscription = making.make(&json!({"apiVersion": V1ALPHA1, "kind": "Subscription",
            "metadata": {"name": name, "namespace": namespace,
                "labels": {making.component(): ""}},
            "spec": spec, "status": self.subscribed(csv, &plan)}));
        making.make(&json!({"apiVersion": V1ALPHA1, "kind": "InstallPlan",
            "metadata": {"name": plan, "namespace": namespace,
                "labels": {making.component(): ""},
                "ownerReferences": [owner(&subscription, false)]},
            "spec": {"approval": approval, "approved": true, "generation": 1,
                "clusterServiceVersionNames": [csv]}}));
        self.wait(&subscription);
        plan
    }
}
