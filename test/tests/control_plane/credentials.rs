//! Credentials for registries, and the files that pulls are configured by: where they come from,
//! and that a change of them is enough.

use kube::core::{ApiResource, GroupVersionKind};
use olm_api::conditions::types;
use olm_api::keys::name;
use olm_image::built::BuiltImage;
use olm_test::prelude::*;
use olm_test::private::{PASSWORD, PrivateRegistry, USER};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::time::timeout;

/// Longest time from a change to what it makes possible: less than what is left of the delay of a
/// catalog that has failed [`FAILURES`] times, which is 32 s.
const AT_ONCE: Duration = Duration::from_secs(25);
const FAILURES: usize = 6;
const WRONG: &str = "wrong-8d23e7";
/// Namespace and name of the Secret that the flag names.
const GLOBAL: (&str, &str) = ("pull-secrets", "global");

/// The registries.conf of the control plane with more entries; as it was when this is dropped.
pub(crate) struct Registries {
    pub(crate) file: PathBuf,
    before: String,
}

impl Registries {
    pub(crate) fn of(plane: &ControlPlane) -> Self {
        let file = plane.addresses.registries_conf.clone();
        let before = std::fs::read_to_string(&file).expect("registries.conf");
        Self { file, before }
    }

    /// Puts another file in its place, by renaming.
    pub(crate) fn set(&self, entries: &str) {
        let new = self.file.with_extension("new");
        std::fs::write(&new, format!("{}\n{entries}", self.before)).expect("it is written");
        std::fs::rename(&new, &self.file).expect("it is renamed");
    }
}

impl Drop for Registries {
    fn drop(&mut self) {
        self.set("");
    }
}

fn catalog_image(files: &Files) -> BuiltImage {
    images::build(files, &[(name::CATALOG_CONFIGS_LABEL, "/configs")])
}

pub(crate) fn apply_secret(plane: &ControlPlane, namespace: &str, name: &str, document: &Value) {
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": name, "namespace": namespace},
        "stringData": {".dockerconfigjson": document.to_string()},
    });
    plane.kubectl_with_input(&["apply", "-f", "-"], &secret.to_string());
}

/// Makes these the `imagePullSecrets` of the controller's account.
pub(crate) fn link(plane: &ControlPlane, names: &Value) {
    let change = json!({"imagePullSecrets": names});
    plane.requests().merge("serviceaccount", SYSTEM_NAMESPACE, CONTROLLER_ACCOUNT, &change);
}

/// Lets the controller read one Secret of a namespace by its name, as an administrator would.
fn allow_secret(plane: &ControlPlane, namespace: &str, secret: &str) {
    plane.kubectl(&["create", "namespace", namespace]);
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret],
        "verbs": ["get", "list", "watch"]}]);
    let controller = objects::account(SYSTEM_NAMESPACE, CONTROLLER_ACCOUNT);
    plane.grant(&objects::grant("pull", Some(namespace), &rules, &controller));
}

async fn served_at_once(catalog: &Catalog) {
    let served = |found: &Value| condition_of(found, types::SERVING)["status"] == "True";
    catalog.within(AT_ONCE, "it is served", served).await;
}

/// Creates a catalog of an image of a package in a registry that asks for credentials.
async fn shelf(plane: &'static ControlPlane, registry: &PrivateRegistry, name: &str) -> Catalog {
    let content = "---\nschema: olm.package\nname: shop\ndefaultChannel: stable\n";
    let files = Files::from([("configs/c.yaml".to_owned(), content.into())]);
    let image = registry.push("shelf:v1", &catalog_image(&files)).await;
    Catalog::create(plane, name, &image)
}

/// Waits until the next attempt would be long after [`AT_ONCE`].
async fn has_failed_often(controller: &Controller, catalog: &Catalog) {
    let failures = || {
        let log = controller.log();
        let lines = log.lines().filter(|line| line.contains("reconcile failed"));
        lines.filter(|line| line.contains(&catalog.name)).count()
    };
    let several = |count: &usize| *count >= FAILURES;
    wait::value("several attempts have failed", 2 * SOON, failures, several).await;
}

/// Nothing that was sent to a registry may be told to anybody else.
fn assert_secret(controller: &Controller, catalog: &Catalog) {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let events = catalog.plane.kubectl(&["get", "events", "-A", "-o", "yaml"]);
    let (object, log) = (catalog.get().to_string(), controller.log());
    assert!(log.contains("TRACE") || log.contains("DEBUG"), "{log}");
    for password in [PASSWORD, WRONG] {
        let pair = STANDARD.encode(format!("{USER}:{password}"));
        for secret in [password, &pair] {
            for (place, text) in [("log", &log), ("catalog", &object), ("Events", &events)] {
                assert!(!text.contains(secret), "{secret} stands in the {place}");
            }
        }
    }
}

// deploying.md P18, P22 and 3.3
async fn the_global_pull_secret_is_used_when_it_comes_and_when_it_changes(
    controller: &Controller,
    plane: &'static ControlPlane,
    registry: &PrivateRegistry,
) {
    let catalog = shelf(plane, registry, "globally").await;
    let (namespace, secret) = GLOBAL;
    let from = format!("401 from {}: ", registry.address);
    let none = format!(
        "(no credential: the only source has no key for {}/shelf; Secret {namespace}/{secret} \
         does not exist)",
        registry.address
    );
    catalog.fails(SOON, &[&from, &none]).await;

    apply_secret(plane, namespace, secret, &registry.document(WRONG));
    let used = format!("(credential: key {:?} of Secret {namespace}/{secret})", registry.address);
    catalog.fails(SOON, &[&from, &used]).await;

    has_failed_often(controller, &catalog).await;
    apply_secret(plane, namespace, secret, &registry.document(PASSWORD));
    served_at_once(&catalog).await;
    assert_secret(controller, &catalog);
}

// deploying.md P19, P22
async fn the_pull_secrets_of_the_own_account_are_used_when_it_is_edited(
    controller: &Controller,
    plane: &'static ControlPlane,
    registry: &PrivateRegistry,
) {
    apply_secret(plane, SYSTEM_NAMESPACE, "own", &registry.document(PASSWORD));
    let catalog = shelf(plane, registry, "byaccount").await;
    let from = format!("401 from {}: unauthorized", registry.address);
    catalog.fails(SOON, &[&from, "(no credential: "]).await;

    has_failed_often(controller, &catalog).await;
    link(plane, &json!([{"name": "own"}]));
    served_at_once(&catalog).await;
    assert_secret(controller, &catalog);
    link(plane, &json!([]));
}

// deploying.md P20
async fn a_catalog_and_its_bundles_are_pulled_with_the_secret_that_the_catalog_may_name(
    controller: &Controller,
    cluster: &Cluster,
    registry: &PrivateRegistry,
) {
    let plane = cluster.plane;
    let scene = Scene::empty(cluster.clone(), "named");
    let bundle = Bundle::new("1.0.0");
    scene.create_namespace();
    scene.grant(std::slice::from_ref(&bundle));
    let files = images::build(&scene.package.bundle_files(&bundle), &[]);
    let pushed = registry.push("bundle:v1", &files).await;
    let image = catalog_image(&scene.package.catalog_of(&pushed));
    let image = registry.push("shelf:v1", &image).await;
    let catalog = Catalog::create(plane, &scene.name, &image);
    catalog.fails(SOON, &["(no credential: "]).await;

    catalog.annotate(policy::PULL_SECRET, Some("elsewhere/private"));
    catalog.fails(SOON, &["\"elsewhere/private\" is not the name of a Secret"]).await;
    catalog.annotate(policy::PULL_SECRET, Some("private"));
    let secret = format!("Secret {SYSTEM_NAMESPACE}/private");
    let missing = format!("{secret} does not exist");
    catalog.fails(SOON, &["(no credential: ", &missing]).await;
    apply_secret(plane, SYSTEM_NAMESPACE, "private", &registry.document(PASSWORD));
    let labelled = format!("{}=true", label::CATALOG_PULL_SECRET);
    catalog.fails(SOON, &[&format!("{secret} is not labelled {labelled}")]).await;

    has_failed_often(controller, &catalog).await;
    plane.kubectl(&["label", "secret", "private", "--namespace", SYSTEM_NAMESPACE, &labelled]);
    served_at_once(&catalog).await;

    scene.installed(json!({}), "1.0.0").await;
    assert_secret(controller, &catalog);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_pulls_are_configured_by_is_used_as_soon_as_it_is_there_wherever_that_is() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    let global = PrivateRegistry::basic();
    let [own, named] = [PrivateRegistry::token().await, PrivateRegistry::token().await];
    let registries = Registries::of(plane);
    registries.set(&[&global, &own, &named].map(PrivateRegistry::entry).concat());
    allow_secret(plane, GLOBAL.0, GLOBAL.1);
    let roots = tempfile::tempdir().expect("a folder");
    let secret = format!("--global-pull-secret={}/{}", GLOBAL.0, GLOBAL.1);
    let cas = format!("--pull-cas-dir={}", roots.path().display());
    let args = ["--components=catalogs,extensions", "--v=4", "--cluster-proxy", &secret, &cas];
    let controller = start(plane, "private", &args).await;
    the_global_pull_secret_is_used_when_it_comes_and_when_it_changes(&controller, plane, &global)
        .await;
    the_pull_secrets_of_the_own_account_are_used_when_it_is_edited(&controller, plane, &own).await;
    a_catalog_and_its_bundles_are_pulled_with_the_secret_that_the_catalog_may_name(
        &controller,
        &cluster,
        &named,
    )
    .await;
    files_are_taken_up_without_a_restart(plane, &registries, roots.path()).await;
    // They would be asked through the proxy as well.
    plane.kubectl(&["delete", "clustercatalogs", "--all"]);
    is_asked_through_a_proxy(&cluster).await;
}

/// The files are looked at every ten seconds.
const NEXT_LOOK: Duration = Duration::from_secs(30);

// deploying.md P24, 2.6 and 3.3
async fn files_are_taken_up_without_a_restart(
    plane: &'static ControlPlane,
    registries: &Registries,
    roots: &Path,
) {
    let (certificate, key) = (&plane.addresses.controller_cert, &plane.addresses.controller_key);
    let registry = PrivateRegistry::basic_over_tls(certificate, key);
    let location = format!("[[registry]]\nlocation = \"{}\"\n", registry.address);
    registries.set(&format!("{location}blocked = true\n"));
    apply_secret(plane, GLOBAL.0, GLOBAL.1, &registry.document(PASSWORD));
    let catalog = Catalog::create(plane, "files", &format!("{}/shelf:v1", registry.address));
    catalog.fails(SOON, &[&format!("registry {} is blocked", registry.address)]).await;

    registries.set(&location);
    let belongs = format!("(its CA belongs in \"{}\")", roots.display());
    catalog.fails(NEXT_LOOK, &["UnknownIssuer", belongs.as_str()]).await;

    copy_as_link(&plane.addresses.controller_ca, roots);
    catalog.fails(NEXT_LOOK, &["reading manifest v1 in "]).await;
}

/// Puts a CA into a folder as the kubelet does: a link to a file that is somewhere else.
fn copy_as_link(ca: &Path, folder: &Path) {
    std::os::unix::fs::symlink(ca, folder.join("ca.crt")).expect("a link");
}

/// Sets what OpenShift's network operator gives out.
pub(crate) async fn give_out(client: &kube::Client, proxy: &str) {
    let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "Proxy");
    let proxies = Api::<DynamicObject>::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let params = PatchParams::apply("network-operator").force();
    let object = |part: &str, value: Value| {
        let object = json!({"apiVersion": "config.openshift.io/v1", "kind": "Proxy",
            "metadata": {"name": "cluster"}, part: value});
        Patch::Apply(object)
    };
    let spec = proxies.patch("cluster", &params, &object("spec", json!({}))).await;
    spec.expect("the Proxy is written");
    let status = object("status", json!({"httpProxy": proxy, "httpsProxy": proxy}));
    let status = proxies.patch_status("cluster", &params, &status).await;
    status.expect("its status is written");
}

/// Has the cluster give out a proxy, and expects that the registry is asked for through it.
async fn is_asked_through_a_proxy(cluster: &Cluster) {
    let proxy = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", proxy.local_addr().expect("an address"));
    let catalog = Catalog::create(cluster.plane, "proxied", "registry.invalid/shelf:v1");
    catalog.fails(SOON, &["registry.invalid"]).await;

    give_out(&cluster.client, &url).await;
    let (stream, _) =
        timeout(SOON, proxy.accept()).await.expect("the proxy is asked").expect("a connection");
    let mut line = String::new();
    let read = BufReader::new(stream).read_line(&mut line).await;
    read.expect("a request");
    assert_eq!(line, "CONNECT registry.invalid:443 HTTP/1.1\r\n");
}
