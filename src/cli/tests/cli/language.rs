//! What every command has in common (plugin.md 1.3).

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use serde_json::json;

use super::{outcome, program, serve};

const TEAPOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/graph/teapot.yaml");
const LAMP: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../hack/demo/bundles/lamp-operator/1.0.0");

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
        let mut program = program(arguments.iter().copied());
        let (code, _, errors) = outcome(program.env("KUBECONFIG", kubeconfig));
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
    let mut head = BufReader::new(connection.try_clone().unwrap()).lines();
    assert!(head.any(|line| line.unwrap().is_empty()));
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
    for (kind, rewrites) in [("xterm", true), ("dumb", false)] {
        let mut terminal = Command::new("script")
            .args(["--quiet", "--return", "--command", &line, "/dev/null"])
            .env("TERM", kind)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let slow = begun(&server);
        let mut shown = until(terminal.stdout.as_mut().unwrap(), " MB");
        assert!(shown.contains("reading http://") && shown.contains(" of "), "{shown}");
        ended(slow);
        terminal.stdout.as_mut().unwrap().read_to_string(&mut shown).unwrap();
        assert!(terminal.wait().unwrap().success());
        assert_eq!(shown.contains('\u{1b}'), rewrites, "{kind}: {shown:?}");
    }

    // What ends soon is not spoken of.
    let soon = search(&[]);
    ended(begun(&server));
    assert_eq!(String::from_utf8(soon.wait_with_output().unwrap().stderr).unwrap(), "");
}

#[test]
fn resolve_asks_a_catalog_server() {
    let version = json!({"packageName": "kettle", "version": "3.0.0"});
    let bundle = json!({"schema": "olm.bundle", "package": "kettle", "name": "kettle.v3",
        "image": "i", "properties": [{"type": "olm.package", "value": version}]});
    let server = serve(move |_, path| match path {
        "/catalogs/red/api/v1/all" => (200, bundle.to_string()),
        _ => (404, String::new()),
    });
    let url = format!("http://{server}/catalogs/red");
    let answer = outcome(&mut program(["resolve", "--package", "kettle", "--from", &url]));
    let table = "BUNDLE     VERSION  CATALOG  IMAGE\nkettle.v3  3.0.0    red      i\n";
    assert_eq!(answer, (0, table.to_owned(), String::new()));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    for arguments in [&["range", "--requests", "-"][..], &["completion", "bash"]] {
        let mut command = program(arguments.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let mut input = child.stdin.take().unwrap();
        // The program may have ended before its second input.
        let _ = input.write_all(br#"{"range":"1","version":"1.0.0"}"#);
        drop(input);
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
    }
}
