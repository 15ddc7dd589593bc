//! kubectl-olm, as the administrator of a control plane.

use std::process::{Command, Output};

use crate::cluster::ControlPlane;
use crate::paths;

/// Runs `kubectl olm` on a control plane.
pub fn run(plane: &ControlPlane, args: &[&str]) -> Output {
    Command::new(paths::built("kubectl-olm"))
        .args(args)
        .arg("--kubeconfig")
        .arg(&plane.addresses.kubeconfig)
        .env_remove("KUBECONFIG")
        .env(
            "CONTAINERS_REGISTRIES_CONF",
            &plane.addresses.registries_conf,
        )
        .output()
        .expect("kubectl-olm runs; build it with `cargo build`")
}

/// The same for a command that reads catalogs; returns what it prints, panics when it fails.
pub fn ask(plane: &ControlPlane, args: &[&str]) -> String {
    let ca = plane.addresses.controller_ca.to_string_lossy();
    let args = [args, &["--catalog-ca", &ca]].concat();
    let out = run(plane, &args);
    let errors = String::from_utf8_lossy(&out.stderr);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "kubectl olm {args:?}: {errors}{text}");
    text
}
