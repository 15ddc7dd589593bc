//! A backup of a control plane's etcd, and its restoration.

use std::process::Command;
use std::time::Duration;

use crate::cluster::{ControlPlane, SYSTEM_NAMESPACE};
use crate::wait;

const ETCD: &str = "etcd";
const API_SERVER: &str = "kube-apiserver";
/// The longest time until every Lease of the controller is renewed.
const RENEWED: Duration = Duration::from_mins(1);

/// Copies the data of etcd; the API server is away meanwhile. Returns once the controller, which
/// runs with leader election, has renewed its Leases: any backup but one of the last seconds is
/// older than that, and by them a process notices the restoration.
pub async fn back_up(plane: &ControlPlane) {
    tokio::task::block_in_place(|| {
        while_stopped(plane, "rm -rf backup; cp -a etcd backup", || ());
    });
    let at_the_backup = renewals(plane);
    wait::until("the Leases are renewed", RENEWED, || async {
        let now = renewals(plane);
        let renewed = now.iter().zip(&at_the_backup).all(|(now, then)| now != then);
        renewed.then_some(()).ok_or(now)
    })
    .await;
}

/// Puts back the data of the last backup, and does `meanwhile` while nobody can read them.
pub fn restore(plane: &ControlPlane, meanwhile: impl FnOnce()) {
    while_stopped(plane, "rm -r etcd; mv backup etcd", meanwhile);
}

/// Returns when each Lease of the controller was renewed.
fn renewals(plane: &ControlPlane) -> Vec<String> {
    let times = "jsonpath={.items[*].spec.renewTime}";
    let list = ["get", "leases", "-n", SYSTEM_NAMESPACE, "-o", times];
    let found = tokio::task::block_in_place(|| plane.kubectl(&list));
    found.split_whitespace().map(str::to_owned).collect()
}

/// Runs a script in the folder of the control plane while nothing uses the data of etcd.
fn while_stopped(plane: &ControlPlane, script: &str, meanwhile: impl FnOnce()) {
    plane.control("stop", API_SERVER);
    plane.control("stop", ETCD);
    let done = Command::new("sh").args(["-ec", script]).current_dir(&plane.addresses.dir).status();
    assert!(done.is_ok_and(|status| status.success()), "{script}");
    meanwhile();
    plane.control("start", ETCD);
    plane.control("start", API_SERVER);
}
