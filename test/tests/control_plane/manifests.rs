//! The manifests, applied to an empty control plane, and the program started as they say.

use k8s_openapi::api::apps::v1::Deployment;
use olm_test::cluster::Manifest;
use olm_test::extension::UNINSTALL;
use olm_test::package::definition;
use olm_test::prelude::*;

use crate::identity::may;

const CRDS: [&str; 3] = [
    "clustercatalogs.olm.operatorframework.io",
    "clusterextensions.olm.operatorframework.io",
    "clusterobjectsets.olm.operatorframework.io",
];

/// A folder that adds a component to the default overlay.
fn folder_with(component: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(paths::repository().join("target")).expect("a folder");
    let text = format!(
        "resources: [../../config/default]\ncomponents: [../../config/components/{component}]\n"
    );
    std::fs::write(folder.path().join("kustomization.yaml"), text).expect("it is written");
    folder
}

/// What one overlay makes, as one file, as it is released.
pub(crate) struct Install {
    pub(crate) cluster: Cluster,
    pub(crate) file: PathBuf,
}

impl Install {
    pub(crate) async fn of(overlay: &str) -> Self {
        Self::from(&paths::repository().join("config").join(overlay)).await
    }

    /// The overlay of OpenShift, with what a cluster there has that it needs.
    pub(crate) async fn on_openshift() -> Self {
        let install = Self::of("openshift").await;
        let plane = install.cluster.plane;
        plane.kubectl(&["create", "namespace", "openshift-config"]);
        let kind = "SecurityContextConstraints";
        stand_in(plane, "securitycontextconstraints.security.openshift.io/v1", kind, "Cluster");
        stand_in(plane, "servicemonitors.monitoring.coreos.com/v1", "ServiceMonitor", "Namespaced");
        install
    }

    /// The default overlay with a component.
    async fn with(component: &str) -> Self {
        Self::from(folder_with(component).path()).await
    }

    async fn from(folder: &Path) -> Self {
        let cluster = cluster::empty().await;
        let file = cluster.dir.join("install.yaml");
        std::fs::write(&file, cluster::kustomize(folder)).expect("it is written");
        cluster.plane.let_scrape();
        Self { cluster, file }
    }

    /// Applies the file as README says, and returns the resource version of each object.
    pub(crate) fn apply(&self) -> BTreeMap<String, String> {
        let file = self.file.to_string_lossy();
        let plane = self.cluster.plane;
        plane.kubectl(&["apply", "--server-side", "-f", &file]);
        let objects = plane.json(&["get", "-f", &file, "--output=json"]);
        let items = objects["items"].as_array().expect("a list");
        let deployments = items.iter().filter(|object| object["kind"] == "Deployment");
        deployments.for_each(|deployment| has_its_role(plane, &Manifest::of(deployment)));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        items
            .iter()
            .map(|object| {
                let kind = text(&object["kind"]);
                // Status is written by others all the time, which changes no generation.
                let metadata = &object["metadata"];
                let version = match (&metadata["generation"], kind.as_str()) {
                    (_, "ResourceQuota") => object["spec"].to_string(),
                    (Value::Null, _) => text(&metadata["resourceVersion"]),
                    (generation, _) => generation.to_string(),
                };
                (format!("{kind}/{}", text(&object["metadata"]["name"])), version)
            })
            .collect()
    }

    /// Starts what the kubelet would start, one process for each Deployment.
    pub(crate) fn start(&self) -> Vec<Controller> {
        self.start_program(None)
    }

    /// The same with another program than that of this build.
    pub(crate) fn start_program(&self, program: Option<&PathBuf>) -> Vec<Controller> {
        let ours = "--selector=app.kubernetes.io/part-of=olm";
        self.start_those(&["get", "deployments", "-A", ours, "--output=json"], program)
    }

    /// Starts a process for each Deployment that this kubectl prints.
    fn start_those(&self, args: &[&str], program: Option<&PathBuf>) -> Vec<Controller> {
        let plane = self.cluster.plane;
        let list: Value = plane.json(args);
        let items = list["items"].as_array().expect("a list").iter();
        let deployments = items.filter(|object| object["kind"] == "Deployment");
        let controllers = deployments.map(|deployment| {
            let options = ControllerOptions {
                name: deployment["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                manifest: Some(Manifest::of(deployment)),
                program: program.cloned(),
                ..ControllerOptions::default()
            };
            Controller::start(plane, options)
        });
        controllers.collect()
    }

    /// Returns the requests of the controller's own accounts that were refused.
    pub(crate) fn refused(&self) -> Vec<String> {
        let log = &self.cluster.plane.addresses.audit_log;
        audit::mentioning(log, "controller-manager")
            .into_iter()
            // Kubernetes' own controllers are refused what they make in a namespace that goes.
            .filter(|request| request.user.starts_with("system:serviceaccount:"))
            .filter(|request| request.user.ends_with("controller-manager"))
            .filter(|request| request.acted_as.is_none() && request.code == 403)
            .map(|request| format!("{} {}", request.verb, request.uri))
            .collect()
    }
}

/// Waits until the authorizer of the API server knows what was just applied.
fn has_its_role(plane: &ControlPlane, manifest: &Manifest) {
    let user = format!("system:serviceaccount:{}:{}", manifest.namespace, manifest.account);
    let kinds = ["clustercatalogs", "clusterextensions"]
        .map(|kind| json!({"verb": "list", "group": olm_api::GROUP, "resource": kind}));
    let deadline = std::time::Instant::now() + SOON;
    while !kinds.iter().any(|kind| plane.allows(&user, &json!([]), kind)) {
        assert!(std::time::Instant::now() < deadline, "{user} has no role");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until the processes say that they are ready.
pub(crate) async fn ready(controllers: &[Controller]) {
    for controller in controllers {
        controller.ready().await;
    }
}

/// Installs an extension in a scene of its own.
pub(crate) async fn installs(
    install: &Install,
    suffix: &str,
) -> (Scene, olm_test::extension::Extension) {
    let scene = Scene::of(install.cluster.clone(), suffix, &["1.0.0"]).await;
    let extension = scene.installed(json!({}), "1.0.0").await;
    (scene, extension)
}

// deploying.md P7, P10, P12, P13, P15
#[tokio::test(flavor = "multi_thread")]
async fn one_apply_on_an_empty_cluster_is_all_it_takes() {
    let install = Install::of("default").await;
    let first = install.apply();
    assert!(first.contains_key("Deployment/operator-controller-controller-manager"));
    assert_eq!(install.apply(), first, "the second apply changes nothing");
    take_a_right(&install).await;
    let controllers = install.start();
    ready(&controllers).await;
    let [controller] = &controllers[..] else { panic!("{} processes", controllers.len()) };
    a_right_that_is_missing_is_named_and_the_rest_works(&install, controller).await;
    let before = install.refused();
    assert!(before.iter().all(|it| it.contains("/events")), "{before:?}");
    let (scene, extension) = installs(&install, "deployed").await;
    assert_eq!(install.refused()[before.len()..], [""; 0]);

    // What was installed outlives a careless removal of the manifests.
    let plane = install.cluster.plane;
    for crd in CRDS {
        let error = plane.try_kubectl(&["delete", "crd", crd], "").expect_err("it is refused");
        assert!(error.contains("allow-deletion"), "{error}");
    }
    let now = extension.get().await;
    assert!(condition(&now, "Ready").is_some_and(|ready| ready.status == "True"));
    extension.delete().await;
    drop(scene);
    let key = "policy.olm.operatorframework.io/allow-deletion=true";
    for crd in CRDS {
        plane.kubectl(&["annotate", "crd", crd, key]);
        plane.kubectl(&["delete", "crd", crd, &format!("--timeout={}s", UNINSTALL.as_secs())]);
    }
}

// deploying.md P8
#[tokio::test(flavor = "multi_thread")]
#[ignore = "another form of installation: make test-full"]
async fn a_process_that_starts_before_the_manifests_waits_and_then_works() {
    let install = Install::of("default").await;
    let plane = install.cluster.plane;
    // What a pod cannot be without.
    plane.kubectl(&["create", "namespace", SYSTEM_NAMESPACE]);
    let namespace = format!("--namespace={SYSTEM_NAMESPACE}");
    plane.kubectl(&["create", "serviceaccount", CONTROLLER_ACCOUNT, &namespace]);
    let file = install.file.to_string_lossy();
    let shown = ["apply", "--dry-run=client", "--output=json", "-f", &file];
    let controllers = install.start_those(&shown, None);
    let [controller] = controllers.as_slice() else {
        panic!("{} processes", controllers.len());
    };
    controller.logs("apply the manifests of this version").await;
    assert_eq!(controller.health("healthz").await, 200);
    assert_eq!(controller.health("readyz").await, 500);

    install.apply();
    ready(&controllers).await;
    // Nothing starts it again: it is the same process.
    installs(&install, "early").await;
    assert_eq!(controller.health("healthz").await, 200);
}

/// Takes a right from the controller.
async fn take_a_right(install: &Install) {
    let plane = install.cluster.plane;
    // Both halves have it, and are one process here.
    for role in ["operator-controller-manager-role", "catalogd-manager-role"] {
        let mut reduced = plane.json(&["get", "clusterrole", role, "--output=json"]);
        let rules = reduced["rules"].as_array_mut().expect("it has rules");
        let before = rules.len();
        rules.retain(|rule| rule["resources"][0] != "events");
        assert_eq!(rules.len() + 1, before);
        plane.kubectl_with_input(&["replace", "-f", "-"], &reduced.to_string());
    }
    // A process that finds that it has everything asks again after an hour.
    let has_it = || may(plane, "create", "events.events.k8s.io", "default");
    wait::value("the right is gone", SOON, has_it, |has_it| !has_it).await;
}

// deploying.md P11
async fn a_right_that_is_missing_is_named_and_the_rest_works(
    install: &Install,
    controller: &Controller,
) {
    let plane = install.cluster.plane;
    let missing = "olm_missing_rights{resource=\"events.events.k8s.io\",verb=\"create\"} 1";
    controller.measures(&[missing]).await;
    let (_scene, extension) = installs(install, "curtailed").await;
    let line = "Namespace:\"\" APIGroups:[events.k8s.io] Resources:[events] Verbs:[create,patch]";
    let account = "olmv1-system/operator-controller-controller-manager";
    let found = || {
        let answer = plugin::answer(plane, &["doctor", "--output=json"]).document();
        let rows = answer["rows"].as_array().expect("rows").iter();
        let rows = rows.filter(|row| row["subject"] == "controller-rights");
        let told = |row: &Value| (row["level"].clone(), row["text"].clone());
        rows.map(told).collect::<Vec<_>>()
    };
    let told = format!("service account {account} lacks {line}");
    assert_eq!(found(), [("problem".into(), told.into())]);

    plane.kubectl_with_input(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &{
        std::fs::read_to_string(&install.file).expect("it was written")
    });
    controller.logs("every right it needs").await;
    assert_eq!(controller.log().matches("lacks rights").count(), 1);
    assert!(!controller.metrics().await.contains("olm_missing_rights{"));
    let told = format!("service account {account} has every right it needs");
    assert_eq!(found(), [("ok".into(), told.into())]);
    extension.delete().await;
}

// deploying.md P9, 2.6
#[tokio::test(flavor = "multi_thread")]
#[ignore = "another form of installation: make test-full"]
async fn two_processes_with_accounts_of_their_own_install_as_upstream_does() {
    let install = Install::of("upstream-compatible").await;
    install.apply();
    let controllers = install.start();
    assert_eq!(controllers.len(), 2);
    ready(&controllers).await;
    let (_scene, extension) = installs(&install, "as-upstream").await;
    assert_eq!(install.refused(), [""; 0]);
    extension.delete().await;
}

// deploying.md P35
#[tokio::test(flavor = "multi_thread")]
#[ignore = "another form of installation: make test-full"]
async fn a_node_with_the_controller_can_be_drained() {
    let install = Install::of("default").await;
    install.apply();
    let plane = install.cluster.plane;
    let folder = folder_with("ha");
    for replicas in [1, 2] {
        if replicas == 2 {
            let text = cluster::kustomize(folder.path());
            plane.kubectl_with_input(&["apply", "--server-side", "-f", "-"], &text);
        }
        let nodes = running_on(&install.cluster, replicas).await;
        let node = nodes.first().expect("it runs somewhere");
        // It fails when a budget holds a pod for minutes.
        plane.run(&format!(
            "drain {node} --ignore-daemonsets --delete-emptydir-data --timeout=180s"
        ));
        let nodes = running_on(&install.cluster, replicas).await;
        assert!(!nodes.contains(node), "{nodes:?}");
        plane.kubectl(&["uncordon", node]);
    }
}

/// Waits until so many pods of the controller are ready, as the simulated kubelets say, and returns
/// the nodes they are on.
async fn running_on(cluster: &Cluster, replicas: usize) -> Vec<String> {
    wait::until("the pods are ready", SOON, || async {
        let selector = "--selector=control-plane=operator-controller-controller-manager";
        let args = ["get", "pods", "-A", selector, "--output=json"];
        let list: Value = cluster.plane.json(&args);
        let pods = list["items"].as_array().expect("a list");
        let is_ready = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array();
            let ready = |it: &Value| it["type"] == "Ready" && it["status"] == "True";
            pod["metadata"]["deletionTimestamp"].is_null()
                && conditions.is_some_and(|all| all.iter().any(ready))
        };
        let nodes = pods.iter().filter(is_ready);
        let nodes: Vec<_> =
            nodes.filter_map(|pod| pod["spec"]["nodeName"].as_str().map(str::to_owned)).collect();
        (nodes.len() == replicas).then_some(nodes).ok_or_else(|| list["items"].to_string())
    })
    .await
}

/// Makes a stand-in for a kind of OpenShift, named `<plural>.<group>/<version>`, that takes any
/// content.
pub(crate) fn stand_in(plane: &ControlPlane, named: &str, kind: &str, scope: &str) {
    let (name, version) = named.split_once('/').expect("it has a version");
    let (plural, group) = name.split_once('.').expect("it has a group");
    let mut crd = definition(kind, group);
    crd["metadata"]["name"] = json!(name);
    crd["spec"]["scope"] = json!(scope);
    crd["spec"]["names"] = json!({"kind": kind, "plural": plural});
    crd["spec"]["versions"][0]["name"] = json!(version);
    plane.create(&crd);
    plane.established(name);
}

// deploying.md P9, 2.6
#[tokio::test(flavor = "multi_thread")]
async fn on_openshift_two_processes_install_from_their_two_namespaces() {
    let install = Install::on_openshift().await;
    let plane = install.cluster.plane;
    let first = install.apply();
    assert!(first.contains_key("SecurityContextConstraints/olm-controller"));
    assert_eq!(install.apply(), first, "the second apply changes nothing");
    let controllers = install.start();
    assert_eq!(controllers.len(), 2);
    ready(&controllers).await;
    let (_scene, extension) = installs(&install, "on-openshift").await;
    let leases = plane.kubectl(&["get", "leases", "-A", "--no-headers"]);
    let leads = |namespace: &str, lease: &str| {
        let mut lines = leases.lines();
        lines.any(|line| line.starts_with(namespace) && line.contains(lease))
    };
    assert!(leads("openshift-catalogd ", "catalogd-operator-lock"), "{leases}");
    assert!(leads("openshift-operator-controller ", "9c4404e7"), "{leases}");
    assert_eq!(install.refused(), [""; 0]);
    for controller in &controllers {
        let log = controller.log();
        assert!(!log.contains("lacks rights"), "{log}");
    }
    extension.delete().await;
}

/// Makes the Role in the namespace of `scene` with which the controller may act as its account
/// under `constrained-impersonation`.
fn hand_over(scene: &Scene) {
    let rules = json!([{"apiGroups": ["authentication.k8s.io"], "resources": ["serviceaccounts"],
        "resourceNames": [ACCOUNT], "verbs": ["impersonate:serviceaccount"]}]);
    let controller = objects::account(SYSTEM_NAMESPACE, CONTROLLER_ACCOUNT);
    let granted = objects::grant("olm-impersonate", Some(&scene.name), &rules, &controller);
    scene.cluster.plane.grant(&granted);
}

// deploying.md P53
#[tokio::test(flavor = "multi_thread")]
#[ignore = "another form of installation: make test-full"]
async fn narrow_impersonation_installs_where_a_role_says_so_and_nowhere_else() {
    let install = Install::with("narrow-impersonation").await;
    install.apply();
    let controllers = install.start();
    ready(&controllers).await;
    let (bundles, chain) = ([Bundle::new("1.0.0")], chain(&["1.0.0"]));
    let cluster = &install.cluster;
    let listed = Scene::set(cluster.clone(), "listed", &bundles, &chain).await;
    listed.grant_with(&bundles, &["--controller-role"]);
    let other = Scene::set(cluster.clone(), "unlisted", &bundles, &chain).await;
    let there = listed.install(json!({})).await;
    let elsewhere = other.install(json!({})).await;
    there.installed("1.0.0").await;
    let text = wait::until("the other says why not", SOON, || async {
        let now = elsewhere.get().await;
        let progressing = condition(&now, "Progressing").map(|it| it.message.clone());
        let message = progressing.unwrap_or_default();
        if message.contains("403") || message.contains("forbidden") {
            Ok(message)
        } else {
            Err(message)
        }
    })
    .await;
    let named = format!("may not use service account \"{}/{ACCOUNT}\"", other.name);
    assert!(text.contains(&named), "{text}");
    // It is not called a missing right of the controller: this is as it was asked for.
    assert!(!controllers[0].log().contains("lacks rights"));
    other.grant_with(&bundles, &["--controller-role"]);
    elsewhere.installed("1.0.0").await;
    for extension in [there, elsewhere] {
        extension.delete().await;
        extension.gone().await;
    }
}

// decision 42
#[tokio::test(flavor = "multi_thread")]
#[ignore = "another form of installation: make test-full"]
async fn without_the_role_for_shared_watches_accounts_watch() {
    let install = Install::with("no-shared-watches").await;
    install.apply();
    let controllers = install.start();
    ready(&controllers).await;
    let (bundles, chain) = ([Bundle::new("1.0.0")], chain(&["1.0.0"]));
    let cluster = &install.cluster;
    let scene = Scene::set(cluster.clone(), "unshared", &bundles, &chain).await;
    let extension = scene.installed(json!({}), "1.0.0").await;
    assert!(!controllers[0].log().contains("lacks rights"));
    let deployment = scene.package.deployment();
    let api = Api::<Deployment>::namespaced(cluster.client.clone(), &scene.name);
    let before = api.get(&deployment).await.expect("it is installed").metadata.uid;
    // Polling would take minutes.
    cluster.plane.kubectl(&["delete", "deployment", &deployment, "--namespace", &scene.name]);
    wait::until("the Deployment is made anew", SOON, || async {
        let found = api.get_opt(&deployment).await.map_err(|it| it.to_string())?;
        let uid = found.and_then(|found| found.metadata.uid);
        if uid.is_some() && uid != before { Ok(()) } else { Err("the old one, or none".to_owned()) }
    })
    .await;
    extension.delete().await;
}

// deploying.md P54
#[tokio::test(flavor = "multi_thread")]
#[ignore = "another form of installation: make test-full"]
async fn constrained_impersonation_is_enough_and_gives_no_token() {
    let install = Install::with("constrained-impersonation").await;
    install.apply();
    let controllers = install.start();
    ready(&controllers).await;
    let bundles = ["1.0.0", "1.1.0"].map(Bundle::new);
    let cluster = &install.cluster;
    let mut scene = Scene::set(cluster.clone(), "held", &bundles, &chain(&["1.0.0"])).await;
    hand_over(&scene);
    let extension = scene.installed(json!({}), "1.0.0").await;
    scene.publish(&bundles, &chain(&["1.0.0", "1.1.0"])).await;
    extension.installed("1.1.0").await;

    // What a thief of the controller's token tries as the account, which may do all of it itself.
    let plane = cluster.plane;
    let account = format!("--serviceaccount={}:{ACCOUNT}", scene.name);
    let admin = "--clusterrole=cluster-admin";
    plane.kubectl(&["create", "clusterrolebinding", "held", admin, &account]);
    let config = cluster.dir.join(format!("{CONTROLLER_ACCOUNT}-state/kubeconfig"));
    let config = format!("--kubeconfig={}", config.display());
    let acting = format!("--as=system:serviceaccount:{}:{ACCOUNT}", scene.name);
    let namespace = format!("--namespace={}", scene.name);
    let tries = |args: &[&str]| {
        let args = [&[config.as_str(), &acting, &namespace], args].concat();
        plane.try_kubectl(&args, "")
    };
    let may = || plane.try_kubectl(&["auth", "can-i", "*", "*", &acting], "");
    wait::done("the account may do everything", SOON, may).await;
    tries(&["get", "configmaps"]).expect("this is what bundles take");
    let collection = format!("--raw=/api/v1/namespaces/{}/configmaps?dryRun=All", scene.name);
    let path = format!("--raw=/api/v1/namespaces/{}/pods/any/exec?command=sh", scene.name);
    for args in [
        &["create", "token", ACCOUNT][..],
        &["create", &path, "--filename=/dev/null"],
        &["delete", &collection],
        &["get", "pods"],
    ] {
        let error = tries(args).expect_err("it is refused");
        assert!(error.contains("impersonate"), "{args:?}: {error}");
    }
    extension.delete().await;
}
