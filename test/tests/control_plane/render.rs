//! `kubectl olm render` of a bundle image.

use std::process::{Command, Output};

use olm_test::bundles::read_files;
use olm_test::{cluster, images, paths};

fn render(bundle: &str, registries_conf: &std::path::Path) -> Output {
    Command::new(paths::built("kubectl-olm"))
        .args(["render", bundle, "-n", "ops", "-o", "json"])
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
