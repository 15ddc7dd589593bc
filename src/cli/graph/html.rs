//! A page with the picture and the rows, in the style of all pages. It has no scripts and loads nothing,
//! and its content security policy forbids both, so that a name that was not escaped still could not do
//! anything.

use super::model::Graph;
use super::text::xml;
use super::{svg, tree};

/// Returns the stylesheet of all pages, and of pictures in them.
pub(crate) fn stylesheet() -> String {
    [include_str!("../web/style.css"), svg::STYLE].concat()
}

/// Draws a graph.
pub(super) fn draw(graph: &Graph) -> String {
    let title = format!("{}: update graph", graph.package);
    let heading = xml(&title);
    let picture = svg::inside(graph, None);
    let rows = xml(&tree::draw(graph));
    let content = format!(
        r#"<h1>{heading}</h1>
<figure class="picture" tabindex="0" role="group" aria-label="Picture">
{picture}</figure>
<details>
<summary>As text</summary>
<pre>{rows}</pre>
</details>
"#
    );
    file(&title, &content)
}

/// Returns a page in one file, from a title and markup.
pub(crate) fn file(title: &str, content: &str) -> String {
    let title = xml(title);
    let style = stylesheet();
    format!(
        r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="color-scheme" content="light dark"/>
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main>
{content}</main>
</body>
</html>
"#
    )
}
