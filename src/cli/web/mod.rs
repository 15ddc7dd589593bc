//! The page: what the verbs answer, as HTML without any script.
//!
//! In: the documents that the verbs print, from [`Verbs`]; this module asks no cluster and computes
//! nothing that a verb does not. Out: pages on loopback, below a secret. Each page is a view of its
//! document (`view`) and a template, behind a route.
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
use serde_json::Value;

use crate::commands::browse::Verbs;
use crate::graph::file;
pub(crate) use gate::Gate;

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

/// The data of all pages.
pub(crate) struct Site {
    pub(crate) gate: Gate,
    pub(crate) verbs: Verbs,
    /// Whose answers these are, for example `cluster lab (as admin)`.
    pub(crate) of: String,
    /// Whether there is no cluster, only catalogs.
    pub(crate) offline: bool,
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
