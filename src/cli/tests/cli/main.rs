//! `kubectl olm` as a user runs it: the built program, its exit code, stdout and stderr.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod browse;
mod connection;
mod documents;
mod language;
mod played;
mod terminal;
mod version;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use olm_test::plugin::checked;
use serde_json::json;

/// The folder of these tests.
const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");

/// Returns the program with these arguments, in the folder of these tests and without a cluster.
fn program<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-olm"));
    command.args(arguments).current_dir(TESTS).env("KUBECONFIG", "/nonexistent");
    command
}

/// Runs a program; returns exit code, stdout and stderr.
fn outcome(command: &mut Command) -> (i32, String, String) {
    let output = checked(command.output().unwrap());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Runs the program with these arguments.
fn olm(arguments: &[&str]) -> (i32, String, String) {
    outcome(&mut program(arguments.iter().copied()))
}

/// Writes a kubeconfig for a server into a folder, and returns its path.
fn kubeconfig(folder: &Path, server: impl std::fmt::Display) -> String {
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{server}")}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}]});
    let path = folder.join("config");
    fs::write(&path, config.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Reads the head of a request, and returns its first line.
fn asked(connection: &TcpStream) -> String {
    let mut lines = BufReader::new(connection.try_clone().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(lines.any(|line| line.unwrap().is_empty()));
    first
}
