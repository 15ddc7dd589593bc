//! Real bundles that are updated by themselves, version after version.

use futures::StreamExt as _;
use futures::stream;
use olm_core::yaml;
use olm_test::bundles::read_files;
use olm_test::prelude::*;
use olm_test::release::{self, Release};
use olm_test::scene::{self, write_files};
use serde::Deserialize;
use tempfile::TempDir;

use super::stage::folder;

const UPDATES: usize = 10;

/// Versions of a real bundle that differ in their names.
struct Series {
    package: String,
    /// The version that is renamed.
    version: String,
    offered: Vec<(Release, String)>,
    folder: TempDir,
}

impl Series {
    fn of(package: &str, version: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (package, version) = (package.to_owned(), version.to_owned());
        Self { package, version, offered: Vec::new(), folder }
    }

    /// Writes the bundle as another version, to which each earlier one leads.
    fn renamed(&self, version: &str) -> Release {
        let mut files = read_files(&folder(&self.package, &self.version)).expect("a bundle");
        for bytes in files.values_mut() {
            let mut text = String::from_utf8_lossy(bytes).replace(&self.version, version);
            let mut documents = yaml::to_json(&text).expect("YAML").into_iter();
            if let Some(mut csv) = documents.find(|it| it["kind"] == "ClusterServiceVersion") {
                csv["metadata"]["annotations"]["olm.skipRange"] = json!(format!("<{version}"));
                let spec = csv["spec"].as_object_mut().expect("a spec");
                spec.retain(|field, _| !["replaces", "skips"].contains(&field.as_str()));
                text = csv.to_string();
            }
            *bytes = text.into_bytes();
        }
        let folder = self.folder.path().join(version);
        write_files(&folder, &files);
        Release::read(&folder)
    }

    /// Has a catalog offer one version more, and returns that.
    async fn grow(&mut self, cluster: &Cluster) -> String {
        let (package, number) = (self.package.clone(), self.offered.len());
        let version = format!("99.0.{number}");
        let release = self.renamed(&version);
        let image = format!("{}/{package}-bundle:v{version}", cluster.registry);
        let image = images::push_bundle(&image, release.files()).await;
        self.offered.push((release, image));
        let catalog = format!("{}/{package}-catalog:v{number}", cluster.registry);
        images::push_catalog(&catalog, release::catalog_files(&self.offered)).await;
        scene::serve(&cluster.client, &package, &catalog).await;
        version
    }
}

/// What an operator watches.
#[derive(Deserialize, PartialEq)]
enum Watches {
    Everything,
    Own,
    Another,
}
use Watches::{Another, Everything};

/// Updated in the normal run; all of them take half an hour.
const FEW: usize = 1;
/// Packages that are updated at the same time.
const AT_ONCE: usize = 3;

/// Installs a package for a range as a person does, and has its catalog offer ten versions more.
async fn lives_through_updates(cluster: &Cluster, bundle: (String, String, Watches)) {
    let (package, version, watches) = (&*bundle.0, &*bundle.1, bundle.2);
    let plane = cluster.plane;
    let mut series = Series::of(package, version);
    let first = series.grow(cluster).await;
    let another =
        if watches == Another { format!("{package}-another") } else { package.to_owned() };
    let wanted = format!("{package}@99.x");
    let from = ["--catalog", package, "-n", package, "--create-namespace", "--yes"];
    let mut args = [&["install", &*wanted][..], &from].concat();
    if watches != Everything {
        args.extend(["--watch-namespace", &another]);
    }
    if watches == Another {
        plane.kubectl(&["create", "namespace", &another]);
    }
    plugin::ask(plane, &args);
    let extension = Extension::named(&cluster.client, package);
    let before = extension.installed(&first).await.metadata.generation;
    for _ in 0..UPDATES {
        let version = series.grow(cluster).await;
        let after = extension.installed(&version).await.metadata.generation;
        assert_eq!(after, before, "nobody has changed {package}");
    }
    extension.delete().await;
    println!("| {package} {version} | {UPDATES} updates | 0 hands |");
}

/// Has the first `count` of the bundles live through their updates on a cluster of their own.
async fn live_through_updates(count: usize) {
    let (cluster, _controller) = cluster::started("", &[]).await;
    // For community-kubevirt-hyperconverged, whose pods have a class that is not in the bundle.
    cluster.plane.create(&json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "kubevirt-cluster-critical"}, "value": 1_000_000_000,
    }));
    let bundles = paths::rows("test/tests/corpus/bundles/updates.yaml");
    let bundles = stream::iter(bundles.into_iter().take(count));
    bundles.for_each_concurrent(AT_ONCE, |bundle| lives_through_updates(&cluster, bundle)).await;
}

// applying.md 5.4: what `install` gives for a range is enough for every version that differs in its
// names; exact rights would have to be given ten times.
#[tokio::test(flavor = "multi_thread")]
async fn ten_versions_are_installed_without_anybody() {
    live_through_updates(FEW).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: cargo test -p olm-test --test corpus -- --ignored ten_versions"]
async fn ten_versions_of_every_bundle_are_installed_without_anybody() {
    live_through_updates(usize::MAX).await;
}
