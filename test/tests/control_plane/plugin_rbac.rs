//! `kubectl olm rbac` of an extension: what its account lacks, has too much, and needs next.

use olm_test::extension::UNINSTALL;
use olm_test::prelude::*;

/// Runs `kubectl olm rbac` and returns its exit code and what it prints.
fn rbac(scene: &Scene, args: &[&str]) -> (Option<i32>, String) {
    let (code, text, errors) = plugin::read(scene.cluster.plane, &[&["rbac"], args].concat());
    if !matches!(code, Some(0 | 1)) || text.is_empty() {
        println!("{args:?}: {errors}");
    }
    (code, text)
}

// plugin.md U49, applying.md f8, f10: what is printed is what is missing
#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_printed_and_makes_the_extension_go_on() {
    let cluster = cluster::with_controller().await;
    let scene = Scene::served(cluster, "lacks", &["1.0.0"]).await;
    scene.create_namespace();
    let extension = scene.install(json!({})).await;
    extension.shows("Progressing", "True", "Retrying", "not found").await;

    let (code, text) = rbac(&scene, &[&scene.name, "--check"]);
    assert_eq!(code, Some(1), "{text}");
    let account = format!("missing  service account {}/{ACCOUNT}\n", scene.name);
    let rule = format!("missing  get, list, watch buoys.{}.example.com\n", "lacks");
    assert!(text.starts_with(&account) && text.contains(&rule), "{text}");

    let yaml = rbac(&scene, &[&scene.name, "--missing"]).good();
    scene.cluster.plane.kubectl_with_input(&["apply", "-f", "-"], &yaml);
    extension.installed("1.0.0").await;
    let text = rbac(&scene, &[&scene.name, "--check"]).good();
    assert!(text.ends_with("has exactly the rights that the bundles need\n"), "{text}");

    let text = rbac(&scene, &[&scene.name, "--apply", "--yes"]).good();
    let made = |line: &str| line.ends_with(" created") || line.ends_with(" configured");
    assert!(text.contains("\nrole.rbac.authorization.k8s.io/") && text.lines().all(made), "{text}");

    // plugin.md U52: what made up for the lack is deleted, and the roles of the bundle stay.
    let text = rbac(&scene, &[&scene.name, "--apply", "--prune", "--yes"]).good();
    let deleted = text.lines().filter(|line| line.ends_with(" deleted"));
    let deleted: Vec<&str> = deleted.collect();
    assert_eq!(deleted.len(), 4, "{text}");
    assert!(deleted.iter().all(|it| it.contains(":missing+")), "{text}");
    rbac(&scene, &[&scene.name, "--check"]).good();
    extension.delete().await;
}

// plugin.md U49, U50
pub(crate) fn too_much_is_found_by_binding_also_by_that_of_a_group(scene: &Scene) {
    scene.create_namespace();
    let wanted = format!("package:{}", scene.package.name());
    let account = ["-n", scene.name.as_str(), "--service-account", ACCOUNT];
    let ask = |mode: &[&str]| rbac(scene, &[&[wanted.as_str()][..], &account, mode].concat());
    ask(&["--apply", "--yes"]).good();
    let text = ask(&["--check"]).good();
    assert!(text.ends_with("has exactly the rights that the bundles need\n"), "{text}");

    scene.cluster.plane.run(&format!(
        "create rolebinding everybody -n {} --clusterrole=view --group=system:serviceaccounts:{}",
        scene.name, scene.name
    ));
    let text = ask(&["--check", "-o", "json"]).good();
    let document: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(document["missing"], json!([]));
    let binding = json!({"namespace": scene.name, "name": "everybody"});
    assert_eq!(document["excess"][0]["binding"], binding);
    assert_eq!(document["excess"].as_array().map(Vec::len), Some(1));

    assert_eq!(rbac(scene, &["nosuch", "--check"]).ends(1), "");
    let folder = scene.folder(&Bundle::new("1.0.0"));
    let folder = folder.to_string_lossy();
    let stranger = [&[&*folder][..], &account, &["--check", "--as", "jane"]].concat();
    assert_eq!(rbac(scene, &stranger), (Some(3), String::new()));
}

/// A chain in which each version changes what the one before has: names, objects, kinds.
fn changing(scene: &Scene) -> Vec<Bundle> {
    let policy = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": scene.name}, "spec": {"podSelector": {}}});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": scene.name}, "rules": [{"apiGroups": [scene.package.group()],
            "resources": ["buoys"], "verbs": ["get"]}]});
    let more = objects::reader(&scene.name, "pods");
    let mut all: Vec<_> = (0..=6).map(|it| Bundle::new(&format!("1.0.{it}"))).collect();
    all[2].second_config_map = true;
    all[3].deployments = 2;
    all[4].extra.push(policy);
    all[5].extra.push(role);
    all[6].extra.push(more);
    all
}

// applying.md 5.4, plugin.md 1.4: an update of each sort that needs nobody, and one that needs a person
#[tokio::test(flavor = "multi_thread")]
async fn what_installs_a_range_updates_by_itself_until_the_operator_gets_more() {
    let cluster = cluster::with_controller().await;
    let mut scene = Scene::empty(cluster, "lasting");
    let bundles = changing(&scene);
    let versions: Vec<&str> = bundles.iter().map(|bundle| bundle.version.as_str()).collect();
    scene.publish(&bundles[..1], &chain(&versions[..1])).await;
    let plane = scene.cluster.plane;
    let name = scene.name.clone();
    let olm = |args: &[&str]| plugin::read(plane, args);
    let wanted = format!("{name}@1.0.x");
    let install = ["install", &wanted, "-n", &name, "--create-namespace", "--yes"];
    let (text, _) = olm(&[&install[..], &["--catalog", &name]].concat()).good();
    assert!(text.contains("  account   changes any ClusterRole\n"), "{text}");
    let extension = Extension::named(&scene.cluster.client, &name);
    // What was given a moment before the extension may not have counted at once.
    let before = scene.events("PermissionsMissing");

    scene.publish(&bundles[..6], &chain(&versions[..6])).await;
    let last = |found: &_| installed_version(found) == Some("1.0.5");
    extension.eventually("five updates", UNINSTALL, last).await;
    extension.installed("1.0.5").await;
    assert_eq!(scene.events("PermissionsMissing"), before);
    let text = rbac(&scene, &[&name, "--check"]).good();
    assert!(text.ends_with("has exactly the stable rights of the bundles\n"), "{text}");

    scene.publish(&bundles, &chain(&versions)).await;
    let lacks = "lacks rights that 1.0.6 needs";
    extension.shows("Ready", "False", "PermissionsMissing", lacks).await;
    assert!(scene.events("PermissionsMissing").iter().any(|it| it.contains(lacks)));
    let update = extension.get().await.status.and_then(|status| status.update);
    let update = update.map(|update| (update.version, update.reason));
    assert_eq!(update, Some((Some("1.0.6".to_owned()), "PermissionsMissing".to_owned())));
    let upgrade = ["upgrade", name.as_str(), "--yes"];
    let (_, errors) = olm(&upgrade).ends(1);
    let held = format!("error: {name} is held by rights: ");
    assert!(errors.contains(&held) && errors.contains("hint: --grant"), "{errors}");
    // Without its account, bindings give it nothing.
    let account = format!("{name}-installer");
    plane.kubectl(&["delete", "serviceaccount", &account, "-n", &name]);
    let (_, errors) = olm(&upgrade).ends(1);
    let gone = format!("{held}service account {name}/{account} does not exist: ");
    assert!(errors.contains(&gone), "{errors}");
    let (text, _) = olm(&[&upgrade[..], &["--grant"]].concat()).good();
    assert!(text.contains(&format!("  grants    service account {name}/{account}\n")), "{text}");
    assert!(text.contains(&format!("{name}: 1.0.6 ready after ")), "{text}");
    extension.delete().await;
}

// plugin.md U51
#[tokio::test(flavor = "multi_thread")]
async fn rights_for_an_upgrade_are_compared_and_given_before_it() {
    let cluster = cluster::with_controller().await;
    let versions = ["1.0.0", "2.0.0"];
    let bundles = [Bundle::new("1.0.0"), Bundle::new("2.0.0").with_second_config_map()];
    let mut scene = Scene::empty(cluster, "climbs");
    scene.publish(&bundles, &chain(&versions)).await;
    scene.create_namespace();
    scene.grant(&bundles[..1]);
    let extension = scene.installed(json!({"version": "1.0.0"}), "1.0.0").await;

    assert_eq!(rbac(&scene, &[&scene.name, "--diff"]).good(), "");
    let upgrade = [scene.name.as_str(), "--for-upgrade-to", "2.0.0"];
    let text = rbac(&scene, &[&upgrade[..], &["--diff"]].concat()).ends(1);
    let second = scene.package.second_config_map();
    let added = format!(
        "+ Namespace:\"{}\" APIGroups:[] Resources:[configmaps] ResourceNames:[{second}] \
         Verbs:[delete,get,list,patch,watch]\n",
        scene.name
    );
    assert!(text.contains(&added), "{added}{text}");
    let text = rbac(&scene, &[&upgrade[..], &["--check"]].concat()).ends(1);
    assert!(text.contains(&second), "{text}");

    rbac(&scene, &[&upgrade[..], &["--apply", "--yes"]].concat()).good();
    assert_eq!(rbac(&scene, &[&upgrade[..], &["--missing"]].concat()).good(), "");
    let user = format!("system:serviceaccount:{}:{ACCOUNT}", scene.name);
    let asked = json!({"namespace": scene.name, "verb": "get", "resource": "configmaps",
        "name": second});
    let may = || scene.cluster.plane.allows(&user, &json!([]), &asked);
    wait::value("the rights count", ROLLOUT, may, |may| *may).await;
    extension.moves_to("2.0.0").await;
    assert!(scene.events("PermissionsMissing").is_empty());
    extension.delete().await;
}
