//! Rows for a terminal: the newest version first, with lines along `replaces`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use olm_core::catalog::EdgeKind;

use super::model::{Graph, Lane, Mark, Node};
use super::order::order;
use super::text::named;

/// The most columns of lines; a channel with more has its rows without them.
const MAX_COLUMNS: usize = 12;

/// Draws a graph.
pub(super) fn draw(graph: &Graph) -> String {
    let mut lines = vec![graph.package.clone()];
    lines.extend(graph.facts.iter().map(|fact| format!("  {fact}")));
    for lane in &graph.channels {
        lines.push(String::new());
        let kind = if lane.is_channel { "channel " } else { "" };
        lines.push(format!("{kind}{}", lane.name));
        lines.extend(lane.facts.iter().map(|fact| format!("  {fact}")));
        rows(lane, &mut lines);
    }
    lines.push(String::new());
    lines.push(legend(graph));
    let trimmed: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    trimmed.join("\n") + "\n"
}

/// Returns the sign of a node.
fn sign(node: &Node) -> char {
    if node.has(Mark::Installed) {
        '◉'
    } else if node.has(Mark::Virtual) {
        '◌'
    } else if node.has(Mark::Path) {
        '●'
    } else {
        '○'
    }
}

/// Explains the signs that were used.
fn legend(graph: &Graph) -> String {
    let signs = [
        ('○', "bundle"),
        ('◉', "installed"),
        ('●', "on the way of automatic updates"),
        ('◌', "no bundle"),
    ];
    let nodes = || graph.channels.iter().flat_map(|lane| &lane.nodes);
    let used = signs.into_iter().filter(|(used, _)| nodes().any(|node| sign(node) == *used));
    let used: Vec<String> = used.map(|(sign, meaning)| format!("{sign} {meaning}")).collect();
    used.join("  ")
}

/// Draws the rows of a channel.
///
/// Each column of lines is reserved for the node that the one above it replaces.
fn rows(lane: &Lane, lines: &mut Vec<String>) {
    let mut columns: Vec<Option<usize>> = Vec::new();
    let mut above = BTreeSet::new();
    for at in order(lane) {
        above.insert(at);
        let node = &lane.nodes[at];
        let waiting: Vec<usize> =
            (0..columns.len()).filter(|column| columns[*column] == Some(at)).collect();
        let column = match waiting.first() {
            Some(first) => *first,
            None => free(&mut columns),
        };
        if waiting.len() > 1 {
            lines.push(format!("  {}", joint(&columns, &waiting)));
        }
        for column in waiting {
            columns[column] = None;
        }
        columns[column] = Some(at);
        trim(&mut columns);
        let gutter = gutter(&columns, Some((column, sign(node))));
        lines.push(format!("  {gutter} {}", text(lane, at, node, &above)));
        columns[column] = replaced(lane, at).filter(|it| !above.contains(it));
        trim(&mut columns);
        let gutter = self::gutter(&columns, None);
        for note in &node.notes {
            lines.push(format!("  {gutter}   {note}"));
        }
    }
}

/// Returns a column that is not reserved.
fn free(columns: &mut Vec<Option<usize>>) -> usize {
    columns.iter().position(Option::is_none).unwrap_or_else(|| {
        columns.push(None);
        columns.len() - 1
    })
}

/// Removes the columns on the right that are not reserved.
fn trim(columns: &mut Vec<Option<usize>>) {
    while columns.last() == Some(&None) {
        columns.pop();
    }
}

/// Returns the first node that a node replaces.
fn replaced(lane: &Lane, at: usize) -> Option<usize> {
    let edge = lane.edges.iter().find(|edge| edge.to == at && edge.kind == EdgeKind::Replaces)?;
    Some(edge.from)
}

/// Draws the lines beside a row, with the sign of its node.
fn gutter(columns: &[Option<usize>], node: Option<(usize, char)>) -> String {
    if columns.len() > MAX_COLUMNS {
        return node.map_or(' ', |(_, sign)| sign).to_string();
    }
    let cell = |(column, waits): (usize, &Option<usize>)| match node {
        Some((at, sign)) if at == column => sign.to_string(),
        _ if waits.is_some() => "│".to_owned(),
        _ => " ".to_owned(),
    };
    columns.iter().enumerate().map(cell).collect::<Vec<_>>().join(" ")
}

/// Draws how several columns join in the first of them.
fn joint(columns: &[Option<usize>], waiting: &[usize]) -> String {
    let (Some(first), Some(last)) = (waiting.first(), waiting.last()) else { return String::new() };
    if columns.len() > MAX_COLUMNS {
        return String::new();
    }
    let mut line = String::new();
    for (column, waits) in columns.iter().enumerate() {
        let inside = column > *first && column < *last;
        let sign = match waits {
            _ if column == *first => '├',
            _ if column == *last => '╯',
            _ if waiting.contains(&column) => '┴',
            Some(_) if inside => '┼',
            None if inside => '─',
            Some(_) => '│',
            None => ' ',
        };
        line.push(sign);
        line.push(if column >= *first && column < *last { '─' } else { ' ' });
    }
    line
}

/// Returns the text of a row: label, marks, and what it follows besides the row that a line leads
/// to.
fn text(lane: &Lane, at: usize, node: &Node, above: &BTreeSet<usize>) -> String {
    let mut text = node.label.clone();
    let words = node.words();
    if !words.is_empty() {
        let _ = write!(text, "  {}", words.join(", "));
    }
    let below = replaced(lane, at).filter(|replaced| !above.contains(replaced));
    let followed = |kind: EdgeKind| {
        let edges = lane.edges.iter().filter(move |edge| edge.to == at && edge.kind == kind);
        let others = edges.filter(|edge| kind != EdgeKind::Replaces || Some(edge.from) != below);
        others.map(|edge| lane.nodes[edge.from].label.as_str()).collect::<Vec<_>>()
    };
    text.extend(named("  replaces", &followed(EdgeKind::Replaces)));
    text.extend(named("  skips", &followed(EdgeKind::Skips)));
    text
}
