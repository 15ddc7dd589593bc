//! What an install costs the API server, alone and among others that are settled.

use std::collections::BTreeMap;
use std::path::Path;

use olm_test::audit::{self, Request};
use olm_test::cluster::{
    self, CONTROLLER_ACCOUNT, Controller, ControllerOptions, SYSTEM_NAMESPACE,
};
use olm_test::scene::Scene;

use crate::silence::{install, settles};

/// Returns the requests of the controller from the one with the given number on.
fn requests(log: &Path, from: usize) -> Vec<Request> {
    let controller = format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{CONTROLLER_ACCOUNT}");
    let all = audit::mentioning(log, &controller);
    let own = all.into_iter().filter(|it| it.user == controller);
    own.filter(|it| it.resource != "leases")
        .skip(from)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints a table"]
async fn requests_of_an_install() {
    let cluster = cluster::own().await;
    let options = ControllerOptions::default();
    let _controller = Controller::start(cluster.plane, options);
    let log = &cluster.plane.addresses.audit_log;
    for (suffix, others) in [("first", 0), ("others", 10), ("last", 0)] {
        let mut scene = Scene::empty(cluster.clone(), suffix);
        if others > 0 {
            install(&mut scene, suffix, others).await;
            settles(log).await;
            continue;
        }
        settles(log).await;
        let before = requests(log, 0).len();
        install(&mut scene, suffix, 1).await;
        settles(log).await;
        let made = requests(log, before);
        println!("{suffix}: {} requests", made.len());
        let mut counts: BTreeMap<_, usize> = BTreeMap::new();
        for it in &made {
            let who = if it.acted_as.is_some() {
                "account"
            } else {
                "self"
            };
            let dry = if it.dry_run { " (dry run)" } else { "" };
            let group = format!(
                "{} {}/{} {}{dry}",
                who, it.resource, it.subresource, it.verb
            );
            *counts.entry(group).or_default() += 1;
        }
        for (group, count) in counts {
            println!("{count:>5}  {group}");
        }
        for it in &made {
            println!(
                "    {} {} {} {}{}",
                it.received,
                it.acted_as.is_some(),
                it.verb,
                it.uri,
                it.code
            );
        }
    }
}
