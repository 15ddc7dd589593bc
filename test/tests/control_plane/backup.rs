//! A cluster that is restored from a backup: etcd under a running controller, or objects that are
//! made anew without their owners (docs/backup.md).

use olm_api::keys::manager;
use olm_test::prelude::*;
use olm_test::{documents, etcd};

const STEP: Duration = Duration::from_mins(2);

// deploying.md 4.1: what the process knows is not true any more, and its watches hear nothing
#[tokio::test(flavor = "multi_thread")]
async fn etcd_restored_under_a_running_controller_ends_it_and_the_backup_counts() {
    let cluster = cluster::new().await;
    let plane = cluster.plane;
    let mut controller = start(plane, "", &["--leader-elect"]).await;
    let arriving = Package::new("restored").further_crd("new");
    // What belongs to somebody else is tried again every ten seconds.
    let foreign = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "foreign", "namespace": "buoy-restored"}});
    let stuck = Bundle::new("1.1.0").with_manifest(arriving).with_manifest(foreign.clone());
    let bundles = [Bundle::new("1.0.0"), stuck, Bundle::new("1.2.0")];
    let entries = chain(&["1.0.0", "1.1.0", "1.2.0"]);
    let scene = Scene::set(cluster, "restored", &bundles, &entries).await;
    plane.create(&foreign);
    let extension = scene.installed(json!({"version": "1.0.0"}), "1.0.0").await;
    etcd::back_up(plane).await;
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    extension.shows("Progressing", "True", "Retrying", "ConfigMap").await;
    let crds = || {
        let mut writes = audit::writes(&plane.addresses.audit_log, "customresourcedefinitions");
        writes.retain(|one| one.resource == "customresourcedefinitions" && one.acted_as.is_some());
        writes.retain(|one| !one.dry_run && one.code < 300);
        writes
    };
    assert!(crds().iter().any(|one| one.verb == "create"), "{:#?}", crds());
    let mut before = 0;
    tokio::task::block_in_place(|| etcd::restore(plane, || before = crds().len()));
    assert_eq!(controller.ended(STEP).await, 1);
    let said = "the API server went back to an earlier state";
    assert!(controller.log().contains(said), "{}", controller.last_words());
    let numbers = || async {
        let revisions = extension.revisions().await;
        revisions.iter().map(|set| set.spec.revision).collect::<Vec<_>>()
    };
    assert_eq!(numbers().await, [1], "nothing is made again that the backup does not have");
    // The garbage collector would delete what has an owner that does not exist.
    let since = crds().split_off(before);
    assert!(since.is_empty(), "nothing is applied for a revision that does not exist: {since:#?}");
    clear_leases(&scene.cluster).await;
    controller.restart(plane);
    extension.force("1.2.0").await;
    let is_newer = |found: &ClusterExtension| installed_version(found) == Some("1.2.0");
    extension.eventually("a newer version is installed", STEP, is_newer).await;
    assert_eq!(numbers().await, [1, 2]);
    extension.delete().await;
}

/// Makes an object as Velero does (pkg/restore, `resetMetadata`): without owners, with two more
/// labels, and afterwards, a `ConfigMap`, with the managed fields of the backup, who owned it among them.
fn velero_restores(scene: &Scene, object: &Value) {
    let (plane, mut object) = (scene.cluster.plane, object.clone());
    object["metadata"]["labels"]["velero.io/backup-name"] = json!("nightly");
    object["metadata"]["labels"]["velero.io/restore-name"] = json!("nightly-20260101");
    let as_velero = "--field-manager=velero-server";
    plane.kubectl_with_input(&["create", as_velero, "-f", "-"], &object.to_string());
    let owner = r#"k:{"uid":"0c8f0b2e-6f0e-4c38-9a55-7c9c0d1c7a11"}"#;
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let (name, namespace) = (text("name"), format!("--namespace={}", text("namespace")));
    if object["kind"] != "ConfigMap" {
        return;
    }
    let fields = json!({"f:data": {"f:depth": {}}, "f:metadata": {
        "f:annotations": {format!("f:{}", annotation::REVISION): {}},
        "f:labels": {format!("f:{}", label::OWNER_NAME): {}, format!("f:{}", label::OWNER_KIND): {}},
        "f:ownerReferences": {owner: {}}}});
    let ours = json!({"manager": manager::OBJECTS, "operation": "Apply", "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields});
    let patch = json!({"metadata": {"managedFields": [ours]}}).to_string();
    let args = ["patch", "configmap", &name, &namespace, "--type=merge", as_velero, "-p", &patch];
    plane.kubectl(&args);
}

// applying.md 2.4: as Velero leaves objects: their labels, number and version, and no owner
#[tokio::test(flavor = "multi_thread")]
async fn what_is_restored_without_its_owner_is_taken_over_as_ready_says() {
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0")];
    let scene = Scene::shared_set("anew", &bundles, &chain(&["1.0.0", "1.1.0"])).await;
    let (name, crd) = (scene.package.config_map(), scene.package.crd());
    let labels =
        json!({label::OWNER_NAME: scene.name, label::OWNER_KIND: label::OWNER_KIND_EXTENSION});
    let annotations = json!({annotation::REVISION: "1", annotation::BUNDLE_VERSION: "1.0.0",
        annotation::PACKAGE_NAME: scene.package.name()});
    let restored = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name,
        "namespace": scene.name, "labels": labels, "annotations": annotations},
        "data": {"depth": "10"}});
    velero_restores(&scene, &restored);
    let file = scene.folder(&bundles[0]).join("manifests/crd.yaml");
    let manifest = std::fs::read_to_string(file).expect("the bundle has a CRD");
    let mut definition = olm_core::yaml::to_json(&manifest).expect("YAML").remove(0);
    definition["metadata"]["labels"] = labels;
    definition["metadata"]["annotations"] = annotations;
    velero_restores(&scene, &definition);
    let plane = scene.cluster.plane;
    plane.established(&crd);
    let (_, group) = crd.split_once('.').expect("a CRD has a group");
    let instance = json!({"apiVersion": format!("{group}/v1"), "kind": "Buoy",
        "metadata": {"name": "one", "namespace": scene.name, "labels": {}}});
    velero_restores(&scene, &instance);
    let uid = || {
        [("configmap", &*name), ("customresourcedefinition", &*crd), (&*crd, "one")].map(|it| {
            let found = scene.get(it.0, it.1).unwrap_or_default();
            found["metadata"]["uid"].clone()
        })
    };
    let before = uid();
    assert!(!before.contains(&Value::Null));
    let extension = scene.install(json!({})).await;
    let way_out = format!("annotation {}: all", policy::ADOPT);
    let texts = [
        "revision object collisions",
        "existing objects without an owner belong to version 1.0.0",
        way_out.as_str(),
    ];
    let is_named = |ready: &Condition| texts.iter().all(|text| ready.message.contains(text));
    extension.has("Ready", "Ready names the way out", is_named).await;
    let versions = || async {
        let revisions = extension.revisions().await;
        let version =
            |set: &ClusterObjectSet| set.annotation(annotation::BUNDLE_VERSION).map(str::to_owned);
        revisions.iter().filter_map(version).collect::<Vec<_>>()
    };
    assert_eq!(versions().await, ["1.0.0"], "the range is open, and what ran comes first");
    let page = documents::blocks(&documents::read("docs/backup.md"));
    let shown = page.iter().find_map(|block| block.text.strip_prefix("kubectl annotate "));
    let shown = shown.expect("the document has the command").replace("NAME", &scene.name);
    let args: Vec<_> = ["annotate"].into_iter().chain(shown.split_whitespace()).collect();
    plane.kubectl(&args);
    extension.installed("1.1.0").await;
    assert_eq!(versions().await, ["1.0.0", "1.1.0"], "the update follows the catalog");
    assert_eq!(uid(), before, "everything is taken over as it is");
    extension.delete().await;
}
