//! The page: what the verbs answer, as HTML without any script.
//!
//! In: the documents that the verbs print; this module asks no cluster. Out: pages on loopback, below a
//! secret. Each page is a view of its document (`view`), a template, and an address in
//! `commands::browse`.
//!
//! Source: plugin.md 4.

mod clean;
mod gate;
mod markup;
mod moment;
mod serve;
pub(crate) mod view;

use askama::Template as _;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use gate::{Gate, guard};
pub(crate) use serve::serve;

/// Returns the view of a document; nothing of null.
pub(crate) fn view_of<V: DeserializeOwned>(mut document: Value) -> anyhow::Result<Option<V>> {
    clean::document(&mut document);
    Ok(serde_json::from_value(document)?)
}

/// Returns a plan, as [`plan::page`](crate::commands) gives it, as a page in one file.
pub(crate) fn plan(plan: Value) -> anyhow::Result<String> {
    let view: Option<view::PlanFile> = view_of(plan)?;
    Ok(view.map(|view| view.render()).transpose()?.unwrap_or_default())
}
