//! Leader election: of several controllers one leads, upstream's included. The other side is
//! client-go's own elector (`local-cluster elect`).

use std::io::{BufRead as _, BufReader};
use std::process::Child;
use std::sync::{Arc, Mutex};

use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease;
use olm_test::prelude::*;
use tokio::net::TcpListener;

const EXTENSIONS: &str = "9c4404e7.operatorframework.io";
const CATALOGS: &str = "catalogd-operator-lock";
/// Within this time the next leader takes over a released lease, even on a busy machine and when its
/// rights count only at the second attempt; shorter than any lease that would have to expire.
const SOON: Duration = Duration::from_secs(40);
/// What a process sent before it was stopped is received a moment afterwards. Its lease is valid for
/// longer.
const SENT_BEFORE: Duration = Duration::from_secs(1);
/// Longer than the time between two renewals.
const RENEWAL: Duration = Duration::from_secs(80);

/// client-go's elector as a process.
struct Elector {
    process: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Elector {
    fn start(plane: &ControlPlane, namespace: &str, identity: &str, flags: &[&str]) -> Self {
        let mut process = Command::new(paths::local_cluster())
            .arg("elect")
            .arg("--kubeconfig")
            .arg(&plane.addresses.kubeconfig)
            .args(["--namespace", namespace, "--name", EXTENSIONS])
            .args(["--identity", identity])
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("local-cluster elect starts");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let out = BufReader::new(process.stdout.take().expect("it is piped"));
        let heard = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                heard.lock().expect("nobody panics").push(line);
            }
        });
        Self { process, lines }
    }

    async fn says(&self, line: &str, within: Duration) {
        let lines = || self.lines.lock().expect("nobody panics").clone();
        let says = |lines: &Vec<String>| lines.iter().any(|said| said == line);
        wait::value(&format!("the elector says {line:?}"), within, lines, says).await;
    }

    /// Stops it with SIGTERM, so that it releases the lease.
    fn stop(mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }

    fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Elector {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Makes a namespace in which the controller may write Leases, and returns its name.
fn place(plane: &ControlPlane, name: &str) -> String {
    let namespace = format!("leases-{name}");
    plane.kubectl(&["create", "namespace", &namespace]);
    let rules = json!([{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
        "verbs": ["get", "list", "watch", "create", "update"]}]);
    let account = objects::account(SYSTEM_NAMESPACE, CONTROLLER_ACCOUNT);
    plane.grant(&objects::grant("leases", Some(&namespace), &rules, &account));
    namespace
}

/// Starts a controller that only runs the gate, with its lease in `namespace`.
async fn gate(plane: &'static ControlPlane, namespace: &str, name: &str) -> Controller {
    let lease = format!("--extension-lease={namespace}/{EXTENSIONS}");
    start(plane, name, &["--components=gate", "--leader-elect", &lease]).await
}

fn leases(cluster: &Cluster, namespace: &str) -> Api<Lease> {
    Api::namespaced(cluster.client.clone(), namespace)
}

async fn spec(leases: &Api<Lease>, name: &str) -> Value {
    let lease = leases.get(name).await.expect("the Lease can be read");
    serde_json::to_value(lease.spec).expect("a Lease is JSON")
}

/// Waits until `is` accepts the holder of a Lease, and returns the Lease's spec.
async fn held(leases: &Api<Lease>, name: &str, within: Duration, is: fn(&str) -> bool) -> Value {
    wait::until(&format!("the holder of {name} changes"), within, || async {
        let lease = leases.get(name).await.map_err(|error| error.to_string())?;
        let spec = serde_json::to_value(lease.spec).unwrap_or_default();
        let holder = spec["holderIdentity"].as_str().unwrap_or_default();
        if is(holder) { Ok(spec) } else { Err(spec.to_string()) }
    })
    .await
}

/// Says whether a holder is one of ours: the host name, and a UUID.
fn is_ours(holder: &str) -> bool {
    let uuid = holder.rsplit_once('_').map(|(_, uuid)| uuid);
    uuid.is_some_and(|uuid| uuid.len() == 36)
}

/// What a controller logs that has seen that another process holds its lease.
const WAITS: &str = "the lease is held";

/// Changes a Lease as an administrator would.
async fn edit(leases: &Api<Lease>, name: &str, spec: Value) {
    let patch = Patch::Merge(json!({"spec": spec}));
    let edited = leases.patch(name, &PatchParams::default(), &patch).await;
    edited.expect("the Lease can be edited");
}

/// Returns a Lease without what differs between two equal histories: names, times (after a check of
/// their format), versions.
async fn form(leases: &Api<Lease>, name: &str) -> Value {
    let lease = leases.get(name).await.expect("the Lease can be read");
    let mut spec = serde_json::to_value(&lease.spec).expect("a Lease is JSON");
    let moment = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    let (acquired, renewed) = (moment("acquireTime"), moment("renewTime"));
    for time in [&acquired, &renewed] {
        let shape: String =
            time.chars().map(|one| if one.is_ascii_digit() { '0' } else { one }).collect();
        assert_eq!(shape, "0000-00-00T00:00:00.000000Z");
    }
    spec["acquireTime"] = json!("a time");
    spec["renewTime"] = json!(if renewed == acquired { "the same" } else { "later" });
    let holder = spec["holderIdentity"].as_str().map(str::is_empty);
    spec["holderIdentity"] = json!(holder.map(|nobody| if nobody { "" } else { "somebody" }));
    let metadata = &lease.metadata;
    let fields = metadata.managed_fields.iter().flatten();
    let owned: Vec<_> =
        fields.map(|entry| json!([entry.operation, entry.subresource, entry.fields_v1])).collect();
    json!({
        "spec": spec, "labels": metadata.labels, "annotations": metadata.annotations,
        "finalizers": metadata.finalizers, "owners": metadata.owner_references, "fields": owned,
    })
}

// deploying.md P25, P26 and P27: field for field as client-go, and in turn with it; of a holder that was
// killed its own duration counts, not that of the one who waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_passed_between_the_controller_and_client_go() {
    let cluster = cluster::shared().await;
    let plane = cluster.plane;
    let (ours, theirs) = (place(plane, "ours"), place(plane, "theirs"));
    let (our, their) = (leases(&cluster, &ours), leases(&cluster, &theirs));

    // Created, and renewed, which client-go does immediately for the first time.
    let elector = Elector::start(plane, &theirs, "go", &["--retry=20s"]);
    let controller = gate(plane, &ours, "passed").await;
    let created = held(&our, EXTENSIONS, SOON, is_ours).await;
    held(&their, EXTENSIONS, SOON, |holder| holder == "go").await;
    let renewed = |leases: Api<Lease>| async move {
        wait::until("the Lease is renewed", RENEWAL, || async {
            let spec = spec(&leases, EXTENSIONS).await;
            let renewed = spec["renewTime"] != spec["acquireTime"];
            renewed.then_some(()).ok_or(spec)
        })
        .await;
    };
    renewed(our.clone()).await;
    renewed(their.clone()).await;
    assert_eq!(form(&our, EXTENSIONS).await, form(&their, EXTENSIONS).await);
    assert_eq!(spec(&our, EXTENSIONS).await["acquireTime"], created["acquireTime"]);

    // Released.
    let mut controller = controller;
    controller.signal("TERM");
    assert_eq!(controller.ended(SOON).await, 0);
    elector.stop();
    assert_eq!(form(&our, EXTENSIONS).await, form(&their, EXTENSIONS).await);

    // Acquired by the other one.
    let flags = ["--lease=20s", "--renew=15s", "--retry=1s"];
    let mut elector = Elector::start(plane, &ours, "go", &flags);
    let mut second = gate(plane, &theirs, "taker").await;
    elector.says("leading", SOON).await;
    let taken = held(&our, EXTENSIONS, SOON, |holder| holder == "go").await;
    assert_eq!(taken["leaseTransitions"], 1);
    let taken = held(&their, EXTENSIONS, SOON, is_ours).await;
    assert_eq!(taken["leaseTransitions"], 1);

    // The controller waits for client-go's elector, and leads when the lease of that has run out.
    second.kill();
    let waiting = gate(plane, &ours, "waiter").await;
    waiting.logs(WAITS).await;
    assert_eq!(waiting.health("healthz").await, 200);
    waiting.ready().await;
    assert!(
        waiting
            .metrics()
            .await
            .contains(&format!("leader_election_master_status{{name=\"{EXTENSIONS}\"}} 0"))
    );
    elector.kill();
    let last = spec(&our, EXTENSIONS).await;
    let taken = held(&our, EXTENSIONS, SOON, is_ours).await;
    // Both have the clock of this machine.
    let time = |spec: &Value, field: &str| {
        let time = spec[field].as_str().and_then(|text| text.parse::<Timestamp>().ok());
        time.unwrap_or_else(|| panic!("{field}: {spec}"))
    };
    let waited = time(&taken, "acquireTime").duration_since(time(&last, "renewTime"));
    assert!(waited >= SignedDuration::from_secs(20), "taken after {waited:?}, held by {last}");
    assert_eq!(taken["leaseTransitions"], 2);
    assert_eq!(taken["leaseDurationSeconds"], 137);
}

// deploying.md P30
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_puts_a_deleted_lease_back_and_ends_when_its_name_is_gone() {
    let cluster = cluster::shared().await;
    let plane = cluster.plane;
    let namespace = place(plane, "edited");
    let leases = leases(&cluster, &namespace);
    let mut leader = gate(plane, &namespace, "edited").await;
    let before = held(&leases, EXTENSIONS, SOON, is_ours).await;
    let candidate = gate(plane, &namespace, "candidate").await;
    candidate.logs(WAITS).await;

    leases.delete(EXTENSIONS, &DeleteParams::default()).await.expect("it can be deleted");
    let again = held(&leases, EXTENSIONS, SOON, is_ours).await;
    assert_eq!(again["holderIdentity"], before["holderIdentity"]);
    assert_eq!(again["acquireTime"], before["acquireTime"]);

    edit(&leases, EXTENSIONS, json!({"holderIdentity": "by hand", "leaseDurationSeconds": 2}))
        .await;
    assert_eq!(leader.ended(SOON).await, 1);
    assert!(leader.log().contains("its holder is now"), "{}", leader.log());
    let taken = held(&leases, EXTENSIONS, SOON, is_ours).await;
    assert_ne!(taken["holderIdentity"], before["holderIdentity"]);
}

// deploying.md P31
#[tokio::test(flavor = "multi_thread")]
async fn each_half_leads_by_itself_and_releases_its_lease_at_once_while_it_pulls() {
    // Of its own: once it leads, it serves every catalog of the cluster at its own address.
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    let namespace = place(plane, "halves");
    let leases = leases(&cluster, &namespace);
    let held_elsewhere = serde_json::from_value(json!({
        "metadata": {"name": CATALOGS},
        "spec": {"holderIdentity": "upstream", "leaseDurationSeconds": 3600},
    }))
    .expect("a Lease");
    leases.create(&PostParams::default(), &held_elsewhere).await.expect("the Lease is made");
    let args = [
        "--components=catalogs,gate",
        "--leader-elect",
        &format!("--extension-lease={namespace}/{EXTENSIONS}"),
        &format!("--catalog-lease={namespace}/{CATALOGS}"),
    ];
    let mut controller = start(plane, "one-half", &args).await;
    held(&leases, EXTENSIONS, SOON, is_ours).await;
    controller.logs(WAITS).await;
    assert_eq!(spec(&leases, CATALOGS).await["holderIdentity"], "upstream");
    for (name, leads) in [(EXTENSIONS, 1), (CATALOGS, 0)] {
        let line = format!("leader_election_master_status{{name=\"{name}\"}} {leads}");
        controller.measures(&[line]).await;
    }

    edit(&leases, CATALOGS, json!({"holderIdentity": ""})).await;
    held(&leases, CATALOGS, SOON, is_ours).await;
    releases_at_once_while_it_pulls(plane, &mut controller, &leases).await;
}

/// Returns the writes of the controller that the API server received since then, oldest first: what is
/// answered later is logged later.
fn writes_since(plane: &ControlPlane, then: Timestamp) -> Vec<audit::Request> {
    let mut writes = audit::writes(&plane.addresses.audit_log, audit::CONTROLLER);
    writes.retain(|write| write.user == audit::CONTROLLER && write.received > then);
    writes.sort_by_key(|write| write.received);
    writes
}

/// Expects that each controller and each election is watched, by its name (deploying.md P41). What is
/// stalled is tested on the watchdog.
async fn is_watched(controller: &Controller) {
    let address = controller.listening()["health"].as_str().unwrap_or_default().to_owned();
    let text = reqwest::get(format!("http://{address}/healthz?verbose")).await;
    let text = text.expect("health is served").text().await.expect("health is text");
    for loop_ in [
        "ClusterCatalog controller".to_owned(),
        "ClusterExtension controller".to_owned(),
        "ClusterObjectSet controller".to_owned(),
        "gate".to_owned(),
        format!("election of {EXTENSIONS}"),
        format!("election of {CATALOGS}"),
        format!("lease {EXTENSIONS}"),
        format!("lease {CATALOGS}"),
    ] {
        assert!(text.contains(&format!("[+]{loop_} ok\n")), "{loop_} in {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_controllers_one_acts_and_the_other_takes_over() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    let leases = clear_leases(&cluster).await;
    let elect = ["--leader-elect"];
    let mut first = start(plane, "first", &elect).await;
    held(&leases, CATALOGS, SOON, is_ours).await;
    held(&leases, EXTENSIONS, SOON, is_ours).await;
    let second = start(plane, "second", &elect).await;
    let bundles = ["1.0.0", "1.1.0"].map(Bundle::new);
    let mut scene = Scene::set(cluster, "led", &bundles, &chain(&["1.0.0"])).await;
    let extension = scene.installed(json!({"version": "1.x"}), "1.0.0").await;
    is_watched(&first).await;
    assert!(first.log().contains("reconcile ending"));
    assert!(!second.log().contains("reconcile ending"), "{}", second.log());

    first.kill();
    let killed = Timestamp::now();
    // The holder is dead: from now on its lease is valid for two seconds instead of 137.
    for name in [CATALOGS, EXTENSIONS] {
        assert!(is_ours(spec(&leases, name).await["holderIdentity"].as_str().unwrap_or_default()));
        edit(&leases, name, json!({"leaseDurationSeconds": 2})).await;
    }
    scene.publish(&bundles, &chain(&["1.0.0", "1.1.0"])).await;
    extension.installed("1.1.0").await;
    for name in [CATALOGS, EXTENSIONS] {
        assert_eq!(spec(&leases, name).await["leaseTransitions"], 1);
    }
    // Nothing of ours was written between the end of the first leader and the start of the second.
    let ours = writes_since(plane, killed + SENT_BEFORE);
    assert_eq!(ours[0].resource, "leases", "{ours:#?}");
    extension.delete().await;
}

/// A registry that does not answer holds no lease (deploying.md 4.4).
async fn releases_at_once_while_it_pulls(
    plane: &'static ControlPlane,
    controller: &mut Controller,
    leases: &Api<Lease>,
) {
    let registry = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = registry.local_addr().expect("an address");
    let catalog = Catalog::create(plane, "pulling", &format!("{address}/silent:v1"));
    let asked = tokio::time::timeout(SOON, registry.accept()).await;
    let _connection = asked.expect("it is asked").expect("a connection");
    controller.signal("TERM");
    // Less than a connection may take to be made.
    held(leases, CATALOGS, Duration::from_secs(10), str::is_empty).await;
    assert_eq!(controller.ended(SOON).await, 0);
    catalog.merge(&json!({"metadata": {"finalizers": null}}));
    plane.kubectl(&["delete", "clustercatalog", "pulling"]);
}

// deploying.md P29: a process that was frozen for longer than its lease writes nothing afterwards.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: make test-full"]
async fn a_leader_that_was_frozen_writes_nothing_and_ends() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    let namespace = place(plane, "frozen");
    let lease = format!("--catalog-lease={namespace}/{CATALOGS}");
    let args = ["--components=catalogs", "--leader-elect", &lease];
    let mut controller = start(plane, "frozen", &args).await;
    held(&leases(&cluster, &namespace), CATALOGS, SOON, is_ours).await;
    controller.signal("STOP");
    let (frozen, since) = (Instant::now(), Timestamp::now() + SENT_BEFORE);
    // An object that would be reconciled at once.
    plane.create(&objects::catalog("frozen", &format!("{}/none:v1", cluster.registry)));
    tokio::time::sleep(Duration::from_secs(109).saturating_sub(frozen.elapsed())).await;
    controller.signal("CONT");
    assert_eq!(controller.ended(SOON).await, 1);
    assert!(controller.log().contains("could not be renewed"), "{}", controller.log());
    let ours = writes_since(plane, since);
    assert!(ours.is_empty(), "{ours:#?}");
    plane.kubectl(&["delete", "clustercatalog", "frozen"]);
}
