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
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;

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

/// Serves what `answer` says to a method and a path, a status and a body, until the tests end.
fn serve(answer: impl Fn(&str, &str) -> (u16, String) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let answer = answer.clone();
            thread::spawn(move || served(connection.unwrap(), answer));
        }
    });
    address
}

fn served(mut connection: TcpStream, answer: impl Fn(&str, &str) -> (u16, String)) {
    let mut asked = BufReader::new(connection.try_clone().unwrap());
    let (mut first, mut length) = (String::new(), 0);
    asked.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        if asked.read_line(&mut line).unwrap_or(0) <= 2 {
            break;
        }
        if let Some(told) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = told.trim().parse().unwrap();
        }
    }
    let _ = asked.take(length).read_to_end(&mut Vec::new());
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (code, body) = answer(method, path);
    let length = body.len();
    let _ = write!(
        connection,
        "HTTP/1.1 {code} Answer\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
}
