//! Extensions that do not follow their schema, among others that do.

use std::collections::BTreeMap;
use std::time::Duration;

use olm_test::images;
use olm_test::package::{Bundle, Files, chain};
use olm_test::scene::Scene;
use olm_test::{paths, wait};
use serde_json::json;

use super::{Catalog, apart};

const CRD: &str = "clusterextensions.olm.operatorframework.io";
const OTHERS: usize = 10;

/// Creates an extension as it is, whatever the schema thinks of it, once the API server takes it.
async fn create(cluster: &olm_test::cluster::Cluster, name: &str, spec: serde_json::Value) {
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

fn condition(cluster: &olm_test::cluster::Cluster, name: &str, type_: &str) -> String {
    let path = format!(
        "jsonpath={{range .status.conditions[?(@.type==\"{type_}\")]}}{{.status}} {{.reason}} \
         {{.message}}{{end}}"
    );
    let args = ["get", "clusterextension", name, "--output", &path];
    cluster.plane.kubectl(&args)
}

// api.md row 2; style.md: one object that cannot be read does not stop the others
#[tokio::test(flavor = "multi_thread")]
async fn extensions_without_a_readable_spec_do_not_stop_ten_others() {
    let apart = apart::turn("schema").await;
    let plane = apart.cluster.plane;
    let loose = json!([{
        "op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema",
        "value": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }]);
    plane.kubectl(&[
        "patch",
        "crd",
        CRD,
        "--type=json",
        "--patch",
        &loose.to_string(),
    ]);
    create(&apart.cluster, "bad-namespace", json!({"namespace": 7})).await;
    create(&apart.cluster, "bad-spec", json!("nothing")).await;
    let controller = apart.start().await;
    create(&apart.cluster, "bad-source", json!({"source": []})).await;
    let crds = paths::repository().join("config/crd");
    let crds = crds.to_string_lossy();
    plane.kubectl(&["apply", "--server-side", "--force-conflicts", "-k", &*crds]);
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
        assert!(apart.passes(name) <= 2);
    }
    apart.is_well();
    let bad = ["bad-namespace", "bad-spec", "bad-source", "bad-none"];
    plane.kubectl(&[&["delete", "--timeout=60s", "clusterextension"], &bad[..]].concat());
    for extension in &extensions {
        extension.delete().await;
    }
    catalog.delete().await;
}
