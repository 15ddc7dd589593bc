//! Bundles that upstream's Helm applier has installed, taken over.

use std::collections::BTreeMap;

use olm_api::keys::{annotation, label};
use olm_test::cluster::{self, Controller, ControllerOptions, SYSTEM_NAMESPACE};
use olm_test::extension::Extension;
use olm_test::helm::{self, Release};
use serde_json::{Value, json};

use super::stage::Stage;

/// Bytes of a chunk that upstream writes.
const CHUNK: usize = 1_040_384;

/// UIDs by identity, with what tells that an object was changed.
fn state(stage: &Stage, objects: &[Value]) -> BTreeMap<String, String> {
    let plane = stage.cluster.plane;
    let mut found = BTreeMap::new();
    for object in objects {
        let read: Value = serde_json::from_str(
            &plane.kubectl_with_input(&["get", "-f", "-", "-o", "json"], &object.to_string()),
        )
        .expect("JSON");
        let metadata = &read["metadata"];
        let shows = match object["kind"].as_str() {
            // The API server counts annotations of a Deployment into its generation.
            Some("Deployment") => &read["spec"],
            _ => &metadata["generation"],
        };
        let what = format!("{} {}", read["kind"], metadata["name"]);
        found.insert(what, format!("{} {shows}", metadata["uid"]));
    }
    found
}

/// Installs a version as Helm does, while no controller runs.
async fn left_by_helm(stage: &Stage, version: &str) -> (Extension, Vec<Value>) {
    let extension = stage.install(version, json!({})).await;
    let uid = extension.get().await.metadata.uid.expect("a UID");
    let plane = stage.cluster.plane;
    let rendered = stage.rendered(version).into_iter();
    let objects = rendered.map(|object| Value::Object(object.0)).collect();
    let owners = json!([helm::owner(&stage.name, &uid)]);
    let objects = helm::create(plane, &stage.name, &owners, objects);
    let bundle = stage.release(version);
    let release = Release {
        name: &stage.name,
        uid: &uid,
        version: 1,
        status: "deployed",
        labels: json!({
            annotation::BUNDLE_NAME: bundle.name, annotation::BUNDLE_VERSION: version,
            annotation::PACKAGE_NAME: bundle.package,
            annotation::BUNDLE_REFERENCE: stage.image(version),
        }),
        annotations: json!({"olm.properties": "[]"}),
        objects: &objects,
    };
    for secret in release.secrets(SYSTEM_NAMESPACE, CHUNK) {
        plane.kubectl_with_input(&["create", "-f", "-"], &secret.to_string());
    }
    (extension, objects)
}

// applying.md b1, with real bundles
#[tokio::test(flavor = "multi_thread")]
async fn what_helm_installed_of_real_bundles_is_taken_over_untouched() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    let mut controller = Controller::start(plane, ControllerOptions::default());
    let mut stages = Vec::new();
    for (package, versions) in [
        ("gitlab-runner-operator", &["1.48.2", "1.48.3"][..]),
        ("victoriametrics-operator", &["0.22.0"]),
        ("project-quay", &["3.9.9"]),
    ] {
        let stage = Stage::on(cluster.clone(), package, package, versions).await;
        stages.push((stage.with_account(), versions));
    }
    controller.kill();
    let mut left = Vec::new();
    for (stage, versions) in &stages {
        let (extension, objects) = left_by_helm(stage, versions[0]).await;
        let before = state(stage, &objects);
        left.push((stage, *versions, extension, objects, before));
    }
    controller.restart(plane);
    for (stage, versions, extension, objects, before) in left {
        extension.installed(versions[0]).await;
        extension.installed(versions[0]).await;
        let rendered = stage.rendered(versions[0]);
        stage.holds(&extension, 2, &rendered).await;
        assert_eq!(state(stage, &objects), before, "{}", stage.name);
        let first = extension.revisions().await.remove(0);
        let labels = first.metadata.labels.unwrap_or_default();
        assert_eq!(labels[label::MIGRATED_FROM_HELM], "true");
        let mut all = rendered;
        for version in &versions[1..] {
            extension.patch_catalog(json!({"version": version})).await;
            extension.installed(version).await;
            all.extend(stage.rendered(version));
        }
        stage.removed(&extension, &all).await;
    }
}
