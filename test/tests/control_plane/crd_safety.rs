//! Upgrades of CRDs that could make stored objects invalid: refused, waived, switched off.

use std::time::Duration;

use olm_test::cluster;
use olm_test::extension::{Extension, condition};
use olm_test::package::{Bundle, chain};
use olm_test::scene::Scene;
use olm_test::{plugin, wait};
use serde_json::{Value, json};

const STEP: Duration = Duration::from_secs(30);
/// How soon a change of a CRD is noticed; the delay of attempts grows to minutes.
const NOTICED: Duration = Duration::from_secs(10);
const ALLOW: &str = "policy.olm.operatorframework.io/crd-safety-allow";
const REASON: &str = "policy.olm.operatorframework.io/crd-safety-reason";

fn crd(scene: &str) -> String {
    format!("floats.{scene}.example.com")
}

/// A CRD whose objects may be this deep.
pub(crate) fn definition(suffix: &str, maximum: Option<u32>) -> Value {
    let depth = maximum.map_or_else(
        || json!({"type": "integer"}),
        |maximum| json!({"type": "integer", "maximum": maximum}),
    );
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": crd(suffix)},
        "spec": {
            "group": format!("{suffix}.example.com"), "scope": "Namespaced",
            "names": {"kind": "Float", "listKind": "FloatList", "plural": "floats",
                "singular": "float"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"depth": depth}}}}}}],
        },
    })
}

fn bundle(version: &str, suffix: &str, maximum: Option<u32>) -> Bundle {
    Bundle::new(version).with_manifest(definition(suffix, maximum))
}

/// Waits until the upgrade is refused with one finding, and returns the message of `Ready`.
async fn refused(scene: &Scene, extension: &Extension, version: &str, finding: &str) -> String {
    let text = format!(
        "error for resolved bundle \"{}.v{version}\" with version \"{version}\": validating \
         upgrade for CRD \"{}\": v1: ^.spec.depth: maximum: {finding}",
        scene.name,
        crd(&scene.package.suffix)
    );
    let found = extension.shows("Progressing", "True", "Retrying", finding).await;
    let message = |type_| condition(&found, type_).map(|found| found.message.clone());
    assert_eq!(message("Progressing"), Some(text));
    message("Ready").expect("Ready is there")
}

async fn told(scene: &Scene, reason: &str, part: &str) {
    wait::until(&format!("Event {reason}"), STEP, || async {
        let told = scene.events(reason);
        if told.iter().any(|note| note.contains(part)) { Ok(()) } else { Err(told) }
    })
    .await;
}

// applying.md 6.2, g2, decisions 30 and 36
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_narrows_a_crd_is_refused_until_it_is_waived() {
    let suffix = "narrowed";
    let bundles = [
        bundle("1.0.0", suffix, None),
        bundle("1.1.0", suffix, Some(10)),
        bundle("1.2.0", suffix, Some(5)),
    ];
    let scene = Scene::set(
        cluster::with_controller().await,
        suffix,
        &bundles,
        &chain(&["1.0.0", "1.1.0", "1.2.0"]),
    )
    .await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;

    let object = json!({"apiVersion": format!("{suffix}.example.com/v1"), "kind": "Float",
        "metadata": {"name": "deep", "namespace": scene.name}, "spec": {"depth": 9}});
    let create = ["create", "-f", "-"];
    (scene.cluster.plane).kubectl_with_input(&create, &object.to_string());
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    let added = "maximum constraint added when there was none previously : 10";
    let ready = refused(&scene, &extension, "1.1.0", added).await;
    let waiver = format!("{}:maximum", crd(suffix));
    let way_out = format!("annotate with {ALLOW}={waiver} and {REASON}=<why>");
    assert!(ready.contains(&way_out), "{ready}");
    let evidence = format!("({}: 1 object, 1 valid under the new schema)", crd(suffix));
    assert!(ready.contains(&evidence), "{ready}");
    told(&scene, "CRDUpgradeRefused", &way_out).await;
    assert_eq!(extension.revisions().await.len(), 1, "nothing is written");

    // An entry without a reason is not followed.
    scene.annotate(ALLOW, &format!("{waiver}@2999-12-31"));
    extension.shows("Progressing", "False", "InvalidConfiguration", REASON).await;
    scene.annotate(REASON, "nothing is deeper than 9");
    extension.installed("1.1.0").await;
    told(&scene, "CRDUpgradeWaived", added).await;
    let revision =
        scene.get("clusterobjectset", &format!("{}-2", scene.name)).expect("the revision is there");
    let recorded = &revision["metadata"]["annotations"];
    assert_eq!(recorded[ALLOW], json!(format!("{waiver}@2999-12-31")));
    assert_eq!(recorded[REASON], json!("nothing is deeper than 9"));

    scene.annotate(ALLOW, &format!("{waiver}@2020-12-31"));
    extension.patch_catalog(json!({"version": "1.2.0"})).await;
    let decreased = "maximum decreased : 10 -> 5";
    let ready = refused(&scene, &extension, "1.2.0", decreased).await;
    let evidence = format!("0 valid under the new schema; not {}/deep (/spec/depth: ", scene.name);
    assert!(ready.contains(&evidence), "{ready}");
    assert_eq!(extension.revisions().await.len(), 2, "the waiver is over");
    // plugin.md U53: the same before the update, of whatever names the bundles
    let image = format!("image:{}/{}-bundle:v1.2.0", scene.cluster.registry, scene.name);
    for old in ["cluster".to_owned(), format!("extension:{}", scene.name)] {
        let check = ["crd", "check", &old, &image];
        let (code, text, errors) = plugin::answer(scene.cluster.plane, &check);
        assert_eq!(code, Some(1), "{text}{errors}");
        assert!(text.contains(decreased), "{text}");
        let counted = format!("on the cluster: 1 object, {evidence}");
        assert!(text.contains(&counted), "{text}");
    }

    let none = json!({"install": {"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}}});
    extension.patch_spec(none).await;
    extension.installed("1.2.0").await;
    extension.delete().await;
}

// applying.md 6.1: an install may be an upgrade of a CRD that a former one left
#[tokio::test(flavor = "multi_thread")]
async fn an_install_over_a_wider_crd_is_refused_until_the_crd_changes() {
    let suffix = "leftover";
    let bundles = [bundle("1.0.0", suffix, Some(5))];
    let scene =
        Scene::set(cluster::with_controller().await, suffix, &bundles, &chain(&["1.0.0"])).await;
    let plane = scene.cluster.plane;
    let left = definition(suffix, Some(10)).to_string();
    plane.kubectl_with_input(&["create", "-f", "-"], &left);
    let extension = scene.install(json!({})).await;
    refused(&scene, &extension, "1.0.0", "maximum decreased : 10 -> 5").await;
    assert!(extension.revisions().await.is_empty());
    plane.kubectl(&["delete", "customresourcedefinition", &crd(suffix)]);
    wait::until("the change is noticed", NOTICED, || async {
        let made = extension.revisions().await;
        if made.is_empty() { Err(made) } else { Ok(()) }
    })
    .await;
    extension.installed("1.0.0").await;
    extension.delete().await;
}
