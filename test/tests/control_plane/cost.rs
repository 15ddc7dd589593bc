//! What an install costs the API server, among others that are settled.
//!
//! `OTHERS` says how many there are; with `--nocapture` a table is printed.

use jiff::SignedDuration;
use olm_controller::revision::collect_orphaned_secrets;
use olm_test::audit::Request;
use olm_test::prelude::*;

use crate::silence::{install, setting, settles};

/// Most questions of a controller that starts about its own rights.
const REVIEWS: usize = 6;
/// Most requests that one install takes today.
const LIMIT: usize = 39;
/// Writes of others about it, where nothing takes long.
const STEPS: usize = 25;

/// Returns the requests of the controller, with its own rights or as an account, without those that
/// keep its leases.
pub(crate) fn requests(log: &Path) -> Vec<Request> {
    let mut requests = audit::of_controller(log);
    requests.retain(|request| request.resource != "leases");
    requests
}

/// Prints how many requests there are of each sort.
pub(crate) fn table(requests: &[Request]) {
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for it in requests {
        let who = it.acted_as.as_ref().map_or("self", |_| "account");
        let dry = if it.dry_run { " (dry run)" } else { "" };
        let sort = format!("{who:7} {:9} {}/{}{dry}", it.verb, it.resource, it.subresource);
        *counts.entry(sort).or_default() += 1;
    }
    println!("{:>5}  all", requests.len());
    for (sort, count) in counts {
        println!("{count:>5}  {sort}");
    }
}

// ours: work grows with what changed, not with what exists
#[tokio::test(flavor = "multi_thread")]
#[ignore = "size: make test-full"]
async fn an_install_asks_nothing_about_the_others() {
    let cluster = cluster::own().await;
    let _controller = Controller::start(cluster.plane, ControllerOptions::default());
    let log = &cluster.plane.addresses.audit_log;
    let mut scene = Scene::empty(cluster.clone(), "costothers");
    // One at least, so that what the controller reads at its start is not counted.
    install(&mut scene, "costother", setting("OTHERS", 3).max(1)).await;
    settles(log).await;
    let (before, began) = (requests(log).len(), Timestamp::now());
    let mut scene = Scene::empty(cluster.clone(), "costown");
    install(&mut scene, "costown", 1).await;
    settles(log).await;
    let made = requests(log).split_off(before);
    table(&made);
    // Events of the others say that the new catalog is not served yet.
    let (about_others, own): (Vec<_>, Vec<_>) = made
        .iter()
        .filter(|request| request.group != "events.k8s.io")
        .partition(|request| request.uri.contains("costother"));
    assert!(about_others.is_empty(), "{about_others:#?}");
    // A rollout that takes its time is looked at again after each step, and told of.
    let steps = moved(log, "costown0", began).len();
    println!("{} requests without Events, {steps} writes of others", own.len());
    assert!(own.len() <= LIMIT + 3 * steps.saturating_sub(STEPS), "{} requests", own.len());
    // The watches have brought what an upgrade might break.
    let (_scene, extension) =
        Scene::first(cluster.clone(), "costmoves", &["1.0.0", "1.1.0"].map(Bundle::new)).await;
    settles(log).await;
    let before = requests(log).len();
    extension.moves_to("1.1.0").await;
    settles(log).await;
    let made = requests(log).split_off(before);
    table(&made);
    let is_about_others = |it: &&Request| {
        let is_list = it.verb == "list" && it.group == "olm.operatorframework.io";
        (is_list && !it.uri.contains("Selector")) || it.uri.contains("costo")
    };
    let about_others: Vec<_> = made.iter().filter(is_about_others).collect();
    assert!(about_others.is_empty(), "{about_others:#?}");
}

/// What is settled is not rendered again, although any change of any catalog brings a reconcile of every
/// extension; this one is of a control plane of its own, and its bundle is in this folder.
pub(crate) async fn is_not_rendered_again(
    cluster: &Cluster,
    controller: &Controller,
    (name, bundle): (&str, &Path),
) {
    let log = &cluster.plane.addresses.audit_log;
    settles(log).await;
    std::fs::remove_dir_all(bundle).expect("the bundle on disk");
    let reconciles = || {
        let log = controller.log();
        let of = |line: &&str| line.contains("reconcile ending") && line.contains(name);
        log.lines().filter(of).count()
    };
    let before = reconciles();
    let mut other = Scene::empty(cluster.clone(), "settling");
    install(&mut other, "settling", 1).await;
    wait::value("the extension is reconciled", SOON, reconciles, |now| *now > before).await;
    settles(log).await;
    assert!(!bundle.exists(), "the bundle was read again");
    // What it is made of has changed.
    let annotate = ["annotate", "clusterextension", name, "example.com/note=1"];
    tokio::task::block_in_place(|| cluster.plane.kubectl(&annotate));
    wait::value("the bundle is read again", SOON, || bundle.exists(), |exists| *exists).await;
}

/// Returns the writes of others about an extension since a time.
fn moved(log: &Path, name: &str, since: Timestamp) -> Vec<Request> {
    let mut writes = audit::mentioning(log, name);
    writes.retain(|it| it.received >= since && it.is_write() && it.uri.contains(name));
    writes.retain(|it| it.user != audit::CONTROLLER);
    writes
}

/// Changes an object of one extension and takes one away from another, and waits until `mended` is
/// done; then both are as they were.
async fn drift_meanwhile<T>(
    plane: &ControlPlane,
    (drifted, lost): (&str, &str),
    mended: impl FnOnce() -> T,
) -> T {
    let kubectl = |args: &[&str]| tokio::task::block_in_place(|| plane.kubectl(args));
    let of_it = format!("{}={lost}", keys::label::OWNER_NAME);
    let state = || {
        let replicas = "jsonpath={.items[*].spec.replicas}";
        let deployments = kubectl(&["get", "deployments", "-n", drifted, "-o", replicas]);
        (deployments, kubectl(&["get", "configmaps", "-n", lost, "-l", &of_it, "-o", "name"]))
    };
    let before = state();
    kubectl(&["scale", "deployment", "-n", drifted, "--all", "--replicas=3"]);
    kubectl(&["delete", "configmap", "-n", lost, "-l", &of_it]);
    assert_ne!(state(), before);
    let done = tokio::task::block_in_place(mended);
    wait::value("what has drifted is repaired", SOON, state, |now| *now == before).await;
    done
}

// ours: a controller that comes back reads what has changed meanwhile, and repairs it; of all else it
// lists the kinds it watches
#[tokio::test(flavor = "multi_thread")]
#[ignore = "size: make test-full"]
async fn a_restart_reads_what_has_changed_meanwhile() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    let mut controller = Controller::start(plane, ControllerOptions::default());
    let log = &plane.addresses.audit_log;
    let mut scene = Scene::empty(cluster.clone(), "restart");
    let extensions = install(&mut scene, "restart", 3).await;
    settles(log).await;
    let settled = Timestamp::now();
    let [drifted, lost, same] = &extensions[..] else { panic!("three were installed") };
    controller.kill();
    let stopped = Timestamp::now();
    // A note that is damaged counts for nothing.
    let uid = lost.revisions().await.remove(0).metadata.uid;
    let notes = cluster.dir.join("controller-state/bundles/settled");
    let notes = std::fs::read_dir(notes.join(uid.expect("a UID")));
    for note in notes.expect("notes").flatten() {
        std::fs::write(note.path(), "{}\n[]").expect("a note is written");
    }
    let mended = || {
        let before = requests(log).len();
        controller.restart(plane);
        before
    };
    let before = drift_meanwhile(plane, (&drifted.name, &lost.name), mended).await;
    settles(log).await;
    let made = requests(log).split_off(before);
    table(&made);
    let about = |name: &str| {
        let of_it = made.iter().filter(|it| it.uri.contains(name));
        let of_it = of_it.filter(|it| it.group != "events.k8s.io");
        let asked = of_it.map(|it| format!("{} {}", it.verb, it.resource));
        asked.collect::<Vec<_>>()
    };
    // The kinds that may hold secrets are watched as the account. What others still wrote is read.
    let mut asked = about(&same.name);
    let moved_too = moved(log, &same.name, settled).len();
    asked.retain(|it| moved_too == 0 || !it.starts_with("get "));
    assert_eq!(asked, ["list configmaps"]);
    // Its content and what is not ready; all of it where there is no note; and what others write
    // meanwhile, however many steps a rollout takes.
    for (changed, most) in [(drifted, 5), (lost, 12)] {
        let asked = about(&changed.name);
        let reads = asked.iter().filter(|it| it.starts_with("get")).count();
        let most = most + moved(log, &changed.name, stopped).len();
        assert!((1..=most).contains(&reads), "at most {most}: {asked:#?}");
    }
    let mut reviews = made;
    reviews.retain(|it| it.resource.ends_with("reviews"));
    assert!(reviews.len() <= REVIEWS, "{reviews:#?}");
}

// applying.md 3.3; ours: what is looked for at start and every hour costs the same with many revisions
#[tokio::test(flavor = "multi_thread")]
#[ignore = "size: make test-full"]
async fn content_whose_revision_never_came_goes_and_the_others_are_listed_once() {
    let cluster = cluster::own().await;
    let _controller = Controller::start(cluster.plane, ControllerOptions::default());
    let log = &cluster.plane.addresses.audit_log;
    let mut scene = Scene::empty(cluster.clone(), "garbage");
    install(&mut scene, "garbagex", 3).await;
    settles(log).await;
    let content = |name: &str| {
        let labels = json!({(keys::label::REVISION_NAME): "never-1"});
        json!({"apiVersion": "v1", "kind": "Secret", "type": keys::name::OBJECT_DATA_SECRET_TYPE,
            "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": labels}})
    };
    let orphans = json!({"apiVersion": "v1", "kind": "List",
        "items": [content("orphan-a"), content("orphan-b")]});
    let plane = cluster.plane;
    plane.create(&orphans);
    let selector = format!("type={}", keys::name::OBJECT_DATA_SECRET_TYPE);
    let stored = || {
        let of = format!("get secrets -n {SYSTEM_NAMESPACE} -o name --field-selector {selector}");
        plane.run(&of).lines().count()
    };
    let before = stored();
    assert!(before >= 5, "{before}");
    let collect = |now| collect_orphaned_secrets(&cluster.client, SYSTEM_NAMESPACE, now);
    let now = Timestamp::now();
    assert_eq!(collect(now).await.expect("it is looked"), 0, "they are young");
    assert_eq!(stored(), before);
    let later = now + SignedDuration::from_hours(1);
    let looks = || {
        let all = audit::mentioning(log, "clusterobjectsets");
        let own = all.into_iter().filter(|it| {
            let read = it.verb == "get" || it.verb == "list";
            it.resource == "clusterobjectsets" && read && !it.user.starts_with("system:")
        });
        own.map(|it| it.verb).collect::<Vec<_>>()
    };
    let seen = looks().len();
    assert_eq!(collect(later).await.expect("it is looked"), 2);
    assert_eq!(stored(), before - 2);
    let since = || looks().split_off(seen);
    wait::value("the audit log tells", SOON, since, |verbs| !verbs.is_empty()).await;
    assert_eq!(since(), ["list"]);
}
