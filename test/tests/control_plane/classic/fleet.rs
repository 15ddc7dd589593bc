//! A fleet of ten operators of Classic, one of each kind, moves while the plugin is killed twenty times,
//! comes back, and moves again.

use k8s_openapi::api::core::v1::Secret;
use olm_test::classic::{self, CleanUp, Operator};
use olm_test::package::WEBHOOK_PORT;
use olm_test::prelude::*;
use olm_test::webhook::Webhook;

use super::{
    all_moved, apply, back, called, differs, moved, of_one_namespace, run, scene, to_extensions,
    uid,
};

/// How long a run may take to where it is killed.
const REACHED: Duration = Duration::from_mins(5);
/// Longer than the plugin waits.
const SILENT: Duration = Duration::from_mins(10);
const CSV: &str = "clusterserviceversions.operators.coreos.com";
/// Given by a Subscription, and by the cluster to all others.
const OWN_PROXIES: [(&str, &str); 2] =
    [("HTTP_PROXY", "http://own.example.com"), ("NO_PROXY", "localhost")];
const PROXIES: [(&str, &str); 2] =
    [("HTTP_PROXY", "http://proxy.example.com"), ("NO_PROXY", ".cluster.local")];
const SINGLE: &str = "fleet-watched";

type Kind = (&'static str, &'static str, fn(&Scene) -> Bundle);

/// Suffixes of the scenes and what they stand for; a move is in this order.
const FLEET: [Kind; 10] = [
    ("fleeta", "own namespace", of_one_namespace),
    ("fleetb", "single namespace", of_one_namespace),
    ("fleetc", "all namespaces", of_all_namespaces),
    ("fleetd", "webhooks", asked),
    ("fleete", "conversion", called),
    ("fleetf", "API service", serving),
    ("fleetg", "conditions", of_one_namespace),
    ("fleeth", "proxy", of_one_namespace),
    ("fleeti", "two groups", of_one_namespace),
    ("fleetj", "manual approval", of_one_namespace),
];
const WEBHOOKS: usize = 3;
const SERVER: usize = 5;
const TWO_GROUPS: usize = 8;
const MANUAL: usize = 9;

fn of_all_namespaces(_: &Scene) -> Bundle {
    Bundle::new("1.0.0")
}

fn asked(scene: &Scene) -> Bundle {
    let validating = scene.package.validating_webhook();
    let mut mutating = validating.clone();
    mutating["type"] = json!("MutatingAdmissionWebhook");
    mutating["generateName"] = json!(format!("change.{}.example.com", scene.package.name()));
    mutating["webhookPath"] = json!("/mutate");
    of_one_namespace(scene).with_webhook(validating).with_webhook(mutating)
}

fn serving(scene: &Scene) -> Bundle {
    of_one_namespace(scene).with_api_service(scene.package.api_service())
}

/// Runs the plugin through a proxy, which keeps the request at which it is killed.
struct Mover<'a> {
    plane: &'a ControlPlane,
    proxy: Proxy,
    folder: &'a Path,
    kubeconfig: PathBuf,
}

impl<'a> Mover<'a> {
    fn new(plane: &'a ControlPlane, folder: &'a Path) -> Self {
        let (requests, proxy) = (plane.requests(), Proxy::start(plane));
        requests.create("serviceaccount", "default", &json!({"metadata": {"name": "mover"}}));
        let who = objects::account("default", "mover");
        plane.create(&objects::binding("mover", None, ("ClusterRole", "cluster-admin"), &who));
        let kubeconfig = cluster::kubeconfig_of(plane, Some(&proxy), folder, ("default", "mover"));
        Self { plane, proxy, folder, kubeconfig }
    }

    /// Begins to move, and kills the plugin while its request that a rule strikes has no answer.
    async fn killed(&self, args: &[&str], what: &str, rule: Rule) {
        let log = self.folder.join("killed.log");
        let file = std::fs::File::create(&log).expect("a log");
        let rule = self.proxy.fail(rule.stored());
        let mut command = plugin::command_with(self.plane, &self.kubeconfig, args);
        command.stdout(file.try_clone().expect("a second handle")).stderr(file);
        let mut child = command.spawn().expect("kubectl-olm runs; build it with `cargo build`");
        wait::until(&format!("the move gets to {what}"), REACHED, || async {
            let struck = self.proxy.strikes(rule) == 1;
            if struck { Ok(()) } else { Err(std::fs::read_to_string(&log)) }
        })
        .await;
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        self.proxy.stop(rule);
    }
}

/// Where the plugin is killed, in the order of a move: twice in the move of each operator, before a
/// request is carried out and after. Everything is prepared, then every Subscription is deleted, and
/// then one operator moves after the other.
fn points(fleet: &[Operator<'_>]) -> Vec<(String, Rule)> {
    let mut points = Vec::new();
    let mut add = |operator: usize, what: &str, rule: Rule, done: bool| {
        let (suffix, ..) = FLEET[operator];
        let rule = if done { rule.unanswered(SILENT) } else { rule.silent(SILENT) };
        points.push((format!("{what} of {suffix}"), rule));
    };
    let name = |operator: usize| fleet[operator].scene.name.as_str();
    let patch = |operator: usize, resource: &str, skip: u64| {
        Rule::patch(resource).in_namespace(name(operator)).later(skip, 1)
    };
    let delete = |operator: usize, resource: &str| {
        Rule::delete(resource).in_namespace(name(operator)).later(0, 1)
    };
    let extension =
        |operator: usize| Rule::patch("clusterextensions").named(name(operator)).later(0, 1);
    let stored = |operator: usize, skip: u64| {
        Rule::patch("secrets").named(&format!("{}-classic", name(operator))).later(skip, 1)
    };
    add(0, "the account", patch(0, "serviceaccounts", 0), false);
    add(6, "what is stored", stored(6, 0), true);
    add(0, "the Subscription", delete(0, "subscriptions"), true);
    add(9, "the Subscription", delete(9, "subscriptions"), false);
    add(1, "the hold", patch(1, "clusterserviceversions", 0), false);
    add(1, "the CSV", delete(1, "clusterserviceversions"), true);
    add(2, "the hold", patch(2, "clusterserviceversions", 0), true);
    add(2, "the CSV", delete(2, "clusterserviceversions"), false);
    let webhooks = Rule::patch("validatingwebhookconfigurations").later(0, 1);
    add(3, "the webhooks", webhooks, true);
    add(3, "the extension", extension(3), false);
    add(4, "the CRD", Rule::patch("customresourcedefinitions").later(0, 1), true);
    add(4, "the extension", extension(4), true);
    let service = format!("v1.{}", fleet[SERVER].scene.package.served_group());
    add(5, "the APIService", Rule::patch("apiservices").named(&service).later(0, 1), true);
    add(5, "the dismissal", patch(5, "clusterserviceversions", 1), false);
    add(6, "the InstallPlan", delete(6, "installplans"), true);
    add(7, "the Service account", patch(7, "serviceaccounts", 1), false);
    add(7, "the Deployment", patch(7, "deployments", 0), true);
    add(8, "the owner of what is stored", stored(8, 0), true);
    add(8, "the OperatorGroup", delete(8, "operatorgroups"), false);
    add(9, "the dismissal", patch(9, "clusterserviceversions", 2), true);
    points
}

/// Returns the verdict on a Subscription, of what the plugin printed.
fn verdict<'a>(text: &'a str, name: &str) -> &'a str {
    let start = format!("{name}/{name}: ");
    text.lines().find_map(|line| line.strip_prefix(&*start)).unwrap_or_default()
}

/// Has the API server serve the API of an operator, as its pod would.
async fn serve(scene: &Scene) -> Webhook {
    let service = scene.get("service", &scene.package.service()).expect("the Service");
    let address = service["spec"]["clusterIP"].as_str().expect("an address");
    let address = format!("{address}:{WEBHOOK_PORT}").parse().expect("an address");
    let secrets = Api::<Secret>::namespaced(scene.cluster.client.clone(), &scene.name);
    let name = scene.package.certificate();
    let server = Webhook::serve(address, secrets, name, Duration::ZERO);
    wait::done("the API is served", SOON, || served(scene)).await;
    server
}

fn served(scene: &Scene) -> Result<(), String> {
    let path = format!("/apis/{}/v1", scene.package.served_group());
    let answer = scene.cluster.plane.requests().send(Method::GET, &path, None);
    let found = answer.map_err(|error| error.to_string())?;
    (found["resources"] == json!([])).then_some(()).ok_or_else(|| found.to_string())
}

/// Has a second group in a namespace, which Classic does not take, or not any more.
fn second_group(operator: &Operator<'_>, there: bool) {
    let (scene, plane) = (operator.scene, operator.scene.cluster.plane);
    let csv = format!("{}/status", scene.package.bundle_name("1.0.0"));
    let phase = |phase: &str, reason: &str| {
        let status = json!({"status": {"phase": phase, "reason": reason}});
        plane.requests().merge(CSV, &scene.name, &csv, &status);
    };
    if there {
        let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": "second", "namespace": scene.name}, "spec": {}});
        classic::create(plane, &group);
        phase("Failed", "TooManyOperatorGroups");
    } else {
        let path = "/apis/operators.coreos.com/v1/namespaces";
        let path = format!("{path}/{}/operatorgroups/second", scene.name);
        let deleted = plane.requests().send(Method::DELETE, &path, None);
        deleted.expect("it is deleted");
        phase("Succeeded", "InstallSucceeded");
    }
}

/// Writes what a backup has of each Subscription into a file of its own.
fn split(backup: &Path, folder: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(backup).expect("the backup");
    let documents = olm_core::yaml::to_json(&text).expect("YAML").into_iter();
    let file = |document: Value| {
        let name = document["subscription"].as_str().expect("a name").to_owned();
        let file = folder.join(format!("{name}.yaml"));
        std::fs::write(&file, document.to_string()).expect("it is written");
        (name, file.to_string_lossy().into_owned())
    };
    documents.map(file).collect()
}

/// What only some operators have, and must stay as well.
fn besides(fleet: &[Operator<'_>]) -> Vec<String> {
    let requests = fleet[0].scene.cluster.plane.requests();
    let package = &fleet[SERVER].scene.package;
    let service = format!("v1.{}", package.served_group());
    let reader = format!("{}-auth-reader", package.service());
    let service = requests.read("apiservice", "", &service).expect("the APIService");
    let reader = requests.read("rolebinding", "kube-system", &reader).expect("the binding");
    vec![uid(&service).to_owned(), uid(&reader).to_owned(), service["spec"].to_string()]
}

/// Gives the cluster proxies.
fn give_proxies(plane: &ControlPlane) {
    const KIND: &str = "proxies.config.openshift.io";
    let proxy = json!({"apiVersion": "config.openshift.io/v1", "kind": "Proxy",
        "metadata": {"name": "cluster"}, "spec": {}});
    plane.requests().create(KIND, "", &proxy);
    let status = json!({"status": {"httpProxy": PROXIES[0].1, "noProxy": PROXIES[1].1}});
    plane.requests().merge(KIND, "", "cluster/status", &status);
}

/// Each operator is ready, but one that has two groups meanwhile, of which a person has to keep one.
fn are_judged(fleet: &[Operator<'_>], dry: &[&str]) {
    second_group(&fleet[TWO_GROUPS], true);
    let (text, _) = plugin::answer(fleet[0].scene.cluster.plane, dry).ends(1);
    for (number, operator) in fleet.iter().enumerate() {
        let want = if number == TWO_GROUPS { "in conflict" } else { "ready" };
        assert_eq!(verdict(&text, &operator.scene.name), want, "{}: {text}", FLEET[number].1);
    }
    assert!(text.contains("keep one: kubectl get operatorgroups"), "{text}");
    second_group(&fleet[TWO_GROUPS], false);
}

/// Installs the next version of a server, which has its own certificate and takes what named no owner.
async fn upgraded((scene, bundle): &mut (Scene, Bundle), ca: &str) {
    let next = Bundle { version: "1.1.0".to_owned(), ..bundle.clone() };
    scene.publish(&[bundle.clone(), next], &chain(&["1.0.0", "1.1.0"])).await;
    let upgrade = ["upgrade", &scene.name, "--to", "1.1.0", "--grant", "--yes"];
    to_extensions(scene.cluster.plane, &[&upgrade[..], &["--catalog-ca", ca]].concat());
    Extension::named(&scene.cluster.client, &scene.name).installed("1.1.0").await;
    wait::done("the API is served with another certificate", SOON, || served(scene)).await;
}

/// The namespaces that each operator watches; none are all of them.
fn targets(staged: &[(Scene, Bundle)]) -> Vec<Vec<&str>> {
    let targets = staged.iter().zip(FLEET).map(|((scene, bundle), (suffix, ..))| match suffix {
        "fleetb" => vec![SINGLE],
        _ if bundle.one_namespace => vec![scene.name.as_str()],
        _ => Vec::new(),
    });
    targets.collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "from another installer: make test-full"]
async fn of_ten_kinds_moves_comes_back_and_moves_again_and_nothing_restarts() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    classic::prepare(plane);
    let requests = plane.requests();
    give_proxies(plane);
    let _controller = start(plane, "fleet", &["--webhook-certificates=self-signed"]).await;
    let _classic = CleanUp::start(plane);
    requests.create("namespace", "", &json!({"metadata": {"name": SINGLE}}));
    let mut staged = Vec::new();
    for (suffix, _, make) in FLEET {
        staged.push(scene(&cluster, suffix, make).await);
    }
    let (manual, bundle) = &mut staged[MANUAL];
    let next = Bundle { version: "1.1.0".to_owned(), ..bundle.clone() };
    manual.publish(&[bundle.clone(), next], &chain(&["1.0.0", "1.1.0"])).await;
    let targets = targets(&staged);
    let fleet = staged.iter().zip(FLEET).zip(&targets);
    let fleet = fleet.map(|(((scene, bundle), (_, what, _)), targets)| Operator {
        conditions: what == "conditions",
        variables: if what == "proxy" { &OWN_PROXIES[..] } else { &[] },
        proxies: &PROXIES,
        waiting: (what == "manual approval").then_some("1.1.0"),
        ..Operator::new(scene, bundle, targets)
    });
    let fleet: Vec<Operator<'_>> = fleet.collect();
    let mut before = Vec::new();
    for operator in &fleet {
        before.push(run(operator).await);
    }
    let _server = serve(fleet[SERVER].scene).await;
    let others = besides(&fleet);

    let folder = tempfile::tempdir().expect("a temporary folder");
    let ca = plane.addresses.controller_ca.to_string_lossy().into_owned();
    let backup = folder.path().join("backup.yaml");
    let file = backup.to_string_lossy().into_owned();
    let every = apply(&["--all"], &file, &ca);
    let dry = [&every[..], &["--dry-run"]].concat();

    are_judged(&fleet, &dry);
    let mover = Mover::new(plane, folder.path());
    let points = points(&fleet);
    assert_eq!(points.len(), 20);
    for (what, rule) in points {
        mover.killed(&every, &what, rule).await;
        for (operator, before) in fleet.iter().zip(&before) {
            assert_eq!(differs(operator.scene, before), [""; 0], "killed at {what}");
        }
    }
    to_extensions(plane, &every);
    all_moved(&fleet, &before).await;
    assert_eq!(besides(&fleet), others);
    served(fleet[SERVER].scene).expect("the API is served");
    let webhooks =
        requests.read("namespace", "", &fleet[WEBHOOKS].scene.name).expect("it is there");
    let labels = webhooks["metadata"]["labels"].to_string();
    assert!(labels.contains("olm.operatorgroup.uid/"), "webhooks are still asked: {labels}");
    let plan = plugin::answer(plane, &["plan", &fleet[0].scene.name, "--catalog-ca", &ca]);
    assert!(plan.2.contains("unchanged since OLM Classic"), "{plan:?}");

    let files = split(&backup, folder.path());
    for (operator, before) in fleet.iter().zip(&before) {
        to_extensions(plane, &["migrate", "rollback", &files[&operator.scene.name], "--yes"]);
        back(operator, before).await;
        operator.settle();
    }
    assert_eq!(besides(&fleet), others);
    for (operator, before) in fleet.iter().zip(&before) {
        let name = &operator.scene.name;
        to_extensions(plane, &apply(&[name], &files[name], &ca));
        moved(operator, before).await;
    }
    assert_eq!(besides(&fleet), others);
    served(fleet[SERVER].scene).expect("the API is served");

    upgraded(&mut staged[SERVER], &ca).await;
}
