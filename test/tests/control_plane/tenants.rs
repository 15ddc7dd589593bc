//! A set is a revision of an extension because the controller made it, not because it says so
//! (applying.md 1.2): who may write sets takes nothing from the extensions of others.

use olm_api::{LifecycleState, MAX_REVISION};
use olm_test::helm::owner;
use olm_test::objects::set_of_tenant;
use olm_test::prelude::*;

use crate::accounts::{Person, assert_refused};
use crate::catalog::condition;

const FINALIZERS: (&str, &str) = ("olm.operatorframework.io", "clusterextensions/finalizers");
const POLICY: &str = "clusterobjectset-serviceaccount-use";

/// Two versions of a package, of which the first is installed.
async fn installed(cluster: cluster::Cluster, suffix: &str) -> (Scene, Extension) {
    Scene::first(cluster, suffix, &["1.0.0", "1.1.0"].map(Bundle::new)).await
}

/// A user who may make sets and use the account of a namespace of the same name, which may write
/// `ConfigMaps` there.
async fn tenant(name: &str) -> Person {
    let cluster = cluster::shared().await;
    tenant_of(cluster, name)
}

fn tenant_of(cluster: cluster::Cluster, name: &str) -> Person {
    cluster.plane.settle(name);
    Person { cluster, name: name.to_owned() }
}

fn with_label(mut set: Value, extension: &Extension) -> Value {
    set["metadata"]["labels"] = json!({
        label::OWNER_KIND: label::OWNER_KIND_EXTENSION, label::OWNER_NAME: extension.name});
    set
}

async fn with_reference(mut set: Value, extension: &Extension) -> Value {
    let uid = extension.get().await.metadata.uid.expect("a UID");
    let mut owner = owner(&extension.name, &uid);
    // What blocks the deletion of its owner takes a right that admission asks for anyway.
    owner["blockOwnerDeletion"] = json!(false);
    set["metadata"]["ownerReferences"] = json!([owner]);
    set
}

/// Says all that a revision of the extension says.
async fn claiming(set: Value, extension: &Extension) -> Value {
    with_reference(with_label(set, extension), extension).await
}

/// Names and states of the sets with the label of the extension.
async fn states(extension: &Extension) -> Vec<(String, LifecycleState)> {
    let revisions = extension.revisions().await.into_iter();
    let state = |one: olm_api::ClusterObjectSet| {
        (one.metadata.name.unwrap_or_default(), one.spec.lifecycle_state)
    };
    revisions.map(state).collect()
}

/// Upgrades to 1.1.0, which revision `number` holds then.
async fn upgrades(extension: &Extension, number: i64) {
    extension.moves_to("1.1.0").await;
    let name = |number: i64| format!("{}-{number}", extension.name);
    let replaced = |found: &Vec<_>| {
        found.contains(&(name(1), LifecycleState::Archived))
            && found.contains(&(name(number), LifecycleState::Active))
    };
    let what = "the new revision has replaced the first";
    wait::read(what, SOON, || states(extension), replaced).await;
}

/// Waits until a set has been rolled out.
async fn succeeds(scene: &Scene, name: &str) {
    let has_succeeded = |found: &Value| condition(found, "Succeeded")["status"] == "True";
    scene.until("it is rolled out", "clusterobjectset", name, has_succeeded).await;
}

// deploying.md 6.1
#[tokio::test(flavor = "multi_thread")]
async fn a_set_that_names_an_extension_takes_the_right_on_its_finalizers() {
    let (scene, extension) = installed(cluster::with_controller().await, "claimed").await;
    let tenant = tenant("tenant-claims").await;
    let plain = set_of_tenant(&format!("{}-50", scene.name), 50, &tenant.name);
    tenant.is_admitted("a set of his own", plain.clone()).await;
    let refusal = format!(
        "user \"tenant-claims\" may not make a ClusterObjectSet a revision of ClusterExtension \
         \"{}\": grant verb \"update\" on clusterextensions/finalizers",
        scene.name
    );
    let mut owned_only = with_reference(plain.clone(), &extension).await;
    owned_only["metadata"]["ownerReferences"][0]["controller"] = json!(false);
    for claim in [
        with_label(plain.clone(), &extension),
        with_reference(plain.clone(), &extension).await,
        claiming(plain.clone(), &extension).await,
        owned_only,
    ] {
        // Other tests begin before the policies are in force.
        wait::refused("it is refused", SOON, || tenant.asks(&claim), &refusal).await;
    }
    let mut both = claiming(plain.clone(), &extension).await;
    both["metadata"]["labels"][label::OWNER_NAME] = json!("another");
    assert_refused(&tenant.asks(&both), "cannot be a revision of two ClusterExtensions");
    tenant.grant("update", FINALIZERS, Some(&scene.name), None);
    tenant.is_admitted("with the right", claiming(plain, &extension).await).await;
    extension.delete().await;
}

// applying.md 1.2, where nobody asks who makes a set
pub(crate) async fn a_set_of_somebody_else_replaces_no_revision(cluster: Cluster) {
    let plane = cluster.plane;
    let (scene, extension) = installed(cluster.clone(), "replaced").await;
    let tenant = tenant_of(cluster, "tenant-replaces");
    for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
        plane.kubectl(&["delete", kind, POLICY]);
    }
    let names = [format!("{}-50", scene.name), "tenant-set".to_owned()];
    for name in &names {
        let claim = claiming(set_of_tenant(name, 50, &tenant.name), &extension).await;
        let creates = || tenant.tries(&["create", "-f", "-"], &claim.to_string());
        wait::done("nobody asks for a right", SOON, creates).await;
        succeeds(&scene, name).await;
    }
    // What was rolled out last archives those before it at once.
    let first = (format!("{}-1", scene.name), LifecycleState::Active);
    assert!(states(&extension).await.contains(&first));
    upgrades(&extension, 2).await;
    let found = states(&extension).await;
    for name in &names {
        assert!(found.contains(&(name.clone(), LifecycleState::Active)), "{found:?}");
    }
    for name in names {
        // Deleted by hand it goes, with what it applied: it holds nothing of the extension.
        plane.kubectl(&["delete", "clusterobjectset", &name, "--timeout=180s"]);
        let left = ["get", "configmap", &name, "-n", &tenant.name, "--ignore-not-found"];
        assert_eq!(plane.kubectl(&left), "");
    }
    extension.delete().await;
    plane.mend();
}

// applying.md 3.4
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_taken_is_passed_over() {
    let (scene, extension) = installed(cluster::with_controller().await, "squatted").await;
    let tenant = tenant("tenant-squats").await;
    let mut archived = set_of_tenant(&format!("{}-2", scene.name), 2, &tenant.name);
    archived["spec"]["lifecycleState"] = json!("Archived");
    for squatted in [&archived, &set_of_tenant(&format!("{}-3", scene.name), 3, &tenant.name)] {
        let creates = || tenant.tries(&["create", "-f", "-"], &squatted.to_string());
        wait::done("a set of his own", SOON, creates).await;
    }
    succeeds(&scene, &format!("{}-3", scene.name)).await;
    upgrades(&extension, 4).await;
    let told = format!(
        "ClusterObjectSets {0}-2 to {0}-3 are not revisions of this extension, so 4 is the next free \
         number",
        scene.name
    );
    scene.told("RevisionCreated", &told).await;
    for number in [2, 3] {
        let name = format!("{}-{number}", scene.name);
        scene.cluster.plane.kubectl(&["delete", "clusterobjectset", &name]);
    }
    extension.delete().await;
}

// applying.md 3.4
#[tokio::test(flavor = "multi_thread")]
async fn the_greatest_number_stops_no_upgrade() {
    let (scene, extension) = installed(cluster::with_controller().await, "greatest").await;
    let tenant = tenant("tenant-greatest").await;
    let plane = scene.cluster.plane;
    let last = format!("{}-{MAX_REVISION}", scene.name);
    let claim = |number: i64| claiming(set_of_tenant(&last, number, &tenant.name), &extension);
    let above = claim(i64::MAX).await.to_string();
    let refused = plane.try_kubectl(&["create", "-f", "-"], &above);
    assert_refused(&refused, "should be less than or equal to");
    plane.create(&claim(MAX_REVISION).await);
    succeeds(&scene, &last).await;
    upgrades(&extension, 2).await;
    plane.kubectl(&["delete", "clusterobjectset", &last]);
    extension.delete().await;
}
