//! A page with the picture and the rows. It has no scripts and loads nothing, and its content
//! security policy forbids both, so that a name that was not escaped still could not do anything.

use super::model::Graph;
use super::text::xml;
use super::{svg, tree};

/// Draws a graph.
pub(super) fn draw(graph: &Graph) -> String {
    let title = xml(&graph.package);
    let picture = svg::draw(graph);
    let rows = xml(&tree::draw(graph));
    format!(
        r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}: update graph</title>
<style>
body {{ margin: 0; font-family: system-ui, sans-serif; background: #fff; color: #1f2328; }}
main {{ overflow-x: auto; }}
details {{ margin: 16px; }}
pre {{ overflow-x: auto; line-height: 1.35; }}
.node:hover rect, .edge:hover path {{ stroke-width: 3.5px; }}
@media (prefers-color-scheme: dark) {{
body {{ background: #0d1117; color: #e6edf3; }}
}}
</style>
</head>
<body>
<main>
{picture}</main>
<details>
<summary>As text</summary>
<pre>{rows}</pre>
</details>
</body>
</html>
"#
    )
}
