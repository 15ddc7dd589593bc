//! What the plugin says of packages and extensions with the catalogs of the cluster, and as the controller is
//! set.

use k8s_openapi::api::core::v1::ConfigMap;
use olm_api::keys::name::CONTROLLER_CONFIG;
use olm_core::settings::KEY;
use olm_test::prelude::*;

use crate::dead_conversion::whether_objects_are_converted_decides_neither_their_end_nor_that_of_a_removal;
use crate::plans::{a_plan_shows_what_changes_whoever_asks, with_secrets};
use crate::plugin_language::{VERSIONS, a_word_means_the_same_to_every_verb};
use crate::plugin_life::what_classic_left_behind_is_carried_over;
use crate::plugin_rbac::too_much_is_found_by_binding_also_by_that_of_a_group;

/// Of its own: what a package gets is not known while any catalog of the cluster is not served, and last
/// the garbage collector has to wait.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_of_the_whole_cluster_is_known_where_every_catalog_is_served() {
    let (cluster, _controller) = cluster::started("", &[]).await;
    let words = Scene::of(cluster.clone(), "words", &VERSIONS).await;
    let planned = with_secrets(cluster.clone(), "planned").await;
    let spare = Scene::served(cluster.clone(), "spare", &["1.0.0"]).await;
    let left = Scene::served(cluster.clone(), "classic", &["1.0.0"]).await;
    a_word_means_the_same_to_every_verb(&words).await;
    a_plan_shows_what_changes_whoever_asks(&planned).await;
    too_much_is_found_by_binding_also_by_that_of_a_group(&spare);
    what_classic_left_behind_is_carried_over(&left).await;
    whether_objects_are_converted_decides_neither_their_end_nor_that_of_a_removal(cluster).await;
}

/// Waits until the controller has published settings with this line.
pub(crate) async fn published(cluster: &Cluster, line: &str) {
    let maps = Api::<ConfigMap>::namespaced(cluster.client.clone(), SYSTEM_NAMESPACE);
    wait::until(&format!("{line:?} is published"), SOON, || async {
        let found = maps.get(CONTROLLER_CONFIG).await;
        let data = found.map_err(|error| error.to_string())?.data;
        let text = data.unwrap_or_default().remove(KEY).unwrap_or_default();
        let has_line = text.lines().any(|it| it == line);
        has_line.then_some(()).ok_or(text)
    })
    .await;
}

/// With `--default-upgrade-policy=Any` (plugin.md 5, U84).
pub(crate) async fn decides_by_the_settings_that_the_controller_publishes(cluster: &Cluster) {
    let plane = cluster.plane;
    published(cluster, "defaultUpgradePolicy: Any").await;
    let (scene, extension) =
        Scene::first(cluster.clone(), "settings", &["1.0.0", "2.0.0"].map(Bundle::new)).await;

    let why = |flags: &[&str]| -> Value {
        let question = ["why", &scene.name, "--version=>=1.0.0", "--output=json"];
        let answer = plugin::ask(scene.cluster.plane, &[&question, flags].concat());
        serde_json::from_str(&answer).expect("a JSON document")
    };
    let as_controller = why(&[]);
    assert_eq!(as_controller["selected"]["version"], "2.0.0");
    assert_eq!(as_controller["assumed"], Value::Null);

    // Whoever may only look at extensions is told what is assumed.
    let viewer = "operator-controller-clusterextension-viewer-role";
    let (binding, dana) = (format!("{}-viewer", scene.name), objects::user("dana"));
    plane.grant(&[objects::binding(&binding, None, ("ClusterRole", viewer), &dana)]);
    let assumed = why(&["--as=dana"]);
    assert_eq!(assumed["selected"]["version"], "1.0.0");
    let reason = assumed["assumed"][0].as_str().unwrap_or_default();
    assert!(reason.contains("configmaps \"olm-controller-config\" is forbidden"), "{reason}");

    // With the other role for people, the answer is the controller's again.
    let namespace = format!("--namespace={SYSTEM_NAMESPACE}");
    let role = ("Role", "olm-plugin-reader");
    plane.grant(&[objects::binding(&binding, Some(SYSTEM_NAMESPACE), role, &dana)]);
    assert_eq!(why(&["--as=dana"]), as_controller);

    // A file goes first, and what is wrong with it is named.
    let file = scene.folder(&Bundle::new("1.0.0")).join("settings.yaml");
    std::fs::write(&file, "defaultUpgradePolicy: MinorOnly\n").expect("a file");
    let flag = format!("--controller-settings={}", file.display());
    assert_eq!(why(&[&flag])["selected"]["version"], "1.0.0");

    plane.kubectl(&["delete", "rolebinding", &binding, &namespace]);
    plane.kubectl(&["delete", "clusterrolebinding", &binding]);
    extension.patch_catalog(json!({"version": null})).await;
    extension.installed("2.0.0").await;
    extension.delete().await;
}

/// Returns how often controllers asked to read or write the settings that they publish.
pub(crate) fn settings(plane: &ControlPlane, verb: &str) -> usize {
    let requests = audit::mentioning(&plane.addresses.audit_log, CONTROLLER_CONFIG).into_iter();
    let own = requests.filter(|it| it.user.ends_with(CONTROLLER_ACCOUNT));
    own.filter(|it| it.resource == "configmaps" && it.verb == verb).count()
}
