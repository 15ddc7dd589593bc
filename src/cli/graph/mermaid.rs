//! A Mermaid flow chart, one subgraph for the package and one for each channel.

use std::fmt::Write as _;

use super::model::{Edge, Graph, Mark, Node};
use super::text::mermaid;

/// Draws a graph.
pub(super) fn draw(graph: &Graph) -> String {
    let mut text = String::from("graph LR\n");
    let mut title = vec![graph.package.clone()];
    title.extend(graph.facts.iter().cloned());
    let _ = writeln!(text, "  subgraph package[{}]", mermaid(&title));
    let mut links: Vec<String> = Vec::new();
    for (number, lane) in graph.channels.iter().enumerate() {
        let mut title = vec![lane.name.clone()];
        title.extend(lane.facts.iter().cloned());
        let _ = writeln!(text, "    subgraph c{number}[{}]", mermaid(&title));
        for (at, node) in lane.nodes.iter().enumerate() {
            let classes = classes(node);
            let _ = writeln!(text, "      c{number}n{at}[{}]{classes}", mermaid(&lines(node)));
        }
        for edge in &lane.edges {
            let arrow = arrow(edge);
            let label = mermaid(&[edge.label()]);
            let (from, to) = (edge.from, edge.to);
            let link = links.len();
            let _ = writeln!(text, "      c{number}n{from} {arrow}|{label}| c{number}n{to}");
            links.push(
                style(edge)
                    .map_or_else(String::new, |style| format!("  linkStyle {link} {style}\n")),
            );
        }
        text.push_str("    end\n");
    }
    text.push_str("  end\n");
    text.extend(links);
    text.extend(CLASSES.map(|class| format!("  classDef {class}\n")));
    text
}

const CLASSES: [&str; 4] = [
    "installed stroke:#1a7f37,stroke-width:3px",
    "way stroke:#0969da,stroke-width:2px",
    "deprecated color:#9a6700,stroke:#9a6700",
    "virtual stroke-dasharray:4 3",
];

fn lines(node: &Node) -> Vec<String> {
    let mut lines = vec![node.label.clone()];
    let words = node.words();
    if !words.is_empty() {
        lines.push(words.join(", "));
    }
    lines.extend(node.notes.iter().cloned());
    lines
}

fn classes(node: &Node) -> &'static str {
    if node.has(Mark::Installed) {
        ":::installed"
    } else if node.has(Mark::Virtual) {
        ":::virtual"
    } else if node.has(Mark::Deprecated) {
        ":::deprecated"
    } else if node.has(Mark::Path) {
        ":::way"
    } else {
        ""
    }
}

/// Returns the arrow of an edge: dashed where OLM Classic would never follow it.
fn arrow(edge: &Edge) -> &'static str {
    if edge.superseded {
        "-.->"
    } else if edge.path || edge.classic {
        "==>"
    } else {
        "-->"
    }
}

fn style(edge: &Edge) -> Option<&'static str> {
    if edge.path {
        Some("stroke:#0969da,stroke-width:3px")
    } else if edge.classic {
        Some("stroke:#bc4c00,stroke-width:3px")
    } else {
        None
    }
}
