//! The update graph of a package as a picture.
//!
//! In: a request, one catalog and what is installed. Out: a terminal drawing, Mermaid, SVG or
//! HTML. What the catalog author wrote only ever appears as text: names are cut, control characters
//! are replaced, and every drawing escapes for its own language. The picture is a function of its
//! input and does not depend on the order of blobs, channels or entries.
//!
//! The parts, in the order of the data: [`build`] makes the nodes and edges of each channel,
//! [`fold`] draws long runs together, [`layout`] places them, and the drawings print them.

mod build;
mod edge;
mod fold;
mod html;
mod layout;
mod mermaid;
mod model;
mod path;
mod svg;
mod text;
mod tree;

#[cfg(test)]
mod tests;

pub(crate) use html::{file, stylesheet};
pub(crate) use model::Graph;
pub(crate) use text::{plain, segment, visible, xml};

use clap::ValueEnum;
use olm_core::error::quote;
use olm_core::resolve::{self, Catalog, Environment, Request};

/// How a graph is drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Rows for the terminal, the newest first
    #[default]
    Tree,
    /// A Mermaid flow chart
    Mermaid,
    /// A picture without external resources
    Svg,
    /// A page with the picture and the rows, complete in itself
    Html,
}

/// Options for the content of a graph.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Options of the resolution behind the highlighted path.
    pub(crate) resolve: resolve::Options,
    /// Whether to show what OLM Classic would have chosen.
    pub(crate) classic: bool,
    /// Whether to draw every entry, however many there are.
    pub(crate) all: bool,
}

/// Why a graph cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GraphError {
    /// The catalog does not have the package.
    #[error("package {} is not in catalog {}", quote(.package), quote(.catalog))]
    NoPackage {
        /// Name of the package.
        package: String,
        /// Name of the catalog.
        catalog: String,
    },
    /// The blobs of the package cannot be read, or those of the whole catalog.
    #[error("{0}")]
    Unreadable(String),
    /// None of the requested channels exists.
    #[error("package {} has no such channel; its channels: {}", quote(.package), named(.channels))]
    NoChannel {
        /// Name of the package.
        package: String,
        /// The channels that exist.
        channels: Vec<String>,
    },
}

fn named(channels: &[String]) -> String {
    let names: Vec<String> = channels.iter().map(|name| quote(name)).collect();
    names.join(", ")
}

impl Graph {
    /// Makes the graph of the requested package in one catalog: of the requested channels, or of
    /// all.
    pub(crate) fn new(
        request: &Request,
        catalog: &Catalog<'_>,
        environment: &Environment,
        options: Options,
    ) -> Result<Self, GraphError> {
        build::graph(request, catalog, environment, options)
    }

    /// Draws the graph; the text ends with a line break.
    pub(crate) fn draw(&self, format: Format) -> String {
        match format {
            Format::Tree => tree::draw(self),
            Format::Mermaid => mermaid::draw(self),
            Format::Svg => svg::alone(self),
            Format::Html => html::draw(self),
        }
    }

    /// Draws the picture for a page that has the stylesheet; each bundle leads to its name below
    /// `links`.
    pub(crate) fn picture(&self, links: &str) -> String {
        svg::inside(self, Some(links))
    }
}
