//! What the plugin says and writes about the state of a cluster: trees, changes, images, locks, and
//! what CRDs store.

use kube::ResourceExt as _;
use olm_test::package::definition;
use olm_test::prelude::*;
use olm_test::private::{PASSWORD, PrivateRegistry};

const SECRET: &str = "c2VjcmV0LXZhbHVl";

/// Returns the line about something.
fn row(text: &str, what: &str) -> String {
    let row = text.lines().find(|line| line.contains(what));
    row.unwrap_or_else(|| panic!("{what}: {text}")).to_owned()
}

/// Pauses the extension while it is watched.
async fn watched(scene: &Scene) {
    let (plane, name) = (scene.cluster.plane, &scene.name);
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut watching = Command::new(paths::built("kubectl-olm"))
        .args(["status", name, "-w", "--kubeconfig"])
        .arg(&plane.addresses.kubeconfig)
        .stdout(Stdio::from(file.reopen().expect("the file")))
        .spawn()
        .expect("the plugin runs");
    let told = || std::fs::read_to_string(&file).expect("the file");
    let seen = |rows: usize, word: &'static str| async move {
        let told = told();
        let last = told.lines().last().is_some_and(|row| row.contains(word));
        if last && told.lines().count() >= rows { Ok(()) } else { Err(told) }
    };
    wait::until("a header and the first row", SOON, || seen(2, "")).await;
    scene.annotate("policy.olm.operatorframework.io/paused", "true");
    wait::until("another row", SOON, || seen(3, "pause")).await;
    watching.kill().expect("it runs");
    watching.wait().expect("it ends");
    let told = told();
    let begins = format!("{name}  {name}  {name}  1.0.0  ");
    assert!(told.lines().skip(1).all(|row| row.starts_with(&begins)), "{told}");
}

/// Changes objects by hand, and looks at the tree.
fn drifted(scene: &Scene) {
    let (plane, name) = (scene.cluster.plane, &scene.name);
    let settings = scene.package.config_map();
    let edit = json!({"data": {"depth": "edited by hand"}});
    plane.requests().merge("configmap", name, &settings, &edit);
    plane.requests().merge("secret", name, "hidden", &json!({"data": {"token": "b3RoZXI="}}));
    let (_, text, _) = plugin::answer(plane, &["status", name, "-o", "tree"]);
    assert!(row(&text, &settings).contains("changed: .data.depth"), "{text}");
    assert!(row(&text, "Secret.v1 ").contains("changed: .data.token"), "{text}");
    assert!(!text.contains(SECRET) && !text.contains("b3RoZXI"), "{text}");
}

// plugin.md U11, U33, U34
#[tokio::test(flavor = "multi_thread")]
async fn a_tree_shows_health_and_drift_and_a_watch_each_change() {
    let cluster = cluster::with_controller().await;
    let plane = cluster.plane;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hidden"},
        "data": {"token": SECRET}});
    let bundles = [Bundle::new("1.0.0").with_manifest(secret)];
    let scene = Scene::set(cluster.clone(), "tree", &bundles, &chain(&["1.0.0"])).await;
    let extension = scene.install(json!({})).await;
    extension.shows("Ready", "True", "Succeeded", "").await;
    let name = &scene.name;
    let (text, _) = plugin::answer(plane, &["status", name, "-o", "tree"]).good();
    let deployment = format!("Deployment.apps/v1 {name}/{}", scene.package.deployment());
    assert!(row(&text, &deployment).ends_with(" ready"), "{text}");
    assert!(row(&text, "Secret.v1 ").ends_with(" ready"), "{text}");
    assert!(text.lines().any(|line| line == "    deploy"), "{text}");
    assert!(!text.contains("changed"), "{text}");

    watched(&scene).await;
    // Before the controller knows of the pause it would repair what drifts.
    extension.shows("Paused", "True", "Paused", "").await;
    drifted(&scene);
    let (_, names, _) = plugin::answer(plane, &["status", "-o", "name"]);
    let mine = names.lines().find(|line| line.ends_with(&format!("/{name}")));
    plane.kubectl(&["get", mine.expect("its name")]);
    let (_, text, _) = plugin::answer(plane, &["status", "--watching", "default"]);
    assert!(text.contains(name), "it watches all namespaces: {text}");
    scene.annotate("policy.olm.operatorframework.io/paused", "");
    nothing_is_stored(&scene);
    extension.delete().await;
}

// plugin.md U17
fn nothing_is_stored(scene: &Scene) {
    let (plane, name) = (scene.cluster.plane, &scene.name);
    let spec = || {
        let path = "jsonpath={.metadata.annotations} {.metadata.deletionTimestamp} {.spec}";
        plane.kubectl(&["get", "clusterextension", name, "-o", path])
    };
    let before = spec();
    for args in [
        &["pause", name][..],
        &["delete", name, "--delete-data", "--yes"],
        &["catalog", "remove", name, "--yes"],
    ] {
        let (_, errors) = plugin::answer(plane, &[args, &["--dry-run=server"]].concat()).good();
        assert!(errors.contains("note: dry run, nothing is written"), "{errors}");
        assert_eq!(before, spec(), "{args:?}");
    }
    let (text, _) = plugin::answer(plane, &["pause", name, "-o", "yaml"]).good();
    assert!(text.contains("    policy.olm.operatorframework.io/paused: \"true\"\n"), "{text}");
    let (_, text, errors) = plugin::answer(plane, &["pause", name, "-o", "name", "--dry-run"]);
    assert_eq!(text, format!("clusterextension.olm.operatorframework.io/{name}\n"));
    assert!(errors.contains(&format!("{name}: paused; ")), "{errors}");
    assert_eq!(before, spec(), "it is printed instead");
    plane.kubectl(&["get", "clustercatalog", name]);
}

/// Runs `bundle images --check` for a bundle with this configuration of registries and these credentials.
fn check(folder: &Path, registries: &Path, auth: &Path) -> (Option<i32>, Value) {
    let out = Command::new(paths::built("kubectl-olm"))
        .args(["bundle", "images", "--check", "-o", "json", "--kubeconfig=/nowhere"])
        .arg(format!("dir:{}", folder.display()))
        .arg(format!("--auth-file={}", auth.display()))
        .env("CONTAINERS_REGISTRIES_CONF", registries)
        .output()
        .map(plugin::checked)
        .expect("the plugin runs");
    let answer = serde_json::from_slice(&out.stdout);
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    (out.status.code(), answer.unwrap_or_else(|_| panic!("{errors}")))
}

// plugin.md U55
#[tokio::test(flavor = "multi_thread")]
async fn images_are_asked_for_through_mirrors_with_the_credentials_of_this_machine() {
    let registry = tokio::task::spawn_blocking(PrivateRegistry::basic).await.expect("it starts");
    registry.push("team/pot:v1", &images::build(&std::collections::BTreeMap::new(), &[])).await;
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let write = |name: &str, text: &str| std::fs::write(at(name), text).expect("it is written");
    for below in ["manifests", "metadata"] {
        std::fs::create_dir(at(below)).expect("it is made");
    }
    write(
        "metadata/annotations.yaml",
        "annotations: {operators.operatorframework.io.bundle.package.v1: pot}",
    );
    let bundle = |image: &str| {
        let csv = json!({"kind": "ClusterServiceVersion", "metadata": {"name": "pot.v1.0.0"},
            "spec": {"version": "1.0.0", "relatedImages": [{"name": "pot", "image": image}]}});
        write("manifests/csv.yaml", &csv.to_string());
    };
    let conf = format!(
        "[[registry]]\nprefix = \"quay.invalid/team\"\nlocation = \"quay.invalid/team\"\n[[registry.mirror]]\nlocation = \"{}/team\"\ninsecure = true\n[[registry]]\nlocation = \"blocked.invalid\"\nblocked = true\n",
        registry.address
    );
    write("registries.conf", &conf);
    write("none.json", "{}");
    write("auth.json", &registry.document(PASSWORD).to_string());
    let ask = |auth: &str| check(folder.path(), &at("registries.conf"), &at(auth));
    bundle("quay.invalid/team/pot:v1");
    let (code, answer) = ask("auth.json");
    assert_eq!((code, &answer["images"][0]["found"]), (Some(0), &json!(true)), "{answer}");
    assert_eq!(answer["images"][0]["byTag"], true);
    let (code, answer) = ask("none.json");
    assert_eq!(code, Some(3), "{answer}");
    assert!(answer["unknown"][0]["why"].as_str().expect("why").contains("401"), "{answer}");
    bundle(&format!("{}/team/pot:v2", registry.address));
    let insecure =
        format!("[[registry]]\nlocation = \"{}\"\ninsecure = true\n{conf}", registry.address);
    write("registries.conf", &insecure);
    let (code, answer) = ask("auth.json");
    assert_eq!((code, &answer["images"][0]["found"]), (Some(1), &json!(false)), "{answer}");
    bundle("blocked.invalid/pot:v1");
    let (code, answer) = ask("auth.json");
    assert_eq!(code, Some(3), "{answer}");
    let why = answer["unknown"][0]["why"].as_str().expect("why");
    assert!(why.contains("is blocked by the registries configuration"), "{answer}");
    bundle("127.0.0.1:1/pot:v1");
    assert_eq!(ask("auth.json").0, Some(3));
}

// plugin.md U59
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_says_what_runs_and_moves_only_to_what_is_offered_by_that_digest() {
    let bundles = ["1.0.0", "1.1.0"].map(Bundle::new);
    let (scene, extension) = Scene::shared_first("locked", &bundles).await;
    let plane = scene.cluster.plane;
    let name = &scene.name;
    let ca = plane.addresses.controller_ca.to_string_lossy().into_owned();
    let lock =
        |args: &[&str]| plugin::answer(plane, &[&["lock"], args, &["--catalog-ca", &ca]].concat());
    let (text, _) = lock(&["write", name]).good();
    assert!(text.contains("schema: olm.lock\n") && text.contains("@sha256:"), "{text}");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("prod.lock");
    let path_text = path.to_string_lossy().into_owned();
    let save = |text: &str| std::fs::write(&path, text).expect("it is written");
    save(&text);
    let (code, said, _) = lock(&["check", &path_text]);
    assert_eq!((code, said.trim_end().ends_with("same")), (Some(0), true), "{said}");

    // What the next version is locked to is not what the catalog has: it is named and left.
    let next = text.replace("1.0.0", "1.1.0");
    save(&next);
    let (code, said, _) = lock(&["check", &path_text]);
    assert_eq!((code, said.trim_end().ends_with("behind")), (Some(1), true), "{said}");
    let (_, errors) = lock(&["apply", &path_text, "--yes"]).ends(1);
    let has = errors.split_once("by another digest: ").map(|(_, digest)| digest.trim());
    let has = has.unwrap_or_else(|| panic!("{errors}"));
    let locked = text.split_once("@sha256:").and_then(|(_, rest)| rest.get(..64));
    save(&next.replace(&format!("sha256:{}", locked.expect("a digest")), has));
    lock(&["apply", &path_text, "--yes"]).good();
    // The plan is released, not the version: another content of it would not be installed.
    let approved = extension.get().await.annotations()[policy::APPROVE].clone();
    assert!(approved.starts_with("1.1.0@sha256:"), "{approved}");
    extension.installed("1.1.0").await;
    lock(&["check", &path_text]).good();
    save(&text);
    let (code, said, _) = lock(&["check", &path_text]);
    assert_eq!((code, said.trim_end().ends_with("ahead")), (Some(1), true), "{said}");
    extension.delete().await;
    let (_, said, _) = lock(&["check", &path_text]);
    assert!(said.trim_end().ends_with("absent"), "{said}");
}

const KETTLES: &str = "kettles.migrate.example.com";

fn crd_says(plane: &ControlPlane, path: &str) -> String {
    plane.kubectl(&["get", "crd", KETTLES, "-o", path])
}

/// A conversion that does not answer.
async fn refused_without_conversion(plane: &ControlPlane, mut dead: Value) {
    let name = KETTLES;
    let apply = |object: &Value| plane.requests().apply(object);
    dead["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/"}}});
    apply(&dead);
    // Whoever finds that all objects can be read is done, and does not look again.
    let converted = || async {
        let path = "/apis/migrate.example.com/v1/namespaces/default/kettles/k0";
        match plane.requests().send(Method::GET, path, None) {
            Ok(read) => Err(read),
            Err(_) => Ok(()),
        }
    };
    wait::until("the conversion is asked", SOON, converted).await;
    let refused = || async {
        let (code, _, errors) = plugin::answer(plane, &["crd", "migrate", name, "--yes"]);
        let named = errors.contains("kettles.migrate.example.com cannot be read in v1: ");
        if code == Some(1) && named { Ok(()) } else { Err(errors) }
    };
    wait::until("it is refused", SOON, refused).await;
    dead["spec"]["conversion"] = json!({"strategy": "None"});
    apply(&dead);
    plane.kubectl(&["delete", "crd", name]);
}

// plugin.md U54
#[tokio::test(flavor = "multi_thread")]
async fn a_crd_is_rid_of_a_stored_version_once_every_object_is_written() {
    const OBJECTS: usize = 60;
    let cluster = cluster::shared().await;
    let plane = cluster.plane;
    let definition = definition("Kettle", "migrate.example.com");
    let version = |name: &str, storage: bool| {
        let mut version = definition["spec"]["versions"][0].clone();
        version["name"] = json!(name);
        version["storage"] = json!(storage);
        version
    };
    let crd = |versions: [Value; 2]| {
        let mut crd = definition.clone();
        crd["spec"]["versions"] = json!(versions);
        crd
    };
    let apply = |object: &Value| plane.requests().apply(object);
    let name = KETTLES;
    apply(&crd([version("v1", true), version("v2", false)]));
    plane.established(name);
    let kettles: Vec<Value> = (0..OBJECTS)
        .map(|index| {
            json!({"apiVersion": "migrate.example.com/v1", "kind": "Kettle",
            "metadata": {"name": format!("k{index}"), "namespace": "default"}})
        })
        .collect();
    plane.create(&json!({"apiVersion": "v1", "kind": "List", "items": kettles}));
    apply(&crd([version("v1", false), version("v2", true)]));
    let stored = || crd_says(plane, "jsonpath={.status.storedVersions}");
    let both = |stored: &String| stored == r#"["v1","v2"]"#;
    wait::value("both are stored", SOON, stored, both).await;
    plugin::answer(plane, &["crd", "migrate", name]).ends(2);
    let (_, errors) = plugin::answer(plane, &["crd", "migrate", name, "v1", "--yes"]).ends(1);
    assert!(errors.contains("stores v2, not v1"), "{errors}");
    let revision_of = |index: usize| {
        let (object, path) = (format!("k{index}"), "jsonpath={.metadata.resourceVersion}");
        plane.kubectl(&["get", "kettles", &object, "-o", path])
    };
    // Written as it is, an object changes once the API server stores the other version.
    let last = format!("/apis/migrate.example.com/v1/namespaces/default/kettles/k{}", OBJECTS - 1);
    let before = revision_of(OBJECTS - 1);
    let written = || {
        let same = plane.requests().send(Method::PATCH, &last, Some(&json!({})));
        same.expect("it is written")["metadata"]["resourceVersion"].clone()
    };
    wait::value("v2 is stored", SOON, written, |now| *now != *before).await;
    let untouched = revision_of(0);
    let mut first = Command::new(paths::built("kubectl-olm"))
        .args(["crd", "migrate", name, "--yes", "--kubeconfig"])
        .arg(&plane.addresses.kubeconfig)
        .stdout(Stdio::null())
        .spawn()
        .expect("the plugin runs");
    first.kill().expect("it runs, or has ended");
    first.wait().expect("it ends");
    plugin::answer(plane, &["crd", "migrate", name, "--yes"]).good();
    assert_eq!(stored(), r#"["v2"]"#);
    assert_ne!(revision_of(0), untouched, "it was written");
    let (code, text, _) = plugin::answer(plane, &["crd", "migrate", name, "--yes"]);
    assert_eq!(
        (code, text.as_str()),
        (Some(0), "kettles.migrate.example.com: all objects are stored in v2\n")
    );

    refused_without_conversion(plane, crd([version("v1", true), version("v2", false)])).await;
}
