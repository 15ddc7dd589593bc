//! A page with the picture and the rows, in the style of all pages. It has no scripts and loads nothing,
//! and its content security policy forbids both, so that a name that was not escaped still could not do
//! anything.

use askama::Template;

use super::model::Graph;
use super::{svg, tree};

/// Returns the stylesheet of all pages, and of pictures in them.
pub(crate) fn stylesheet() -> String {
    [include_str!("../web/style.css"), include_str!("picture.css")].concat()
}

#[derive(Template)]
#[template(path = "graph.html")]
struct Page<'a> {
    graph: &'a Graph,
    picture: String,
    rows: String,
}

impl Page<'_> {
    fn title(&self) -> String {
        format!("{}: update graph", self.graph.package)
    }
}

/// Draws a graph.
pub(super) fn draw(graph: &Graph) -> String {
    let (picture, rows) = (svg::draw(graph, true, None), tree::draw(graph));
    // Writing to a String cannot fail.
    Page { graph, picture, rows }.render().unwrap_or_default()
}
