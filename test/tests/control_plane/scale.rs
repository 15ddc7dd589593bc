//! Many extensions from several catalogs: what they cost while they are installed, at rest, and when
//! the controller is killed and comes back.
//!
//! `make scale` measures many (`EXTENSIONS`, `CATALOGS`, `REST_SECONDS`).

use olm_test::audit::Request;
use olm_test::prelude::*;
use olm_test::usage::Usage;

use crate::cost::{requests, table};
use crate::silence::{install, setting, settles};

/// Most descriptors that come with the first extensions, and for how many of them there may be one
/// more: a connection carries the watches of a hundred accounts at least.
const DESCRIPTORS: usize = 16;
const WATCHES_OF_A_CONNECTION: usize = 100;
/// Most lists of a kind then, as the controller itself, however many extensions there are.
const LISTS: u64 = 5;
/// Most reads of a controller that starts: its rights, what is served, and its watches.
const READS_OF_START: usize = 150;
/// Most reads of an extension when the controller comes back: the watch as its account of the one
/// kind that may hold secrets, and its list.
const READS_OF_RETURN: usize = 2;

// ours: descriptors do not grow with extensions, and a controller that comes back does not list
// for each of them
#[tokio::test(flavor = "multi_thread")]
#[ignore = "size: make test-full"]
async fn many_extensions_share_what_they_can() {
    let cluster = cluster::new().await;
    let (extensions, catalogs) = (setting("EXTENSIONS", 6), setting("CATALOGS", 2));
    let count = usize::try_from(extensions).expect("a small number");
    let rest = Duration::from_secs(setting("REST_SECONDS", 5));
    let plane = cluster.plane;
    let log = &plane.addresses.audit_log;
    let mut controller = Controller::start(plane, ControllerOptions::default());
    let (idle, before, started) =
        (Usage::of(controller.pid()), requests(log).len(), Instant::now());
    println!("idle: {idle}");
    for catalog in 0..catalogs {
        let mut scene = Scene::empty(cluster.clone(), &format!("scale{catalog}"));
        let count = extensions / catalogs;
        install(&mut scene, &format!("scale{catalog}x"), count).await;
    }
    let took = started.elapsed();
    settles(log).await;
    let settled = Usage::of(controller.pid());
    let installing = requests(log).len() - before;
    println!("{extensions} extensions of {catalogs} catalogs installed in {took:.1?}: {settled}");
    println!("{installing} requests for them");

    let before = requests(log).len();
    tokio::time::sleep(rest).await;
    let rested = Usage::of(controller.pid());
    let asked = requests(log).len() - before;
    let busy = rested.cpu - settled.cpu;
    println!("{rest:?} at rest: {rested}, {busy:.2} CPU s and {asked} requests meanwhile");
    assert!(
        rested.descriptors <= idle.descriptors + DESCRIPTORS + count / WATCHES_OF_A_CONNECTION,
        "{idle}; {rested}"
    );

    let (before, started) = (requests(log).len(), Instant::now());
    controller.kill();
    controller.restart(plane);
    let ready = started.elapsed();
    settles(log).await;
    let asked = requests(log).split_off(before);
    println!("back and ready in {ready:.1?}: {}", Usage::of(controller.pid()));
    table(&asked);
    // The pages of a list count as one.
    let own = |request: &&Request| {
        let begins = request.verb == "list" && !request.uri.contains("continue=");
        request.acted_as.is_none() && begins
    };
    let mut lists: BTreeMap<&str, u64> = BTreeMap::new();
    for request in asked.iter().filter(own) {
        *lists.entry(&request.resource).or_default() += 1;
    }
    lists.retain(|_, count| *count > LISTS);
    assert!(lists.is_empty(), "listed again and again: {lists:?}");
    let read = asked.iter().filter(|one| !one.is_write()).count();
    assert!(read <= READS_OF_RETURN * count + READS_OF_START, "{read} reads");
}
