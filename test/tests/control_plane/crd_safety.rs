//! Upgrades of CRDs that could make stored objects invalid: refused, waived, switched off.

use olm_api::keys::policy::{CRD_SAFETY_ALLOW as ALLOW, CRD_SAFETY_REASON as REASON};
use olm_test::package;
use olm_test::prelude::*;
use olm_test::scene::grant;

fn crd(scene: &str) -> String {
    format!("floats.{scene}.example.com")
}

/// A CRD whose objects may be this deep.
pub(crate) fn definition(suffix: &str, maximum: Option<u32>) -> Value {
    let mut depth = json!({"type": "integer"});
    if let Some(maximum) = maximum {
        depth["maximum"] = json!(maximum);
    }
    let mut crd = package::definition("Float", &format!("{suffix}.example.com"));
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object",
        "properties": {"spec": {"type": "object", "properties": {"depth": depth}}}});
    crd
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
    let found = extension.says("True", "Retrying", &text).await;
    condition(&found, "Ready").expect("Ready is there").message.clone()
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
    let (scene, extension) = Scene::shared_first(suffix, &bundles).await;

    let object = json!({"apiVersion": format!("{suffix}.example.com/v1"), "kind": "Float",
        "metadata": {"name": "deep", "namespace": scene.name}, "spec": {"depth": 9}});
    scene.cluster.plane.create(&object);
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    let added = "maximum constraint added when there was none previously : 10";
    let ready = refused(&scene, &extension, "1.1.0", added).await;
    let waiver = format!("{}:maximum", crd(suffix));
    let way_out = format!("clusterextension {} {ALLOW}={waiver} {REASON}=WHY", scene.name);
    assert!(ready.contains(&way_out), "{ready}");
    let evidence = format!("({}: 1 object, 1 valid under the new schema)", crd(suffix));
    assert!(ready.contains(&evidence), "{ready}");
    scene.told("CRDUpgradeRefused", &way_out).await;
    assert_eq!(extension.revisions().await.len(), 1, "nothing is written");

    // An entry without a reason is not followed.
    scene.annotate(ALLOW, &format!("{waiver}@2999-12-31"));
    extension.shows("Progressing", "False", "InvalidConfiguration", REASON).await;
    scene.annotate(REASON, "nothing is deeper than 9");
    extension.installed("1.1.0").await;
    scene.told("CRDUpgradeWaived", added).await;
    let revision = scene.there("clusterobjectset", &scene.revision(2)).await;
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
        let (text, _) = plugin::answer(scene.cluster.plane, &check).ends(1);
        assert!(text.contains(decreased), "{text}");
        assert!(text.contains(&format!("on the cluster: 1 object, {evidence}")), "{text}");
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
    let scene = Scene::shared_set(suffix, &bundles, &chain(&["1.0.0"])).await;
    let plane = scene.cluster.plane;
    plane.create(&definition(suffix, Some(10)));
    let extension = scene.install(json!({})).await;
    refused(&scene, &extension, "1.0.0", "maximum decreased : 10 -> 5").await;
    assert!(extension.revisions().await.is_empty());
    plane.kubectl(&["delete", "customresourcedefinition", &crd(suffix)]);
    // The delay of attempts grows to minutes.
    let made = || scene.get("clusterobjectset", &scene.revision(1));
    wait::value("the change is noticed", SOON, made, Option::is_some).await;
    extension.installed("1.0.0").await;
    extension.delete().await;
}

/// Makes another account with the rights for these bundles.
fn hire(scene: &Scene, bundles: &[Bundle], account: &str) {
    let folders: Vec<_> = bundles.iter().map(|bundle| scene.folder(bundle)).collect();
    grant(scene.cluster.plane, &folders, &scene.name, account, &[]);
}

// applying.md 4.5
#[tokio::test(flavor = "multi_thread")]
async fn another_account_maintains_what_is_installed_while_an_update_is_held_or_rolls_out() {
    let suffix = "rehired";
    let bundles = [
        bundle("1.0.0", suffix, None).with_second_config_map(),
        bundle("1.1.0", suffix, Some(10)),
        bundle("1.2.0", suffix, None),
    ];
    let (scene, extension) = Scene::shared_first(suffix, &bundles).await;
    let (name, plane) = (scene.name.clone(), scene.cluster.plane);
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    let held = "maximum constraint added when there was none previously : 10";
    extension.shows("Progressing", "True", "Retrying", held).await;

    hire(&scene, &bundles, "second");
    // The name cannot be changed, but be cleared and set.
    extension.patch_spec(json!({"serviceAccount": null})).await;
    extension.patch_spec(json!({"serviceAccount": {"name": "second"}})).await;
    plane.run(&format!("delete serviceaccount {ACCOUNT} -n {name}"));
    let records = |set: &Value| {
        let key = "olm.operatorframework.io/service-account-name";
        set["metadata"]["annotations"][key] == "second"
    };
    scene.until("it records the account", "clusterobjectset", &scene.revision(1), records).await;
    extension.shows("Progressing", "True", "Retrying", held).await;
    scene.is_repaired().await;

    hire(&scene, &bundles, "third");
    plane.run(&format!("delete serviceaccount second -n {name}"));
    let catalog = json!({"version": "1.2.0", "upgradeConstraintPolicy": "SelfCertified"});
    extension.patch_spec(json!({"serviceAccount": null})).await;
    let third = json!({"serviceAccount": {"name": "third"}, "source": {"catalog": catalog}});
    extension.patch_spec(third).await;
    extension.installed("1.2.0").await;
    // The first revision removes what the new one has not.
    scene.gone("configmap", &scene.package.second_config_map()).await;
    extension.delete().await;
}
