//! Real bundles that are updated by themselves, version after version.

use futures::StreamExt as _;
use futures::stream;
use olm_core::yaml;
use olm_test::bundles::read_files;
use olm_test::prelude::*;
use olm_test::release::{self, Release};
use olm_test::scene::{self, write_files};
use tempfile::TempDir;

use super::stage::folder;

const UPDATES: usize = 10;

/// Versions of a real bundle that differ in their names.
struct Series {
    package: &'static str,
    /// The version that is renamed.
    version: &'static str,
    offered: Vec<(Release, String)>,
    folder: TempDir,
}

impl Series {
    fn of(package: &'static str, version: &'static str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { package, version, offered: Vec::new(), folder }
    }

    /// Writes the bundle as another version, to which each earlier one leads.
    fn renamed(&self, version: &str) -> Release {
        let mut files = read_files(&folder(self.package, self.version)).expect("a bundle");
        for bytes in files.values_mut() {
            let mut text = String::from_utf8_lossy(bytes).replace(self.version, version);
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
        let (package, number) = (self.package, self.offered.len());
        let version = format!("99.0.{number}");
        let release = self.renamed(&version);
        let image = format!("{}/{package}-bundle:v{version}", cluster.registry);
        let image = images::push_bundle(&image, release.files()).await;
        self.offered.push((release, image));
        let catalog = format!("{}/{package}-catalog:v{number}", cluster.registry);
        images::push_catalog(&catalog, release::catalog_files(&self.offered)).await;
        scene::serve(&cluster.client, package, &catalog).await;
        version
    }
}

/// What an operator watches.
#[derive(Clone, Copy, PartialEq)]
enum Watches {
    Everything,
    Own,
    Another,
}
use Watches::{Another, Everything, Own};

/// Every bundle that installs on a cluster without others, in its last version.
const BUNDLES: [(&str, &str, Watches); 27] = [
    ("project-quay", "3.9.9", Everything),
    ("ncn-operator", "0.3.18", Everything),
    ("gitlab-runner-operator", "1.49.0", Everything),
    ("node-healthcheck-operator", "0.12.0", Everything),
    ("deployment-validation-operator", "0.7.12", Everything),
    ("victoriametrics-operator", "0.22.0", Everything),
    ("annotationlab", "5.7.0", Everything),
    ("universal-crossplane", "1.5.1-up.1", Everything),
    ("nfs-provisioner-operator", "0.0.5", Everything),
    ("file-integrity-console-plugin", "0.4.1-ocp4.19", Own),
    ("community-windows-machine-config-operator", "8.0.0", Own),
    ("openstack-lightspeed-operator", "0.0.2", Another),
    ("pelorus-operator", "0.0.9", Another),
    ("percona-server-mongodb-operator", "1.18.0", Another),
    ("windup-operator", "0.0.21", Own),
    ("argocd-operator", "0.18.0", Everything),
    ("gitlab-operator-kubernetes", "3.3.0", Own),
    ("kubernetes-imagepuller-operator", "1.1.2", Everything),
    ("marin3r", "0.13.1", Own),
    ("cert-manager", "1.16.5", Everything),
    ("dynatrace-operator", "1.0.0", Everything),
    ("opentelemetry-operator", "0.158.0", Everything),
    ("flink-kubernetes-operator", "1.2.0", Everything),
    ("edp-keycloak-operator", "1.35.0", Everything),
    ("sn-operator", "0.19.7", Everything),
    ("tagger", "2.1.17", Everything),
    ("community-kubevirt-hyperconverged", "1.18.1", Everything),
];
/// Updated in the normal run; all of them take half an hour.
const FEW: usize = 2;
/// Packages that are updated at the same time.
const AT_ONCE: usize = 3;

/// Installs a package for a range as a person does, and has its catalog offer ten versions more.
async fn lives_through_updates(
    cluster: &Cluster,
    (package, version, watches): (&'static str, &'static str, Watches),
) {
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
    let bundles = stream::iter(BUNDLES.into_iter().take(count));
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
    live_through_updates(BUNDLES.len()).await;
}
