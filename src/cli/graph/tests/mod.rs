//! Pictures of small catalogs, and properties that hold for all of them.

mod formats;
mod hostile;
mod laws;
mod shape;

use std::collections::BTreeMap;

use olm_api::CatalogFilter;
use serde_json::{Value, json};

use super::*;
use olm_core::catalog::{Blob, Content};
use olm_core::resolve::{Catalog, Environment, Installed, Request, UpdatePolicy};

const FORMATS: [Format; 4] = [Format::Tree, Format::Mermaid, Format::Svg, Format::Html];

#[expect(clippy::needless_pass_by_value, reason = "callers write entries in place")]
fn channel(name: &str, entries: Value) -> Value {
    json!({"schema": "olm.channel", "package": "teapot", "name": name, "entries": entries})
}

fn bundle(name: &str, version: &str) -> Value {
    json!({
        "schema": "olm.bundle", "package": "teapot", "name": name, "image": name,
        "properties": [{"type": "olm.package", "value": {"version": version}}],
    })
}

/// Bundles called `teapot.v<version>`.
fn bundles(versions: &[&str]) -> Vec<Value> {
    let named = |version: &&str| bundle(&format!("teapot.v{version}"), version);
    versions.iter().map(named).collect()
}

/// A catalog with every feature: channels, skips, a range, deprecations, an entry without a bundle,
/// and a bundle that replaces one that does not exist.
fn teapot() -> Vec<Value> {
    let mut blobs = bundles(&["1.0.0", "1.0.1", "1.1.1", "1.2.0", "2.0.0"]);
    blobs.push(json!({"schema": "olm.package", "name": "teapot", "defaultChannel": "stable"}));
    blobs.push(channel(
        "stable",
        json!([
            {"name": "teapot.v1.0.0", "replaces": "teapot.v0.9.0"},
            {"name": "teapot.v1.0.1", "replaces": "teapot.v1.0.0"},
            {"name": "teapot.v1.1.0", "replaces": "teapot.v1.0.1"},
            {"name": "teapot.v1.1.1", "replaces": "teapot.v1.0.1", "skips": ["teapot.v1.1.0"]},
            {"name": "teapot.v1.2.0", "replaces": "teapot.v1.1.1",
             "skipRange": ">=1.0.0 <1.2.0"},
        ]),
    ));
    blobs.push(channel(
        "candidate",
        json!([{"name": "teapot.v2.0.0", "replaces": "teapot.v1.2.0", "skipRange": "<v2"}]),
    ));
    blobs.push(json!({"schema": "olm.deprecations", "package": "teapot", "entries": [
        {"reference": {"schema": "olm.bundle", "name": "teapot.v1.0.0"}, "message": "leaks"},
        {"reference": {"schema": "olm.channel", "name": "candidate"}, "message": "use stable"},
        {"reference": {"schema": "olm.package"}, "message": "drink coffee"},
    ]}));
    blobs
}

/// The example of the product documentation.
fn documented() -> Vec<Value> {
    let mut blobs = bundles(&["2.0.0", "3.0.0"]);
    blobs.push(json!({"schema": "olm.package", "name": "teapot", "defaultChannel": "stable"}));
    blobs.push(channel(
        "stable",
        json!([
            {"name": "teapot.v3.0.0", "skips": ["teapot.v2.0.0"]},
            {"name": "teapot.v2.0.0", "skipRange": ">=1.0.0 <2.0.0"},
        ]),
    ));
    blobs
}

/// A request to a catalog, and the installed version.
#[derive(Debug, Clone, Default)]
struct Question {
    channels: Vec<String>,
    /// The installed version.
    installed: Option<&'static str>,
    classic: bool,
    all: bool,
    /// Whether automatic updates stay within the major version.
    minor_only: bool,
}

const FROM_1_0_0: Question = Question {
    channels: Vec::new(),
    installed: Some("1.0.0"),
    classic: false,
    all: false,
    minor_only: false,
};

fn try_graph(blobs: &[Value], question: &Question) -> Result<Graph, GraphError> {
    let lines: Vec<String> = blobs.iter().map(Value::to_string).collect();
    let content = Content::from_blobs(lines.iter().map(|line| Blob::parse(line).unwrap()));
    let catalog = Catalog {
        name: "cupboard",
        labels: BTreeMap::new(),
        priority: 0,
        enabled: true,
        problem: None,
        content: Some(&content),
    };
    let installed = question.installed.map(|version| Installed {
        name: format!("teapot.v{version}"),
        version: version.to_owned(),
        release: None,
    });
    let request = Request {
        filter: CatalogFilter {
            package_name: "teapot".to_owned(),
            channels: question.channels.clone(),
            ..CatalogFilter::default()
        },
        installed,
        ..Request::default()
    };
    let options = Options {
        resolve: resolve::Options {
            updates: if question.minor_only { UpdatePolicy::MinorOnly } else { UpdatePolicy::Any },
            ..resolve::Options::default()
        },
        classic: question.classic,
        all: question.all,
    };
    Graph::new(&request, &catalog, &Environment::default(), options)
}

fn graph(blobs: &[Value], question: &Question) -> Graph {
    try_graph(blobs, question).unwrap()
}

fn tree(blobs: &[Value], question: &Question) -> String {
    graph(blobs, question).draw(Format::Tree)
}
