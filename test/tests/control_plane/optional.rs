//! decision 21: objects of optional kinds that the cluster does not serve.

use olm_test::package::definition;
use olm_test::prelude::*;

/// Well below the interval at which the controller looks for left out objects by itself (5 min).
const SOON: Duration = Duration::from_mins(1);

/// A kind of one of the optional groups, and an object of it. Each test has its own, because a kind
/// is served for all tests or for none.
struct Optional {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
}

const MONITOR: Optional =
    Optional { group: "monitoring.coreos.com", kind: "ServiceMonitor", plural: "servicemonitors" };
const AUTOSCALER: Optional = Optional {
    group: "autoscaling.k8s.io",
    kind: "VerticalPodAutoscaler",
    plural: "verticalpodautoscalers",
};
const RULE: Optional =
    Optional { group: "monitoring.coreos.com", kind: "PrometheusRule", plural: "prometheusrules" };

impl Optional {
    fn object(&self, name: &str) -> Value {
        json!({
            "apiVersion": format!("{}/v1", self.group), "kind": self.kind,
            "metadata": {"name": name}, "spec": {"text": "ours"},
        })
    }

    fn crd(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// Makes the cluster serve the kind.
    fn serve(&self, scene: &Scene) {
        let mut crd = definition(self.kind, self.group);
        crd["metadata"]["annotations"] =
            json!({"api-approved.kubernetes.io": "unapproved, for a test"});
        scene.cluster.plane.requests().apply(&crd);
    }

    fn withdraw(&self, scene: &Scene) {
        scene.cluster.plane.kubectl(&["delete", "crd", &self.crd()]);
    }

    fn is_there(&self, scene: &Scene, name: &str) -> bool {
        scene.get(&self.crd(), name).is_some()
    }

    async fn appears(&self, scene: &Scene, name: &str, within: Duration) {
        let is_there = || self.is_there(scene, name);
        wait::value(&format!("{} is applied", self.kind), within, is_there, |it| *it).await;
    }

    /// The text for the object in conditions.
    fn text(&self, scene: &Scene, name: &str) -> String {
        format!("{}.{}/v1 {}/{name}", self.kind, self.group, scene.name)
    }
}

async fn stage(suffix: &str, optional: &Optional) -> (Scene, String) {
    let name = format!("buoy-{suffix}-extra");
    let bundle = Bundle::new("1.0.0").with_manifest(optional.object(&name));
    let scene = Scene::shared_set(suffix, &[bundle], &chain(&["1.0.0"])).await;
    (scene, name)
}

/// Waits until Ready names what is left out.
async fn leaves_out(extension: &Extension, text: &str) {
    let message = format!("Left out until the cluster serves their kind: {text}");
    extension.shows("Ready", "True", "ObjectsDeferred", &message).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_left_out_until_its_kind_is_served_then_applied_and_removed() {
    let (scene, name) = stage("monitored", &MONITOR).await;
    let extension = scene.install(json!({})).await;
    let text = MONITOR.text(&scene, &name);
    extension.installed("1.0.0").await;
    leaves_out(&extension, &text).await;
    assert!(scene.get("deployment", &scene.package.deployment()).is_some());
    let told = scene.events("ObjectsDeferred");
    assert!(told.iter().any(|note| note.contains(&text)), "{told:?}");

    MONITOR.serve(&scene);
    MONITOR.appears(&scene, &name, SOON).await;
    extension.shows("Ready", "True", "Succeeded", "").await;
    assert_eq!(scene.events("DeferredObjectsApplied").len(), 1);

    extension.delete().await;
    assert!(!MONITOR.is_there(&scene, &name));
    MONITOR.withdraw(&scene);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_goes_away_is_missed_and_not_fatal() {
    let (scene, name) = stage("scaled", &AUTOSCALER).await;
    AUTOSCALER.serve(&scene);
    let extension = scene.installed(json!({}), "1.0.0").await;
    AUTOSCALER.appears(&scene, &name, SOON).await;

    AUTOSCALER.withdraw(&scene);
    leaves_out(&extension, &AUTOSCALER.text(&scene, &name)).await;

    AUTOSCALER.serve(&scene);
    AUTOSCALER.appears(&scene, &name, SOON).await;
    // The kind is removed first, then the extension, while its object waits.
    AUTOSCALER.withdraw(&scene);
    leaves_out(&extension, &AUTOSCALER.text(&scene, &name)).await;
    extension.delete().await;
    assert!(scene.get("deployment", &scene.package.deployment()).is_none());
}

const STRICT: &str = "buoy-strict-extra";

/// Every kind is necessary (applying.md 3.11, `--missing-optional-kinds=fail`).
pub(crate) async fn a_missing_kind_is_waited_for(cluster: &Cluster) -> (Scene, Extension) {
    let bundle = Bundle::new("1.0.0").with_manifest(RULE.object(STRICT));
    let scene = Scene::set(cluster.clone(), "strict", &[bundle], &chain(&["1.0.0"])).await;
    let extension = scene.install(json!({})).await;
    let text = "kind PrometheusRule.monitoring.coreos.com/v1 is not served by the cluster";
    let waiting = extension.shows("Progressing", "True", "Retrying", text).await;
    assert!(is(&waiting, "Installed", "False", "Failed"));
    (scene, extension)
}

/// The same with `--missing-optional-kinds=defer`; the metric counts what is left out.
pub(crate) async fn a_missing_kind_is_left_out(
    controller: &Controller,
    (scene, extension): (Scene, Extension),
) {
    leaves_out(&extension, &RULE.text(&scene, STRICT)).await;
    let counted =
        |group: &str, count: u32| format!("olm_deferred_objects{{group=\"{group}\"}} {count}\n");
    let metrics = controller.metrics().await;
    assert!(metrics.contains(&counted("monitoring.coreos.com", 1)), "{metrics}");
    assert!(metrics.contains(&counted("console.openshift.io", 0)), "{metrics}");

    RULE.serve(&scene);
    RULE.appears(&scene, STRICT, SOON).await;
    let ready = extension.shows("Ready", "True", "Succeeded", "").await;
    assert!(condition(&ready, "Deferred").is_none());
    let metrics = controller.metrics().await;
    assert!(metrics.contains(&counted("monitoring.coreos.com", 0)), "{metrics}");
    extension.delete().await;
}
