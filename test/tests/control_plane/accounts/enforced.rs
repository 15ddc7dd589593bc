//! A controller that requires the policies, on a control plane where they are disabled.

use olm_test::prelude::*;

use super::{Made, extension, object_set, recorded};
use crate::names::what_has_a_long_name_already_is_changed_and_deleted;
use crate::tenants::a_set_of_somebody_else_replaces_no_revision;

const EXTENSIONS: &str = "clusterextension-serviceaccount-use";
const SETS: &str = "clusterobjectset-serviceaccount-use";
const WAITS: &str = "is not in force: new installs wait (--account-policy)";

/// Waits until the metric says whether a policy is in force.
async fn is_enforced(controller: &Controller, policy: &str, wanted: bool) {
    let line = format!("olm_account_policy_enforced{{policy=\"{policy}\"}} {}", i32::from(wanted));
    controller.measures(&[line]).await;
}

/// A way to disable a policy.
struct Breach {
    policy: &'static str,
    kind: &'static str,
    change: Option<Value>,
}

impl Breach {
    fn make(&self, cluster: &Cluster) {
        let plane = cluster.plane;
        match &self.change {
            Some(change) => plane.requests().merge(self.kind, "", self.policy, change),
            None => drop(plane.kubectl(&["delete", self.kind, self.policy])),
        }
    }

    /// Applies the policies as they are shipped; a changed one is deleted first, because the API
    /// server would keep what was added to a list.
    fn mend(&self, cluster: &Cluster) {
        let plane = cluster.plane;
        plane.kubectl(&["delete", self.kind, self.policy, "--ignore-not-found"]);
        plane.apply_policies();
    }
}

/// The ways of P49, each with how it is noticed.
fn breaches() -> [Breach; 4] {
    let policy = "validatingadmissionpolicy";
    let binding = "validatingadmissionpolicybinding";
    [
        (EXTENSIONS, policy, None),
        (EXTENSIONS, binding, Some(json!({"spec": {"validationActions": ["Warn"]}}))),
        (EXTENSIONS, policy, Some(json!({"spec": {"failurePolicy": "Ignore"}}))),
        (SETS, binding, None),
    ]
    .map(|(policy, kind, change)| Breach { policy, kind, change })
}

// P49
#[tokio::test(flavor = "multi_thread")]
async fn without_the_policies_nothing_new_is_installed_and_what_is_there_is_kept() {
    let cluster = cluster::own().await;
    let args = ["--webhook-certificates=self-signed", "--account-policy=require"];
    let mut controller = start(cluster.plane, "", &args).await;
    is_enforced(&controller, EXTENSIONS, true).await;
    is_enforced(&controller, SETS, true).await;
    let scene = Scene::of(cluster.clone(), "kept", &["1.0.0"]).await;
    let installed = scene.installed(json!({}), "1.0.0").await;

    for (index, breach) in breaches().iter().enumerate() {
        breach.make(&cluster);
        is_enforced(&controller, breach.policy, false).await;
        let name = format!("p49-{index}");
        let text = format!("admission policy \"{}\" {WAITS}", breach.policy);
        let new = if breach.policy == EXTENSIONS {
            let made =
                Made::new(&cluster, "clusterextension", &extension(&name, "default", "none"));
            let handle = Extension::named(&cluster.client, &name);
            handle.shows("Progressing", "True", "Retrying", &text).await;
            made
        } else {
            let set = object_set(&name, &recorded("default", "none"));
            let made = Made::new(&cluster, "clusterobjectset", &set);
            shows(&cluster, &name, &text).await;
            made
        };
        scene.is_repaired().await;
        breach.mend(&cluster);
        is_enforced(&controller, breach.policy, true).await;
        // It continues: now the service account is what is missing.
        let missing = "service account \"none\" not found in namespace \"default\"";
        if new.kind == "clusterextension" {
            let handle = Extension::named(&cluster.client, &name);
            let went_on = handle.shows("Progressing", "True", "Retrying", missing).await;
            assert!(condition(&went_on, "Progressing").is_some());
        } else {
            shows(&cluster, &name, missing).await;
        }
    }
    installed.delete().await;
    what_has_a_long_name_already_is_changed_and_deleted(&cluster).await;
    reserved_whatever_the_flags_say(&cluster, &mut controller).await;
    a_set_of_somebody_else_replaces_no_revision(cluster).await;
}

/// Waits until a revision shows this reason for waiting.
async fn shows(cluster: &Cluster, name: &str, text: &str) {
    let path = "jsonpath={.status.conditions[?(@.type=='Progressing')].message}";
    let read = || cluster.plane.kubectl(&["get", "clusterobjectset", name, "-o", path]);
    wait::value(text, SOON, read, |found| found.contains(text)).await;
}

/// P50: with all flags open, only the controller's own service account is still refused.
async fn reserved_whatever_the_flags_say(cluster: &Cluster, controller: &mut Controller) {
    controller.kill();
    controller.set_args(&[
        "--webhook-certificates=self-signed",
        "--account-policy=off",
        "--forbidden-service-accounts=",
        &format!("--default-service-account={SYSTEM_NAMESPACE}/{CONTROLLER_ACCOUNT}"),
    ]);
    controller.restart(cluster.plane);
    let own = extension("p50-open", SYSTEM_NAMESPACE, CONTROLLER_ACCOUNT);
    let mut nameless = extension("p50-nameless", "default", "none");
    nameless["spec"]["serviceAccount"] = json!(null);
    for object in [own, nameless] {
        let made = Made::new(cluster, "clusterextension", &object);
        let handle = Extension::named(&cluster.client, &made.name);
        let text = "is reserved: it is the controller's own";
        handle.shows("Progressing", "False", "InvalidConfiguration", text).await;
        handle.delete().await;
    }
    let other = extension("p50-other", "kube-system", "no-such");
    let made = Made::new(cluster, "clusterextension", &other);
    let handle = Extension::named(&cluster.client, &made.name);
    let text = "service account \"no-such\" not found in namespace \"kube-system\"";
    handle.shows("Progressing", "True", "Retrying", text).await;
    handle.delete().await;
}
