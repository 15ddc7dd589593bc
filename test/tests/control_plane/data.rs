//! Users' data survives everything but the uninstall they asked for: an orphaning deletion whatever
//! fails, an upgrade that drops a CRD, unknown policy annotations.

use std::time::{Duration, Instant};

use olm_test::cluster;
use olm_test::extension::{Extension, ROLLOUT, condition, is};
use olm_test::package::{Bundle, chain};
use olm_test::scene::Scene;
use olm_test::wait;
use serde_json::{Value, json};

/// Longer than an uninstall waits before it relies on the garbage collector.
const FALLBACK: Duration = Duration::from_secs(75);
const STEP: Duration = Duration::from_secs(45);
const UNINSTALL: &str = "policy.olm.operatorframework.io/uninstall";
const FINALIZER: &str = "example.com/served-by-the-operator";

/// Installs 1.0.0 of a package and makes an instance of its CRD.
async fn installed(suffix: &str, bundles: &[Bundle]) -> (Scene, Extension) {
    let versions: Vec<&str> = bundles.iter().map(|one| one.version.as_str()).collect();
    let scene =
        Scene::set(cluster::with_controller().await, suffix, bundles, &chain(&versions)).await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    make_instance(&scene, &scene.package.crd(), &[]);
    (scene, extension)
}

/// Makes an instance named `one` of a CRD `<plural>.<group>`.
fn make_instance(scene: &Scene, crd: &str, finalizers: &[&str]) {
    let (_, group) = crd.split_once('.').expect("a CRD has a group");
    let instance = json!({"apiVersion": format!("{group}/v1"), "kind": "Buoy",
        "metadata": {"name": "one", "namespace": scene.name, "finalizers": finalizers}});
    let args = ["apply", "--server-side", "-f", "-"];
    scene.cluster.plane.kubectl_with_input(&args, &instance.to_string());
}

/// Every object of the bundle that a user would miss, as (kind, name).
fn parts(scene: &Scene) -> Vec<(String, String)> {
    let package = &scene.package;
    [
        ("customresourcedefinition", package.crd()),
        (&*package.crd(), "one".to_owned()),
        ("deployment", package.deployment()),
        ("configmap", package.config_map()),
        ("serviceaccount", package.deployment()),
    ]
    .map(|(kind, name)| (kind.to_owned(), name))
    .to_vec()
}

/// Fails if one of these objects is gone or being deleted.
fn assert_there(scene: &Scene, when: &str) {
    for (kind, name) in parts(scene) {
        let found = scene.get(&kind, &name);
        let found = found.unwrap_or_else(|| panic!("{kind} {name} is gone {when}"));
        let going = &found["metadata"]["deletionTimestamp"];
        assert_eq!(*going, Value::Null, "{kind} {name} is being deleted {when}");
    }
}

/// Checks for `long` that nothing is removed.
async fn nothing_goes_for(scene: &Scene, long: Duration, when: &str) {
    let end = Instant::now() + long;
    while Instant::now() < end {
        assert_there(scene, when);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn delete(scene: &Scene, how: &str) {
    let cascade = format!("--cascade={how}");
    let args = ["delete", "clusterextension", &scene.name, &cascade, "--wait=false"];
    scene.cluster.plane.kubectl(&args);
}

/// Waits until `Ready` is false and its message holds `text`.
async fn held(extension: &Extension, text: &str) {
    let what = format!("Ready False with {text:?}");
    extension
        .eventually(&what, ROLLOUT, |extension| {
            condition(extension, "Ready")
                .is_some_and(|found| found.status == "False" && found.message.contains(text))
        })
        .await;
}

/// Waits until the extension is gone, and checks that what it installed stays, without an owner.
async fn left_behind(scene: &Scene, extension: &Extension) {
    extension.gone().await;
    assert_there(scene, "after the end of the extension");
    for (kind, name) in parts(scene) {
        let found = scene.get(&kind, &name).expect("it was there just now");
        let metadata = &found["metadata"];
        assert_eq!(metadata["ownerReferences"], Value::Null, "{kind} {name}");
        let owner = &metadata["labels"]["olm.operatorframework.io/owner-name"];
        assert_eq!(*owner, Value::Null, "{kind} {name}");
    }
    let secrets = secrets(scene);
    assert_eq!(secrets, Vec::<String>::new(), "content of the revision");
}

/// Names of the Secrets with the content of the extension's revisions.
fn secrets(scene: &Scene) -> Vec<String> {
    scene.content("olm.operatorframework.io/owner-name", &scene.name)
}

// applying.md 7.3
#[tokio::test(flavor = "multi_thread")]
async fn an_orphaning_deletion_keeps_everything() {
    let (scene, extension) = installed("orphan", &[Bundle::new("1.0.0")]).await;
    delete(&scene, "orphan");
    left_behind(&scene, &extension).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: make test-full"]
async fn an_orphaning_deletion_without_the_account_waits_and_keeps_everything() {
    let bundles = [Bundle::new("1.0.0")];
    let (scene, extension) = installed("orphansa", &bundles).await;
    let plane = scene.cluster.plane;
    plane.kubectl(&["delete", "serviceaccount", "installer", "-n", &scene.name]);
    delete(&scene, "orphan");
    held(&extension, "has to be released first").await;
    nothing_goes_for(&scene, FALLBACK, "while the account is gone").await;
    scene.grant(&bundles);
    left_behind(&scene, &extension).await;
}

// ours: the Secret is really gone
#[tokio::test(flavor = "multi_thread")]
async fn an_orphaning_deletion_without_content_waits_and_keeps_everything() {
    let (scene, extension) = installed("orphancontent", &[Bundle::new("1.0.0")]).await;
    let plane = scene.cluster.plane;
    // Lost content is recreated, unless the extension is paused.
    scene.annotate("policy.olm.operatorframework.io/paused", "true");
    extension
        .eventually("it is paused", STEP, |extension| condition(extension, "Paused").is_some())
        .await;
    for secret in secrets(&scene) {
        plane.kubectl(&["delete", "-n", "olmv1-system", &secret]);
    }
    delete(&scene, "orphan");
    held(&extension, "has to be released first").await;
    assert_there(&scene, "while the content is gone");
    // Kubernetes was asked to orphan the dependents of the revision, so removing the finalizer by
    // hand loses nothing.
    let revision = format!("{}-1", scene.name);
    wait::until("the garbage collector has let go", STEP, || async {
        let set = scene.get("clusterobjectset", &revision);
        let finalizers = set.map(|set| set["metadata"]["finalizers"].to_string());
        match finalizers {
            Some(left) if left.contains("\"orphan\"") => Err(left),
            other => Ok(other),
        }
    })
    .await;
    let none = r#"{"metadata":{"finalizers":null}}"#;
    plane.kubectl(&["patch", "clusterobjectset", &revision, "--type=merge", "-p", none]);
    extension.gone().await;
    nothing_goes_for(&scene, Duration::from_secs(15), "after the revision").await;
}

/// Takes the finalizer of the garbage collector off, which then lets go of nothing.
fn forget_to_orphan(scene: &Scene, kind: &str, name: &str) {
    let found = scene.get(kind, name).expect("it is there");
    let finalizers = found["metadata"]["finalizers"].as_array().expect("a list");
    let rest: Vec<_> = finalizers.iter().filter(|it| *it != "orphan").collect();
    let patch = json!({"metadata": {"finalizers": rest}}).to_string();
    let args = ["patch", kind, name, "--type=merge", "-p", &patch];
    scene.cluster.plane.kubectl(&args);
}

// ours: a garbage collector that does not know our kinds yet takes its finalizers off and lets go
// of nothing.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: make test-full"]
async fn an_orphaning_deletion_is_remembered_without_the_garbage_collector() {
    let (scene, extension) = installed("orphanmark", &[Bundle::new("1.0.0")]).await;
    // It cannot be released as long as the account is gone.
    let account = ["delete", "serviceaccount", "-n", &scene.name, "installer"];
    scene.cluster.plane.kubectl(&account);
    delete(&scene, "orphan");
    held(&extension, "has to be released first").await;
    forget_to_orphan(&scene, "clusterextension", &scene.name);
    forget_to_orphan(&scene, "clusterobjectset", &format!("{}-1", scene.name));
    nothing_goes_for(&scene, FALLBACK, "without the finalizers").await;
    scene.grant(&[Bundle::new("1.0.0")]);
    left_behind(&scene, &extension).await;
}

// applying.md 7.2, 7.3: the order holds under every way to delete, h2
#[tokio::test(flavor = "multi_thread")]
async fn instances_go_while_their_operator_runs_whichever_way_it_is_deleted() {
    for how in ["background", "foreground"] {
        let (scene, extension) = installed(&format!("order{how}"), &[Bundle::new("1.0.0")]).await;
        let crd = scene.package.crd();
        make_instance(&scene, &crd, &[FINALIZER]);
        scene.annotate(UNINSTALL, "Delete");
        delete(&scene, how);
        wait::until("the instance is going", STEP, || async {
            match scene.get(&crd, "one") {
                Some(one) if one["metadata"]["deletionTimestamp"].is_string() => Ok(()),
                other => Err(other),
            }
        })
        .await;
        held(&extension, &format!("waiting for 1 {crd}: {}/one [{FINALIZER}]", scene.name)).await;
        let operator = scene.get("deployment", &scene.package.deployment());
        let operator = operator.unwrap_or_else(|| panic!("{how}: the operator is gone"));
        assert_eq!(operator["metadata"]["deletionTimestamp"], Value::Null);
        let none = r#"{"metadata":{"finalizers":null}}"#;
        let args = ["patch", &crd, "one", "-n", &scene.name, "--type=merge", "-p", none];
        scene.cluster.plane.kubectl(&args);
        extension.gone().await;
        assert!(scene.get("deployment", &scene.package.deployment()).is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_annotation_asks_for_and_nobody_does_holds_the_removal() {
    for (how, key) in [
        ("background", UNINSTALL),
        ("foreground", UNINSTALL),
        ("orphan", "policy.olm.operatorframework.io/uninstal"),
    ] {
        let (scene, extension) = installed(&format!("hold{how}"), &[Bundle::new("1.0.0")]).await;
        scene.annotate(key, "Cascade");
        extension.shows("Progressing", "False", "InvalidConfiguration", key).await;
        let still = extension.get().await;
        assert!(is(&still, "Installed", "True", "Succeeded"));
        delete(&scene, how);
        let way_out = format!("kubectl annotate clusterextension {} {key}-", scene.name);
        held(&extension, &way_out).await;
        assert!(
            scene.events("RemovalHeld").iter().any(|note| note.contains(&way_out)),
            "an Event says it too"
        );
        nothing_goes_for(&scene, Duration::from_secs(5), "while the removal is held").await;
        let goes = how != "orphan";
        scene.annotate(key, if goes { "Delete" } else { "" });
        if how == "orphan" {
            left_behind(&scene, &extension).await;
        } else {
            extension.gone().await;
            assert!(scene.get("deployment", &scene.package.deployment()).is_none());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_installed_under_an_annotation_nobody_understands() {
    let scene = Scene::set(
        cluster::with_controller().await,
        "nokey",
        &[Bundle::new("1.0.0")],
        &chain(&["1.0.0"]),
    )
    .await;
    let extension = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
        "metadata": {"name": scene.name,
            "annotations": {"policy.olm.operatorframework.io/user-rights": "1"}},
        "spec": {"namespace": scene.name, "serviceAccount": {"name": "installer"},
            "source": {"sourceType": "Catalog",
                "catalog": {"packageName": scene.package.name(),
                    "selector": {"matchLabels":
                        {"olm.operatorframework.io/metadata.name": scene.name}}}}}});
    let plane = scene.cluster.plane;
    plane.kubectl_with_input(&["create", "-f", "-"], &extension.to_string());
    let extension = Extension::named(&scene.cluster.client, &scene.name);
    extension.shows("Progressing", "False", "InvalidConfiguration", "user-rights").await;
    assert!(extension.revisions().await.is_empty());
    scene.annotate("policy.olm.operatorframework.io/user-rights", "");
    extension.installed("1.0.0").await;
    extension.delete().await;
}

fn second_crd(suffix: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("floats.{suffix}.example.com")},
        "spec": {
            "group": format!("{suffix}.example.com"), "scope": "Namespaced",
            "names": {"kind": "Float", "listKind": "FloatList", "plural": "floats",
                "singular": "float"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}

/// Gives the service account the right to count the objects of the second CRD.
fn let_count(scene: &Scene) {
    let name = format!("{}-counts", scene.name);
    let resource = format!("--resource=floats.{}.example.com", scene.package.suffix);
    let plane = scene.cluster.plane;
    plane.kubectl(&["create", "clusterrole", &name, "--verb=list", &resource]);
    let (role, account) =
        (format!("--clusterrole={name}"), format!("--serviceaccount={}:installer", scene.name));
    plane.kubectl(&["create", "clusterrolebinding", &name, &role, &account]);
}

// applying.md g7: a version without a CRD that has objects is refused; when that is waived the CRD
// outlives the version that has it, and comes back
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_without_a_crd_keeps_its_objects() {
    let old = Bundle::new("1.0.0").with_manifest(second_crd("dropped"));
    let (scene, extension) = installed("dropped", &[old, Bundle::new("1.1.0")]).await;
    let crd = "floats.dropped.example.com";
    let float = json!({"apiVersion": "dropped.example.com/v1", "kind": "Float",
        "metadata": {"name": "one", "namespace": scene.name}});
    let plane = scene.cluster.plane;
    plane.kubectl_with_input(&["apply", "--server-side", "-f", "-"], &float.to_string());
    let_count(&scene);
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    let text = "definitionRemoval: not part of the new version, and 1 object of it exists";
    extension.shows("Progressing", "True", "Retrying", text).await;
    let policy = "policy.olm.operatorframework.io/crd-safety";
    scene.annotate(&format!("{policy}-reason"), "somebody looks after it");
    scene.annotate(&format!("{policy}-allow"), &format!("{crd}:definitionRemoval"));
    extension.installed("1.1.0").await;
    archived(&scene, 1).await;
    let kept = scene.get("customresourcedefinition", crd).expect("the CRD stays");
    assert_eq!(kept["metadata"]["deletionTimestamp"], Value::Null);
    assert_eq!(kept["metadata"]["ownerReferences"], Value::Null);
    assert!(scene.get(crd, "one").is_some(), "its object stays");
    wait::until("it is told", STEP, || async {
        let told = scene.events("CRDRetained");
        if told.iter().any(|note| note.contains(crd)) { Ok(()) } else { Err(told) }
    })
    .await;
    // A rollback takes it over again.
    let back = json!({"version": "1.0.0", "upgradeConstraintPolicy": "SelfCertified"});
    extension.patch_catalog(back).await;
    extension.installed("1.0.0").await;
    let again = scene.get("customresourcedefinition", crd).expect("the CRD stays");
    let owner = &again["metadata"]["ownerReferences"][0]["name"];
    assert_eq!(*owner, format!("{}-3", scene.name));
    let marked = &again["metadata"]["labels"]["policy.olm.operatorframework.io/retained-by"];
    assert_eq!(*marked, Value::Null, "the mark goes with the retention");
    assert!(scene.get(crd, "one").is_some(), "its object stays");
    extension.delete().await;
}

// D3: an empty CRD is removed, as before
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_without_a_crd_removes_it_when_it_is_empty() {
    let old = Bundle::new("1.0.0").with_manifest(second_crd("emptied"));
    let (scene, extension) = installed("emptied", &[old, Bundle::new("1.1.0")]).await;
    let_count(&scene);
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    extension.installed("1.1.0").await;
    archived(&scene, 1).await;
    assert!(scene.get("customresourcedefinition", "floats.emptied.example.com").is_none());
    extension.delete().await;
}

async fn archived(scene: &Scene, revision: i64) {
    let name = format!("{}-{revision}", scene.name);
    wait::until(&format!("{name} is archived"), ROLLOUT, || async {
        let set = scene.get("clusterobjectset", &name).unwrap_or_default();
        match set["metadata"]["finalizers"].as_array() {
            None => Ok(()),
            Some(_) => Err(set["status"].to_string()),
        }
    })
    .await;
}
