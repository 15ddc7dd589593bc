//! The update graph of a package as a picture.
//!
//! In: a request, one catalog and the installed bundle. Out: a terminal drawing, Mermaid, SVG, HTML,
//! or a document for programs. What the catalog author wrote only ever appears as text: names are
//! cut, control characters are replaced, and every drawing escapes for its own language. The
//! picture is a function of its input and does not depend on the order of blobs, channels or
//! entries.
//!
//! The parts, in the order of the data: [`build`] makes the nodes and edges of each channel,
//! [`fold`] draws long runs together, [`order`] says which stands above which, and the drawings print
//! them.

mod build;
mod document;
mod edge;
mod fold;
mod html;
mod mermaid;
mod model;
mod order;
mod path;
mod svg;
mod text;
mod tree;

#[cfg(test)]
mod tests;

pub(crate) use document::Drawn;
pub(crate) use html::stylesheet;
pub(crate) use model::Graph;
pub(crate) use text::{segment, visible};

use olm_core::resolve;

use crate::output::Format;

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

impl Graph {
    /// Draws the graph, in rows for the terminal unless the format is one of a picture; the text ends
    /// with a line break.
    pub(crate) fn draw(&self, format: Format) -> String {
        match format {
            Format::Mermaid => mermaid::draw(self),
            Format::Svg => svg::draw(self, false, None),
            Format::Html => html::draw(self),
            _ => tree::draw(self),
        }
    }

    /// Draws the picture for a page that has the stylesheet; each bundle leads to its name below
    /// `links`.
    pub(crate) fn picture(&self, links: &str) -> String {
        svg::draw(self, true, Some(links))
    }
}
