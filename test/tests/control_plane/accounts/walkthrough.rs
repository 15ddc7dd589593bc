//! The walk-through in README, "Least privilege", as printed there.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use olm_test::cluster::{self, Cluster, Controller, ControllerOptions};
use olm_test::package::Files;
use olm_test::{bundles, images, paths, scene};

const PACKAGE: &str = "lamp-operator";
const VERSION: &str = "1.0.0";

/// Returns the commands of a section's console blocks, each with its output in README.
fn commands(section: &str) -> Vec<(String, String)> {
    let readme = std::fs::read_to_string(paths::repository().join("README.md")).expect("README");
    let heading = format!("\n## {section}\n");
    let (_, rest) = readme.split_once(&heading).expect("the section is there");
    let text = rest.split("\n## ").next().unwrap_or(rest);
    let blocks = text.split("```console\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap_or(block));
    blocks
        .flat_map(|block| {
            format!("\n{block}")
                .split("\n$ ")
                .skip(1)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .map(|one| {
            let (command, printed) = one.split_once('\n').unwrap_or((&one, ""));
            (command.to_owned(), printed.trim_end().to_owned())
        })
        .collect()
}

/// Runs a command as a reader would, in the root of the repository; returns both output streams in
/// one, as a terminal shows them.
fn run(cluster: &Cluster, programs: &Path, command: &str) -> (bool, String) {
    let path = std::env::var("PATH").unwrap_or_default();
    let shell = format!("set -o pipefail; ({command}) 2>&1");
    let out = Command::new("bash")
        .args(["-c", &shell])
        .current_dir(paths::repository())
        .env("PATH", format!("{}:{path}", programs.display()))
        .env("KUBECONFIG", &cluster.plane.addresses.kubeconfig)
        .output()
        .expect("bash starts");
    let text = String::from_utf8_lossy(&out.stdout).trim_end().to_owned();
    (out.status.success(), text)
}

/// Serves the package of the demo, first version.
async fn serve(cluster: &Cluster) {
    let demo = paths::repository().join("hack/demo");
    let folder = demo.join("bundles").join(PACKAGE).join(VERSION);
    let files = bundles::read_files(&folder).expect("the bundle of the demo");
    let registry = &cluster.registry;
    let image = format!("{registry}/{PACKAGE}-bundle:v{VERSION}");
    images::push_bundle(&image, files.into_iter().collect()).await;
    let catalog = demo.join(format!("catalogs/first/{PACKAGE}.yaml"));
    let catalog = std::fs::read_to_string(catalog).expect("the catalog of the demo");
    let catalog = catalog.replace("${REGISTRY}", registry).into_bytes();
    let files = Files::from([(format!("configs/{PACKAGE}/catalog.yaml"), catalog)]);
    let image = format!("{registry}/demo-catalog:v1");
    images::push_catalog(&image, files).await;
    scene::serve(&cluster.client, "demo", &image).await;
}

// Issue: the administrator lets dana install one package with one service account.
#[tokio::test(flavor = "multi_thread")]
async fn the_walk_through_of_readme_holds() {
    let cluster = cluster::own().await;
    let options = ControllerOptions {
        args: vec!["--account-policy=require".to_owned()],
        ..ControllerOptions::default()
    };
    let _controller = Controller::start(cluster.plane, options);
    serve(&cluster).await;
    let programs = tempfile::tempdir().expect("a temporary folder");
    let kubectl = &cluster.plane.addresses.kubectl;
    symlink(kubectl, programs.path().join("kubectl")).expect("a link");
    symlink(
        paths::built("kubectl-olm"),
        programs.path().join("kubectl-olm"),
    )
    .expect("a link");

    let commands = commands("Least privilege");
    assert!(commands.len() >= 6, "{commands:#?}");
    let mut refused = 0;
    for (command, wanted) in commands {
        let (succeeded, printed) = run(&cluster, programs.path(), &command);
        if !wanted.is_empty() {
            assert_eq!(printed, wanted, "{command}");
        }
        let refusal = wanted.starts_with("Error from server (Forbidden)");
        assert_eq!(succeeded, !refusal, "{command}: {printed}");
        refused += u32::from(refusal);
    }
    assert_eq!(refused, 1, "README shows what is refused");
    let other = ["get", "clusterextension", "other", "--ignore-not-found"];
    assert_eq!(cluster.plane.kubectl(&other), "");
}
