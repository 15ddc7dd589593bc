//! The whole life of an extension with nothing but the plugin.

use olm_test::extension::UNINSTALL;
use olm_test::prelude::*;

use crate::plugin_catalogs::counted;

/// Runs `kubectl olm`, and returns its exit code, what it prints and what it says besides.
fn olm(scene: &Scene, args: &[&str], reads_catalogs: bool) -> (Option<i32>, String, String) {
    let plane = scene.cluster.plane;
    if reads_catalogs { plugin::read(plane, args) } else { plugin::answer(plane, args) }
}

/// The arguments that install version 1.0.0 of the scene's package into its namespace.
fn install(scene: &Scene) -> Vec<String> {
    let (name, wanted) = (&scene.name, format!("{}@1.0.0", scene.name));
    ["install", &wanted, "--catalog", name, "-n", name, "--yes"].map(str::to_owned).into()
}

fn run(scene: &Scene, args: &[String], more: &[&str]) -> (Option<i32>, String, String) {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    olm(scene, &[&args[..], more].concat(), true)
}

// plugin.md U23, U30, U31
fn found_and_installed(scene: &Scene) {
    let name = &scene.name;
    let (text, _) = olm(scene, &["search", "FIRST"], true).good();
    let found = text.lines().find(|line| line.starts_with(name));
    assert!(found.expect("a row").contains(" stable "), "{text}");
    let (code, _, _) = olm(scene, &["search", "no-such-package"], true);
    assert!(matches!(code, Some(1 | 3)));

    let install = install(scene);
    let (_, errors) = run(scene, &install[..4], &[]).ends(2);
    assert!(errors.contains("a namespace is required"), "{errors}");
    let (_, errors) = run(scene, &install, &[]).ends(1);
    assert!(errors.contains("hint: --create-namespace"), "{errors}");
    let (list, _) = run(scene, &install, &["--create-namespace", "-o", "json"]).good();
    let list: Value = serde_json::from_str(&list).expect("a list");
    let kinds: Vec<_> = list["items"].as_array().into_iter().flatten().collect();
    assert_eq!(kinds[0]["kind"], "Namespace");
    assert_eq!(kinds[kinds.len() - 1]["kind"], "ClusterExtension");

    let (text, _) = run(scene, &install, &["--create-namespace"]).good();
    assert!(text.contains(&format!("{name}: 1.0.0 ready after ")), "{text}");
    let (_, errors) = run(scene, &install, &[]).ends(1);
    assert!(errors.contains("a package can be installed only once"), "{errors}");
}

// decision 24: the installed revision keeps its objects, and is named
async fn a_second_one_is_told_of_the_first(scene: &Scene) {
    let name = &scene.name;
    let catalog = json!({"packageName": name, "version": "1.0.0",
        "selector": {"matchLabels": {keys::label::METADATA_NAME: name}}});
    let (second, account) = (format!("{name}-second"), format!("{name}-installer"));
    let client = &scene.cluster.client;
    let second = Extension::create(client, &second, name, &account, catalog).await;
    let owner = format!("ClusterExtension {name} owns objects that this bundle also contains");
    second.shows("Ready", "False", "Retrying", &owner).await;
    let (text, _) = olm(scene, &["search", name], true).good();
    assert!(!text.contains("-second"), "{text}");
    second.delete().await;
}

// plugin.md U33
fn looked_at(scene: &Scene) {
    let name = &scene.name;
    olm(scene, &["status", name, "--check"], false).good();
    let (_, text, _) = olm(scene, &["status"], false);
    let row = text.lines().find(|line| line.starts_with(name));
    let cells: Vec<_> = row.expect("a row").split_whitespace().collect();
    assert_eq!(cells[1..7], [name, name, "1.0.0", "True", "1.1.0", "version"]);
    let (_, text, _) = olm(scene, &["status", name], false);
    assert!(text.contains(&format!("kubectl olm upgrade {name}\n")), "{text}");
}

// plugin.md U46
fn paused(scene: &Scene) {
    let name = &scene.name;
    olm(scene, &["pause", name], false).good();
    let (_, errors) = olm(scene, &["upgrade", name, "--yes"], true).ends(1);
    let resume = format!("hint: kubectl olm resume {name}");
    assert!(errors.contains(&resume), "{errors}");
    olm(scene, &["resume", name], false).good();
}

// plugin.md U41
fn upgraded(scene: &Scene) {
    let name = &scene.name;
    let (text, _) = olm(scene, &["upgrade", name, "--yes"], true).good();
    let by = format!("{name}: 1.0.0 -> 1.1.0, by version \"1.0.0\" -> \"1.1.0\"\n");
    assert!(text.starts_with(&by), "{text}");
    assert!(text.contains(&format!("{name}: 1.1.0 ready after ")), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_life_takes_nothing_but_the_plugin() {
    let cluster = cluster::with_controller().await;
    let mut scene = Scene::empty(cluster, "firsthour");
    let versions = ["1.0.0", "1.1.0", "2.0.0"];
    scene.publish(&versions.map(Bundle::new), &chain(&versions)).await;
    assert_eq!(counted(&scene), "1 0");
    found_and_installed(&scene);
    assert_eq!(counted(&scene), "1 1");
    a_second_one_is_told_of_the_first(&scene).await;
    let extension = Extension::named(&scene.cluster.client, &scene.name);
    extension.offers("1.1.0", "Pinned").await;
    looked_at(&scene);
    paused(&scene);
    let name = &scene.name;
    olm(&scene, &["upgrade", name, "--to", "2.0.0", "--yes"], true).ends(1);
    olm(&scene, &["rbac", name, "--for-upgrade-to", ">=1.1.0", "--apply", "--yes"], true).good();
    extension.offers("1.1.0", "Pinned").await;
    upgraded(&scene);
    let (_, errors) = olm(&scene, &["delete", name, "--delete-data", "--yes"], false).good();
    assert!(scene.get("crd", &scene.package.crd()).is_none());
    assert_eq!(counted(&scene), "1 0");
    // What was made for it is said with the commands that take it away, and they do.
    let left = errors.lines().filter_map(|line| line.split_once(" are left: kubectl "));
    let commands: Vec<&str> = left.map(|(_, command)| command).collect();
    assert_eq!(commands.len(), 1, "{errors}");
    for command in commands {
        let words: Vec<_> = command.split(' ').collect();
        let gone = scene.cluster.plane.kubectl_itself(&words, "").expect("it is taken away");
        assert!(gone.contains("deleted"), "{command}: {gone}");
    }
}

// plugin.md 1.3
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_over_two_versions_ends_with_one_of_them() {
    let cluster = cluster::with_controller().await;
    let mut scene = Scene::empty(cluster, "hops");
    let versions = ["1.0.0", "1.1.0", "1.2.0"];
    scene.publish(&versions.map(Bundle::new), &chain(&versions)).await;
    scene.create_namespace();
    let name = scene.name.as_str();
    let first = format!("{}@1.0.0", scene.package.name());
    // A catalog of another test that is not served might have the package, too.
    let of = ["--name", name, "--catalog", name, "-n", name];
    let install = [&["install", &first][..], &of, &["--rights", "stable", "--yes"]].concat();
    olm(&scene, &install, true).good();
    let upgrade = ["upgrade", name, "--to", "1.x", "--yes", "--timeout", "60"];
    let (text, _) = olm(&scene, &upgrade, true).good();
    let ends = ["1.1.0", "1.2.0"].map(|version| text.contains(&format!(": {version} ready after")));
    assert!(ends.contains(&true), "{text}");
    let extension = Extension::named(&scene.cluster.client, name);
    extension.installed("1.2.0").await;
    olm(&scene, &["delete", name, "--delete-data", "--yes"], false).good();
}

// plugin.md U31: what is there already is shown, and taken over on request
#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_already_is_shown_before_it_is_taken_over() {
    let cluster = cluster::with_controller().await;
    let scene = Scene::served(cluster, "present", &["1.0.0"]).await;
    scene.create_namespace();
    let plane = scene.cluster.plane;
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"mine": "x"},
        "metadata": {"name": scene.package.config_map(), "namespace": scene.name}});
    plane.create(&settings);
    let name = scene.name.clone();
    let install = ["install", &name, "-n", &name, "--catalog", &name, "--yes"];
    let (text, errors) = olm(&scene, &install, true).ends(1);
    assert!(text.contains("  exists    configmap/"), "{text}");
    assert!(errors.contains("--adopt all"), "{errors}");
    assert!(scene.get("serviceaccount", &format!("{name}-installer")).is_none());
    let (text, _) = olm(&scene, &["plan", &name, "-n", &name], true).ends(1);
    assert!(text.contains("  taken     ConfigMap "), "{text}");
    assert!(text.contains("  held by   objects\n"), "{text}");
    // Nothing is written for an account that the controller does not act as.
    let reserved = ["install", &name, "-n", "kube-system", "--catalog", &name, "--dry-run"];
    let (_, errors) = olm(&scene, &reserved, true).ends(1);
    assert!(errors.contains("is reserved (--forbidden-service-accounts)"), "{errors}");
    let adopting = [&install[..], &["--adopt", "ConfigMap"]].concat();
    let (text, _) = olm(&scene, &[&adopting[..], &["--dry-run"]].concat(), true).good();
    assert!(text.contains("  adopts    configmap/"), "{text}");
    olm(&scene, &adopting, true).good();
    let taken = scene.get("configmap", &scene.package.config_map());
    let taken = taken.expect("it is there");
    assert_eq!(taken["data"]["mine"], "x", "what the bundle does not declare stays");
    assert_eq!(taken["metadata"]["ownerReferences"][0]["kind"], "ClusterObjectSet");
    // What a removal keeps for the extension is taken over unasked.
    let delete = ["delete", &name, "--retain-crds", "--with-account", "--yes"];
    let (text, _) = olm(&scene, &delete, false).good();
    let account = format!("serviceaccount/{name}-installer");
    assert!(text.contains("  its account: clusterrolebinding."), "{text}");
    assert!(text.contains(&format!("{account} deleted\n")), "{text}");
    assert!(scene.get("serviceaccount", &format!("{name}-installer")).is_none());
    let (text, _) = olm(&scene, &[&install[..], &["--dry-run"]].concat(), true).good();
    assert!(text.contains("  adopts    customresourcedefinition."), "{text}");
    plane.kubectl(&["delete", "crd", &scene.package.crd()]);
}

// plugin.md U74: what OLM Classic left behind is carried over, and no object is lost
pub(crate) async fn what_classic_left_behind_is_carried_over(scene: &Scene) {
    scene.create_namespace();
    let (name, plane) = (scene.name.clone(), scene.cluster.plane);
    let crd = scene.make_crd(&Bundle::new("1.0.0"));
    let before = scene.make_instance(&crd, &[]);

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
    let (stream, _) = olm(scene, &["migrate", "from-classic", "-f", &path], false).ends(1);
    plane.kubectl_with_input(&["apply", "-f", "-"], &stream);
    let (wanted, account) = (format!("package:{name}@1.0.0"), format!("{name}-installer"));
    let rights = ["rbac", &wanted, "-n", &name, "--service-account", &account, "--apply", "--yes"];
    olm(scene, &rights, true).good();
    let extension = Extension::named(&scene.cluster.client, &name);
    let ready = |found: &olm_api::ClusterExtension| {
        let status = found.status.as_ref();
        status.is_some_and(|status| olm_core::status::is_true(&status.conditions, "Ready"))
    };
    extension.eventually("it is ready", UNINSTALL, ready).await;
    assert_eq!(before, scene.uid(&crd, "one"));
    olm(scene, &["delete", &name, "--delete-data", "--yes"], false).good();
}
