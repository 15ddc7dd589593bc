//! The page: what the verbs answer, as HTML without any script.
//!
//! In: the documents that the verbs print, from [`Documents`]; this module asks no cluster and computes
//! nothing that a verb does not. Out: pages on loopback, below a secret. Each page is a view of its
//! document (`view`) and a template; a further page is an [`Ask`], a view, a template and a route.
//!
//! Source: plugin.md 4.

mod clean;
mod gate;
mod markup;
mod moment;
mod routes;
mod serve;
mod view;

use std::net::TcpListener;
use std::sync::Arc;

use askama::Template as _;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::graph::file;
pub(crate) use gate::Gate;

/// The subject of a page.
#[derive(Debug)]
pub(crate) enum Ask {
    /// The extensions: the document of `status`.
    Installed,
    /// An extension: `{status, why}` of `status NAME` and `why NAME`, with `conditions`, the `strong`
    /// rights of its account and its `manifest`; `unknown` has what could not be read.
    Extension(String),
    /// One of its other views: `{name, plan|tree|history}`, or `{name, unknown}`.
    Part(Part, String),
    /// The packages that match these words, maybe only what can be installed: the document of `search`.
    Packages { terms: Vec<String>, installable: bool },
    /// A package of a catalog, maybe as one of its channels has it: `{package, picture, rows}` of
    /// `show --no-pull` and `graph`, and what `install` would do: `{chosen, refused, manifest}`.
    Package { catalog: String, package: String, channel: Option<String> },
    /// The catalogs: the document of `catalog list`.
    Catalogs,
    /// The findings of a catalog: the document of `catalog lint`.
    Findings(String),
}

/// A part of an extension besides its state.
#[derive(Debug, Clone, Copy, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Part {
    /// The output of `plan NAME`.
    Plan,
    /// The output of `status NAME -o tree`.
    Objects,
    /// The document of `history NAME`.
    History,
}

/// An icon: its media type and its bytes.
pub(crate) type Icon = (&'static str, Vec<u8>);

/// The source of the documents for pages.
pub(crate) trait Documents: Send + Sync + 'static {
    /// Returns a document; null if what is asked about is not there.
    fn answer(&self, ask: Ask) -> BoxFuture<'_, anyhow::Result<Value>>;

    fn icon<'a>(&'a self, catalog: &'a str, package: &'a str) -> BoxFuture<'a, Option<Icon>>;
}

/// The data of all pages.
pub(crate) struct Site {
    gate: Gate,
    documents: Arc<dyn Documents>,
    /// Whose answers these are, for example `cluster lab (as admin)`.
    of: String,
    /// Whether there is no cluster, only catalogs.
    offline: bool,
}

impl Site {
    pub(crate) fn new(
        gate: Gate,
        documents: Arc<dyn Documents>,
        (of, offline): (String, bool),
    ) -> Self {
        Self { gate, documents, of, offline }
    }
}

/// Returns a plan, as [`plan::page`](crate::commands) gives it, as a page in one file.
pub(crate) fn plan(mut plan: Value) -> anyhow::Result<String> {
    clean::document(&mut plan);
    let view: view::PlanFile = serde_json::from_value(plan)?;
    Ok(file(&view.title(), &view.render()?))
}

/// Serves pages until the program is interrupted.
pub(crate) async fn serve(listener: TcpListener, site: Site) -> std::io::Result<()> {
    let pages = routes::pages(Arc::new(site));
    tokio::select! {
        served = serve::serve(listener, pages) => served,
        interrupted = tokio::signal::ctrl_c() => interrupted,
    }
}
