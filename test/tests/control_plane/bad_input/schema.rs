//! Extensions that violate their schema, next to valid ones.

use olm_test::prelude::*;

use super::apart::{self, Apart};

const CRD: &str = "clusterextensions.olm.operatorframework.io";
const OTHERS: usize = 10;

/// Makes the API server accept any ClusterExtension.
fn loosen(cluster: &Cluster) {
    let loose = json!([{
        "op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema",
        "value": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }]);
    cluster.plane.kubectl(&["patch", "crd", CRD, "--type=json", "--patch", &loose.to_string()]);
}

/// Restores the schema.
fn tighten(cluster: &Cluster) {
    let crds = paths::repository().join("config/crd");
    let crds = crds.to_string_lossy();
    cluster.plane.run(&format!("apply --server-side --force-conflicts -k {crds}"));
}

/// Creates an extension without validation, once the API server accepts it.
async fn create(cluster: &Cluster, name: &str, spec: serde_json::Value) {
    let mut extension = json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
        "metadata": {"name": name},
    });
    if !spec.is_null() {
        extension["spec"] = spec;
    }
    let args = ["create", "--validate=false", "--filename", "-"];
    let create = || cluster.plane.try_kubectl(&args, &extension.to_string());
    wait::done(&format!("{name} is admitted"), Duration::from_mins(1), create).await;
}

/// Returns what an extension says of its progress or its installation.
fn said(cluster: &Cluster, name: &str, type_: &str) -> [Value; 3] {
    let found = cluster.plane.requests().read("clusterextension", "", name).expect("it is there");
    let said = condition_of(&found, type_);
    ["status", "reason", "message"].map(|key| said[key].clone())
}

/// Says whether the controller has logged that it cannot read an object.
fn is_told_of(controller: &Controller, name: &str) -> bool {
    let log = controller.log();
    log.lines().any(|line| line.contains(name) && line.contains("does not follow its schema"))
}

// api.md row 2: one object that cannot be read does not stop the others
#[tokio::test(flavor = "multi_thread")]
#[ignore = "size: make test-full"]
async fn extensions_without_a_readable_spec_do_not_stop_ten_others() {
    let apart = apart::apart("schema").await;
    let plane = apart.cluster.plane;
    loosen(&apart.cluster);
    create(&apart.cluster, "bad-namespace", json!({"namespace": 7})).await;
    create(&apart.cluster, "bad-spec", json!("nothing")).await;
    // Anybody who may change labels can store a time here that does not fit into a timestamp.
    create(&apart.cluster, "bad-time", json!(null)).await;
    let entry = json!({"manager": "m", "operation": "Update", "fieldsType": "FieldsV1",
        "apiVersion": "olm.operatorframework.io/v1", "time": "9999-12-31T23:59:59Z",
        "fieldsV1": {"f:metadata": {"f:labels": {"f:x": {}}}}});
    plane.run("label clusterextension bad-time x=y");
    let entries = json!({"metadata": {"managedFields": [entry]}}).to_string();
    plane.kubectl(&["patch", "clusterextension", "bad-time", "--type=merge", "-p", &entries]);
    let stored = plane.requests().read("clusterextension", "", "bad-time").expect("it is there");
    assert!(stored.to_string().contains("9999-12-31"), "{stored}");
    let controller = apart.start().await;
    create(&apart.cluster, "bad-source", json!({"source": []})).await;
    tighten(&apart.cluster);
    create(&apart.cluster, "bad-none", json!(null)).await;

    let names: Vec<String> = (0..OTHERS).map(|at| format!("other{at}")).collect();
    let mut catalog = Files::new();
    let mut scenes = Vec::new();
    let bundle = Bundle::new("1.0.0");
    for name in &names {
        let scene = Scene::empty(apart.cluster.clone(), name);
        let pushed = scene.push(std::slice::from_ref(&bundle)).await;
        catalog.extend(scene.package.catalog_files(&chain(&["1.0.0"]), &pushed));
        scene.create_namespace();
        scene.grant(std::slice::from_ref(&bundle));
        scenes.push(scene);
    }
    let image = format!("{}/bad/others:v1", apart.cluster.registry);
    images::push_catalog(&image, catalog).await;
    let catalog = Catalog::create(apart.cluster.plane, "bad-others", &image);
    catalog.served().await;
    let selector = json!({"matchLabels": {"olm.operatorframework.io/metadata.name": catalog.name}});
    let mut extensions = Vec::new();
    for scene in &scenes {
        extensions.push(scene.install(json!({"selector": selector})).await);
    }
    for extension in &extensions {
        extension.installed("1.0.0").await;
    }

    for (type_, wanted) in [
        ("Progressing", ["False", "InvalidConfiguration", "spec is required"]),
        ("Installed", ["False", "Failed", "No bundle installed"]),
    ] {
        assert_eq!(said(&apart.cluster, "bad-none", type_), wanted);
    }
    for name in ["bad-namespace", "bad-spec", "bad-source"] {
        assert_eq!(said(&apart.cluster, name, "Progressing"), [const { Value::Null }; 3]);
        assert!(is_told_of(&controller, name), "{name} is not told of");
        assert_eq!(apart.passes(name), 0, "{name} is worked on");
        let field = format!("--field-selector=involvedObject.name={name}");
        let events = plane.json(&["get", "events", "-A", &field, "-o", "json"]);
        let events = events["items"].as_array().into_iter().flatten();
        let told = events.filter(|it| it["reason"] == "InvalidConfiguration").count();
        assert_eq!(told, 1, "an Event tells of {name}");
    }
    apart.is_well();
}

// decision 27; applying.md 7: what cannot be read is not treated as deleted
pub(super) async fn installed_extension_that_cannot_be_read_any_more_loses_nothing(
    apart: &Apart,
    controller: &Controller,
) {
    let plane = apart.cluster.plane;
    let scene = Scene::of(apart.cluster.clone(), "unread", &["1.0.0"]).await;
    let extension = scene.installed(json!({}), "1.0.0").await;

    loosen(&apart.cluster);
    let patch = |namespace: serde_json::Value| {
        let patch = json!({"spec": {"namespace": namespace}}).to_string();
        let args = ["patch", "clusterextension", &scene.name, "--type=merge", "--patch", &patch];
        plane.try_kubectl(&args, "")
    };
    let within = Duration::from_mins(1);
    wait::done("it is spoiled", within, || patch(json!(7))).await;
    // Until the controller knows, it makes the next revision.
    let is_told = || is_told_of(controller, &scene.name);
    wait::value("the controller knows", within, is_told, |told| *told).await;
    let revision = scene.revision(1);
    scene.delete_revision(1);
    scene.reports(&revision, "\"message\":\"reading ClusterExtension: ").await;
    for (kind, name) in [
        ("deployment", scene.package.deployment()),
        ("configmap", scene.package.config_map()),
        ("crd", scene.package.crd()),
    ] {
        scene.uid(kind, &name);
    }

    patch(json!(scene.name)).expect("it is mended");
    tighten(&apart.cluster);
    extension.installed("1.0.0").await;
}
