//! kubectl-olm, as the administrator of a control plane.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::cluster::ControlPlane;
use crate::paths;

/// Returns what a run of the plugin ended with; panics when it printed a document that does not
/// follow its schema (plugin.md U10).
pub fn checked(out: Output) -> Output {
    let text = String::from_utf8_lossy(&out.stdout);
    let read = || olm_core::yaml::to_json(&text).ok()?.into_iter().next();
    let begin = text.trim_start();
    let document: Value = match serde_json::from_str(&text) {
        Ok(document) => document,
        Err(_) if begin.contains("schemaVersion: ") => read().unwrap_or_default(),
        Err(_) => return out,
    };
    let name = document["schema"].as_str();
    let name = name.and_then(|name| name.strip_prefix("olm."));
    if let (Some(name), Some(_)) = (name, document.get("schemaVersion")) {
        let file = paths::repository().join(format!("docs/schemas/{name}.json"));
        let schema = std::fs::read(&file).unwrap_or_else(|_| panic!("{}", file.display()));
        let schema = serde_json::from_slice(&schema).expect("a schema");
        let schema = jsonschema::validator_for(&schema).expect("a schema");
        let wrong: Vec<_> = schema
            .iter_errors(&document)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(wrong.is_empty(), "{}\n{document:#}", wrong.join("\n"));
    }
    out
}

/// What a command ended with, and what it said.
pub trait Answer {
    /// What it said.
    type Said;

    /// Returns what it said; panics unless it ended with this code.
    #[track_caller]
    fn ends(self, code: i32) -> Self::Said;

    /// The same for one that succeeds.
    #[track_caller]
    fn good(self) -> Self::Said
    where
        Self: Sized,
    {
        self.ends(0)
    }

    /// Returns the document that it printed, whatever it ended with.
    fn document(self) -> Value;
}

impl Answer for (Option<i32>, String) {
    type Said = String;

    fn ends(self, code: i32) -> String {
        assert_eq!(self.0, Some(code), "{}", self.1);
        self.1
    }

    fn document(self) -> Value {
        serde_json::from_str(&self.1).unwrap_or_else(|_| panic!("{}", self.1))
    }
}

impl Answer for (Option<i32>, String, String) {
    type Said = (String, String);

    fn ends(self, code: i32) -> Self::Said {
        assert_eq!(self.0, Some(code), "{}{}", self.1, self.2);
        (self.1, self.2)
    }

    fn document(self) -> Value {
        serde_json::from_str(&self.1).unwrap_or_else(|_| panic!("{}{}", self.1, self.2))
    }
}

/// Returns `kubectl olm` for a control plane.
pub fn command(plane: &ControlPlane, args: &[&str]) -> Command {
    command_with(plane, &plane.addresses.kubeconfig, args)
}

/// The same with another kubeconfig.
pub fn command_with(plane: &ControlPlane, kubeconfig: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(paths::built("kubectl-olm"));
    command.args(args);
    on(&mut command, plane, kubeconfig);
    command
}

/// Has a command act on a control plane.
fn on(command: &mut Command, plane: &ControlPlane, kubeconfig: &Path) {
    command
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .env_remove("KUBECONFIG")
        .env("XDG_CACHE_HOME", plane.addresses.dir.join("cache"))
        .env("CONTAINERS_REGISTRIES_CONF", &plane.addresses.registries_conf);
}

/// Runs `kubectl olm` on a control plane.
pub fn run(plane: &ControlPlane, args: &[&str]) -> Output {
    let out = command(plane, args).output();
    out.map(checked).expect("kubectl-olm runs; build it with `cargo build`")
}

/// The same; returns its exit code, what it prints and what it says besides.
pub fn answer(plane: &ControlPlane, args: &[&str]) -> (Option<i32>, String, String) {
    let out = run(plane, args);
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (out.status.code(), text(out.stdout), text(out.stderr))
}

/// The same for a command that reads catalogs.
pub fn read(plane: &ControlPlane, args: &[&str]) -> (Option<i32>, String, String) {
    let ca = plane.addresses.controller_ca.to_string_lossy();
    answer(plane, &[args, &["--catalog-ca", &ca]].concat())
}

/// The same; returns what it prints, panics when it fails.
pub fn ask(plane: &ControlPlane, args: &[&str]) -> String {
    read(plane, args).good().0
}

/// A running `kubectl olm browse`; it ends when this is dropped.
pub struct Page {
    child: Child,
    /// The address that it printed.
    pub url: String,
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Page {
    /// Starts `kubectl olm browse` with what `set` adds, and waits for its address.
    pub fn open(set: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(paths::built("kubectl-olm"));
        command.arg("browse").stdout(Stdio::piped());
        set(&mut command);
        let started = command.spawn();
        let mut child = started.expect("kubectl-olm runs; build it with `cargo build`");
        let mut url = String::new();
        let out = child.stdout.as_mut().expect("a pipe");
        BufReader::new(out).read_line(&mut url).expect("an address");
        let url = url.trim().to_owned();
        Self { child, url }
    }

    /// Starts `kubectl olm browse` for a control plane, with more arguments.
    pub fn of(plane: &ControlPlane, args: &[&str]) -> Self {
        let addresses = &plane.addresses;
        Self::open(|command| {
            on(command, plane, &addresses.kubeconfig);
            command.arg("--catalog-ca").arg(&addresses.controller_ca).args(args);
        })
    }

    /// Returns the address of one of its pages.
    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }
}
