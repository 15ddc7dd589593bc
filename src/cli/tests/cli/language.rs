//! What every command has in common (plugin.md 1.3).

use std::fs;
use std::io::{ErrorKind, Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use rstest::rstest;

use super::{asked, outcome, program};

const TEAPOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/graph/teapot.yaml");
const LAMP: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../hack/demo/bundles/lamp-operator/1.0.0");

/// Runs the program with a kubeconfig and returns exit code, stdout and stderr.
fn olm(kubeconfig: &str, arguments: &[&str]) -> (i32, String, String) {
    let mut program = program(arguments.iter().copied());
    outcome(program.env("KUBECONFIG", kubeconfig).env("HOME", "/nonexistent"))
}

// plugin.md U3
#[rstest]
#[case("update", "'upgrade'")]
#[case("serch", "'search'")]
#[case("instal", "'install'")]
#[case("statsu", "'status'")]
fn a_verb_that_is_unknown_gets_the_nearest_one(#[case] verb: &str, #[case] near: &str) {
    let (code, _, errors) = olm("", &[verb, "quay"]);
    assert_eq!(code, 2);
    assert!(errors.contains(near), "{errors}");
}

// plugin.md 1.1
#[rstest]
#[case::program(&[], "Usage: kubectl olm <COMMAND>")]
#[case::noun(&["catalog"], "Usage: kubectl olm catalog ")]
fn a_name_alone_prints_its_help(#[case] arguments: &[&str], #[case] usage: &str) {
    let (code, out, errors) = olm("", arguments);
    assert_eq!((code, errors.as_str()), (0, ""), "{out}");
    assert!(out.contains(usage), "{out}");
}

// plugin.md 1.1
#[rstest]
#[case::writes_nothing(&["status", "--dry-run"])]
#[case::of_no_namespace(&["history", "a", "-n", "b"])]
#[case::not_of_its_words(&["status", "-o", "html"])]
#[case::not_while_watching(&["status", "--watch", "-o", "yaml"])]
#[case::versions_twice(&["install", "a@1", "--version", "2", "-n", "b"])]
fn what_a_command_cannot_use_is_refused(#[case] arguments: &[&str]) {
    let (code, out, errors) = olm("", arguments);
    assert_eq!((code, out.as_str()), (2, ""), "{errors}");
}

// plugin.md U21, U9
#[rstest]
#[case::none("", "$KUBECONFIG is not set and ~/.kube/config does not exist\n")]
#[case::named("/nonexistent/config", "failed to read kubeconfig from ")]
fn without_a_cluster_the_answer_is_not_known(#[case] kubeconfig: &str, #[case] why: &str) {
    for arguments in [
        &["status"][..],
        &["search"],
        &["why", "a"],
        &["delete", "a", "b", "--yes"],
        &["rollback", "a", "2", "--yes"],
        &["upgrade", "a", "1.1.0", "--yes"],
        &["install", "a", "--version", "1.x", "-n", "b", "--yes"],
    ] {
        let (code, out, errors) = olm(kubeconfig, arguments);
        assert_eq!((code, out.as_str()), (3, ""), "{arguments:?}: {errors}");
        assert!(errors.starts_with(&format!("error: no cluster: {why}")), "{errors}");
        assert!(
            errors.contains("\nhint: --from PATH|IMAGE reads catalogs without one"),
            "{errors}"
        );
    }
}

// plugin.md U7
#[test]
fn with_a_catalog_no_cluster_is_asked() {
    let cluster = TcpListener::bind("127.0.0.1:0").unwrap();
    cluster.set_nonblocking(true).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = &super::kubeconfig(folder.path(), cluster.local_addr().unwrap());
    let catalog = folder.path().join("lamps.yaml");
    let demo = format!("{LAMP}/../../../catalogs/first/lamp-operator.yaml");
    let lamps = fs::read_to_string(demo).unwrap();
    fs::write(&catalog, lamps.replace("${REGISTRY}", "127.0.0.1:1")).unwrap();
    let lamps = catalog.to_str().unwrap();
    // The last two end at the registry, which is not there.
    let asked: [(&[&str], i32); 6] = [
        (&["why", "--package", "teapot", "--from", TEAPOT], 0),
        (&["graph", "teapot", "--from", TEAPOT], 0),
        (&["resolve", "--package", "teapot", "--from", TEAPOT], 0),
        (&["rbac", LAMP, "-n", "a", "--service-account", "b"], 0),
        (&["show", "lamp-operator", "--from", lamps], 0),
        (&["bundle", "render", "-n", "a", "lamp-operator", "--from", lamps], 1),
    ];
    for (arguments, want) in asked {
        let (code, _, errors) = olm(kubeconfig, arguments);
        assert_eq!(code, want, "{arguments:?}: {errors}");
        assert_eq!(cluster.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "{arguments:?}");
    }
    // The same kubeconfig, where a cluster is meant.
    let mut asking = program(["status"]).env("KUBECONFIG", kubeconfig).spawn().unwrap();
    cluster.set_nonblocking(false).unwrap();
    let connection = cluster.accept();
    asking.kill().unwrap();
    asking.wait().unwrap();
    assert!(connection.is_ok());
}

/// A catalog of one package.
const CATALOG: &str = "{\"schema\":\"olm.package\",\"name\":\"pot\"}\n";

/// Accepts a request for the catalog, and answers with its length and its beginning.
fn begun(server: &TcpListener) -> TcpStream {
    let (mut connection, _) = server.accept().unwrap();
    asked(&connection);
    let length = CATALOG.len();
    write!(
        connection,
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{}",
        &CATALOG[..10]
    )
    .unwrap();
    connection
}

fn ended(mut connection: TcpStream) {
    connection.write_all(&CATALOG.as_bytes()[10..]).unwrap();
}

/// Reads until a text appears.
fn until(stream: &mut impl Read, text: &str) -> String {
    let mut read = Vec::new();
    let mut byte = [0];
    while !String::from_utf8_lossy(&read).contains(text) {
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&read));
        read.extend(byte);
    }
    String::from_utf8(read).unwrap()
}

// plugin.md U20
#[test]
fn what_takes_long_shows_how_far_it_is() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/c", server.local_addr().unwrap());
    let search = |more: &[&str]| {
        let mut command = program(["search", "--from", &url, "-o", "json"]);
        command.args(more).stderr(Stdio::piped());
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    // Began before the others, so that it waits longer than they do.
    let quiet = search(&["-q"]);
    let silent = begun(&server);
    let mut plain = search(&[]);
    let slow = begun(&server);
    let errors = plain.stderr.as_mut().unwrap();
    let line = until(errors, "\n");
    assert_eq!(line, format!("reading {url}/api/v1/all: 0.0 of 0.0 MB\n"));
    ended(slow);
    assert_eq!(String::from_utf8(plain.wait_with_output().unwrap().stderr).unwrap(), line);
    ended(silent);
    let quiet = quiet.wait_with_output().unwrap();
    assert!(quiet.status.success());
    assert_eq!(String::from_utf8(quiet.stderr).unwrap(), "");

    // Util-linux gives it a terminal.
    let line = concat!(env!("CARGO_BIN_EXE_kubectl-olm"), " search -o json --from ");
    let line = format!("{line}{url}");
    let mut terminal = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let slow = begun(&server);
    let shown = terminal.stdout.as_mut().unwrap();
    let bar = until(shown, " left");
    assert!(bar.contains("reading http://") && bar.contains(" of "), "{bar}");
    ended(slow);
    assert!(terminal.wait().unwrap().success());

    // What ends soon is not spoken of.
    let soon = search(&[]);
    ended(begun(&server));
    assert_eq!(String::from_utf8(soon.wait_with_output().unwrap().stderr).unwrap(), "");
}
