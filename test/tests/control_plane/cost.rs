//! What an install costs the API server, among others that are settled.
//!
//! `OTHERS` says how many there are; with `--nocapture` a table is printed.

use std::collections::BTreeMap;
use std::path::Path;

use olm_test::audit::{self, Request};
use olm_test::cluster::{
    self, CONTROLLER_ACCOUNT, Controller, ControllerOptions, SYSTEM_NAMESPACE,
};
use olm_test::scene::Scene;

use crate::silence::{install, setting, settles};

/// Most requests that one install takes today.
const LIMIT: usize = 80;

/// Returns the requests of the controller, with its own rights or as an account, without those that
/// keep its leases.
pub(crate) fn requests(log: &Path) -> Vec<Request> {
    let controller = format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{CONTROLLER_ACCOUNT}");
    let mut requests = audit::mentioning(log, &controller);
    requests.retain(|request| request.user == controller && request.resource != "leases");
    requests
}

/// Prints how many requests there are of each sort.
pub(crate) fn table(requests: &[Request]) {
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for it in requests {
        let who = it.acted_as.as_ref().map_or("self", |_| "account");
        let dry = if it.dry_run { " (dry run)" } else { "" };
        let sort = format!(
            "{who:7} {:9} {}/{}{dry}",
            it.verb, it.resource, it.subresource
        );
        *counts.entry(sort).or_default() += 1;
    }
    println!("{:>5}  all", requests.len());
    for (sort, count) in counts {
        println!("{count:>5}  {sort}");
    }
}

// ours: work grows with what changed, not with what exists
#[tokio::test(flavor = "multi_thread")]
async fn an_install_asks_nothing_about_the_others() {
    let cluster = cluster::own().await;
    let _controller = Controller::start(cluster.plane, ControllerOptions::default());
    let log = &cluster.plane.addresses.audit_log;
    let mut scene = Scene::empty(cluster.clone(), "costothers");
    install(&mut scene, "costother", setting("OTHERS", 3)).await;
    settles(log).await;
    let before = requests(log).len();
    let mut scene = Scene::empty(cluster.clone(), "costown");
    install(&mut scene, "costown", 1).await;
    settles(log).await;
    let made = requests(log).split_off(before);
    table(&made);
    let about_others: Vec<_> = made
        .iter()
        .filter(|request| request.uri.contains("costother"))
        // They say that the new catalog is not served yet.
        .filter(|request| request.group != "events.k8s.io")
        .map(|request| format!("{} {}", request.verb, request.uri))
        .collect();
    assert!(about_others.is_empty(), "{about_others:#?}");
    assert!(made.len() <= LIMIT, "{} requests", made.len());
}
