//! Properties that hold for the pictures of all catalogs; what is drawn of some stands in
//! `tests/played/graph.md`.

mod hostile;
mod laws;
mod speed;

use std::collections::BTreeMap;

use olm_api::CatalogFilter;
use serde_json::{Value, json};

use super::*;
use olm_core::catalog::Content;
use olm_core::catalog::read::Meta;
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

/// A request to a catalog, and the installed version.
#[derive(Debug, Clone, Default)]
struct Question {
    /// The installed version.
    installed: Option<&'static str>,
    classic: bool,
    all: bool,
}

const FROM_1_0_0: Question = Question { installed: Some("1.0.0"), classic: false, all: false };

fn try_graph(blobs: &[Value], question: &Question) -> anyhow::Result<Graph> {
    let metas = blobs.iter().map(|blob| Meta::parse(&blob.to_string()).unwrap());
    let content = Content::from_blobs(&metas.collect::<Vec<_>>());
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
        filter: CatalogFilter { package_name: "teapot".to_owned(), ..CatalogFilter::default() },
        installed,
        ..Request::default()
    };
    let options = Options {
        resolve: resolve::Options { updates: UpdatePolicy::Any, ..resolve::Options::default() },
        classic: question.classic,
        all: question.all,
    };
    Graph::new(&request, &catalog, &Environment::default(), options)
}

fn graph(blobs: &[Value], question: &Question) -> Graph {
    try_graph(blobs, question).unwrap()
}

#[test]
fn a_package_that_is_not_there_is_an_error() {
    let error = try_graph(&[], &FROM_1_0_0).unwrap_err().to_string();
    assert_eq!(error, "package \"teapot\" is not in catalog \"cupboard\"");
}
