//! Text of others on a terminal (plugin.md U12): conditions, Events, refusals and catalogs that try to
//! command it.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{kubeconfig, outcome, program, serve};

/// Clears the screen, sets the title, and does so in one character.
const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\u{1}\u{8}";
/// How that is shown.
const SHOWN: &str = "\\u001b[2J\\u001b]0;owned\\u0007\\u009b31m\\u000d\\u0001\\u0008";

fn extension() -> Value {
    let condition = |type_: &str| {
        json!({"type": type_, "status": "False", "reason": "Retrying", "message": HOSTILE,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
        "metadata": {"name": "e", "uid": "u", "resourceVersion": "1"},
        "spec": {"namespace": "n", "serviceAccount": {"name": "a"},
            "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}},
        "status": {
            "conditions": [condition("Ready"), condition("Progressing"), condition("Installed")],
            "install": {"bundle": {"name": "p.v1", "version": "1.0.0"}},
            "update": {"version": "2.0.0", "newest": "2.0.0", "catalog": "c",
                "reason": "NextMajorHeld", "message": HOSTILE},
        },
    })
}

/// Answers as an API server of which somebody may read one extension, its Events and its revisions, of
/// which there are none, and nothing else.
fn answer(method: &str, path: &str) -> (u16, String) {
    let path = path.split('?').next().unwrap_or_default();
    let list = |items: Vec<Value>| {
        let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"},
            "items": items});
        (200, list.to_string())
    };
    if method == "GET" && path.ends_with("/clusterextensions/e") {
        return (200, extension().to_string());
    }
    if method == "GET" && path.ends_with("/clusterextensions") {
        return list(vec![extension()]);
    }
    if method == "GET" && path.ends_with("/clusterobjectsets") {
        return list(Vec::new());
    }
    if method == "GET" && path.ends_with("/events") {
        let event = json!({"metadata": {}, "involvedObject": {}, "reason": HOSTILE,
            "message": HOSTILE, "type": "Warning"});
        return list(vec![event]);
    }
    let refusal = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": "Forbidden", "code": 403, "message": format!("webhook says {HOSTILE}")});
    (403, refusal.to_string())
}

fn olm(kubeconfig: &str, arguments: &[&str]) -> (String, String) {
    let mut command = program(arguments.iter().copied());
    command.env("KUBECONFIG", kubeconfig).env("HOME", "/nonexistent").stdin(Stdio::null());
    let (_, out, errors) = outcome(&mut command);
    (out, errors)
}

fn commands(text: &str) -> Vec<char> {
    text.chars().filter(|it| it.is_control() && !matches!(it, '\n' | '\t')).collect()
}

// plugin.md U12
#[test]
fn no_verb_lets_text_of_the_cluster_command_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = kubeconfig(folder.path(), serve(answer));
    for verb in include_str!("verbs.txt").lines() {
        let arguments: Vec<_> = verb.split(' ').collect();
        let (out, errors) = olm(&kubeconfig, &arguments);
        assert!(commands(&out).is_empty(), "{verb}: {out}");
        assert!(commands(&errors).is_empty(), "{verb}: {errors}");
    }
    let (sheet, errors) = olm(&kubeconfig, &["status", "e"]);
    let why = sheet.lines().find(|line| line.starts_with("Why"));
    assert!(why.is_some_and(|line| line.ends_with(SHOWN)), "{sheet}{errors}");
    let (document, errors) = olm(&kubeconfig, &["status", "e", "-o", "json"]);
    let document: Value = serde_json::from_str(&document).unwrap_or_else(|_| panic!("{errors}"));
    assert_eq!(document["extensions"][0]["ready"]["message"], HOSTILE);
}

// plugin.md U12
#[test]
fn a_terminal_gets_no_commands_either() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = folder.path().join("catalog.json");
    let name = format!("p.v1{HOSTILE}");
    let blobs = [
        json!({"schema": "olm.package", "name": "p", "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": "p", "name": "stable",
            "entries": [{"name": name}]}),
        json!({"schema": "olm.bundle", "package": "p", "name": name, "image": "r.io/p:1",
            "properties": [{"type": "olm.package",
                "value": {"packageName": "p", "version": "1.0.0"}}]}),
    ];
    let text: Vec<_> = blobs.iter().map(Value::to_string).collect();
    fs::write(&catalog, text.join("\n")).unwrap();
    let program = env!("CARGO_BIN_EXE_kubectl-olm");
    let line = format!("{program} why --package p --from {}", catalog.display());
    // Util-linux gives it a terminal.
    let shown = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains(&format!("p.v1{SHOWN} from catalog ")), "{shown:?}");
    assert!(commands(&shown.replace("\r\n", "")).is_empty(), "{shown:?}");
}
