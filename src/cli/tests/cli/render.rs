//! `kubectl olm bundle render` as a user runs it: exit code, stdout, stderr.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{bundle, olm};

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/testdata/bundle/sample")
}

/// Runs `bundle render` on a bundle and returns exit code, stdout and stderr.
fn render(bundle: &Path, flags: &[&str]) -> (i32, String, String) {
    olm(&[&["bundle", "render", bundle.to_str().unwrap()], flags].concat())
}

#[test]
fn yaml_and_json_hold_the_same_objects() {
    let (code, yaml, notices) = render(&sample(), &["-n", "ops"]);
    assert_eq!(code, 0, "{notices}");
    assert!(notices.starts_with("warning: ClusterRoleBinding \"kettle-foreign\""), "{notices}");
    assert!(yaml.starts_with("---\n"), "{yaml}");
    let documents = olm_core::yaml::to_json(&yaml).unwrap();

    let (code, json, _) = render(&sample(), &["-n", "ops", "-o", "json"]);
    assert_eq!(code, 0);
    let list: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(list["apiVersion"], "v1");
    assert_eq!(list["kind"], "List");
    assert_eq!(list["items"], Value::Array(documents));
    assert!(list["items"].as_array().unwrap().len() > 10);
}

// rendering.md section 2, 3.3
#[test]
fn what_is_not_supported_is_refused_with_its_text() {
    let mode = |name: &str| json!([{"type": name, "supported": true}]);
    let hooked = json!({"installModes": mode("AllNamespaces"),
        "webhookdefinitions": [{"generateName": "w"}]});
    let hooked = bundle(&hooked, &[]);
    let own = bundle(&json!({"installModes": mode("OwnNamespace")}), &[]);
    let (hooked, own) = (hooked.path(), own.path());
    let cases: [(&Path, &[&str], &str); 5] = [
        (
            hooked,
            &["--webhook-certificates", "cert-manager"],
            "webhook of type '' with name 'w' references non-existent deployment ''",
        ),
        (
            own,
            &[],
            "invalid ClusterExtension configuration: invalid configuration: required field \
             \"watchNamespace\" is missing",
        ),
        (
            own,
            &["--watch-namespace", "dev"],
            "invalid ClusterExtension configuration: invalid configuration: invalid format for \
             field \"watchNamespace\": 'dev' is not valid ownNamespaceInstallMode: invalid value \
             \"dev\": must be \"ops\"",
        ),
        (
            &sample(),
            &["--watch-namespace", "dev"],
            "invalid ClusterExtension configuration: invalid configuration: unknown field \
             \"watchNamespace\"",
        ),
        (
            Path::new("Not A Reference"),
            &[],
            "\"Not A Reference\" is neither a directory nor an image reference: ",
        ),
    ];
    for (bundle, flags, want) in cases {
        let flags = [&["-n", "ops"], flags].concat();
        let (code, out, notices) = render(bundle, &flags);
        assert_eq!((code, out.as_str()), (1, ""), "{flags:?}");
        assert!(notices.starts_with(&format!("error: {want}")), "{notices}");
    }
}

#[test]
fn the_configuration_is_read_from_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.yaml");
    let path = file.to_str().unwrap();
    let run = |content: &str, flags: &[&str]| {
        fs::write(&file, content).unwrap();
        render(&sample(), &[&["-n", "ops", "--config", path], flags].concat())
    };
    assert_eq!(run("{}", &[]).0, 0);
    assert_eq!(run("", &[]).0, 0);
    let (code, _, notices) =
        run("deploymentConfig: {selector: {}}\n", &["--role-placement", "targets-only"]);
    assert_eq!(code, 1);
    assert_eq!(
        notices,
        "error: invalid ClusterExtension configuration: invalid configuration: unknown field \
         \"selector\"\n"
    );
    let (code, _, notices) = run("a: [", &[]);
    assert_eq!(code, 1);
    let want = "error: invalid ClusterExtension configuration: invalid configuration: yaml: line";
    assert!(notices.starts_with(want), "{notices}");
    assert_eq!(run("watchNamespace: a", &["--watch-namespace", "b"]).0, 2);
    assert_eq!(run("a: 1\n---\nb: 2", &[]).0, 2);
}

#[test]
fn wrong_usage_exits_with_two() {
    let (code, out, notices) = render(&sample(), &[]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert_eq!(notices, "error: a namespace is required: -n NAMESPACE\n");
    assert_eq!(render(&sample(), &["-n", "ops", "-o", "table"]).0, 2);
    assert_eq!(render(&sample(), &["-n", "ops", "--role-placement", "x"]).0, 2);
}

// rendering.md 4.11: what the controller adds at run time is mentioned, not invented
#[test]
fn the_certificate_of_the_controller_is_announced() {
    let template = json!({"spec": {"containers": [{"name": "c"}]}});
    let hooked = bundle(
        &json!({"installModes": [{"type": "AllNamespaces", "supported": true}],
            "install": {"spec": {"deployments": [{"name": "pot", "spec": {"template": template}}]}},
            "webhookdefinitions": [{"type": "ValidatingAdmissionWebhook",
                "generateName": "v.example.com", "deploymentName": "pot"}]}),
        &[],
    );
    let flags = ["-n", "ops", "--webhook-certificates", "self-signed"];
    let (code, out, notices) = render(hooked.path(), &flags);
    assert_eq!(code, 0, "{notices}");
    assert!(out.contains("secretName: pot-service-cert"), "{out}");
    assert!(!out.contains("caBundle") && !out.contains("kind: Secret"), "{out}");
    assert_eq!(
        notices,
        "the controller adds Secret ops/pot-service-cert and, where it is called from, `caBundle`\n"
    );
}
