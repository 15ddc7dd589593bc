//! `kubectl olm bundle render` of a bundle image, and of one that a catalog image offers.

use std::process::Output;

use olm_test::bundles::read_files;
use olm_test::prelude::*;
use olm_test::scene::write_files;

fn render(bundle: &str, registries_conf: &std::path::Path) -> Output {
    render_with(&[bundle], registries_conf)
}

fn render_with(arguments: &[&str], registries_conf: &std::path::Path) -> Output {
    Command::new(paths::built("kubectl-olm"))
        .args(["bundle", "render", "-n", "ops", "-o", "json"])
        .args(arguments)
        .env("CONTAINERS_REGISTRIES_CONF", registries_conf)
        .output()
        .expect("kubectl-olm runs")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_renders_like_the_directory_it_was_made_of() {
    let cluster = cluster::shared().await;
    let directory = paths::repository().join("src/core/testdata/bundle/sample");
    let files = read_files(&directory).expect("the sample bundle");
    let name = format!("{}/kettle-bundle:v1.2.0", cluster.registry);
    let digest = images::push_bundle(&name, files).await;

    let registries_conf = &cluster.plane.addresses.registries_conf;
    let expected = render(&directory.to_string_lossy(), registries_conf);
    assert!(expected.status.success());
    for image in [name, digest] {
        let output = render(&image, registries_conf);
        let notices = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{image}: {notices}");
        assert_eq!(output.stdout, expected.stdout, "{image}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_renders_from_a_catalog_image() {
    let cluster = cluster::shared().await;
    let package = Package::new("offered");
    let versions = ["1.0.0", "1.1.0"];
    let mut pushed = BTreeMap::new();
    let folder = tempfile::tempdir().expect("a temporary folder");
    for version in versions {
        let files = package.bundle_files(&Bundle::new(version));
        write_files(&folder.path().join(version), &files);
        let image = format!("{}/offered-bundle:v{version}", cluster.registry);
        images::push_bundle(&image, files).await;
        pushed.insert(version.to_owned(), image);
    }
    let catalog = format!("{}/offered-catalog:v1", cluster.registry);
    images::push_catalog(&catalog, package.catalog_files(&chain(&versions), &pushed)).await;

    let registries_conf = &cluster.plane.addresses.registries_conf;
    let name = package.name();
    for (wanted, version) in [(name.clone(), "1.1.0"), (format!("{name}@1.0.0"), "1.0.0")] {
        let expected = render(&folder.path().join(version).to_string_lossy(), registries_conf);
        assert!(expected.status.success());
        let output = render_with(&[&wanted, "--from", &catalog], registries_conf);
        let notices = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{wanted}: {notices}");
        assert_eq!(output.stdout, expected.stdout, "{wanted}");
    }
}
