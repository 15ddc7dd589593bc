//! The whole life of an extension with nothing but the plugin.

use std::process::Output;

use olm_test::cluster::{self, Controller, ControllerOptions};
use olm_test::extension::{Extension, UNINSTALL};
use olm_test::package::{Bundle, chain};
use olm_test::plugin;
use olm_test::scene::Scene;

use serde_json::{Value, json};

/// Runs `kubectl olm`, and returns its exit code, what it prints and what it says besides.
fn olm(scene: &Scene, args: &[&str], reads_catalogs: bool) -> (Option<i32>, String, String) {
    let plane = scene.cluster.plane;
    let ca = plane.addresses.controller_ca.to_string_lossy();
    let ca: &[&str] = if reads_catalogs { &["--catalog-ca", &ca] } else { &[] };
    let out: Output = plugin::run(plane, &[args, ca].concat());
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (out.status.code(), text(out.stdout), text(out.stderr))
}

/// The arguments that install version 1.0.0 of the scene's package into its namespace.
fn install(scene: &Scene) -> Vec<String> {
    let (name, wanted) = (&scene.name, format!("{}@1.0.0", scene.name));
    let args = ["install", &wanted, "--catalog", name, "-n", name, "--yes"];
    args.map(str::to_owned).into()
}

fn run(scene: &Scene, args: &[String], more: &[&str]) -> (Option<i32>, String, String) {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    olm(scene, &[&args[..], more].concat(), true)
}

/// Waits until an extension offers a version although it is pinned.
async fn offers(extension: &Extension) {
    let what = "an update is offered";
    let pinned = |found: &olm_api::ClusterExtension| {
        let update = found.status.as_ref().and_then(|status| status.update.as_ref());
        update.is_some_and(|update| update.reason == "Pinned")
    };
    extension.eventually(what, UNINSTALL, pinned).await;
}

// plugin.md U23, U30, U31
fn found_and_installed(scene: &Scene) {
    let name = &scene.name;
    let (code, text, errors) = olm(scene, &["search", "FIRST"], true);
    assert_eq!(code, Some(0), "{errors}");
    let found = text.lines().find(|line| line.starts_with(name));
    assert!(found.expect("a row").contains(" stable "), "{text}");
    let (code, _, _) = olm(scene, &["search", "no-such-package"], true);
    assert!(matches!(code, Some(1 | 3)));

    let install = install(scene);
    let (code, _, errors) = run(scene, &install[..4], &[]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("a namespace is required"), "{errors}");
    let (code, _, errors) = run(scene, &install, &[]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("hint: --create-namespace"), "{errors}");
    let (code, list, _) = run(scene, &install, &["--create-namespace", "-o", "json"]);
    assert_eq!(code, Some(0));
    let list: Value = serde_json::from_str(&list).expect("a list");
    let kinds: Vec<_> = list["items"].as_array().into_iter().flatten().collect();
    assert_eq!(kinds[0]["kind"], "Namespace");
    assert_eq!(kinds[kinds.len() - 1]["kind"], "ClusterExtension");

    let (code, text, errors) = run(scene, &install, &["--create-namespace"]);
    assert_eq!(code, Some(0), "{text}{errors}");
    let ready = format!("{name}: 1.0.0 ready after ");
    assert!(text.contains(&ready), "{text}");
    let (code, _, errors) = run(scene, &install, &[]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("a cluster holds a package once"), "{errors}");
}

// plugin.md U33
fn looked_at(scene: &Scene) {
    let name = &scene.name;
    let (code, _, _) = olm(scene, &["status", name, "--check"], false);
    assert_eq!(code, Some(0));
    let (_, text, _) = olm(scene, &["status"], false);
    let row = text.lines().find(|line| line.starts_with(name));
    let cells: Vec<_> = row.expect("a row").split_whitespace().collect();
    assert_eq!(cells[1..7], [name, name, "1.0.0", "True", "1.1.0", "version"]);
    let (_, text, _) = olm(scene, &["status", name], false);
    let todo = format!("kubectl olm upgrade {name}\n");
    assert!(text.contains(&todo), "{text}");
}

// plugin.md U46
fn paused(scene: &Scene) {
    let name = &scene.name;
    let (code, _, _) = olm(scene, &["pause", name], false);
    assert_eq!(code, Some(0));
    let (code, _, errors) = olm(scene, &["upgrade", name, "--yes"], true);
    assert_eq!(code, Some(1));
    let resume = format!("hint: kubectl olm resume {name}");
    assert!(errors.contains(&resume), "{errors}");
    let (code, _, _) = olm(scene, &["resume", name], false);
    assert_eq!(code, Some(0));
}

// plugin.md U41
fn upgraded(scene: &Scene) {
    let name = &scene.name;
    let (code, text, errors) = olm(scene, &["upgrade", name, "--yes"], true);
    assert_eq!(code, Some(0), "{text}{errors}");
    let by = format!("{name}: 1.0.0 -> 1.1.0, by version \"1.0.0\" -> \"1.1.0\"\n");
    assert!(text.starts_with(&by), "{text}");
    let ready = format!("{name}: 1.1.0 ready after ");
    assert!(text.contains(&ready), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_life_takes_nothing_but_the_plugin() {
    let cluster = cluster::with_controller().await;
    let mut scene = Scene::empty(cluster, "firsthour");
    let versions = ["1.0.0", "1.1.0", "2.0.0"];
    scene.publish(&versions.map(Bundle::new), &chain(&versions)).await;
    found_and_installed(&scene);
    let extension = Extension::named(&scene.cluster.client, &scene.name);
    offers(&extension).await;
    looked_at(&scene);
    paused(&scene);
    let name = &scene.name;
    let to_two = ["upgrade", name, "--to", "2.0.0", "--yes"];
    let (code, _, errors) = olm(&scene, &to_two, true);
    assert_eq!(code, Some(1), "no edge leads there: {errors}");
    let rights = ["rbac", name, "--for-upgrade-to", ">=1.1.0", "--apply", "--yes"];
    let (code, _, errors) = olm(&scene, &rights, true);
    assert_eq!(code, Some(0), "{errors}");
    offers(&extension).await;
    upgraded(&scene);
    let (code, text, errors) = olm(&scene, &["delete", name, "--delete-data", "--yes"], false);
    assert_eq!(code, Some(0), "{text}{errors}");
    assert!(scene.get("crd", &scene.package.crd()).is_none());
    // What was made for it is said with the commands that take it away, and they do.
    let left = errors.lines().filter_map(|line| line.split_once(" are left: kubectl "));
    let commands: Vec<&str> = left.map(|(_, command)| command).collect();
    assert_eq!(commands.len(), 1, "{errors}");
    for command in commands {
        let gone = scene.cluster.plane.kubectl(&command.split(' ').collect::<Vec<_>>());
        assert!(gone.contains("deleted"), "{command}: {gone}");
    }
}

// plugin.md U31: what is there already is shown, and taken over on request
#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_already_is_shown_before_it_is_taken_over() {
    let cluster = cluster::with_controller().await;
    let mut scene = Scene::empty(cluster, "present");
    scene.publish(&[Bundle::new("1.0.0")], &chain(&["1.0.0"])).await;
    scene.create_namespace();
    let plane = scene.cluster.plane;
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"mine": "x"},
        "metadata": {"name": scene.package.config_map(), "namespace": scene.name}});
    plane.kubectl_with_input(&["create", "-f", "-"], &settings.to_string());
    let name = scene.name.clone();
    let install = ["install", &name, "-n", &name, "--catalog", &name, "--yes"];
    let (code, text, errors) = olm(&scene, &install, true);
    assert_eq!(code, Some(1), "{text}{errors}");
    assert!(text.contains("  is there  configmap/"), "{text}");
    assert!(errors.contains("--adopt all"), "{errors}");
    assert!(scene.get("serviceaccount", &format!("{name}-installer")).is_none());
    let adopting = [&install[..], &["--adopt", "ConfigMap"]].concat();
    let (code, text, _) = olm(&scene, &[&adopting[..], &["--dry-run"]].concat(), true);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("  adopts    configmap/"), "{text}");
    let (code, text, errors) = olm(&scene, &adopting, true);
    assert_eq!(code, Some(0), "{text}{errors}");
    let taken = scene.get("configmap", &scene.package.config_map());
    let taken = taken.expect("it is there");
    assert_eq!(taken["data"]["mine"], "x", "what the bundle does not declare stays");
    assert_eq!(taken["metadata"]["ownerReferences"][0]["kind"], "ClusterObjectSet");
    // What a removal keeps for the extension is taken over unasked.
    let delete = ["delete", &name, "--retain-crds", "--with-account", "--yes"];
    let (code, text, errors) = olm(&scene, &delete, false);
    assert_eq!(code, Some(0), "{text}{errors}");
    let account = format!("serviceaccount/{name}-installer");
    assert!(text.contains("  its account: clusterrolebinding."), "{text}");
    assert!(text.contains(&format!("{account} deleted\n")), "{text}");
    assert!(scene.get("serviceaccount", &format!("{name}-installer")).is_none());
    let (code, text, errors) = olm(&scene, &[&install[..], &["--dry-run"]].concat(), true);
    assert_eq!(code, Some(0), "{text}{errors}");
    assert!(text.contains("  adopts    customresourcedefinition."), "{text}");
    plane.kubectl(&["delete", "crd", &scene.package.crd()]);
}

// plugin.md U74: what OLM Classic left behind is carried over, and no object is lost
#[tokio::test(flavor = "multi_thread")]
async fn what_classic_left_behind_is_carried_over() {
    // Of its own: a catalog of another test that is not served might have the package, too.
    let cluster = cluster::own().await;
    let _controller = Controller::start(cluster.plane, ControllerOptions::default());
    let mut scene = Scene::empty(cluster, "classic");
    let bundle = Bundle::new("1.0.0");
    scene.publish(std::slice::from_ref(&bundle), &chain(&["1.0.0"])).await;
    scene.create_namespace();
    let (name, plane) = (scene.name.clone(), scene.cluster.plane);
    let crd = scene.package.bundle_files(&bundle).into_values();
    let mut crd =
        crd.filter(|bytes| String::from_utf8_lossy(bytes).contains("CustomResourceDefinition\""));
    let crd = String::from_utf8(crd.next().expect("a CRD")).expect("text");
    plane.kubectl_with_input(&["create", "-f", "-"], &crd);
    let crd = scene.package.crd();
    plane.kubectl(&["wait", "--for=condition=Established", "crd", &crd]);
    let kind: Value = scene.get("crd", &crd).expect("the CRD");
    let object = json!({"kind": kind["spec"]["names"]["kind"], "metadata": {"name": "mine", "namespace": name},
        "apiVersion": format!("{}/{}", kind["spec"]["group"].as_str().expect("a group"),
            kind["spec"]["versions"][0]["name"].as_str().expect("a version"))});
    plane.kubectl_with_input(&["create", "-f", "-"], &object.to_string());
    let uid =
        |scene: &Scene| scene.get(&crd, "mine").expect("it is there")["metadata"]["uid"].clone();
    let before = uid(&scene);

    let csv = scene.package.bundle_name("1.0.0");
    let of = |kind: &str, spec: Value, status: Value| {
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": kind,
            "metadata": {"name": if kind == "Subscription" { &name } else { &csv }, "namespace": name},
            "spec": spec, "status": status})
    };
    let list = json!({"items": [
        of("Subscription", json!({"name": name, "channel": "stable", "source": name,
            "sourceNamespace": "olm"}), json!({"installedCSV": csv})),
        of("ClusterServiceVersion", json!({"version": "1.0.0"}), json!({})),
    ]});
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(&file, list.to_string()).expect("it is written");
    let path = file.path().to_string_lossy().into_owned();
    let (code, stream, errors) = olm(&scene, &["migrate", "from-classic", "-f", &path], false);
    assert_eq!(code, Some(1), "its catalog is not among the sources: {errors}");
    plane.kubectl_with_input(&["apply", "-f", "-"], &stream);
    let (wanted, account) = (format!("package:{name}@1.0.0"), format!("{name}-installer"));
    let rights = ["rbac", &wanted, "-n", &name, "--service-account", &account, "--apply", "--yes"];
    let (code, _, errors) = olm(&scene, &rights, true);
    assert_eq!(code, Some(0), "{errors}");
    let extension = Extension::named(&scene.cluster.client, &name);
    let ready = |found: &olm_api::ClusterExtension| {
        let status = found.status.as_ref();
        status.is_some_and(|status| olm_core::status::is_true(&status.conditions, "Ready"))
    };
    extension.eventually("it is ready", UNINSTALL, ready).await;
    assert_eq!(before, uid(&scene));
    let (code, _, errors) = olm(&scene, &["delete", &name, "--delete-data", "--yes"], false);
    assert_eq!(code, Some(0), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_an_earlier_extension_of_the_name_are_not_shown() {
    let cluster = cluster::with_controller().await;
    let scene = Scene::set(cluster, "namesake", &[Bundle::new("1.0.0")], &chain(&["1.0.0"])).await;
    let installed = scene.install(json!({})).await.installed("1.0.0").await;
    let (code, text, errors) =
        olm(&scene, &["delete", &scene.name, "--delete-data", "--yes"], false);
    assert_eq!(code, Some(0), "{text}{errors}");
    let again = scene.install(json!({})).await.installed("1.0.0").await;
    assert_ne!(installed.metadata.uid, again.metadata.uid);

    assert!(scene.events("RevisionCreated").len() > 1, "the cluster has those of both");
    let (_, text, errors) = olm(&scene, &["status", &scene.name, "-o", "json"], false);
    let status: Value = serde_json::from_str(&text).expect(&errors);
    let events = status["extensions"][0]["events"].as_array().expect("a list");
    let made = events.iter().filter(|event| event["reason"] == "RevisionCreated");
    assert_eq!(made.count(), 1, "{text}");
}
