//! An extension is removed although the webhook that converts the objects of its CRD does not answer.
//!
//! Source: applying.md 7.3, 7.4.

use olm_test::package;
use olm_test::prelude::*;

use crate::data::{archived, let_count};
use crate::deletion::protects;

const POLICY: &str = "policy.olm.operatorframework.io/uninstall";

fn group(suffix: &str) -> String {
    format!("{suffix}.example.com")
}

fn crd(suffix: &str) -> String {
    format!("floats.{}", group(suffix))
}

/// A CRD with two versions, of which v2 is the one that is asked for its objects.
fn definition(suffix: &str, storage: &str, conversion: &Value) -> Value {
    let mut crd = package::definition("Float", &group(suffix));
    let versions = ["v2", "v1"].map(|name| {
        let mut version = crd["spec"]["versions"][0].clone();
        version["name"] = json!(name);
        version["storage"] = json!(name == storage);
        version
    });
    crd["spec"]["versions"] = json!(versions);
    crd["spec"]["conversion"] = conversion.clone();
    crd
}

/// Installs an extension whose CRD is converted by a webhook whose Service is not there; with
/// `object`, one of its objects is stored in the version from before.
async fn converted_by_nobody(cluster: Cluster, suffix: &str, object: bool) -> (Scene, Extension) {
    let webhook = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "default", "name": "none-such"}}}});
    let before = definition(suffix, "v1", &json!({"strategy": "None"}));
    let after = definition(suffix, "v2", &webhook);
    let bundles = [
        Bundle::new("1.0.0").with_manifest(before),
        Bundle::new("1.1.0").with_manifest(after),
        Bundle::new("1.2.0"),
    ];
    let (scene, extension) = Scene::first(cluster, suffix, &bundles).await;
    if object {
        scene.make_instance(&crd(suffix), &[]);
    }
    extension.moves_to("1.1.0").await;
    if object {
        is_unreadable(&scene, suffix).await;
        read(&scene, suffix, "v1").expect("it is stored in v1");
    }
    (scene, extension)
}

async fn is_unreadable(scene: &Scene, suffix: &str) {
    let read = || read(scene, suffix, "v2");
    wait::refused("its object cannot be read in v2", SOON, read, "conversion webhook").await;
}

/// Reads the object in a version.
fn read(scene: &Scene, suffix: &str, version: &str) -> Result<String, String> {
    let kind = format!("floats.{version}.{}", group(suffix));
    scene.cluster.plane.try_kubectl(&["get", &kind, "one", "-n", &scene.name, "-o", "name"], "")
}

async fn without_objects_the_removal_ends_by_itself(cluster: Cluster) {
    let suffix = "unconvertedempty";
    let (scene, extension) = converted_by_nobody(cluster, suffix, false).await;
    scene.delete("background");
    extension.gone().await;
    assert!(scene.get("customresourcedefinition", &crd(suffix)).is_none());
}

async fn objects_that_cannot_be_read_block_the_removal_and_go_when_that_is_decided(
    cluster: Cluster,
) {
    let suffix = "unconverted";
    let (scene, extension) = converted_by_nobody(cluster, suffix, true).await;
    scene.delete("background");
    // Whether the API server can count them depends on its caches.
    let said = protects(&extension, "uninstall blocked: ").await;
    assert!(said.contains(&format!("{POLICY}=RetainCRDs")), "{said}");
    read(&scene, suffix, "v1").expect("it is still there");
    scene.annotate(POLICY, "Delete");
    extension.gone().await;
    assert!(scene.get("customresourcedefinition", &crd(suffix)).is_none());
}

async fn objects_that_cannot_be_read_can_be_read_again_once_their_crd_is_retained(
    cluster: Cluster,
) {
    let suffix = "unconvertedkept";
    let (scene, extension) = converted_by_nobody(cluster, suffix, true).await;
    // By a version without it: nobody can list its objects, although the account may.
    let_count(&scene, &[&crd(suffix)]);
    archived(&scene, 1).await;
    extension.moves_to("1.2.0").await;
    archived(&scene, 2).await;
    is_retained(&scene, suffix).await;
    // By policy, after a rollback has taken it up again.
    extension.force("1.1.0").await;
    extension.installed("1.1.0").await;
    is_unreadable(&scene, suffix).await;
    scene.annotate(POLICY, "RetainCRDs");
    scene.delete("background");
    extension.gone().await;
    is_retained(&scene, suffix).await;
}

/// One after the other: while a kind cannot be listed, the garbage collector waits for it.
pub(crate) async fn whether_objects_are_converted_decides_neither_their_end_nor_that_of_a_removal(
    cluster: Cluster,
) {
    without_objects_the_removal_ends_by_itself(cluster.clone()).await;
    objects_that_cannot_be_read_block_the_removal_and_go_when_that_is_decided(cluster.clone())
        .await;
    objects_that_cannot_be_read_can_be_read_again_once_their_crd_is_retained(cluster).await;
}

async fn is_retained(scene: &Scene, suffix: &str) {
    let kept = scene.get("customresourcedefinition", &crd(suffix)).expect("the CRD stays");
    assert_eq!(kept["metadata"]["deletionTimestamp"], Value::Null);
    assert_eq!(kept["metadata"]["ownerReferences"], Value::Null);
    assert_eq!(kept["spec"]["conversion"]["strategy"], "None");
    let read = || ["v1", "v2"].iter().try_for_each(|it| read(scene, suffix, it).map(drop));
    wait::done("its object can be read in both versions", SOON, read).await;
}
