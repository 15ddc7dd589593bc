//! `kubectl olm rbac` as a user runs it, on the sample bundles of the demo.

use std::fs;

use serde_json::{Value, json};

use super::{bundle, outcome, program};

const ONE: &str = "hack/demo/bundles/lamp-operator/1.0.0";
const TWO: &str = "hack/demo/bundles/lamp-operator/1.1.0";

/// The flags that name an account.
const ACCOUNT: [&str; 4] = ["-n", "lamps", "--service-account", "installer"];

fn rbac(args: &[&str]) -> (i32, String, String) {
    outcome(program(["rbac"]).args(args).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")))
}

fn stdout(args: &[&str]) -> String {
    let (code, text, errors) = rbac(args);
    assert_eq!((code, errors.as_str()), (0, ""));
    text
}

fn failure(args: &[&str]) -> (i32, String) {
    let (code, text, errors) = rbac(args);
    assert_eq!(text, "");
    (code, errors)
}

#[test]
fn rights_for_a_chain_are_printed_as_yaml() {
    insta::assert_snapshot!(stdout(&[&[ONE, TWO][..], &ACCOUNT].concat()));
}

// deploying.md 6.1
#[test]
fn people_who_may_use_the_account_come_last() {
    let alone = stdout(&[&[ONE][..], &ACCOUNT].concat());
    let people = ["--for-user", "dana", "--for-group", "oidc:ops/lamps"];
    let both = stdout(&[&[ONE][..], &ACCOUNT, &people].concat());
    insta::assert_snapshot!(both.strip_prefix(&alone).unwrap());
    let (code, text) = failure(&[&[ONE, "--for-user", ""][..], &ACCOUNT].concat());
    assert_eq!(code, 2);
    assert_eq!(text, "error: --for-user and --for-group need a name\n");
}

// deploying.md 6.4
#[test]
fn the_controller_gets_a_role_on_the_account_where_it_is_asked_for() {
    let account = [&ACCOUNT[..], &[ONE]].concat();
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
    assert_eq!(code, 2);
    assert!(text.contains("expected <namespace>/<name>"), "{text}");
}

// decision 49
#[test]
fn a_pull_secret_of_the_configuration_takes_rights_on_its_copy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    fs::write(&file, "deploymentConfig: {imagePullSecrets: [{name: registry}]}\n").unwrap();
    let account = [&ACCOUNT[..], &[ONE]].concat();
    let configured = [&account[..], &["--config", file.to_str().unwrap()]].concat();
    let named = |args: &[&str]| stdout(args).contains("- registry\n");
    assert!(named(&configured) && !named(&account));
}

#[test]
fn order_of_bundles_does_not_matter() {
    assert_eq!(
        stdout(&[&[ONE, TWO][..], &ACCOUNT].concat()),
        stdout(&[&[TWO, ONE][..], &ACCOUNT].concat())
    );
}

#[test]
fn json_is_one_list_without_namespace() {
    let text = stdout(&[&[ONE, "-o", "json"][..], &ACCOUNT].concat());
    let list: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&list["apiVersion"], &list["kind"]), (&"v1".into(), &"List".into()));
    let items = list["items"].as_array().unwrap();
    assert_eq!(items[0]["kind"], "ServiceAccount");
    assert!(items.iter().all(|item| item["kind"] != "Namespace"));
}

#[test]
fn stronger_options_warn_on_stderr() {
    let (code, _, errors) = rbac(&[&[ONE, "--use-bind-escalate"][..], &ACCOUNT].concat());
    assert_eq!(code, 0);
    assert!(errors.starts_with("warning: `escalate` lets the account"), "{errors}");
}

#[test]
fn missing_flags_are_wrong_usage() {
    let (code, text) = failure(&[ONE, "--service-account", "installer"]);
    assert_eq!(code, 2);
    assert_eq!(text, "error: a namespace is required: -n NAMESPACE\n");
    assert_eq!(failure(&[ONE, "-n", "lamps"]).0, 2);
    assert_eq!(failure(&["-n", "lamps", "--service-account", "a"]).0, 2);
    let (code, text) = failure(&[ONE, "-n", "lamps", "--service-account", ""]);
    assert_eq!(code, 2);
    assert_eq!(text, "error: a service account is required: --service-account NAME\n");
}

// plugin.md 1.4
#[test]
fn what_needs_an_extension_or_a_cluster_says_so() {
    for flags in [&["--diff"][..], &["--for-upgrade-to", "2.x"]] {
        let (code, text) = failure(&[&[ONE][..], &ACCOUNT, flags].concat());
        assert_eq!(code, 2);
        assert_eq!(text, "error: --diff and --for-upgrade-to need an extension\n");
    }
    for flags in [&["--check", "--missing"][..], &["--yes"]] {
        assert_eq!(failure(&[&[ONE][..], &ACCOUNT, flags].concat()).0, 2);
    }
    let nowhere = ["--kubeconfig", "/does/not/exist"];
    let (code, text) = failure(&[&["quay"][..], &nowhere].concat());
    assert_eq!(code, 3);
    assert!(text.contains("--kubeconfig /does/not/exist"), "{text}");
}

#[test]
fn refused_bundle_is_named() {
    let source = "hack/demo/crds";
    let (code, text) = failure(&[&[source][..], &ACCOUNT].concat());
    assert_eq!(code, 1);
    assert_eq!(
        text,
        "error: hack/demo/crds: open metadata/annotations.yaml: no such file or directory\n"
    );
}

// rendering.md 4.11: the account writes what the source of certificates needs
#[test]
fn rights_for_certificates_follow_their_source() {
    let bundle = bundle(
        &json!({"installModes": [{"type": "AllNamespaces", "supported": true}],
            "install": {"spec": {"deployments": [{"name": "pot"}]}},
            "webhookdefinitions": [{"type": "ValidatingAdmissionWebhook",
                "generateName": "v.example.com", "deploymentName": "pot"}]}),
        &[],
    );
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
