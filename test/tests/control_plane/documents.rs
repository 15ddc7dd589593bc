//! README and `docs` on a cluster: their commands, as they stand there (plugin.md 6).

use std::fmt::Write as _;

use olm_test::documents::{self, Shell};
use olm_test::prelude::*;
use olm_test::release::{Release, catalog_files};
use olm_test::scene::write_files;

use crate::manifests::{Install, ready};

const HEADING: &str = "## Five minutes on a cluster";
/// What README has pushed and installed.
const IMAGE: &str = "registry.example.com/olm-controller:v0.1.0";
/// What OperatorHub.io offers; a bundle of ours stands in for it.
const BUNDLE: &str = "operatorhubio/argocd-operator:v0.6.0";
const CATALOG: &str = "operatorhubio/catalog:latest";
/// Documents that are played on one cluster, in this order: the first ones make what the others use.
const PLAYED: [&str; 15] = [
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
    "docs/openshift.md",
];
/// After this one extension `lamp` is in namespace `attic`, which pages of alerts are about then.
const BEFORE_ALERTS: &str = "docs/air-gap.md";
/// What commands of the pages of alerts need that is not here: kubelets, the Prometheus operator,
/// OpenShift, another issuer of certificates. Their verbs, flags and kinds are checked.
const NOT_HERE: [&str; 5] = [
    "kubectl logs ",
    " servicemonitor ",
    " clusteroperator ",
    " clusterversion ",
    " catalogd-service-cert ",
];
/// Kinds of those, and of the operator of the demo.
const OF_OTHERS: [&str; 6] =
    ["certificate", "clusteroperator", "clusterversion", "lamps", "olms", "servicemonitor"];

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
        let published = || plane.try_kubectl(&from, "");
        let ca = wait::done("the CA is published", SOON, published).await;
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
    let images = ["lamps/catalog:v1", "lamps/catalog:v2", "redhat/redhat-operator-index:v4.20"];
    for (image, folder) in images.into_iter().zip(["first", "second", "second"]) {
        let catalog = demo.join("catalogs").join(folder).join("lamp-operator.yaml");
        let catalog = std::fs::read_to_string(catalog).expect("the catalog of the demo");
        let catalog = catalog.replace("${REGISTRY}", "registry.example.com");
        let files = [("configs/lamp-operator/catalog.yaml".to_owned(), catalog.into_bytes())];
        images::push_catalog(&format!("{registry}/{image}"), Files::from(files)).await;
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
    reader.mirror("registry.redhat.io");
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
        documents::settle(path, documents::play(&shell, &documents::read(path), is_played));
        if path == BEFORE_ALERTS {
            run_those_of_alerts(&shell);
        }
    }
    check_those_that_are_named(&shell);
    let blocks =
        documents::all().into_iter().map(|path| documents::blocks(&documents::read(&path)));
    let is_ours = |block: &documents::Block| {
        block.info == "yaml" && block.text.starts_with("apiVersion: olm.operatorframework.io/")
    };
    let ours: Vec<_> = blocks.flatten().filter(is_ours).collect();
    assert!(!ours.is_empty());
    for block in ours {
        let args = ["apply", "--server-side", "--dry-run=server", "-f", "-"];
        reader.install.cluster.plane.kubectl_with_input(&args, &block.text);
    }
}

/// Runs the commands of the pages of alerts; those of the plugin are run by the other documents.
fn run_those_of_alerts(shell: &Shell) {
    let pages = documents::pages().into_iter().filter(|page| page.starts_with("docs/runbooks/"));
    let blocks = pages.flat_map(|page| documents::blocks(&documents::read(&page)));
    let text: String = blocks.map(|block| block.text).collect();
    let text =
        text.replace("NAMESPACE", "attic").replace("clustercatalog NAME", "clustercatalog lamps");
    let text = text.replace("NAME", "lamp");
    let is_here = |line: &&str| {
        !line.starts_with("kubectl olm ") && !NOT_HERE.iter().any(|part| line.contains(part))
    };
    let commands: BTreeSet<_> = text.lines().filter(is_here).collect();
    assert!(commands.len() > 20, "{commands:#?}");
    for command in commands {
        // A certificate is read by another program, which may be absent.
        let command = command.split(" | openssl ").next().unwrap_or_default();
        let (succeeded, printed) = shell.run(command);
        assert!(succeeded || printed.starts_with("no"), "{command}\n{printed}");
    }
}

/// Checks that kubectl has the verbs and flags of all commands that documents name, oc among them, and
/// the cluster their kinds.
fn check_those_that_are_named(shell: &Shell) {
    let served = run(shell, "kubectl api-resources --no-headers").to_lowercase();
    let kinds = served.split([' ', ',', '\n']).chain(OF_OTHERS);
    let kinds: BTreeSet<_> = kinds.collect();
    let of_all = run(shell, "kubectl options");
    let of_all = documents::flags(&of_all);
    let mut known = BTreeMap::new();
    let is_of_users =
        |page: &String| !page.starts_with("docs/design/") && !page.starts_with("hack/");
    for page in documents::pages().into_iter().filter(is_of_users) {
        for command in documents::commands(&documents::read(&page), &["kubectl ", "oc "]) {
            let words: Vec<_> = command.split_whitespace().collect();
            let [verb, rest @ ..] = &words[..] else { continue };
            if *verb == "olm" || verb.starts_with('-') {
                continue;
            }
            let names: Vec<_> =
                rest.iter().copied().take_while(|it| !it.starts_with('-')).take(2).collect();
            let has_more = ["auth", "create", "rollout"].contains(verb);
            let more = if has_more { names.join(" ") } else { String::new() };
            let called = format!("kubectl {verb} {more} --help");
            let help = known.entry(called.clone()).or_insert_with(|| run(shell, &called));
            let of_it = documents::flags(help);
            for flag in documents::given(&command) {
                assert!(of_it.contains(flag) || of_all.contains(flag), "{page}: {command}: {flag}");
            }
            let on_kinds = ["annotate", "delete", "describe", "get", "label", "patch", "scale"];
            let kind = names.first().filter(|_| on_kinds.contains(verb));
            for kind in kind.into_iter().flat_map(|it| it.split(',')) {
                let kind = kind.split(['/', '.']).next().unwrap_or_default();
                let is_name = kind.chars().all(|c| c.is_ascii_lowercase());
                assert!(!is_name || kinds.contains(kind), "{page}: {command}: {kind}");
            }
        }
    }
    assert!(known.len() > 12, "{:?}", known.keys());
}
