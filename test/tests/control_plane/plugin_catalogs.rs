//! Making a catalog and having it served, with nothing but the plugin.

use std::fs;

use olm_test::prelude::*;

/// Runs `kubectl olm catalog`, and returns its exit code and everything it prints.
fn catalog(cluster: &cluster::Cluster, args: &[&str]) -> (Option<i32>, String) {
    let out = plugin::run(cluster.plane, &[&["catalog"], args].concat());
    let text = [out.stdout, out.stderr].concat();
    (out.status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// Pushes the bundles of a package and writes its catalog into a folder.
async fn write(cluster: &cluster::Cluster, package: &Package, versions: &[&str], folder: &Path) {
    let mut pushed = std::collections::BTreeMap::new();
    for version in versions {
        let image = format!("{}/{}-bundle:v{version}", cluster.registry, package.name());
        let files = package.bundle_files(&Bundle::new(version));
        let image = images::push_bundle(&image, files).await;
        pushed.insert((*version).to_owned(), image);
    }
    for (path, bytes) in package.catalog_files(&chain(versions), &pushed) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    }
}

// plugin.md U67, U70, U71
#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_is_built_served_compared_and_removed() {
    let cluster = cluster::with_controller().await;
    let package = Package::new("making");
    let (name, folder) = (package.name(), tempfile::tempdir().expect("a folder"));
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    write(&cluster, &package, &["1.0.0"], &old).await;
    write(&cluster, &package, &["1.0.0", "1.1.0"], &new).await;
    let image = format!("{}/{name}-catalog:latest", cluster.registry);
    let build = |folder: &Path| {
        let folder = folder.join("configs").to_string_lossy().into_owned();
        catalog(&cluster, &["build", &folder, "-t", &image, "--push", "--plain-http"])
    };
    let text = build(&old).good();
    let digest = text.split(['@', ' ']).nth(1).expect("a digest").to_owned();

    // A bundle is not a catalog.
    let bundle = format!("{}/{name}-bundle:v1.0.0", cluster.registry);
    let (code, text) = catalog(&cluster, &["add", &name, &bundle, "--yes"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("hint: kubectl olm catalog build makes one"), "{text}");
    let add = ["add", &name, &image, "--priority", "-5", "--yes"];
    let add = [&add[..], &["--pull-secret", &name]].concat();
    let (code, text) = catalog(&cluster, &add);
    assert_eq!(code, Some(1), "{text}");
    let error = format!("error: there is no Secret \"{name}\" in namespace ");
    assert!(text.contains(&error), "{text}");
    let system = olm_api::keys::name::SYSTEM_NAMESPACE;
    let plane = cluster.plane;
    plane.kubectl(&["create", "secret", "generic", &name, "-n", system]);
    let text = catalog(&cluster, &add).good();
    let label = olm_api::keys::label::CATALOG_PULL_SECRET;
    assert!(text.contains(&format!("gets label {label}=true")), "{text}");
    let labelled = format!("--selector={label}=true");
    let found = plane.kubectl(&["get", "secrets", "-n", system, &labelled, "-o", "name"]);
    assert!(found.contains(&name), "{found}");
    assert!(text.contains(&format!("{name}: served after ")), "{text}");
    let (code, text) = catalog(&cluster, &["add", &name, &image, "--yes"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("already exists"), "{text}");

    let (_, text) = catalog(&cluster, &["list"]);
    assert!(!text.contains("PACKAGES"), "{text}");
    let row = text.lines().find(|line| line.starts_with(&name));
    let cells: Vec<_> = row.expect("a row").split_whitespace().collect();
    assert_eq!(cells[1..3], ["True", "-5"]);
    assert_eq!(cells[3], "none");
    assert!(digest["sha256:".len()..].starts_with(cells[4]), "{text}");
    let text = catalog(&cluster, &["lint", &name]).good();
    assert!(text.ends_with(" in 1 file\n"), "{text}");

    build(&new).good();
    let text = catalog(&cluster, &["diff", &name]).good();
    assert!(text.contains("head stable 1.0.0 -> 1.1.0; added 1.1.0"), "{text}");
    // Nothing polls it otherwise.
    let text = catalog(&cluster, &["refresh", &name]).good();
    assert!(
        text.contains(&format!("{name}: serves {}/{name}-catalog@", cluster.registry)),
        "{text}"
    );
    let text = catalog(&cluster, &["refresh", &name]).good();
    assert!(text.contains(&format!("{name}: nothing newer")), "{text}");
    let text = catalog(&cluster, &["remove", "unheard-of", "--yes"]).ends(1);
    assert!(text.contains("error: there is no ClusterCatalog \"unheard-of\""), "{text}");
    let (code, text) = catalog(&cluster, &["remove", &name]);
    assert_eq!(code, Some(2), "without a terminal nothing is removed: {text}");
    catalog(&cluster, &["remove", &name, "--yes"]).good();
    let listed = || catalog(&cluster, &["list"]).1;
    let is_gone = |text: &String| !text.lines().any(|line| line.starts_with(&name));
    wait::value("it is gone", Duration::from_secs(30), listed, is_gone).await;
}

/// Returns how many packages a catalog has and how many extensions came from it, as a wide list says: one
/// request for the packages of each catalog, one for all extensions (plugin.md 2.1).
pub(crate) fn counted(scene: &Scene) -> String {
    let text = plugin::ask(scene.cluster.plane, &["catalog", "list", "-o", "wide"]);
    let ends = |begin: &str| {
        let line = text.lines().find(|line| line.starts_with(begin));
        let cells: Vec<_> = line.unwrap_or(&text).split_whitespace().collect();
        cells[cells.len() - 2..].join(" ")
    };
    assert_eq!(ends("NAME"), "PACKAGES EXTENSIONS");
    ends(&scene.name)
}
