//! What the verbs of the plugin have in common, on a cluster (plugin.md 1.3).

use std::io::{Read, Write as _};
use std::os::unix::fs::PermissionsExt as _;

use olm_test::prelude::*;

use crate::plans::olm;
use crate::plugin_failures::commands;

pub(crate) const VERSIONS: [&str; 2] = ["1.0.0", "1.1.0"];

/// Searches for the package of a scene with a cache of its own; returns what is found in its catalog.
fn search(scene: &Scene, cache: &Path, more: &[&str]) -> (Option<i32>, Option<Value>) {
    let addresses = &scene.cluster.plane.addresses;
    let out = Command::new(paths::built("kubectl-olm"))
        .args(["search", &scene.name, "-o", "json", "--kubeconfig"])
        .arg(&addresses.kubeconfig)
        .arg("--catalog-ca")
        .arg(&addresses.controller_ca)
        .args(more)
        .env("XDG_CACHE_HOME", cache)
        .output()
        .map(plugin::checked)
        .expect("kubectl-olm runs");
    let found: Value = serde_json::from_slice(&out.stdout).expect("a document");
    let packages = found["packages"].as_array().expect("a list");
    let mine = packages.iter().find(|it| it["catalog"] == scene.name);
    (out.status.code(), mine.cloned())
}

// plugin.md U22
fn catalogs_are_kept(scene: &Scene) {
    let cache = tempfile::tempdir().expect("a folder");
    let (code, first) = search(scene, cache.path(), &[]);
    let found = first.as_ref().expect("the package");
    assert_eq!((code, &found["version"]), (Some(0), &json!("1.1.0")));
    // At this address nothing answers.
    let nowhere = ["--catalog-url", "http://127.0.0.1:1"];
    assert_eq!(search(scene, cache.path(), &nowhere), (Some(0), first));
    let asking = [&nowhere[..], &["--no-cache"]].concat();
    assert_eq!(search(scene, cache.path(), &asking), (Some(3), None));
    let kept = cache.path().join("kubectl-olm");
    let mode = kept.metadata().expect("a directory").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

/// Runs a verb, and returns what it prints and says besides; it has to succeed.
fn succeeds(scene: &Scene, args: &[&str]) -> (String, String) {
    olm(scene, args).good()
}

// plugin.md U5, U8
fn a_word_is_a_package(scene: &Scene) {
    let name = scene.name.as_str();
    let one = &format!("package:{name}@1.0.0");
    let prefixed = &format!("package:{name}");
    for word in [name, prefixed] {
        let (text, _) = succeeds(scene, &["show", word]);
        // What the catalog says, and what only the image does.
        for line in ["Channels  ", "Install modes  ", "1.1.0 in stable"] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let (text, _) = succeeds(scene, &["graph", word]);
        assert!(text.contains("1.1.0"), "{text}");
    }
    let (_, told) = succeeds(scene, &["show", one]);
    assert!(told.contains(".v1.0.0 of catalog"), "{told}");
    for (word, version) in [(name, "1.1.0"), (one, "1.0.0")] {
        let account = ["rbac", word, "-n", "ops", "--service-account", "a"];
        let (text, _) = succeeds(scene, &account);
        assert!(text.contains(&format!(".v{version}")), "{text}");
        let (text, _) = succeeds(scene, &["bundle", "images", word, "-o", "json"]);
        assert!(text.contains(&format!(".v{version}\"")), "{text}");
    }
    let (text, _) = succeeds(scene, &["bundle", "render", name, "-n", "ops"]);
    assert!(text.contains("namespace: ops"), "{text}");
    let (_, plan, errors) = olm(scene, &["plan", name, "-n", "ops", "-o", "json"]);
    assert!(plan.contains("1.1.0"), "{plan}{errors}");
}

// plugin.md U6, U23
fn nothing_fits(scene: &Scene) {
    let name = scene.name.as_str();
    let misspelt = &name[..name.len() - 1];
    for args in [
        &["show", misspelt][..],
        &["graph", misspelt],
        &["rbac", misspelt, "-n", "ops", "--service-account", "a"],
    ] {
        let (code, text, errors) = olm(scene, args);
        assert!(matches!(code, Some(1 | 3)), "{text}{errors}");
        let error = format!("error: \"{misspelt}\" is not a directory here, ");
        assert!(errors.contains(&error), "{errors}");
        let hint = format!("hint: did you mean package \"{name}\" of catalog \"{name}\"?\n");
        assert!(errors.contains(&hint), "{errors}");
    }
    let install = ["install", misspelt, "-n", "ops"];
    let (_, _, errors) = olm(scene, &install);
    assert!(errors.contains("no catalog of this cluster has"), "{errors}");
    let (_, _, errors) = olm(scene, &["show", "quay:1.0"]);
    assert!(errors.contains("hint: an image needs its registry, for example "), "{errors}");
    let (_, _, errors) = olm(scene, &["search", &name.replace('-', "_")]);
    assert!(errors.contains(&format!("\"{name}\"")), "{errors}");
}

// plugin.md U5, U8
fn a_word_is_an_extension(scene: &Scene) {
    let name = scene.name.as_str();
    for word in [name, &format!("extension:{name}")] {
        let (_, told) = succeeds(scene, &["show", word]);
        let of = format!(".v1.0.0 of extension {name}: ");
        assert!(told.contains(&of) && told.contains("@sha256:"), "{told}");
        let (text, _) = succeeds(scene, &["bundle", "render", word]);
        assert!(text.contains(&format!("namespace: {name}")), "{text}");
    }
    let (text, _) = succeeds(scene, &["show", &format!("package:{name}")]);
    assert!(text.contains("1.1.0 in stable"), "{text}");
    olm(scene, &["bundle", "lint", name]).ends(2);
}

/// Lets a user write roles and extensions, but hold nothing of what bundles take.
fn let_write(scene: &Scene, user: &str) {
    let everything = |group: &str, resources: Value| json!({"apiGroups": [group], "resources": resources, "verbs": ["*"]});
    let rules = json!([
        everything("", json!(["namespaces", "serviceaccounts"])),
        everything("olm.operatorframework.io", json!(["*"])),
        {"apiGroups": ["rbac.authorization.k8s.io"], "verbs": ["get", "create", "patch"],
            "resources": ["roles", "rolebindings", "clusterroles", "clusterrolebindings"]},
    ]);
    scene.cluster.plane.grant(&objects::grant(user, None, &rules, &objects::user(user)));
}

// plugin.md U16, U32
async fn is_installed_by_whoever_may(scene: &Scene) -> Extension {
    let (name, plane) = (scene.name.as_str(), scene.cluster.plane);
    let wanted = format!("{name}@1.0.0");
    let install = ["install", &wanted, "-n", name, "--create-namespace", "--catalog", name];
    let user = format!("{name}-dana");
    let_write(scene, &user);
    let (_, errors) = olm(scene, &[&install[..], &["--yes", "--as", &user]].concat()).ends(1);
    assert!(errors.contains("permissions not currently held"), "{errors}");
    assert!(errors.contains("hint: rerun with -o yaml"), "{errors}");
    // Nobody may apply that.
    let (_, errors) = olm(scene, &[&install[..], &["--yes", "--name=Lamp_X"]].concat()).ends(2);
    assert!(errors.contains("Lamp_X") && !errors.contains("-o yaml"), "{errors}");
    let (stream, _) = olm(scene, &[&install[..], &["-o", "yaml"]].concat()).good();
    assert!(scene.get("namespace", name).is_none());
    assert!(scene.get("clusterextension", name).is_none());
    plane.kubectl_with_input(&["apply", "-f", "-"], &stream);
    let extension = Extension::named(&scene.cluster.client, name);
    extension.installed("1.0.0").await;
    extension
}

// plugin.md 1.4
fn is_looked_at(scene: &Scene) {
    let (name, plane) = (scene.name.as_str(), scene.cluster.plane);
    plane.kubectl(&["label", "clusterextension", name, "team=lights"]);
    let (_, names, _) = plugin::answer(plane, &["status", "-l", "team=lights", "-o", "name"]);
    assert_eq!(names, format!("clusterextension.olm.operatorframework.io/{name}\n"));
    let (text, _) = plugin::answer(plane, &["status", name]).good();
    let (_, errors) = plugin::answer(plane, &["plan", name, "-n", "elsewhere"]).ends(2);
    assert!(errors.contains(&format!("ClusterExtension {name} exists")), "{errors}");
    let provides = text.lines().find(|line| line.starts_with("Provides  "));
    let group = scene.package.crd();
    let (_, group) = group.split_once('.').expect("a group");
    let kind = format!(".{group} v1");
    assert!(provides.is_some_and(|it| it.ends_with(&kind)), "{text}");
    let events = text.lines().find(|line| line.starts_with("Events  "));
    assert!(events.is_some(), "{text}");
    let (_, text, _) = plugin::answer(plane, &["status", name, "-o", "json"]);
    let document: Value = serde_json::from_str(&text).expect("a document");
    let catalog = &document["extensions"][0]["catalog"];
    assert_eq!(catalog["name"], name, "{text}");
    assert!(catalog["lastUnpacked"].is_string(), "{text}");
    let events = document["extensions"][0]["events"].as_array();
    let events = events.expect("a list");
    assert!(!events.is_empty() && events.len() <= 5, "{text}");
}

// plugin.md U18
fn is_kept_by_another(scene: &Scene) {
    let (name, plane) = (scene.name.as_str(), scene.cluster.plane);
    plane.run(&format!(
        "annotate clusterextension {name} example.com/from=git --field-manager=kustomize-controller"
    ));
    // Nobody can be asked.
    let (_, errors) = plugin::answer(plane, &["pause", name]).ends(1);
    let warning = format!(
        "warning: ClusterExtension {name} is managed by kustomize-controller, which may revert this; \
         change it at the source:\n"
    );
    let edit = "    policy.olm.operatorframework.io/paused: \"true\"\n";
    assert!(errors.contains(&warning) && errors.contains(edit), "{errors}");
    let hint = format!("hint: kubectl patch clusterextensions {name} --type=merge -p '");
    assert!(errors.contains(&hint), "{errors}");
    let (_, errors) = plugin::answer(plane, &["delete", name, "--yes"]).ends(1);
    let hint = format!("hint: kubectl delete clusterextensions {name} deletes it anyway");
    assert!(errors.contains(&hint), "{errors}");
    let now = scene.get("clusterextension", name).expect("it is there");
    let paused = &now["metadata"]["annotations"]["policy.olm.operatorframework.io/paused"];
    assert!(paused.is_null() && now["metadata"]["deletionTimestamp"].is_null());
}

/// Has an upgrade ask at a terminal, changes something else, and agrees.
fn agrees_after(scene: &Scene, change: &[&str]) -> (Option<i32>, String) {
    let (name, plane) = (scene.name.as_str(), scene.cluster.plane);
    let program = paths::built("kubectl-olm");
    let line = format!(
        "{} upgrade {name} --to ~1.1.0 --no-wait --kubeconfig {} --catalog-ca {}",
        program.display(),
        plane.addresses.kubeconfig.display(),
        plane.addresses.controller_ca.display()
    );
    let mut asking = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script of util-linux runs");
    let mut told = Vec::new();
    let out = asking.stdout.as_mut().expect("a pipe");
    while !told.ends_with(b"[y/N] ") {
        let mut byte = [0];
        let read = out.read(&mut byte).expect("it goes on");
        assert_eq!(read, 1, "{}", String::from_utf8_lossy(&told));
        told.extend(byte);
    }
    plane.kubectl(change);
    let input = asking.stdin.as_mut().expect("a pipe");
    input.write_all(b"y\n").expect("it reads");
    let ended = asking.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    (ended.status.code(), text)
}

// plugin.md U19
fn changes_meanwhile(scene: &Scene) {
    let name = scene.name.as_str();
    let annotate = ["annotate", "clusterextension", name, "example.com/mine=1"];
    let (code, text) = agrees_after(scene, &annotate);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("was modified concurrently; rerun the command"), "{text}");
    // What the upgrade does not depend on is kept, and it goes on.
    agrees_after(scene, &["label", "clusterextension", name, "example.com/theirs=1"]).good();
    let now = scene.get("clusterextension", name).expect("it is there");
    assert_eq!(now["metadata"]["labels"]["example.com/theirs"], "1");
    assert_eq!(now["metadata"]["annotations"]["example.com/mine"], "1");
    assert_eq!(now["spec"]["source"]["catalog"]["version"], "~1.1.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn verbs_write_what_they_print_and_nothing_that_somebody_changed() {
    let cluster = cluster::with_controller().await;
    let mut scene = Scene::empty(cluster, "language");
    let bundles = VERSIONS.map(Bundle::new);
    scene.publish(&bundles, &chain(&VERSIONS)).await;
    catalogs_are_kept(&scene);
    let extension = is_installed_by_whoever_may(&scene).await;
    is_looked_at(&scene);
    is_kept_by_another(&scene);
    let name = scene.name.as_str();
    olm(&scene, &["rbac", name, "--for-upgrade-to", "1.1.0", "--apply", "--yes"]).good();
    // plugin.md U43
    for range in ["~1.1.0", "^1.1"] {
        let upgrade = ["upgrade", name, "--to", range, "--yes", "--dry-run=server"];
        let (text, _) = olm(&scene, &upgrade).good();
        let by = format!("{name}: 1.0.0 -> 1.1.0, by version \"1.0.0\" -> \"{range}\"\n");
        assert!(text.contains(&by), "{text}");
    }
    changes_meanwhile(&scene);
    extension.installed("1.1.0").await;
    extension.delete().await;
}

pub(crate) async fn a_word_means_the_same_to_every_verb(scene: &Scene) {
    a_word_is_a_package(scene);
    nothing_fits(scene);
    scene.installed(json!({"version": "1.0.0"}), "1.0.0").await;
    a_word_is_an_extension(scene);
}

// plugin.md U25
#[tokio::test(flavor = "multi_thread")]
async fn a_search_for_what_may_be_installed_says_why_the_rest_may_not() {
    let cluster = cluster::with_controller().await;
    let mut scene = Scene::empty(cluster, "unfit");
    let needs = json!({"type": "olm.package.required",
        "value": {"packageName": "nowhere-at-all", "versionRange": ">=1.0.0"}});
    scene.publish_with(&[Bundle::new("1.0.0")], &chain(&["1.0.0"]), &[("1.0.0", needs)]).await;
    let name = scene.name.as_str();
    let (code, text, errors) = olm(&scene, &["search", name, "--installable"]);
    assert!(matches!(code, Some(1 | 3)), "{text}{errors}");
    assert!(!text.contains(name), "{text}");
    let cache = tempfile::tempdir().expect("a folder");
    let (_, found) = search(&scene, cache.path(), &["--installable"]);
    let found = found.expect("the package");
    assert_eq!(found["installable"], false);
    let reasons = found["reasons"].to_string();
    assert!(reasons.contains("nowhere-at-all"), "{reasons}");
}

// plugin.md U44
#[tokio::test(flavor = "multi_thread")]
async fn every_verb_has_an_answer_about_an_extension_that_has_nothing() {
    let cluster = cluster::with_controller().await;
    let scene = Scene::empty(cluster, "odd");
    let (name, plane) = (scene.name.as_str(), scene.cluster.plane);
    let mut odd = objects::extension(name, "nowhere-at-all", "nobody", "nothing-at-all");
    odd["spec"]["source"]["catalog"]["version"] = json!("v1.x");
    plane.create(&odd);
    for line in commands("of a bare extension", &[("name", name)]) {
        let (code, text, errors) = plugin::answer(plane, &line.split(' ').collect::<Vec<_>>());
        assert!(matches!(code, Some(0..=3)), "{line}: {code:?} {text}{errors}");
        assert!(!errors.contains("panicked"), "{line}: {errors}");
    }
}
