//! An extension is removed although the webhook that converts the objects of its CRD does not answer.
//!
//! Source: applying.md 7.3, 7.4.

use std::time::{Duration, Instant};

use olm_test::cluster::{self, Controller};
use olm_test::extension::{Extension, condition};
use olm_test::package::{Bundle, chain};
use olm_test::scene::Scene;
use olm_test::wait;
use serde_json::{Value, json};

use crate::flags::start;
use crate::uninstall::{delete_folder, print_row, protects};

const POLICY: &str = "policy.olm.operatorframework.io/uninstall";
const STEP: Duration = Duration::from_mins(1);
/// Longer than the API server's own counts are old.
const COUNTED: Duration = Duration::from_mins(3);

fn group(suffix: &str) -> String {
    format!("{suffix}.example.com")
}

fn crd(suffix: &str) -> String {
    format!("floats.{}", group(suffix))
}

/// A CRD with two versions, of which v2 is the one that is asked for its objects.
fn definition(suffix: &str, storage: &str, conversion: &Value) -> Value {
    let versions = ["v2", "v1"].map(|name| {
        json!({"name": name, "served": true, "storage": name == storage, "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": crd(suffix)},
        "spec": {"group": group(suffix), "scope": "Namespaced", "conversion": conversion,
            "names": {"kind": "Float", "listKind": "FloatList", "plural": "floats", "singular": "float"},
            "versions": versions},
    })
}

/// Installs an extension whose CRD is converted by a webhook whose Service is not there; with
/// `object`, one of its objects is stored in the version from before.
async fn converted_by_nobody(suffix: &str, object: bool) -> (Scene, Extension, Controller) {
    // Of its own: while a kind cannot be listed, the garbage collector waits for it.
    let cluster = cluster::own().await;
    let controller = start(cluster.plane, suffix, &[]).await;
    let webhook = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "default", "name": "none-such"}}}});
    let before = definition(suffix, "v1", &json!({"strategy": "None"}));
    let after = definition(suffix, "v2", &webhook);
    let bundles =
        [Bundle::new("1.0.0").with_manifest(before), Bundle::new("1.1.0").with_manifest(after)];
    let scene = Scene::set(cluster, suffix, &bundles, &chain(&["1.0.0", "1.1.0"])).await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    if object {
        let one = json!({"apiVersion": format!("{}/v1", group(suffix)), "kind": "Float",
            "metadata": {"name": "one", "namespace": scene.name}});
        let args = ["apply", "--server-side", "-f", "-"];
        scene.cluster.plane.kubectl_with_input(&args, &one.to_string());
    }
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    extension.installed("1.1.0").await;
    if object {
        wait::until("its object cannot be read in v2", STEP, || async {
            match read(&scene, suffix, "v2") {
                Err(error) if error.contains("conversion webhook") => Ok(()),
                other => Err(other),
            }
        })
        .await;
        read(&scene, suffix, "v1").expect("it is stored in v1");
    }
    (scene, extension, controller)
}

/// Reads the object in a version.
fn read(scene: &Scene, suffix: &str, version: &str) -> Result<String, String> {
    let kind = format!("floats.{version}.{}", group(suffix));
    scene.cluster.plane.try_kubectl(&["get", &kind, "one", "-n", &scene.name, "-o", "name"], "")
}

fn delete(scene: &Scene) {
    let args = ["delete", "clusterextension", &scene.name, "--wait=false"];
    scene.cluster.plane.kubectl(&args);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_objects_the_removal_ends_by_itself() {
    let suffix = "unconvertedempty";
    let (scene, extension, _controller) = converted_by_nobody(suffix, false).await;
    delete(&scene);
    extension.gone().await;
    assert!(scene.get("customresourcedefinition", &crd(suffix)).is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_cannot_be_read_block_the_removal_and_go_when_that_is_decided() {
    let suffix = "unconverted";
    let (scene, extension, _controller) = converted_by_nobody(suffix, true).await;
    delete(&scene);
    // Whether the API server can count them depends on its caches.
    wait::until("it is blocked and names the way out", COUNTED, || async {
        let found = extension.get().await;
        let said = condition(&found, "Progressing").map(|it| it.message.clone());
        let names = |text: &String| {
            let out = format!("{POLICY}=RetainCRDs");
            text.contains("uninstall blocked: ") && text.contains(&out)
        };
        if said.as_ref().is_some_and(names) { Ok(()) } else { Err(said) }
    })
    .await;
    read(&scene, suffix, "v1").expect("it is still there");
    scene.annotate(POLICY, "Delete");
    extension.gone().await;
    assert!(scene.get("customresourcedefinition", &crd(suffix)).is_none());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "two more of a kind: make test-full"]
async fn a_folder_whose_objects_nobody_converts_goes_once_there_are_none_or_somebody_decides() {
    let (scene, extension, _controller) = converted_by_nobody("folderempty", false).await;
    let begun = Instant::now();
    delete_folder(&scene);
    extension.gone().await;
    print_row("with a dead conversion webhook, without objects", begun, "");

    let suffix = "folderfull";
    let (scene, extension, _controller) = converted_by_nobody(suffix, true).await;
    let begun = Instant::now();
    delete_folder(&scene);
    let said = protects(&extension, "uninstall blocked: ").await;
    print_row("with a dead conversion webhook and an object: protected", begun, &said);
    assert!(said.contains(&format!("{POLICY}=RetainCRDs")), "{said}");
    read(&scene, suffix, "v1").expect("it is still there");
    scene.annotate(POLICY, "Delete");
    let begun = Instant::now();
    extension.gone().await;
    print_row("the same, with annotation uninstall: Delete", begun, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_cannot_be_read_can_be_read_again_once_their_crd_is_retained() {
    let suffix = "unconvertedkept";
    let (scene, extension, _controller) = converted_by_nobody(suffix, true).await;
    scene.annotate(POLICY, "RetainCRDs");
    delete(&scene);
    extension.gone().await;
    let kept = scene.get("customresourcedefinition", &crd(suffix)).expect("the CRD stays");
    assert_eq!(kept["metadata"]["deletionTimestamp"], Value::Null);
    assert_eq!(kept["spec"]["conversion"]["strategy"], "None");
    wait::until("its object can be read in both versions", STEP, || async {
        ["v1", "v2"].iter().try_for_each(|version| read(&scene, suffix, version).map(drop))
    })
    .await;
}
