//! How the cluster is reached, as kubectl reaches it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::{kubeconfig, outcome, program};

/// Writes a kubeconfig with a cluster and a user into a folder, and returns its path.
fn written(folder: &Path, cluster: &Value, user: &Value) -> String {
    let path = kubeconfig(folder, "");
    let mut config: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    config["clusters"][0]["cluster"] = cluster.clone();
    config["users"][0]["user"] = user.clone();
    fs::write(&path, config.to_string()).unwrap();
    path
}

fn status(kubeconfig: &str) -> Command {
    let mut command = program(["status", "--kubeconfig", kubeconfig]);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command.stdin(Stdio::null());
    command
}

/// Runs a command until it connects, and returns what is read from the connection, or else its errors.
fn reached<T>(
    command: &mut Command,
    server: &TcpListener,
    read: impl FnOnce(TcpStream) -> T,
) -> Result<T, String> {
    server.set_nonblocking(true).unwrap();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    loop {
        let has_ended = child.try_wait().unwrap().is_some();
        if let Ok((connection, _)) = server.accept() {
            let read = read(connection);
            child.kill().unwrap();
            child.wait().unwrap();
            return Ok(read);
        }
        if has_ended {
            let output = child.wait_with_output().unwrap();
            return Err(String::from_utf8(output.stderr).unwrap());
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Reads the head of a request in small letters.
fn head(connection: TcpStream) -> Vec<String> {
    let lines = BufReader::new(connection).lines().map(|line| line.unwrap().to_lowercase());
    lines.take_while(|line| !line.is_empty()).collect()
}

fn listener() -> (TcpListener, String) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap().to_string();
    (server, address)
}

#[test]
fn entries_of_no_proxy_that_say_nothing_are_skipped() {
    let (server, address) = listener();
    let folder = tempfile::tempdir().unwrap();
    let config = kubeconfig(folder.path(), address);
    for except in [
        "localhost,.corp,",
        ".svc,,10.0.0.0/8",
        "/var/run/docker.sock",
        "<local>",
        "a b",
        "169.254/16",
        "10.0.0.0/255.0.0.0",
    ] {
        let mut command = status(&config);
        command.env("NO_PROXY", except).env("HTTP_PROXY", "http://127.0.0.1:1");
        command.env("HTTPS_PROXY", "http://127.0.0.1:1");
        let head = reached(&mut command, &server, head);
        assert!(head.is_ok_and(|head| head[0].starts_with("get /apis/")), "{except}");
    }
}

#[test]
fn a_server_without_a_scheme_is_http() {
    let (server, address) = listener();
    let folder = tempfile::tempdir().unwrap();
    for more in [json!({}), json!({"insecure-skip-tls-verify": true})] {
        let mut cluster = more;
        cluster["server"] = address.clone().into();
        let config = written(folder.path(), &cluster, &json!({}));
        let head = reached(&mut status(&config), &server, head);
        assert!(head.is_ok_and(|head| head[0].starts_with("get /apis/")), "{cluster}");
    }
    for wrong in ["unix:///tmp/x.sock", "ftp://127.0.0.1:1", "http://a b"] {
        let config = written(folder.path(), &json!({"server": wrong}), &json!({}));
        let (code, _, errors) = outcome(&mut status(&config));
        assert!(errors.contains("server of cluster \"c\" is neither"), "{wrong}: {errors}");
        assert_eq!(code, 3, "{wrong}");
    }
}

#[test]
fn no_credentials_are_sent_over_plain_http() {
    let (server, address) = listener();
    let folder = tempfile::tempdir().unwrap();
    let cluster = json!({"server": format!("http://{address}")});
    for user in [
        json!({"token": "SECRET", "as": "jane"}),
        json!({"username": "a", "password": "SECRET", "as": "jane"}),
        json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/nonexistent"},
            "as": "jane"}),
    ] {
        let config = written(folder.path(), &cluster, &user);
        let head = reached(&mut status(&config), &server, head).unwrap();
        let is_secret = |line: &String| line.starts_with("authorization:");
        assert!(!head.iter().any(is_secret), "{head:?}");
        assert!(head.contains(&"impersonate-user: jane".to_owned()), "{head:?}");
    }
}

#[test]
fn a_socks_proxy_is_told_the_name_of_the_server() {
    let (proxy, address) = listener();
    let folder = tempfile::tempdir().unwrap();
    let config = kubeconfig(folder.path(), "api.invalid:6443");
    for scheme in ["socks5", "socks5h"] {
        let mut command = status(&config);
        command.env("HTTP_PROXY", format!("{scheme}://{address}"));
        let told = reached(&mut command, &proxy, |mut stream| {
            // RFC 1928: no authentication; then a domain with its length.
            stream.read_exact(&mut [0; 3]).unwrap();
            stream.write_all(&[5, 0]).unwrap();
            let mut told = [0; 16];
            stream.read_exact(&mut told).unwrap();
            told
        });
        assert_eq!(told.unwrap(), *b"\x05\x01\x00\x03\x0bapi.invalid", "{scheme}");
    }
}

// ARCHITECTURE.md, invariant 8
#[test]
fn no_error_shows_what_a_kubeconfig_holds() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = json!({"server": "https://127.0.0.1:1"});
    let exec = |script: &str| {
        let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "sh",
            "args": ["-c", script, "SECRET"], "interactiveMode": "Never",
            "env": [{"name": "PASSWORD", "value": "SECRET"}]});
        written(folder.path(), &cluster, &json!({"exec": exec}))
    };
    let shown = |config: &str, want: &str| {
        let (code, out, errors) = outcome(&mut status(config));
        assert_eq!((code, &*out), (3, ""), "{errors}");
        assert!(errors.contains(want), "{errors}");
        assert!(!errors.contains("SECRET"), "{errors}");
    };
    let said = r#"credential plugin "sh" failed with exit code 3: log in first"#;
    shown(&exec("echo SECRET; echo log in first >&2; exit 3"), said);
    shown(&exec("echo token=SECRET"), r#"credential plugin "sh" did not print an ExecCredential"#);
    // The client asks twice before the first request, for a token and for a certificate.
    let asked = folder.path().join("asked");
    let old = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": {"token": "SECRET", "expirationTimestamp": "2020-01-01T00:00:00Z"}});
    let again = format!(
        "echo >> {0}; if [ $(wc -l < {0}) -gt 2 ]; then echo log in first >&2; exit 3; fi; \
         echo '{old}'",
        asked.display()
    );
    shown(&exec(&again), said);

    let missing = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1",
        "command": "nonesuch-login", "installHint": "see https://example.com", "args": ["SECRET"]}});
    let missing = written(folder.path(), &cluster, &missing);
    let said = r#"credential plugin "nonesuch-login" is not installed: see https://example.com"#;
    shown(&missing, said);

    let path = folder.path().join("broken");
    let wrong_type = "users:\n- name: u\n  user:\n    token: SECRET\n    exec: [SECRET]\n";
    let wrong_indentation = "users:\n- name: u\n  user:\n    token: SECRET\n   password: x\n";
    for (text, place) in [(wrong_type, "line 5, column 1"), (wrong_indentation, "line 5, column ")]
    {
        fs::write(&path, text).unwrap();
        let said = format!("{path:?} is not a kubeconfig: {place}");
        shown(path.to_str().unwrap(), &said);
    }
    let proxied = json!({"server": "https://a.invalid", "proxy-url": "ftp://u:SECRET@x:1"});
    let proxied = written(folder.path(), &proxied, &json!({}));
    shown(&proxied, "proxy-url in the kubeconfig is not the URL of a proxy");
}

#[test]
fn a_kubeconfig_without_a_current_context_is_the_same_wherever_it_is() {
    let (server, address) = listener();
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join(".kube")).unwrap();
    let path = kubeconfig(&folder.path().join(".kube"), &address);
    let text = fs::read_to_string(&path).unwrap();
    let unset = text.replace(r#""current-context":"c""#, r#""current-context":"""#);
    assert_ne!(unset, text);
    fs::write(&path, unset).unwrap();
    let said =
        "error: no cluster: current-context is not set: kubectl config use-context NAME sets it";
    let mut listed = program(["status"]);
    listed.env("KUBECONFIG", &path);
    let mut at_home = program(["status"]);
    at_home.env_remove("KUBECONFIG").env("HOME", folder.path());
    for mut command in [status(&path), listed, at_home] {
        command.env_remove("KUBERNETES_SERVICE_HOST");
        let (code, _, errors) = outcome(&mut command);
        assert_eq!((code, errors.lines().next()), (3, Some(said)));
    }
    let mut named = status(&path);
    named.args(["--cluster", "c", "--user", "u"]);
    assert!(reached(&mut named, &server, head).is_ok());
    for (what, other) in [("user", "cluster"), ("cluster", "user"), ("context", "user")] {
        let mut absent = status(&path);
        absent.args([format!("--{what}=absent"), format!("--{other}={}", &other[..1])]);
        let (code, _, errors) = outcome(&mut absent);
        let said = format!(
            "error: no cluster: the kubeconfig has no {what} \"absent\"\n\
             hint: kubectl config get-{what}s lists those that it has\n"
        );
        assert_eq!((code, errors), (3, said));
    }
}

// install.md
#[test]
fn a_variable_that_names_no_proxy_is_said() {
    for (name, value) in [("HTTP_PROXY", "ftp://user:SECRET@x:1"), ("HTTPS_PROXY", "http://a b")] {
        let mut command = program(["search", "--from", "http://127.0.0.1:1/c"]);
        let (code, _, errors) = outcome(command.env(name, value).stdin(Stdio::null()));
        assert_eq!(code, 3, "{errors}");
        assert!(errors.contains(&format!("{name} is not the URL of a proxy")), "{errors}");
        assert!(!errors.contains("SECRET"), "{errors}");
    }
}
