//! A backup of a control plane's etcd, and its restoration.

use std::process::Command;

use crate::cluster::ControlPlane;

const ETCD: &str = "etcd";
const API_SERVER: &str = "kube-apiserver";
/// What goes on with what it knew before a restoration, unless it is started again.
const KUBERNETES: [&str; 3] = ["kube-controller-manager", "kube-scheduler", "kwok"];

/// Copies the data of etcd; the API server is away meanwhile.
pub fn back_up(plane: &ControlPlane) {
    while_stopped(plane, "rm -rf backup; cp -a etcd backup", || ());
}

/// Puts back the data of the last backup, does `meanwhile` while nobody can read them, and starts
/// Kubernetes' own controllers again, as an administrator does.
pub fn restore(plane: &ControlPlane, meanwhile: impl FnOnce()) {
    while_stopped(plane, "rm -r etcd; mv backup etcd", meanwhile);
    for component in KUBERNETES {
        plane.control("restart", component);
    }
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
