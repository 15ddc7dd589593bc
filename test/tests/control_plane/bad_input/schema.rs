//! Extensions that violate their schema, next to valid ones.

use std::collections::BTreeMap;
use std::time::Duration;

use olm_test::cluster::Cluster;
use olm_test::extension::Extension;
use olm_test::images;
use olm_test::package::{Bundle, Files, chain};
use olm_test::scene::Scene;
use olm_test::{paths, wait};
use serde_json::json;

use super::{Catalog, apart};

const CRD: &str = "clusterextensions.olm.operatorframework.io";
const OTHERS: usize = 10;

/// Makes the API server accept any ClusterExtension.
fn loosen(cluster: &Cluster) {
    let loose = json!([{
        "op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema",
        "value": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }]);
    let loose = loose.to_string();
    let args = ["patch", "crd", CRD, "--type=json", "--patch", &loose];
    cluster.plane.kubectl(&args);
}

/// Restores the schema.
fn tighten(cluster: &Cluster) {
    let crds = paths::repository().join("config/crd");
    let crds = crds.to_string_lossy();
    let args = ["apply", "--server-side", "--force-conflicts", "-k", &*crds];
    cluster.plane.kubectl(&args);
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
    let within = Duration::from_secs(30);
    wait::until(&format!("{name} is admitted"), within, || async {
        cluster.plane.try_kubectl(&args, &extension.to_string())
    })
    .await;
}

fn condition(cluster: &Cluster, name: &str, type_: &str) -> String {
    let path = format!(
        "jsonpath={{range .status.conditions[?(@.type==\"{type_}\")]}}{{.status}} {{.reason}} \
         {{.message}}{{end}}"
    );
    let args = ["get", "clusterextension", name, "--output", &path];
    cluster.plane.kubectl(&args)
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
    let controller = apart.start().await;
    create(&apart.cluster, "bad-source", json!({"source": []})).await;
    tighten(&apart.cluster);
    create(&apart.cluster, "bad-none", json!(null)).await;

    let names: Vec<String> = (0..OTHERS).map(|at| format!("other{at}")).collect();
    let mut catalog = Files::new();
    let mut scenes = Vec::new();
    let bundle = Bundle::new("1.0.0");
    for name in &names {
        let scene = Scene::empty(apart.handle(), name);
        let image = format!("{}/{name}-bundle:v1", apart.cluster.registry);
        images::push_bundle(&image, scene.package.bundle_files(&bundle)).await;
        let pushed = BTreeMap::from([("1.0.0".to_owned(), image)]);
        catalog.extend(scene.package.catalog_files(&chain(&["1.0.0"]), &pushed));
        scene.create_namespace();
        scene.grant(std::slice::from_ref(&bundle));
        scenes.push(scene);
    }
    let image = format!("{}/bad/others:v1", apart.cluster.registry);
    images::push_catalog(&image, catalog).await;
    let catalog = Catalog::create(&apart.cluster, "bad-others", &image).await;
    catalog.served().await;
    let selector = json!({"matchLabels": {"olm.operatorframework.io/metadata.name": catalog.name}});
    let mut extensions = Vec::new();
    for scene in &scenes {
        extensions.push(scene.install(json!({"selector": selector})).await);
    }
    for extension in &extensions {
        extension.installed("1.0.0").await;
    }

    assert_eq!(
        condition(&apart.cluster, "bad-none", "Progressing"),
        "False InvalidConfiguration spec is required"
    );
    assert_eq!(
        condition(&apart.cluster, "bad-none", "Installed"),
        "False Failed No bundle installed"
    );
    let log = controller.log();
    for name in ["bad-namespace", "bad-spec", "bad-source"] {
        assert_eq!(condition(&apart.cluster, name, "Progressing"), "");
        assert!(
            log.lines()
                .any(|line| line.contains(name) && line.contains("does not follow its schema")),
            "{name} is not told of"
        );
        assert_eq!(apart.passes(name), 0, "{name} is worked on");
    }
    apart.is_well();
    let bad = ["bad-namespace", "bad-spec", "bad-source", "bad-none"];
    plane.kubectl(&[&["delete", "--timeout=60s", "clusterextension"], &bad[..]].concat());
    futures::future::join_all(extensions.iter().map(Extension::delete)).await;
    catalog.delete().await;
}

// decision 27; applying.md 7: what cannot be read is not treated as deleted
#[tokio::test(flavor = "multi_thread")]
async fn installed_extension_that_cannot_be_read_any_more_loses_nothing() {
    let apart = apart::apart("unread").await;
    let plane = apart.cluster.plane;
    let _controller = apart.start().await;
    let bundles = [Bundle::new("1.0.0")];
    let scene = Scene::set(apart.handle(), "unread", &bundles, &chain(&["1.0.0"])).await;
    let extension = scene.install(json!({})).await;
    extension.installed("1.0.0").await;

    loosen(&apart.cluster);
    let patch = |namespace: serde_json::Value| {
        let patch = json!({"spec": {"namespace": namespace}}).to_string();
        let args = ["patch", "clusterextension", &scene.name, "--type=merge", "--patch", &patch];
        plane.try_kubectl(&args, "")
    };
    let within = Duration::from_secs(30);
    wait::until("it is spoiled", within, || async { patch(json!(7)) }).await;
    let revision = format!("{}-1", scene.name);
    plane.kubectl(&["delete", "clusterobjectset", &revision, "--wait=false"]);
    let message = "jsonpath={.status.conditions[?(@.type==\"Progressing\")].message}";
    let reported = || async {
        let args = ["get", "clusterobjectset", &revision, "--output", message];
        let message = plane.kubectl(&args);
        if message.starts_with("reading ClusterExtension: ") { Ok(()) } else { Err(message) }
    };
    wait::until("the revision says so", within, reported).await;
    for (kind, name) in [
        ("deployment", scene.package.deployment()),
        ("configmap", scene.package.config_map()),
        ("crd", scene.package.crd()),
    ] {
        let found = scene.get(kind, &name).expect("it is still there");
        assert!(found["metadata"]["deletionTimestamp"].is_null(), "{kind} {name} goes");
    }

    patch(json!(scene.name)).expect("it is mended");
    tighten(&apart.cluster);
    extension.installed("1.0.0").await;
    apart.is_well();
    extension.delete().await;
}
