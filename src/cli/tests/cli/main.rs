//! `kubectl olm` as a user runs it: the built program, its exit code, stdout and stderr.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod browse;
mod crd_check;
mod documents;
mod environment;
mod from_classic;
mod graph;
mod language;
mod making_catalogs;
mod rbac;
mod render;
mod resolve_and_range;
mod show_and_lint;
mod terminal;
mod version;
mod why;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use olm_test::plugin::checked;
use serde_json::{Value, json};

/// The folder of these tests.
const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");

/// Returns the program with these arguments, in the folder of these tests and without a cluster.
fn program<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-olm"));
    command.args(arguments).current_dir(TESTS).env("KUBECONFIG", "/nonexistent");
    command
}

fn read(output: Output) -> (i32, String, String) {
    let output = checked(output);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Runs a program; returns exit code, stdout and stderr.
fn outcome(command: &mut Command) -> (i32, String, String) {
    read(command.output().unwrap())
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

/// Writes a bundle of package `pot` with the spec of its ClusterServiceVersion and other manifests.
fn bundle(spec: &Value, others: &[Value]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    fs::create_dir(root.join("manifests")).unwrap();
    fs::create_dir(root.join("metadata")).unwrap();
    let package = json!({"operators.operatorframework.io.bundle.package.v1": "pot"});
    let annotations = json!({"annotations": package}).to_string();
    fs::write(root.join("metadata/annotations.yaml"), annotations).unwrap();
    let csv = json!({"kind": "ClusterServiceVersion", "metadata": {"name": "pot.v1.0.0"},
        "spec": spec});
    for (index, manifest) in [&csv].into_iter().chain(others).enumerate() {
        fs::write(root.join(format!("manifests/{index}.yaml")), manifest.to_string()).unwrap();
    }
    directory
}

/// Reads the head of a request, and returns its first line.
fn asked(connection: &TcpStream) -> String {
    let mut lines = BufReader::new(connection.try_clone().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(lines.any(|line| line.unwrap().is_empty()));
    first
}

/// Runs the program with an input, and prints how it ended.
fn transcript<'a>(arguments: impl IntoIterator<Item = &'a str>, stdin: &str) -> String {
    let mut command = program(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(stdin.as_bytes()).unwrap();
    drop(input);
    let (code, out, errors) = read(child.wait_with_output().unwrap());
    format!("exit {code}\n--- stdout\n{out}--- stderr\n{errors}")
}
