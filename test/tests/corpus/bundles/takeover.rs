//! Bundles that upstream's Helm applier has installed, taken over.

use olm_test::helm::{self, Release};
use olm_test::prelude::*;
use serde::Deserialize;

use super::stage::Stage;

/// Bytes of a chunk that upstream writes.
const CHUNK: usize = 1_040_384;

/// An operator that upstream runs before it is taken over.
#[derive(Deserialize)]
struct Operator {
    package: String,
    versions: Vec<String>,
    /// Taken over in the normal run, which installs the others.
    usual: bool,
    /// It cannot watch all namespaces.
    #[serde(default)]
    one_namespace: bool,
}

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
        plane.create(&secret);
    }
    (extension, objects)
}

/// Waits until the check before a takeover finds nothing else about these extensions, which have so many
/// objects: Kubernetes may still complete some of them.
async fn would_change_nothing<'a>(
    plane: &ControlPlane,
    extensions: impl Iterator<Item = (&'a Stage, usize)>,
) {
    let mut want: Vec<_> = extensions
        .map(|(stage, count)| {
            format!("{}: release of Helm with {count} objects; would change nothing", stage.name)
        })
        .collect();
    want.sort();
    wait::until("nothing would change", SOON, || async {
        let (_, text, errors) =
            plugin::answer(plane, &["migrate", "from-upstream", "--output", "json"]);
        let found: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{errors}"));
        let rows = found["rows"].as_array().expect("rows").iter();
        let mut rows: Vec<_> = rows
            .filter(|row| row["subject"] == "extensions")
            .map(|row| row["text"].as_str().expect("text").to_owned())
            .collect();
        rows.sort();
        if rows == want { Ok(()) } else { Err(rows) }
    })
    .await;
}

/// Takes over these operators at once, on a cluster of their own.
async fn are_taken_over(usual: bool) {
    let mut operators: Vec<Operator> = paths::rows("test/tests/corpus/bundles/takeover.yaml");
    operators.retain(|operator| operator.usual == usual);
    let (cluster, mut controller) = cluster::started("", &[]).await;
    let plane = cluster.plane;
    let mut stages = Vec::new();
    for Operator { package, versions, one_namespace, .. } in &operators {
        let versions: Vec<_> = versions.iter().map(String::as_str).collect();
        let mut stage = Stage::on(cluster.clone(), package, package, &versions).await;
        if *one_namespace {
            stage = stage.with_configuration(json!({"watchNamespace": package}));
        }
        stages.push((stage.with_account(), versions));
    }
    controller.kill();
    let mut left = Vec::new();
    for (stage, versions) in &stages {
        let (extension, objects) = left_by_helm(stage, versions[0]).await;
        let before = state(stage, &objects);
        left.push((stage, versions, extension, objects, before));
    }
    would_change_nothing(
        plane,
        left.iter().map(|(stage, _, _, objects, _)| (*stage, objects.len())),
    )
    .await;
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
            extension.moves_to(version).await;
            all.extend(stage.rendered(version));
        }
        stage.removed(&extension, &all).await;
    }
}

// applying.md b1, with real bundles
#[tokio::test(flavor = "multi_thread")]
async fn what_helm_installed_of_real_bundles_is_taken_over_untouched() {
    are_taken_over(true).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "five more of a kind: cargo test -p olm-test --test corpus -- --ignored takeover"]
async fn the_others_that_helm_installed_are_taken_over_untouched() {
    are_taken_over(false).await;
}
