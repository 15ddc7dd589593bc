//! README and `docs` on a cluster: their commands, as they stand there (plugin.md 6).

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use olm_test::cluster::Controller;
use olm_test::documents::{self, Shell};
use olm_test::package::Files;
use olm_test::release::{Release, catalog_files};
use olm_test::scene::write_files;
use olm_test::{images, paths, wait};

use crate::manifests::{Install, ready};

const SOON: Duration = Duration::from_secs(30);
const HEADING: &str = "## Five minutes on a cluster";
/// What README has pushed and installed.
const IMAGE: &str = "registry.example.com/olm-controller:v0.1.0";
/// What OperatorHub.io offers; a bundle of ours stands in for it.
const BUNDLE: &str = "operatorhubio/argocd-operator:v0.6.0";
const CATALOG: &str = "operatorhubio/catalog:latest";
/// Documents that are played on one cluster, in this order: the first ones make what the others use.
const PLAYED: [&str; 14] = [
    "docs/install.md",
    "docs/from-upstream.md",
    "docs/first-extension.md",
    "docs/rights.md",
    "docs/tenancy.md",
    "docs/updates.md",
    "docs/catalogs.md",
    "docs/authors.md",
    "docs/gitops.md",
    "README.md",
    "docs/on-call.md",
    "docs/air-gap.md",
    "docs/troubleshooting.md",
    "docs/backup.md",
];

/// A cluster with what the documents install, and a shell as its reader has one.
struct Reader {
    install: Install,
    environment: Vec<(String, PathBuf)>,
}

impl Reader {
    async fn new() -> Self {
        let install = Install::of("default").await;
        let addresses = &install.cluster.plane.addresses;
        let conf = ("CONTAINERS_REGISTRIES_CONF", &addresses.registries_conf);
        let environment = [("KUBECONFIG", &addresses.kubeconfig), conf];
        let environment = environment.map(|(name, path)| (name.to_owned(), path.clone()));
        let environment = environment.into();
        Self { install, environment }
    }

    /// Has a registry of the documents read from the local one.
    fn mirror(&self, prefix: &str) {
        let cluster = &self.install.cluster;
        let conf = &cluster.plane.addresses.registries_conf;
        let mut text = std::fs::read_to_string(conf).expect("the registries are configured");
        let _ = write!(
            text,
            "\n[[registry]]\nprefix = \"{prefix}\"\nlocation = \"{}\"\ninsecure = true\n",
            cluster.registry
        );
        std::fs::write(conf, text).expect("the configuration can be changed");
    }

    fn shell(&self) -> Shell {
        let kubectl = &self.install.cluster.plane.addresses.kubectl;
        Shell::on_a_cluster(kubectl, self.environment.clone())
    }

    /// Starts the controller, and has the shell trust its catalog server: where it runs as a pod, the
    /// API server stands between.
    async fn start(&mut self) -> Vec<Controller> {
        let controllers = self.install.start();
        ready(&controllers).await;
        let plane = self.install.cluster.plane;
        let from = ["get", "configmap", "olm-serving-ca", "-n", "olmv1-system"];
        let from = [&from[..], &["-o", "jsonpath={.data.ca\\.crt}"]].concat();
        let published =
            wait::until("the CA is published", SOON, || async { plane.try_kubectl(&from, "") });
        let ca = published.await;
        let file = self.install.cluster.dir.join("serving-ca.crt");
        std::fs::write(&file, ca).expect("it is written");
        self.environment.push(("SSL_CERT_FILE".to_owned(), file));
        controllers
    }
}

fn run(shell: &Shell, commands: &str) -> String {
    let (succeeded, printed) = shell.run(commands);
    assert!(succeeded, "{commands}\n{printed}");
    printed
}

/// Pushes what stands in for OperatorHub.io.
async fn push_argocd(install: &Install) {
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
}

/// Pushes the package of the demo: its bundles, and its catalogs as `v1` and `v2`.
async fn push_lamps(install: &Install) {
    let registry = &install.cluster.registry;
    let demo = paths::repository().join("hack/demo");
    for version in ["1.0.0", "1.1.0", "1.2.0"] {
        let release = Release::read(&demo.join("bundles/lamp-operator").join(version));
        let image = format!("{registry}/lamp-operator-bundle:v{version}");
        images::push_bundle(&image, release.files()).await;
    }
    for (tag, folder) in [("v1", "first"), ("v2", "second")] {
        let catalog = demo.join("catalogs").join(folder).join("lamp-operator.yaml");
        let catalog = std::fs::read_to_string(catalog).expect("the catalog of the demo");
        let catalog = catalog.replace("${REGISTRY}", "registry.example.com");
        let files = [("configs/lamp-operator/catalog.yaml".to_owned(), catalog.into_bytes())];
        images::push_catalog(&format!("{registry}/lamps/catalog:{tag}"), Files::from(files)).await;
    }
}

// deploying.md P7: an empty cluster, and the commands a newcomer copies
#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_readme_install_on_an_empty_cluster() {
    let root = paths::repository();
    let readme = documents::read("README.md");
    let (_, below) = readme.split_once(HEADING).expect("README has the heading");
    let blocks = documents::blocks(below.split("\n## ").next().unwrap_or_default());
    let mut blocks = blocks.iter().filter(|block| block.info == "console");
    let built = &blocks.next().expect("README has commands").text;
    let mut reader = Reader::new().await;
    reader.mirror("quay.io");
    push_argocd(&reader.install).await;
    let mut shell = reader.shell();

    // Building takes too long for a test: make says what it would do, and its last step is done.
    let wanted = format!("hack/install_yaml.sh \"target/manifests\" \"{IMAGE}\"");
    let dry = built.replace("make ", "make --no-print-directory --dry-run ");
    let planned = run(&shell, &format!("cd \"{}\"\n{dry}", root.display()));
    for step in ["xtask image --arch", "xtask push-image", &wanted, "--package kubectl-olm"] {
        assert!(planned.contains(step), "{step}: {planned}");
    }
    // plugin.md U21
    let (_, early) = shell.run("kubectl olm status || echo $?");
    let unserved = "error: this cluster does not serve olm.operatorframework.io/v1\n\
                    hint: install olm-controller first\n3\n";
    assert_eq!(early, unserved);
    let mut controllers = Vec::new();
    let mut said = String::new();
    for block in blocks {
        if controllers.is_empty() {
            let folder = shell.folder().join("target/manifests");
            let write = format!("hack/install_yaml.sh \"{}\" {IMAGE}", folder.display());
            run(&shell, &format!("cd \"{}\"\n{write}", root.display()));
        }
        said += &run(&shell, &block.text);
        if controllers.is_empty() {
            // The Deployment is there; nodes that only pretend do not start what it asks for.
            controllers = reader.start().await;
            shell = reader.shell();
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
    let plane = reader.install.cluster.plane;
    let deployed = plane.kubectl(&["get", "deployments", "-n", "olmv1-system", "--output=yaml"]);
    assert!(deployed.contains(&format!("image: {IMAGE}")), "{deployed}");
    let left = plane.kubectl(&["get", "deployments", "-n", "argocd", "--output=name"]);
    assert_eq!(left, "", "everything is removed");
}

// plugin.md 6, U15, U21, U47, and a person's first hour: an empty cluster, and nothing but what the documents say.
// The administrator of "Least privilege" lets dana install one package with one account.
#[tokio::test(flavor = "multi_thread")]
async fn the_documents_show_what_a_cluster_answers() {
    let mut reader = Reader::new().await;
    reader.mirror("registry.example.com");
    push_lamps(&reader.install).await;
    reader.install.apply();
    let _controllers = reader.start().await;
    // Where Argo CD is configured.
    reader.install.cluster.plane.kubectl(&["create", "namespace", "argocd"]);
    let shell = reader.shell();
    let is_played = |block: &documents::Block| block.info == "console cluster";
    for path in documents::all() {
        let shows = documents::blocks(&documents::read(&path)).iter().any(is_played);
        assert!(!shows || PLAYED.contains(&path.as_str()), "{path} is not played");
    }
    for path in PLAYED {
        let corrected = documents::play(&shell, &documents::read(path), is_played);
        documents::settle(path, corrected);
    }
}
