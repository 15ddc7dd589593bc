//! Operators of OLM Classic move to extensions while they run, and back. `fleet` has one of each kind.
//!
//! Classic's objects are the real ones, and so is what it deletes with a `ClusterServiceVersion`; the
//! garbage collector of Kubernetes runs as well.

mod fleet;
mod itself;

use olm_test::classic::{self, CleanUp, Operator};
use olm_test::prelude::*;

const SUBSCRIPTION: &str = "subscriptions.operators.coreos.com";
/// How often the plugin is killed, each time this much later.
const KILLS: u32 = 3;
const LATER: Duration = Duration::from_millis(250);

/// Serves the catalog of an operator, and has Classic install it.
async fn scene(
    cluster: &cluster::Cluster,
    suffix: &str,
    make: fn(&Scene) -> Bundle,
) -> (Scene, Bundle) {
    let mut scene = Scene::empty(cluster.clone(), suffix);
    let bundle = make(&scene);
    scene.publish(std::slice::from_ref(&bundle), &chain(&["1.0.0"])).await;
    scene.create_namespace();
    (scene, bundle)
}

fn called(scene: &Scene) -> Bundle {
    let package = &scene.package;
    let mut conversion = package.validating_webhook();
    conversion["type"] = json!("ConversionWebhook");
    conversion["generateName"] = json!(format!("convert.{}.example.com", package.name()));
    conversion["webhookPath"] = json!("/convert");
    conversion["conversionCRDs"] = json!([package.crd()]);
    for key in ["rules", "objectSelector", "failurePolicy", "timeoutSeconds"] {
        conversion.as_object_mut().expect("a definition").remove(key);
    }
    Bundle::new("1.0.0").with_webhook(package.validating_webhook()).with_webhook(conversion)
}

fn of_one_namespace(_: &Scene) -> Bundle {
    Bundle::new("1.0.0").for_one_namespace()
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

/// Returns the identity of everything that must stay as it is, by kind and name.
fn alive(scene: &Scene) -> BTreeMap<String, String> {
    let requests = scene.cluster.plane.requests();
    let mut alive = BTreeMap::new();
    for kind in ["pods", "replicasets", "deployments", "services", "configmaps"] {
        for object in requests.list(kind, &scene.name, "") {
            // A ReplicaSet whose template or size changes gets another generation.
            let generation = match kind {
                "replicasets" => object["metadata"]["generation"].clone(),
                "deployments" => object["spec"]["template"].clone(),
                _ => Value::Null,
            };
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            alive.insert(format!("{kind} {name}"), format!("{} {generation}", uid(&object)));
        }
    }
    let account = scene.get("serviceaccount", &scene.package.deployment());
    alive.insert("account".to_owned(), uid(&account.expect("the account")).to_owned());
    let crd = scene.get("crd", &scene.package.crd()).expect("the CRD");
    // Its generation tells of a conversion that had ended for a moment.
    alive.insert("crd".to_owned(), format!("{} {}", uid(&crd), crd["metadata"]["generation"]));
    let mine = scene.get(&scene.package.crd(), "mine").expect("the object of a user");
    let untouched = format!("{} {}", uid(&mine), mine["metadata"]["resourceVersion"]);
    alive.insert("object".to_owned(), untouched);
    alive
}

/// Has Classic install an operator, and waits until it is used.
async fn run(operator: &Operator<'_>) -> BTreeMap<String, String> {
    operator.install();
    running(operator).await
}

/// Has a user make an object of an operator's kind, and waits for its pod.
async fn running(operator: &Operator<'_>) -> BTreeMap<String, String> {
    let scene = operator.scene;
    wait::until(&format!("{} runs and its kind is served", scene.name), SOON, || async {
        let pods = scene.cluster.plane.requests().list("pods", &scene.name, "");
        let runs = pods.iter().any(|pod| pod["status"]["phase"] == "Running");
        let crd = scene.get("crd", &scene.package.crd()).unwrap_or_default();
        let established = crd["status"]["conditions"].to_string().contains("InitialNamesAccepted");
        if runs && established { Ok(()) } else { Err(pods) }
    })
    .await;
    let mine = json!({"apiVersion": format!("{}/v1", scene.package.group()), "kind": "Buoy",
        "metadata": {"name": "mine", "namespace": scene.name}});
    scene.cluster.plane.create(&mine);
    let is_settled = |found: &Value| found["status"]["availableReplicas"] == 1;
    scene.until("it is settled", "deployment", &scene.package.deployment(), is_settled).await;
    may_work(operator).await;
    alive(scene)
}

/// Returns how what is alive differs from before; what came besides, as the account that installs, is no
/// difference.
fn differs(scene: &Scene, before: &BTreeMap<String, String>) -> Vec<String> {
    let now = alive(scene);
    let changed = before.iter().filter(|(what, state)| now.get(*what) != Some(state));
    let changed = changed.map(|(what, state)| format!("{what}: {state} is {:?}", now.get(what)));
    let more = now.keys().filter(|what| !before.contains_key(*what));
    let more =
        more.filter(|what| ["pods", "replicasets"].iter().any(|kind| what.starts_with(kind)));
    changed.chain(more.cloned()).collect()
}

/// The arguments that move Subscriptions.
fn apply<'a>(names: &[&'a str], backup: &'a str, ca: &'a str) -> Vec<&'a str> {
    let first = ["migrate", "from-classic", "--apply"];
    [&first[..], names, &["--backup", backup, "--catalog-ca", ca, "--yes"]].concat()
}

/// Begins to move, and is killed, each time a little later.
async fn killed(plane: &ControlPlane, args: &[&str]) {
    for kill in 1..=KILLS {
        let mut command = plugin::command(plane, args);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut child = child.expect("kubectl-olm runs; build it with `cargo build`");
        tokio::time::sleep(LATER * kill).await;
        let ended = child.try_wait().expect("it can be asked");
        child.kill().expect("it runs, or has ended");
        child.wait().expect("it ends");
        if ended.is_some() {
            return;
        }
    }
}

/// Waits until the operator has its rights: those of its cluster role, and those in its namespace or the
/// one that it watches.
async fn may_work(operator: &Operator<'_>) {
    let scene = operator.scene;
    let user = format!("system:serviceaccount:{}:{}", scene.name, scene.package.deployment());
    let mut rights =
        vec![json!({"group": scene.package.group(), "resource": "buoys", "verb": "list"})];
    rights.extend(
        operator
            .targets
            .iter()
            .map(|target| json!({"namespace": target, "resource": "configmaps", "verb": "get"})),
    );
    for right in rights {
        let may = || scene.cluster.plane.allows(&user, &json!([]), &right);
        wait::value(&format!("{user} may {right}"), SOON, may, |may| *may).await;
    }
}

/// Says whether webhooks of an operator are asked by a label that its group gives to namespaces.
fn needs_group(operator: &Operator<'_>) -> bool {
    let mut webhooks = operator.bundle.webhooks.iter();
    !operator.targets.is_empty() && webhooks.any(|it| it["type"] != "ConversionWebhook")
}

/// Checks that an operator is an extension, runs as before, and that nothing of Classic is left.
async fn moved(operator: &Operator<'_>, before: &BTreeMap<String, String>) {
    let scene = operator.scene;
    Extension::named(&scene.cluster.client, &scene.name).installed("1.0.0").await;
    assert_eq!(differs(scene, before), [""; 0], "{} runs as before", scene.name);
    let plane = scene.cluster.plane;
    let left = || {
        let mut left = classic::left(plane, &scene.name);
        left.retain(|it| !(needs_group(operator) && it.starts_with("OperatorGroup ")));
        left
    };
    let what = format!("nothing of Classic is left of {}", scene.name);
    wait::value(&what, SOON, left, Vec::is_empty).await;
    may_work(operator).await;
    let deployment = scene.get("deployment", &scene.package.deployment());
    let deployment = deployment.expect("it is there");
    let labels = deployment["metadata"]["labels"].to_string();
    assert!(!labels.contains("olm.owner\""), "{labels}");
    let owners = deployment["metadata"]["ownerReferences"].to_string();
    assert!(!owners.contains("ClusterServiceVersion"), "{owners}");
    if !operator.bundle.webhooks.is_empty() || !operator.bundle.api_services.is_empty() {
        let certificate = scene.get("secret", &scene.package.certificate());
        let metadata = &certificate.expect("it is there")["metadata"];
        let owners = metadata["ownerReferences"].to_string();
        assert!(owners.contains("\"ClusterExtension\""), "its issuer may write it: {owners}");
        let service = scene.get("service", &format!("{}-service", scene.package.deployment()));
        let origin = &metadata["annotations"]["service.beta.openshift.io/originating-service-uid"];
        assert_eq!(*origin, uid(&service.expect("it is there")), "and so may OpenShift's");
    }
}

/// Checks that an operator is Classic's again and runs as before.
async fn back(operator: &Operator<'_>, before: &BTreeMap<String, String>) {
    let scene = operator.scene;
    assert!(scene.get(SUBSCRIPTION, &scene.name).is_some());
    let csv = scene.package.bundle_name("1.0.0");
    let csv = scene.get("clusterserviceversions.operators.coreos.com", &csv);
    let deployment = scene.get("deployment", &scene.package.deployment());
    let owners = deployment.expect("it is there")["metadata"]["ownerReferences"].to_string();
    assert!(owners.contains(uid(&csv.expect("it is back"))), "{owners}");
    Extension::named(&scene.cluster.client, &scene.name).gone().await;
    assert_eq!(differs(scene, before), [""; 0], "{} runs as before", scene.name);
    may_work(operator).await;
}

/// Checks that of each operator, as it was before.
async fn all_moved(operators: &[Operator<'_>], before: &[BTreeMap<String, String>]) {
    for (operator, before) in operators.iter().zip(before) {
        moved(operator, before).await;
    }
}

/// Moves Subscriptions, which must succeed.
fn to_extensions(plane: &ControlPlane, args: &[&str]) {
    plugin::answer(plane, args).good();
}

fn backup_of(folder: &Path) -> String {
    folder.join("backup.yaml").to_string_lossy().into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_of_classic_move_and_come_back_and_nothing_restarts() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    classic::prepare(plane);
    let _controller = start(plane, "moves", &["--webhook-certificates=self-signed"]).await;
    let _classic = CleanUp::start(plane);
    let (own, own_bundle) = scene(&cluster, "moveown", of_one_namespace).await;
    let (all, all_bundle) = scene(&cluster, "moveall", called).await;
    let own_targets = [own.name.as_str()];
    let operators =
        [Operator::new(&own, &own_bundle, &own_targets), Operator::new(&all, &all_bundle, &[])];
    let mut before = Vec::new();
    for operator in &operators {
        before.push(run(operator).await);
    }

    let folder = tempfile::tempdir().expect("a temporary folder");
    let backup = backup_of(folder.path());
    let ca = plane.addresses.controller_ca.to_string_lossy().into_owned();
    let args = apply(&[&own.name, &all.name], &backup, &ca);
    to_extensions(plane, &[&args[..], &["--dry-run"]].concat());
    for operator in &operators {
        assert!(!classic::left(plane, &operator.scene.name).is_empty());
    }

    // What cannot go keeps what it needs, though both were asked for.
    let csv = all.package.bundle_name("1.0.0");
    let patch = |part: &str, change: &Value| {
        let csvs = "clusterserviceversions.operators.coreos.com";
        plane.requests().merge(csvs, &all.name, &format!("{csv}{part}"), change);
    };
    let needs = |apis: Value| json!({"spec": {"customresourcedefinitions": {"required": apis}}});
    patch("/status", &json!({"status": {"phase": "Failed"}}));
    patch("", &needs(json!([{"name": own.package.crd()}])));
    let (text, _) = plugin::answer(plane, &args).ends(1);
    for verdict in [&own, &all].map(|it| format!("{0}/{0}: not ready", it.name)) {
        assert!(text.contains(&verdict), "{text}");
    }
    assert!(text.contains(&format!("needs {}", own.package.crd())), "{text}");
    patch("", &needs(Value::Null));
    patch("/status", &json!({"status": {"phase": "Succeeded"}}));

    killed(plane, &args).await;
    to_extensions(plane, &args);
    all_moved(&operators, &before).await;

    // They follow their channel when they are asked to, also later.
    let version = || {
        let found = own.get("clusterextension", &own.name).expect("it is there");
        found["spec"]["source"]["catalog"]["version"].clone()
    };
    assert_eq!(version(), "1.0.0");
    to_extensions(plane, &[&apply(&[&own.name], &backup, &ca)[..], &["--follow"]].concat());
    assert_eq!(version(), Value::Null);
    let pin = json!({"spec": {"source": {"catalog": {"version": "1.0.0"}}}});
    plane.requests().merge("clusterextension", "", &own.name, &pin);
    to_extensions(plane, &[&apply(&[&own.name], &backup, &ca)[..], &["--follow"]].concat());
    assert_eq!(version(), Value::Null, "as somebody else has pinned it");
    moved(&operators[0], &before[0]).await;

    to_extensions(plane, &["migrate", "rollback", &backup, "--yes"]);
    for (operator, before) in operators.iter().zip(&before) {
        back(operator, before).await;
        operator.settle();
    }
}
