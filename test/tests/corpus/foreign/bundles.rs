//! What the static validators find in a bundle.

use olm_core::bundle::{Bundle, Files, validate};
use olm_core::error::Chain;
use olm_test::paths;
use serde_json::{Value, json};

use super::table::{Table, rows_of, text, texts};

// rendering.md section 5
#[test]
fn validators_find_what_upstream_finds() {
    let mut table = Table::new("bundle.jsonl, validate");
    for row in rows_of("bundle.jsonl", "validate") {
        table.judge(&row, compare(&row));
    }
    table.conclude(55);
}

/// Compares the findings of the validator that the row is about; all of ours run together.
fn compare(row: &Value) -> Result<(), String> {
    let bundle = Bundle::from_files(&files(row)).map_err(|error| Chain(&error).to_string())?;
    let mut findings = validate(&bundle).map_or_else(|error| error.findings, |()| Vec::new());
    let marks = paths::yaml("test/tests/corpus/foreign/validators.yaml");
    let mark = text(&marks, text(row, "validator"));
    findings.retain(|finding| finding.contains(mark));
    if findings == texts(row, "errors") { Ok(()) } else { Err(findings.join("\n")) }
}

/// The parts of a row as the files of a bundle.
fn files(row: &Value) -> Files {
    let named = |key: &str| -> Value {
        let names = texts(&row["csv"], key).into_iter();
        names.map(|name| json!({"name": name})).collect()
    };
    let modes = texts(&row["csv"], "installModes").into_iter();
    let modes: Value = modes.map(|mode| json!({"type": mode, "supported": true})).collect();
    let package = "operators.operatorframework.io.bundle.package.v1";
    let mut files = vec![
        (
            "metadata/annotations.yaml".to_owned(),
            json!({"annotations": {package: row["packageName"]}}),
        ),
        (
            "manifests/csv.yaml".to_owned(),
            json!({
                "apiVersion": "operators.coreos.com/v1alpha1",
                "kind": "ClusterServiceVersion",
                "metadata": {"name": "kettle.v1"},
                "spec": {
                    "installModes": modes,
                    "install": {"spec": {"deployments": named("deployments")}},
                    "customresourcedefinitions": {"owned": named("ownedCRDs")},
                    "webhookdefinitions": row["csv"]["webhookdefinitions"],
                },
            }),
        ),
    ];
    let crds = texts(row, "crds").into_iter().map(|name| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name}})
    });
    let others = row["others"].as_array().into_iter().flatten().map(other);
    files.extend(
        (crds.chain(others).enumerate())
            .map(|(index, object)| (format!("manifests/object-{index}.yaml"), object)),
    );
    files.into_iter().map(|(path, content)| (path, content.to_string().into_bytes())).collect()
}

/// A manifest of a row, of which only the names are known.
fn other(row: &Value) -> Value {
    let version = text(row, "version");
    let api_version = match text(row, "group") {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    };
    json!({"apiVersion": api_version, "kind": text(row, "kind"),
        "metadata": {"name": text(row, "name")}})
}
