//! A settled cluster is silent: nothing is written and next to nothing is read while nothing
//! changes, not even by a controller that has just started; and extensions share what they can.
//!
//! `make silence` measures 50 extensions over five minutes, `make scale` many of several catalogs
//! (`EXTENSIONS`, `CATALOGS`, `SILENCE_SECONDS`).

use olm_test::audit::Request;
use olm_test::prelude::*;
use olm_test::scene::{grant, write_files};
use olm_test::usage::Usage;

use crate::cost::{requests, table};
use crate::gate::set_cluster_version;

const QUIET: Duration = Duration::from_secs(5);
const PASSES: Duration = Duration::from_mins(2);
/// Most reads of one reconcile of a settled object.
const READS_OF_A_PASS: u64 = 10;
/// Reads per minute that do not depend on the number of extensions.
const READS_AT_REST: u64 = 60;
/// Most CPU use of a settled controller, as a share of one processor. The tests are not optimized.
const CPU_AT_REST: f64 = 0.25;
/// Most descriptors that come with the first extensions, and for how many of them there may be one
/// more: a connection carries the watches of a hundred accounts at least.
const DESCRIPTORS: usize = 16;
const WATCHES_OF_A_CONNECTION: u64 = 100;
/// Most lists of a kind of a controller that comes back, as the controller itself, however many
/// extensions there are: of Secrets four watches, the unused content and the Helm releases.
const LISTS: u64 = 6;
/// Most reads of a controller that starts: its rights, what is served, and its watches.
const READS_OF_START: u64 = 150;
/// Most reads of an extension when the controller comes back: the watch as its account of the one
/// kind that may hold secrets, and its list.
const READS_OF_RETURN: u64 = 2;

pub(crate) fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).unwrap_or_default();
    text.parse().unwrap_or(default)
}

/// Pushes `count` packages, serves them from one catalog, and installs each into a namespace of its
/// own.
pub(crate) async fn install(scene: &mut Scene, prefix: &str, count: u64) -> Vec<Extension> {
    // Where there is an OpenShift release, each of them holds its update.
    let bundle = Bundle::new("1.0.0").with_max_openshift("4.20");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let packages: Vec<_> =
        (0..count).map(|number| Package::new(&format!("{prefix}{number}"))).collect();
    let mut catalog = Files::new();
    for package in &packages {
        let name = package.name();
        let files = package.bundle_files(&bundle);
        write_files(&folder.path().join(&name), &files);
        let image = format!("{}/{name}:v1.0.0", scene.cluster.registry);
        let pushed = images::push_bundle(&image, files).await;
        catalog.extend(package.catalog_of(&pushed));
    }
    scene.publish_catalog(catalog).await;
    let plane = scene.cluster.plane;
    let mut extensions = Vec::new();
    for package in &packages {
        let name = package.name();
        tokio::task::block_in_place(|| {
            plane.kubectl(&["create", "namespace", &name]);
            grant(plane, &[folder.path().join(&name)], &name, ACCOUNT, &[]);
        });
        let filter = json!({"packageName": name});
        let client = &scene.cluster.client;
        extensions.push(Extension::create(client, &name, &name, ACCOUNT, filter).await);
    }
    for extension in &extensions {
        extension.installed("1.0.0").await;
    }
    extensions
}

/// Resources that are created without changing anything: leases that are renewed, and self reviews.
const NO_CHANGE: [&str; 2] = ["leases", "selfsubjectreviews"];

/// Returns the writes of the controller, impersonating or not, except leases and dry runs.
fn written(log: &Path) -> Vec<Request> {
    let mut writes = audit::writes(log, audit::CONTROLLER);
    writes.retain(|it| it.user == audit::CONTROLLER && !NO_CHANGE.contains(&it.resource.as_str()));
    writes
}

/// Returns the number of reads of the controller, impersonating or not, without watches.
fn reads(log: &Path) -> usize {
    let requests = audit::of_controller(log);
    requests.iter().filter(|request| matches!(request.verb.as_str(), "get" | "list")).count()
}

/// Returns how many reads a settled cluster may cost in `window`: each extension and each of its
/// revisions may be reconciled once a minute, and watches may start again with a list. A loop that
/// reads without a pause makes hundreds per second.
fn allowed_reads(extensions: u64, window: Duration) -> usize {
    let minutes = window.as_secs().div_ceil(60);
    let passes = 2 * extensions * minutes;
    usize::try_from(READS_OF_A_PASS * passes + READS_AT_REST * minutes).unwrap_or(usize::MAX)
}

/// Waits until the controller has written nothing for a while; returns the number of writes.
pub(crate) async fn settles(log: &Path) -> usize {
    let mut last = (usize::MAX, tokio::time::Instant::now());
    wait::until("the controller stops writing", PASSES, || {
        let now = written(log).len();
        if now != last.0 {
            last = (now, tokio::time::Instant::now());
        }
        let quiet = last.1.elapsed() >= QUIET;
        async move { if quiet { Ok(now) } else { Err(now) } }
    })
    .await
}

/// Waits until the controller has reconciled each of these objects since its log was `from` bytes
/// long.
async fn passes(controller: &Controller, from: usize, objects: impl IntoIterator<Item = String>) {
    let mut missing: BTreeSet<String> = objects.into_iter().collect();
    wait::until("a pass over everything", PASSES, || {
        let log = controller.log();
        for line in log[from..].lines() {
            if line.contains("reconcile ending") {
                missing.retain(|name| !line.contains(&format!("/{name} ")));
            }
        }
        let left = missing.clone();
        async move { if left.is_empty() { Ok(()) } else { Err(left) } }
    })
    .await;
}

/// Installs what never becomes ready. It is reconciled again without an event, in case one was
/// lost, and then nothing is written either.
async fn looks_again_in_silence(cluster: Cluster, controller: &Controller) {
    let log = cluster.plane.addresses.audit_log.clone();
    let bundle = Bundle::new("1.0.0").broken();
    let scene = Scene::set(cluster, "unready", &[bundle], &chain(&["1.0.0"])).await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    // The account may not list pods, which the controller asks once.
    extension.shows("Ready", "False", "RollingOut", "kubectl describe pods").await;
    let before = settles(&log).await;
    let known = controller.log().len();
    passes(controller, known, [format!("{}-1", extension.name)]).await;
    let after = written(&log);
    assert!(after.len() == before, "written although nothing changed: {:#?}", &after[before..]);
}

/// A controller that comes back lists each kind once, and does not read for each extension.
fn reads_little(asked: &[Request], extensions: u64) {
    table(asked);
    // The pages of a list count as one.
    let begins = |one: &&Request| one.verb == "list" && !one.uri.contains("continue=");
    let mut lists: BTreeMap<&str, u64> = BTreeMap::new();
    for request in asked.iter().filter(begins).filter(|one| one.acted_as.is_none()) {
        *lists.entry(&request.resource).or_default() += 1;
    }
    lists.retain(|_, count| *count > LISTS);
    assert!(lists.is_empty(), "listed again and again: {lists:?}");
    let read = asked.iter().filter(|one| !one.is_write()).count();
    let allowed = READS_OF_RETURN * extensions + READS_OF_START;
    assert!(u64::try_from(read).is_ok_and(|read| read <= allowed), "{read} reads");
}

// applying.md a4, i5; ours: descriptors do not grow with extensions
#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: make test-full"]
async fn a_settled_cluster_is_silent() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    let log = plane.addresses.audit_log.clone();
    // Without a version the gate reports itself degraded, but only after two minutes.
    set_cluster_version(&cluster.client, "4.20.0").await;
    let mut controller = start(plane, "", &[]).await;
    let (count, catalogs) = (setting("EXTENSIONS", 6), setting("CATALOGS", 2));
    let window = Duration::from_secs(setting("SILENCE_SECONDS", 20));
    let empty = Usage::of(controller.pid());
    println!("nothing installed: {empty}");
    let (began, first) = (Instant::now(), requests(&log).len());
    let mut extensions = Vec::new();
    for catalog in 0..catalogs {
        let mut scene = Scene::empty(cluster.clone(), &format!("silence{catalog}"));
        let prefix = format!("silent{catalog}x");
        extensions.extend(install(&mut scene, &prefix, count / catalogs).await);
    }
    let (took, installed) = (began.elapsed(), Usage::of(controller.pid()));
    println!(
        "{count} extensions of {catalogs} catalogs installed in {took:.0?}: {installed}, \
         {:.3} of a processor meanwhile",
        (installed.cpu - empty.cpu) / took.as_secs_f64()
    );

    let before = settles(&log).await;
    let read_before = reads(&log);
    let start = Usage::of(controller.pid());
    println!("settled after {} requests: {start}", requests(&log).len() - first);
    let more = usize::try_from(count / WATCHES_OF_A_CONNECTION).expect("a small number");
    assert!(start.descriptors <= empty.descriptors + DESCRIPTORS + more, "{empty}; {start}");
    tokio::time::sleep(window).await;
    let end = Usage::of(controller.pid());
    let read = reads(&log) - read_before;
    println!(
        "{window:?} later: {end}, {:.2} CPU s ({:.3} of a processor) and {read} reads meanwhile",
        end.cpu - start.cpu,
        (end.cpu - start.cpu) / window.as_secs_f64()
    );
    let allowed = allowed_reads(count, window);
    assert!(read_before > 0 && read <= allowed, "{read} reads at rest, {allowed} allowed");
    let busy = (end.cpu - start.cpu) / window.as_secs_f64();
    assert!(busy < CPU_AT_REST, "{busy:.2} of a processor at rest");
    let after = written(&log);
    assert!(after.len() == before, "written at rest: {:#?}", &after[before..]);

    // applying.md a4: a reconcile that changes nothing writes nothing.
    let (known, first, began) = (controller.log().len(), requests(&log).len(), Instant::now());
    tokio::task::block_in_place(|| {
        controller.kill();
        controller.restart(plane);
    });
    println!("back and ready in {:.1?}", began.elapsed());
    let objects = extensions
        .iter()
        .flat_map(|extension| [extension.name.clone(), format!("{}-1", extension.name)]);
    passes(&controller, known, objects).await;
    settles(&log).await;
    let tried: Vec<_> = written(&log).split_off(before);
    let tried: Vec<_> = tried.iter().filter(|write| !write.dry_run).collect();
    println!("after a restart: {}, {} writes", Usage::of(controller.pid()), tried.len());
    assert!(tried.is_empty(), "written by a pass over settled objects: {tried:#?}");
    reads_little(&requests(&log).split_off(first), count);
    looks_again_in_silence(cluster, &controller).await;
}
