//! P, U5 and U7 of the conformance cases, the sentences, and properties.

mod cases;
mod headline;
mod laws;

use serde_json::Value;

use super::*;
use crate::resolve::tests::*;

/// Explains without data about the cluster.
fn report<'a>(
    request: &'a Request,
    catalogs: &'a [Catalog<'a>],
    options: &'a Options,
) -> Report<'a> {
    static NOTHING_TOLD: std::sync::LazyLock<Environment> =
        std::sync::LazyLock::new(Environment::default);
    explain(request, catalogs, &NOTHING_TOLD, options, None)
}

/// Explains the resolution from one catalog; what that is made of is not freed.
fn of_one(request: Request, fixture: &Fixture) -> Report<'static> {
    report(Box::leak(Box::new(request)), one(fixture), &ANY)
}

fn json_of(report: &Report<'_>) -> Value {
    serde_json::to_value(report).unwrap()
}

/// Returns the violations of the schema in a report.
fn violations(report: &Report<'_>) -> Vec<String> {
    static SCHEMA: std::sync::LazyLock<jsonschema::Validator> = std::sync::LazyLock::new(|| {
        let schema = include_str!("../../../../docs/schemas/resolution.report.json");
        let schema = serde_json::from_str(schema).unwrap();
        jsonschema::draft202012::new(&schema).unwrap()
    });
    let mut value = json_of(report);
    value["schema"] = "olm.resolution.report".into();
    value["schemaVersion"] = 1.into();
    let violations = SCHEMA.iter_errors(&value);
    violations.map(|it| format!("{}: {it}", it.instance_path())).collect()
}

/// Returns the codes of the reasons about a bundle, by stage.
fn codes(report: &Report<'_>, bundle: &str) -> Vec<&'static str> {
    let bundle = report.bundles.iter().find(|it| it.name == bundle).unwrap();
    bundle.reasons.iter().map(|it| it.finding.code().as_str()).collect()
}
