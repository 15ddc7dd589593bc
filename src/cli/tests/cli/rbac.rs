//! `kubectl olm rbac` as a user runs it, on the sample bundles of the demo.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const ONE: &str = "hack/demo/bundles/lamp-operator/1.0.0";
const TWO: &str = "hack/demo/bundles/lamp-operator/1.1.0";

fn rbac(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kubectl-olm"))
        .arg("rbac")
        .args(args)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .unwrap()
}

fn stdout(args: &[&str]) -> String {
    let output = rbac(args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(errors, "");
    String::from_utf8(output.stdout).unwrap()
}

fn failure(args: &[&str]) -> (Option<i32>, String) {
    let output = rbac(args);
    assert!(output.stdout.is_empty());
    let errors = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), errors)
}

#[test]
fn rights_for_a_chain_are_printed_as_yaml() {
    let account = ["-n", "lamps", "--service-account", "installer"];
    insta::assert_snapshot!(stdout(&[&[ONE, TWO][..], &account].concat()));
}

// deploying.md 6.1
#[test]
fn people_who_may_use_the_account_come_last() {
    let account = ["-n", "lamps", "--service-account", "installer"];
    let alone = stdout(&[&[ONE][..], &account].concat());
    let people = ["--for-user", "dana", "--for-group", "oidc:ops/lamps"];
    let both = stdout(&[&[ONE][..], &account, &people].concat());
    let rest = both.strip_prefix(&alone).unwrap();
    insta::assert_snapshot!(rest);
    let (code, text) = failure(&[&[ONE, "--for-user", ""][..], &account].concat());
    assert_eq!(code, Some(2));
    assert_eq!(text, "error: --for-user and --for-group take a name\n");
}

// deploying.md 6.4
#[test]
fn the_controller_gets_a_role_on_the_account_where_it_is_asked_for() {
    let account = ["-n", "lamps", "--service-account", "installer", ONE];
    let alone = stdout(&account);
    let added = |flag| {
        let both = stdout(&[&account[..], &[flag]].concat());
        both.strip_prefix(&alone).unwrap().to_owned()
    };
    let own = added("--controller-role");
    assert!(own.contains("- impersonate\n"), "{own}");
    let subject = |controller: &str, namespace: &str| {
        format!("- kind: ServiceAccount\n  name: {controller}\n  namespace: {namespace}\n")
    };
    let name = "operator-controller-controller-manager";
    assert!(own.ends_with(&subject(name, "olmv1-system")), "{own}");
    let other = added("--controller-role=elsewhere/olm");
    assert!(other.ends_with(&subject("olm", "elsewhere")), "{other}");
    let (code, text) = failure(&[&account[..], &["--controller-role=olm"]].concat());
    assert_eq!(code, Some(2));
    assert!(text.contains("expected <namespace>/<name>"), "{text}");
}

#[test]
fn order_of_bundles_does_not_matter() {
    let account = ["-n", "lamps", "--service-account", "installer"];
    assert_eq!(
        stdout(&[&[ONE, TWO][..], &account].concat()),
        stdout(&[&[TWO, ONE][..], &account].concat())
    );
}

#[test]
fn json_is_one_list_without_namespace() {
    let account = ["-n", "lamps", "--service-account", "installer", "-o", "json"];
    let text = stdout(&[&[ONE][..], &account].concat());
    let list: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&list["apiVersion"], &list["kind"]), (&"v1".into(), &"List".into()));
    let items = list["items"].as_array().unwrap();
    assert_eq!(items[0]["kind"], "ServiceAccount");
    assert!(items.iter().all(|item| item["kind"] != "Namespace"));
}

#[test]
fn stronger_options_warn_on_stderr() {
    let account = ["-n", "lamps", "--service-account", "installer"];
    let output = rbac(&[&[ONE, "--use-bind-escalate"][..], &account].concat());
    assert!(output.status.success());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.starts_with("warning: `escalate` lets the account"), "{errors}");
}

#[test]
fn missing_flags_are_wrong_usage() {
    let (code, text) = failure(&[ONE, "--service-account", "installer"]);
    assert_eq!(code, Some(2));
    assert_eq!(text, "error: a namespace is required: -n NAMESPACE\n");
    assert_eq!(failure(&[ONE, "-n", "lamps"]).0, Some(2));
    assert_eq!(failure(&["-n", "lamps", "--service-account", "a"]).0, Some(2));
    let (code, text) = failure(&[ONE, "-n", "lamps", "--service-account", ""]);
    assert_eq!(code, Some(2));
    assert_eq!(text, "error: a service account is required: --service-account NAME\n");
}

// plugin.md 1.4
#[test]
fn what_needs_an_extension_or_a_cluster_says_so() {
    let account = ["-n", "lamps", "--service-account", "installer"];
    for flags in [&["--diff"][..], &["--for-upgrade-to", "2.x"]] {
        let (code, text) = failure(&[&[ONE][..], &account, flags].concat());
        assert_eq!(code, Some(2));
        assert_eq!(text, "error: --diff and --for-upgrade-to take an extension\n");
    }
    for flags in [&["--check", "--missing"][..], &["--yes"]] {
        assert_eq!(failure(&[&[ONE][..], &account, flags].concat()).0, Some(2));
    }
    let nowhere = ["--kubeconfig", "/does/not/exist"];
    let (code, text) = failure(&[&["quay"][..], &nowhere].concat());
    assert_eq!(code, Some(3));
    assert!(text.contains("--kubeconfig /does/not/exist"), "{text}");
}

#[test]
fn refused_bundle_is_named() {
    let source = "hack/demo/crds";
    let (code, text) = failure(&[source, "-n", "lamps", "--service-account", "installer"]);
    assert_eq!(code, Some(1));
    assert_eq!(
        text,
        "error: hack/demo/crds: open metadata/annotations.yaml: no such file or directory\n"
    );
}

/// Writes a bundle with a webhook into a folder.
fn hooked() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    fs::create_dir(root.join("manifests")).unwrap();
    fs::create_dir(root.join("metadata")).unwrap();
    let annotations = "annotations: {operators.operatorframework.io.bundle.package.v1: pot}";
    fs::write(root.join("metadata/annotations.yaml"), annotations).unwrap();
    let csv = "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\n\
        metadata: {name: pot.v1}\nspec:\n  installModes: [{type: AllNamespaces, supported: true}]\n  \
        install: {spec: {deployments: [{name: pot}]}}\n  \
        webhookdefinitions: [{type: ValidatingAdmissionWebhook, generateName: v.example.com, \
        deploymentName: pot}]\n";
    fs::write(root.join("manifests/csv.yaml"), csv).unwrap();
    directory
}

// rendering.md 4.11: the account writes what the source of certificates needs
#[test]
fn rights_for_certificates_follow_their_source() {
    let bundle = hooked();
    let granted = |flags: &[&str]| {
        let account = ["-n", "ops", "--service-account", "installer"];
        let bundle = [bundle.path().to_str().unwrap()];
        let text = stdout(&[&bundle, &account[..], flags].concat());
        ["secrets", "certificates", "issuers"].map(|plural| text.contains(&format!("- {plural}\n")))
    };
    assert_eq!(granted(&[]), [true, true, true], "the controller may choose any");
    let source = |name| granted(&["--webhook-certificates", name]);
    assert_eq!(source("self-signed"), [true, false, false]);
    assert_eq!(source("cert-manager"), [false, true, true]);
    assert_eq!(source("service-ca"), [false, false, false]);
    assert_eq!(source("none"), [false, false, false]);
}
