//! README's "Five minutes on a cluster": its commands, as they stand there.

use std::fmt::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use olm_test::release::{Release, catalog_files};
use olm_test::scene::write_files;
use olm_test::{images, paths};

use crate::manifests::{Install, ready};

const HEADING: &str = "## Five minutes on a cluster";
/// What README has pushed and installed.
const IMAGE: &str = "registry.example.com/olm-controller:v0.1.0";
/// What OperatorHub.io offers; a bundle of ours stands in for it.
const BUNDLE: &str = "operatorhubio/argocd-operator:v0.6.0";
const CATALOG: &str = "operatorhubio/catalog:latest";

/// Returns the fenced blocks of commands below the heading, up to the next one.
fn blocks(readme: &str) -> Vec<String> {
    let (_, below) = readme.split_once(HEADING).expect("README has the heading");
    let section = below.split("\n## ").next().unwrap_or_default();
    let fenced = section.split("```console\n").skip(1);
    fenced
        .map(|rest| rest.split("```").next().unwrap_or_default().to_owned())
        .collect()
}

/// A shell as the reader has it: kubectl, the plugin, and what `make` has written.
struct Shell {
    folder: PathBuf,
    install: Install,
}

impl Shell {
    fn run(&self, folder: &Path, commands: &str) -> String {
        let addresses = &self.install.cluster.plane.addresses;
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", self.folder.join("bin").display());
        let out = Command::new("bash")
            .args(["-euo", "pipefail", "-c", commands])
            .current_dir(folder)
            .env("PATH", path)
            .env("KUBECONFIG", &addresses.kubeconfig)
            .env("CONTAINERS_REGISTRIES_CONF", &addresses.registries_conf)
            .output()
            .expect("bash starts");
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{commands}\n{errors}");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
}

/// Pushes what stands in for OperatorHub.io, and has quay.io read from the local registry.
async fn mirror(install: &Install) {
    let cluster = &install.cluster;
    let demo = paths::repository().join("hack/demo/bundles/lamp-operator/1.0.0");
    let mut files = Release::read(&demo).files();
    for bytes in files.values_mut() {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let text = text.replace("lamp-operator", "argocd-operator");
        *bytes = text.replace("1.0.0", "0.6.0").into_bytes();
    }
    let folder = cluster.dir.join("bundle");
    write_files(&folder, &files);
    let release = Release::read(&folder);
    let registry = &cluster.registry;
    images::push_bundle(&format!("{registry}/{BUNDLE}"), release.files()).await;
    let catalog = catalog_files(&[(release, format!("quay.io/{BUNDLE}"))]);
    images::push_catalog(&format!("{registry}/{CATALOG}"), catalog).await;
    let conf = &cluster.plane.addresses.registries_conf;
    let mut text = std::fs::read_to_string(conf).expect("the registries are configured");
    let _ = write!(
        text,
        "\n[[registry]]\nprefix = \"quay.io\"\nlocation = \"{registry}\"\ninsecure = true\n"
    );
    std::fs::write(conf, text).expect("the configuration can be changed");
}

// deploying.md P7: an empty cluster, and the commands a newcomer copies
#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_readme_install_on_an_empty_cluster() {
    let root = paths::repository();
    let readme = std::fs::read_to_string(root.join("README.md")).expect("README can be read");
    let blocks = blocks(&readme);
    let (built, played) = blocks.split_first().expect("README has commands");
    let install = Install::of("default").await;
    mirror(&install).await;
    let folder = install.cluster.dir.join("reader");
    let bin = folder.join("bin");
    std::fs::create_dir_all(&bin).expect("the folder is made");
    let plane = install.cluster.plane;
    symlink(&plane.addresses.kubectl, bin.join("kubectl")).expect("a link");
    symlink(paths::built("kubectl-olm"), bin.join("kubectl-olm")).expect("a link");
    let shell = Shell { folder, install };

    // Building takes too long for a test: make says what it would do, and its last step is done.
    let wanted = format!("hack/install_yaml.sh \"target/manifests\" \"{IMAGE}\"");
    let dry = built.replace("make ", "make --no-print-directory --dry-run ");
    let planned = shell.run(&root, &dry);
    for step in [
        "xtask image --arch",
        "xtask push-image",
        &wanted,
        "--package kubectl-olm",
    ] {
        assert!(planned.contains(step), "{step}: {planned}");
    }
    let manifests = shell.folder.join("target/manifests");
    let write = format!("hack/install_yaml.sh \"{}\" {IMAGE}", manifests.display());
    shell.run(&root, &write);

    let mut controllers = Vec::new();
    let mut said = String::new();
    for commands in played {
        said += &shell.run(&shell.folder, commands);
        if controllers.is_empty() {
            // The Deployment is there; nodes that only pretend do not start what it asks for.
            controllers = shell.install.start();
            ready(&controllers).await;
        }
    }
    for line in [
        "successfully rolled out",
        "clustercatalog.olm.operatorframework.io/operatorhubio condition met",
        "clusterextension.olm.operatorframework.io/argocd condition met",
        "argocd-operator.v0.6.0",
        "clusterextension.olm.operatorframework.io \"argocd\" deleted",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let deployed = plane.kubectl(&["get", "deployments", "-n", "olmv1-system", "--output=yaml"]);
    assert!(deployed.contains(&format!("image: {IMAGE}")), "{deployed}");
    let left = plane.kubectl(&["get", "deployments", "-n", "argocd", "--output=name"]);
    assert_eq!(left, "", "everything is removed");
}
