//! `kubectl olm bundle show` and `kubectl olm bundle lint` as a user runs them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{olm, outcome, program};

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/testdata/bundle/sample")
}

/// Examines a bundle; returns exit code and findings.
fn lint(bundle: &Path) -> (i32, Value) {
    let (code, json, _) = olm(&["bundle", "lint", bundle.to_str().unwrap(), "-o", "json"]);
    (code, serde_json::from_str(&json).unwrap())
}

// catalogs.md 5.5
#[test]
fn images_that_need_a_signature_of_gnupg_are_refused_before_any_request() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.json");
    let rule = r#"{"type": "signedBy", "keyType": "GPGKeys", "keyPath": "/k"}"#;
    fs::write(&policy, format!("{{\"default\": [{rule}]}}")).unwrap();
    let image = "127.0.0.1:1/team/pot:v1";
    for arguments in [&["show", image][..], &["resolve", "--package=pot", "--from", image]] {
        let mut show = program(arguments.iter().copied());
        let (code, _, text) = outcome(show.env("CONTAINERS_POLICY_JSON", &policy));
        assert_ne!(code, 0, "{text}");
        let refused = format!("the policy for docker://{image} requires \"signedBy\"");
        assert!(text.contains(&refused), "{text}");
    }
}

// deploying.md 3.1
#[test]
fn a_file_with_credentials_that_a_flag_names_has_to_be_there() {
    let image = "127.0.0.1:1/team/pot:v1";
    let (code, _, text) = olm(&["show", image, "--auth-file", "/nowhere/auth.json"]);
    assert_eq!(code, 1);
    let missing = "error: reading /nowhere/auth.json: No such file or directory";
    assert!(text.starts_with(missing), "{text}");
}

/// Writes a bundle that depends on another package.
fn bundle(spec: &Value, others: &[Value]) -> tempfile::TempDir {
    let directory = super::bundle(spec, others);
    let dependencies =
        "dependencies: [{type: olm.package, value: {packageName: lid, version: '>1.0.0'}}]";
    fs::write(directory.path().join("metadata/dependencies.yaml"), dependencies).unwrap();
    directory
}

/// A bundle with everything that a description contains.
fn rich() -> tempfile::TempDir {
    let rule = |verbs: Value, resource: &str| json!({"apiGroups": [""], "resources": [resource], "verbs": verbs});
    let spec = json!({
        "displayName": "Pot", "version": "1.0.0", "provider": {"name": "Pots"},
        "minKubeVersion": "1.28.0",
        "installModes": [
            {"type": "OwnNamespace", "supported": true},
            {"type": "SingleNamespace", "supported": true},
        ],
        "install": {"spec": {
            "deployments": [{"name": "pot", "spec": {"template": {"spec":
                {"serviceAccountName": "elsewhere", "containers": [{"name": "pot"}]}}}}],
            "permissions": [{"serviceAccountName": "pot",
                "rules": [rule(json!(["get"]), "configmaps")]}],
            "clusterPermissions": [{"serviceAccountName": "pot",
                "rules": [rule(json!(["get", "list"]), "secrets"), rule(json!(["bind"]), "x")]}],
        }},
        "webhookdefinitions": [{"type": "ValidatingAdmissionWebhook", "generateName": "v.pot.io",
            "deploymentName": "pot", "admissionReviewVersions": ["v1"], "sideEffects": "None"}],
    });
    let monitor = json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
        "metadata": {"name": "pot"}});
    bundle(&spec, &[monitor])
}

// rendering.md 3.2
#[test]
fn show_describes_a_bundle_and_its_configuration() {
    let directory = rich();
    let path = directory.path().to_str().unwrap();
    let (code, text, notices) = olm(&["show", path, "-n", "kitchen"]);
    assert_eq!((code, notices.as_str()), (0, ""));
    insta::assert_snapshot!(text);
}

#[test]
fn show_prints_the_schema_alone_and_within_everything() {
    let directory = rich();
    let path = directory.path().to_str().unwrap();
    let (code, schema, _) = olm(&["show", path, "--schema"]);
    assert_eq!(code, 0);
    let schema: Value = serde_json::from_str(&schema).unwrap();
    assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
    assert_eq!(schema["required"], json!(["watchNamespace"]));
    let (code, whole, _) = olm(&["show", path, "-o", "json"]);
    assert_eq!(code, 0);
    let whole: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(whole["schema"], schema);
    assert_eq!(whole["installModes"], json!(["OwnNamespace", "SingleNamespace"]));
    let inline = &whole["example"]["spec"]["config"]["inline"];
    assert_eq!(inline["watchNamespace"], "pot");
}

// plugin.md U5
#[test]
fn a_directory_that_is_called_like_a_package_is_the_directory() {
    let sample = sample();
    let (code, _, notes) =
        outcome(program(["show", "sample"]).current_dir(sample.parent().unwrap()));
    let note = "note: \"sample\" is the directory ./sample; the package is package:sample\n";
    assert_eq!((code, notes.as_str()), (0, note));
}

/// Writes a catalog of one package whose image is at a registry that is not there.
fn shop(folder: &Path) -> String {
    let text = r#"{schema: olm.package, name: pot, defaultChannel: stable}
---
{schema: olm.channel, package: pot, name: stable, entries: [{name: pot.v1.0.0}]}
---
{schema: olm.bundle, package: pot, name: pot.v1.0.0, image: "127.0.0.1:1/team/pot:v1",
  properties: [{type: olm.package, value: {packageName: pot, version: 1.0.0}}]}
---
schema: olm.deprecations
package: pot
entries:
- {reference: {schema: olm.package}, message: "Pots are over.\n  Take a pan.\n"}
- {reference: {schema: olm.bundle, name: pot.v1.0.0}, message: "It\nleaks"}
"#;
    let path = folder.join("shop.yaml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

// plugin.md U13, U26
#[test]
fn what_a_catalog_says_is_shown_when_the_image_cannot_be_pulled() {
    let folder = tempfile::tempdir().unwrap();
    let shop = shop(folder.path());
    let (code, text, notices) = olm(&["show", "pot@1.0.0", "--from", &shop]);
    assert_eq!(code, 0, "{notices}");
    assert!(notices.contains("\nnote: configuration not shown: "), "{notices}");
    insta::assert_snapshot!(text, @r"
    Package     pot
    Catalog     shop.yaml
    Deprecated  Pots are over.
                  Take a pan.
    Channels    stable (default): head 1.0.0, entries: 1
    Bundles     1.0.0 in stable; deprecated: It
                  leaks
    ");
    let (code, json, _) = olm(&["show", "pot", "-o", "json", "--from", &shop]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &json["package"]), (0, &json!("pot")));
    assert_eq!(json["unknown"][0]["what"], "configuration");
    let (code, text, notices) = olm(&["show", "pot", "--schema", "--from", &shop]);
    assert_eq!((code, text.as_str()), (3, ""));
    assert!(notices.contains("\nerror: configuration not known: "), "{notices}");
    let (_, text, _) = olm(&["graph", "pot", "--from", &shop]);
    assert!(text.contains("\n  deprecated: Pots are over.\n    Take a pan.\n"), "{text}");
    let (_, json, _) = olm(&["search", "-o", "json", "--from", &shop]);
    let json: Value = serde_json::from_str(&json).unwrap();
    let deprecated = &json["packages"][0]["deprecated"];
    assert_eq!(deprecated[0]["message"], "Pots are over.\n  Take a pan.\n");
    // Nothing but errors is said.
    let quiet = olm(&["show", "pot", "-q", "--from", &shop]);
    assert_eq!((quiet.0, quiet.2.as_str()), (0, ""));
}

// plugin.md U14
#[test]
fn the_version_of_openshift_is_shown_as_it_is_written() {
    for written in ["4.20", "\"4.20\""] {
        let directory = rich();
        let properties =
            format!("properties: [{{type: olm.maxOpenShiftVersion, value: {written}}}]");
        fs::write(directory.path().join("metadata/properties.yaml"), properties).unwrap();
        let path = directory.path().to_str().unwrap();
        let (code, text, _) = olm(&["show", path]);
        assert_eq!(code, 0);
        assert!(text.contains("at most 4.20\n"), "{text}");
        let (_, json, _) = olm(&["show", path, "-o", "json"]);
        assert!(json.contains("\"maxOpenShiftVersion\": \"4.20\""), "{json}");
    }
}

// `bundle render` accepts the example.
#[test]
fn the_example_that_show_prints_renders() {
    let directory = rich();
    let path = directory.path().to_str().unwrap();
    let (_, whole, _) = olm(&["show", path, "-o", "json", "-n", "kitchen"]);
    let whole: Value = serde_json::from_str(&whole).unwrap();
    let config = directory.path().join("config.json");
    fs::write(&config, whole["example"]["spec"]["config"]["inline"].to_string()).unwrap();
    let config = config.to_str().unwrap();
    let (code, out, notices) =
        olm(&["bundle", "render", path, "-n", "kitchen", "--config", config]);
    assert_eq!(code, 0, "{notices}");
    assert!(out.contains("proxy.example.com"), "{out}");
}

#[test]
fn lint_of_a_sound_bundle_says_what_it_needs() {
    let directory = rich();
    let path = directory.path().to_str().unwrap();
    let (code, text, notices) = olm(&["bundle", "lint", path]);
    assert_eq!((code, notices.as_str()), (0, ""), "{text}");
    insta::assert_snapshot!(text);
    let (code, report) = lint(directory.path());
    assert_eq!((code, &report["findings"]), (0, &json!([])));
    let description = &report["description"];
    assert_eq!(description["minKubeVersion"], "1.28.0");
    assert_eq!(description["watchNamespace"], "required");
    assert_eq!(description["constraints"][0]["type"], "olm.package.required");
    assert_eq!(description["kinds"][0]["optional"], true);
    assert_eq!(description["accounts"]["pot"]["strong"], json!(["bind", "reads every Secret"]));
    assert_eq!(olm(&["bundle", "lint", sample().to_str().unwrap()]).0, 0);
}

// rendering.md 5: every finding, in the order of the validators
#[test]
fn lint_reports_every_finding_and_fails() {
    let spec = json!({
        "version": "1.0.0",
        "installModes": [{"type": "MultiNamespace", "supported": true}],
        "install": {"spec": {"deployments": [{"name": "A"}, {"name": "d"}, {"name": "d"}]}},
    });
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}});
    let (code, report) = lint(bundle(&spec, &[job]).path());
    assert_eq!(code, 1);
    let findings = report["findings"].as_array().unwrap();
    let starts = [
        "unsupported bundle: bundle must support at least one of",
        "cluster service version contains duplicate strategy deployment spec 'd'",
        "invalid cluster service version strategy deployment name 'A': ",
        "unsupported resource \"j\" with kind \"Job\"",
    ];
    assert_eq!(findings.len(), starts.len(), "{findings:?}");
    for (finding, start) in findings.iter().zip(starts) {
        assert!(finding.as_str().unwrap().starts_with(start), "{finding}");
    }
}

// plugin.md 2.1
#[test]
fn lint_says_what_catalogs_and_api_servers_refuse() {
    let spec = json!({
        "version": "v1.1.1-57",
        "installModes": [{"type": "AllNamespaces", "supported": true}],
        "install": {"spec": {"deployments": [{"name": "pot"}]}},
        "webhookdefinitions": [{"type": "ValidatingAdmissionWebhook", "generateName": "v.pot.io",
            "deploymentName": "pot", "admissionReviewVersions": ["v1"], "sideEffects": "Some"}],
    });
    let budget = json!({"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "pot"}});
    let (code, report) = lint(bundle(&spec, &[budget]).path());
    assert_eq!(code, 1);
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 3, "{findings:?}");
    for want in ["policy/v1beta1", "sideEffects", "v1.1.1-57"] {
        assert!(findings.iter().any(|it| it.as_str().unwrap().contains(want)), "{findings:?}");
    }
}

// Errors that only rendering finds, and a bundle that cannot be loaded
#[test]
fn lint_finds_what_validators_cannot() {
    let spec = json!({"installModes": [{"type": "AllNamespaces", "supported": true}]});
    let map = |data: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"},
            "data": {"a": data}})
    };
    let twice = bundle(&spec, &[map("1"), map("2")]);
    let (code, text, _) = olm(&["bundle", "lint", twice.path().to_str().unwrap()]);
    assert_eq!(code, 1);
    let want = "bundle contains two different objects of kind ConfigMap named";
    assert!(text.contains(want), "{text}");

    let empty = tempfile::tempdir().unwrap();
    let (code, text, _) = olm(&["bundle", "lint", empty.path().to_str().unwrap()]);
    assert_eq!(code, 1);
    assert_eq!(text, "Findings  open metadata/annotations.yaml: no such file or directory\n");
}

#[test]
fn a_bundle_of_a_catalog_needs_a_catalog() {
    assert_eq!(olm(&["bundle", "render", "-n", "ops"]).0, 2);
    let arguments = ["bundle", "render", "-n", "ops", "nothing@1", "--from", "catalog"];
    let (code, _, notices) = olm(&arguments);
    assert_eq!(code, 1);
    assert!(notices.contains("nothing"), "{notices}");
}
