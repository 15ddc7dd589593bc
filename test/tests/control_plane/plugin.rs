//! `kubectl olm graph` and `why` of an extension: with the catalogs and the installed bundle of the
//! cluster, and as the controller is set.

use k8s_openapi::api::core::v1::ConfigMap;
use olm_api::keys::name::CONTROLLER_CONFIG;
use olm_core::settings::KEY;
use olm_test::prelude::*;

const SOON: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_is_drawn_and_explained_with_what_is_installed_and_what_comes_next() {
    let scene = Scene::shared("drawn", &["1.0.0", "1.0.1", "2.0.0"]).await;
    let extension = scene.installed(json!({"version": "1.0.0"}), "1.0.0").await;
    extension.patch_catalog(json!({"version": null})).await;
    extension.installed("1.0.1").await;

    // The next major version is held back, so no path leads to it.
    let drawn = plugin::ask(scene.cluster.plane, &["graph", &scene.name]);
    let rows: Vec<&str> = drawn.lines().map(str::trim).collect();
    for row in ["\u{25cb} 2.0.0  head", "\u{25c9} 1.0.1  installed", "\u{25cb} 1.0.0", "next: none"]
    {
        assert!(rows.contains(&row), "{row}: {drawn}");
    }
    let explained = plugin::ask(scene.cluster.plane, &["why", &scene.name, "2.0.0"]);
    for text in ["1.0.1 (installed)", "NextMajorHeld", "upgrade: Any"] {
        assert!(explained.contains(text), "{text}: {explained}");
    }

    // The suggested way out leads there.
    scene.annotate(olm_api::keys::policy::UPGRADE, "Any");
    extension.installed("2.0.0").await;
    extension.delete().await;
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

// plugin.md 5, U84
#[tokio::test(flavor = "multi_thread")]
async fn the_plugin_decides_by_the_settings_that_the_controller_publishes() {
    let (cluster, _controller) =
        cluster::started("settings", &["--default-upgrade-policy=Any"]).await;
    let plane = cluster.plane;
    published(&cluster, "defaultUpgradePolicy: Any").await;
    let versions = ["1.0.0", "2.0.0"];
    let bundles = versions.map(Bundle::new);
    let scene = Scene::set(cluster, "settings", &bundles, &chain(&versions)).await;
    let extension = scene.installed(json!({"version": "1.0.0"}), "1.0.0").await;

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
    let file = scene.folder(&bundles[0]).join("settings.yaml");
    std::fs::write(&file, "defaultUpgradePolicy: MinorOnly\n").expect("a file");
    let flag = format!("--controller-settings={}", file.display());
    assert_eq!(why(&[&flag])["selected"]["version"], "1.0.0");

    plane.kubectl(&["delete", "rolebinding", &binding, &namespace]);
    plane.kubectl(&["delete", "clusterrolebinding", &binding]);
    extension.patch_catalog(json!({"version": null})).await;
    extension.installed("2.0.0").await;
    extension.delete().await;
}

// plugin.md U86
#[tokio::test(flavor = "multi_thread")]
async fn settings_that_are_as_before_are_not_written_again() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    let log = &plane.addresses.audit_log;
    let asked = |verb: &str| {
        let requests = audit::mentioning(log, CONTROLLER_CONFIG).into_iter();
        let own = requests.filter(|it| it.user.ends_with(CONTROLLER_ACCOUNT));
        own.filter(|it| it.resource == "configmaps" && it.verb == verb).count()
    };
    let mut controller = Controller::start(plane, ControllerOptions::default());
    published(&cluster, "defaultUpgradePolicy: MinorOnly").await;
    let before = asked("get");
    controller.restart(plane);
    wait::value("the settings are compared", SOON, || asked("get"), |looks| *looks > before).await;
    // What is written is written at once.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(asked("patch"), 1);
}
