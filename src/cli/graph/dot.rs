//! Draws a graph in the language of Graphviz, with one cluster per channel.

use std::fmt::Write as _;

use super::model::{Edge, Graph, Mark, Node};
use super::text::dot;

/// Draws a graph.
pub(super) fn draw(graph: &Graph) -> String {
    let mut text = String::from("digraph {\n  rankdir=LR\n  node [shape=box, style=rounded]\n");
    let mut title = vec![graph.package.clone()];
    title.extend(graph.facts.iter().cloned());
    let _ = writeln!(text, "  label={}", dot(&title));
    for (number, lane) in graph.channels.iter().enumerate() {
        let mut title = vec![lane.name.clone()];
        title.extend(lane.facts.iter().cloned());
        let _ = writeln!(text, "  subgraph cluster_{number} {{\n    label={}", dot(&title));
        for (at, node) in lane.nodes.iter().enumerate() {
            let _ = writeln!(text, "    c{number}n{at} [{}]", attributes(node));
        }
        for edge in &lane.edges {
            let (from, to) = (edge.from, edge.to);
            let style = edge_attributes(edge);
            let _ = writeln!(text, "    c{number}n{from} -> c{number}n{to} [{style}]");
        }
        text.push_str("  }\n");
    }
    text.push_str("}\n");
    text
}

fn attributes(node: &Node) -> String {
    let mut lines = vec![node.label.clone()];
    let words = node.words();
    if !words.is_empty() {
        lines.push(words.join(", "));
    }
    lines.extend(node.notes.iter().cloned());
    let mut attributes = format!("label={}, tooltip={}", dot(&lines), dot(&node.details));
    if node.has(Mark::Virtual) {
        attributes.push_str(", style=\"rounded,dashed\"");
    }
    let color = if node.has(Mark::Installed) {
        ", color=\"#1a7f37\", penwidth=3"
    } else if node.has(Mark::Deprecated) {
        ", color=\"#9a6700\""
    } else if node.has(Mark::Path) {
        ", color=\"#0969da\", penwidth=2"
    } else {
        ""
    };
    attributes + color
}

fn edge_attributes(edge: &Edge) -> String {
    let mut attributes = format!("label={}", dot(&[edge.label()]));
    if edge.superseded {
        attributes.push_str(", style=dashed");
    }
    if edge.path {
        attributes.push_str(", color=\"#0969da\", penwidth=3");
    } else if edge.classic {
        attributes.push_str(", color=\"#bc4c00\", penwidth=3");
    }
    attributes
}
