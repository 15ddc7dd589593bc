//! An SVG picture without external resources: colors for light and dark pages, details on hover. The
//! nodes of a channel stand below one another, the heads on top; an edge to the next one is a straight
//! line, any other an arc beside them, the wider the more nodes it passes.

use std::fmt::Write as _;

use olm_core::explain::EdgeKind;

use super::model::{Edge, Graph, Lane, Mark, Node};
use super::order::order;
use super::text::{segment, xml};

const MARGIN: i64 = 20;
/// Space around the nodes of a channel.
const PADDING: i64 = 18;
/// Channels go side by side up to this width.
const PAGE: i64 = 1240;
const LINE: i64 = 15;
/// Width in pixels of a character of the label, and of smaller text; the font is monospaced.
const LABEL_CHARACTER: i64 = 8;
const SMALL_CHARACTER: i64 = 7;
/// Space between two nodes.
const GAP: i64 = 26;
/// How far beside the nodes an arc goes for each node on its way, and at most.
const ARC: i64 = 16;
const WIDEST_ARC: i64 = 160;

pub(super) const STYLE: &str = include_str!("picture.css");

/// A point: right, down.
type Point = (i64, i64);

/// The box of a node, in its channel.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// Which one from above it is.
    row: i64,
    left: i64,
    top: i64,
    width: i64,
    height: i64,
}

/// A channel with its place on the page.
struct Panel<'a> {
    lane: &'a Lane,
    /// The boxes of its nodes.
    places: Vec<Place>,
    left: i64,
    top: i64,
    width: i64,
    height: i64,
}

/// Draws a graph as a file of its own.
pub(super) fn alone(graph: &Graph) -> String {
    let style = format!("<style>\n{STYLE}</style>\n");
    let name = xml(&graph.package);
    draw(graph, &format!("role=\"img\" aria-label=\"Update graph of {name}\""), &style, None)
}

/// Draws a graph for a page that has [`STYLE`]; each bundle leads to its name below `links`.
pub(super) fn inside(graph: &Graph, links: Option<&str>) -> String {
    let name = xml(&graph.package);
    let facts = xml(&graph.facts.join("; "));
    let about = "role=\"group\" aria-labelledby=\"graph-name\" aria-describedby=\"graph-facts\"";
    let texts = format!(
        "<title id=\"graph-name\">Update graph of {name}</title>\n\
         <desc id=\"graph-facts\">{facts}; the rows below the picture say the same</desc>\n"
    );
    draw(graph, about, &texts, links)
}

fn draw(graph: &Graph, about: &str, first: &str, links: Option<&str>) -> String {
    let head = MARGIN + 24 + LINE * length(&graph.facts) + 10;
    let (panels, bottom) = arrange(graph, head);
    let right = panels.iter().map(|panel| panel.left + panel.width).max();
    let facts = graph.facts.iter().map(|fact| small_width(fact)).max();
    let legend = legend(graph);
    let inner = [
        right.unwrap_or_default() - MARGIN,
        facts.unwrap_or_default(),
        length_of(&graph.package) * 11,
        legend.iter().map(|(_, text)| small_width(text) + 60).max().unwrap_or_default(),
    ];
    let width = inner.into_iter().max().unwrap_or_default() + 2 * MARGIN;
    let height = bottom + 10 + LINE * length(&legend) + MARGIN;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" {about}>"
    );
    let _ = writeln!(text, "{first}<defs>");
    for class in ["replaces", "skips", "skip-range", "taken", "classic"] {
        let _ = writeln!(
            text,
            "<marker id=\"{class}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" \
             markerHeight=\"8\" markerUnits=\"userSpaceOnUse\" orient=\"auto\">\
             <path class=\"head-{class}\" d=\"M0 0L8 4L0 8z\"/></marker>"
        );
    }
    let _ = writeln!(text, "</defs>\n<rect class=\"page\" width=\"{width}\" height=\"{height}\"/>");
    write_text(&mut text, "title", (MARGIN, MARGIN + 14), &graph.package);
    for (line, fact) in (0..).zip(&graph.facts) {
        let at = (MARGIN, MARGIN + 24 + LINE * line + 10);
        write_text(&mut text, "", at, fact);
    }
    for panel in &panels {
        panel.write(&mut text, links);
    }
    for (line, (class, meaning)) in (0..).zip(&legend) {
        write_legend(&mut text, class, meaning, bottom + 10 + LINE * line + 10);
    }
    text.push_str("</svg>\n");
    text
}

/// Places the channels side by side, in rows as wide as a page; also returns the lower end of the
/// last one.
fn arrange(graph: &Graph, top: i64) -> (Vec<Panel<'_>>, i64) {
    let (mut left, mut top, mut bottom) = (MARGIN, top, top);
    let mut panels = Vec::new();
    for lane in &graph.channels {
        let mut panel = Panel::new(lane);
        if left > MARGIN && left + panel.width > PAGE {
            (left, top) = (MARGIN, bottom + MARGIN);
        }
        (panel.left, panel.top) = (left, top);
        left += panel.width + MARGIN;
        bottom = bottom.max(top + panel.height);
        panels.push(panel);
    }
    (panels, bottom)
}

impl<'a> Panel<'a> {
    fn new(lane: &'a Lane) -> Self {
        let places = places(lane);
        let right = places.iter().map(|it| it.left + it.width).max().unwrap_or_default();
        let bottom = places.iter().map(|it| it.top + it.height).max().unwrap_or_default();
        let facts = lane.facts.iter().map(|fact| small_width(fact)).max();
        let name = length_of(&lane.name) * LABEL_CHARACTER;
        let inner = right.max(facts.unwrap_or_default()).max(name);
        Self {
            lane,
            left: 0,
            top: 0,
            width: inner + 2 * PADDING,
            height: Self::head(lane) + bottom + PADDING,
            places,
        }
    }

    /// Returns the height of the text above the nodes.
    fn head(lane: &Lane) -> i64 {
        PADDING + 14 + LINE * length(&lane.facts) + 4
    }

    fn write(&self, text: &mut String, links: Option<&str>) {
        let (left, top, width, height) = (self.left, self.top, self.width, self.height);
        let _ = writeln!(
            text,
            "<g transform=\"translate({left} {top})\">\n\
             <rect class=\"lane\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>"
        );
        write_text(text, "name", (PADDING, PADDING + 8), &self.lane.name);
        for (line, fact) in (0..).zip(&self.lane.facts) {
            write_text(text, "", (PADDING, PADDING + 24 + LINE * line), fact);
        }
        let top = Self::head(self.lane);
        let _ = writeln!(text, "<g transform=\"translate({PADDING} {top})\">");
        for edge in &self.lane.edges {
            self.write_edge(text, edge);
        }
        for (node, place) in self.lane.nodes.iter().zip(&self.places) {
            write_linked(text, node, *place, links);
        }
        text.push_str("</g>\n</g>\n");
    }

    fn write_edge(&self, text: &mut String, edge: &Edge) {
        let class = class(edge);
        let superseded = if edge.superseded { " superseded" } else { "" };
        let nodes = &self.lane.nodes;
        let (from, to) = (&nodes[edge.from].label, &nodes[edge.to].label);
        let title = xml(&format!("{to} follows {from}: {}", edge.label()));
        let path = way(edge, self.places[edge.from], self.places[edge.to]);
        let _ = writeln!(
            text,
            "<g class=\"edge {class}{superseded}\"><title>{title}</title>\
             <path d=\"{path}\" marker-end=\"url(#{class})\"/></g>"
        );
    }
}

/// Returns the class that colors an edge.
fn class(edge: &Edge) -> &'static str {
    if edge.path {
        "taken"
    } else if edge.classic {
        "classic"
    } else {
        match edge.kind {
            EdgeKind::Replaces => "replaces",
            EdgeKind::Skips => "skips",
            EdgeKind::SkipRange => "skip-range",
        }
    }
}

/// Returns the box of each node, to the right of the arcs.
fn places(lane: &Lane) -> Vec<Place> {
    let mut places = vec![Place::default(); lane.nodes.len()];
    let mut top = 0;
    for (row, at) in (0..).zip(order(lane)) {
        let (width, height) = size(&lane.nodes[at]);
        places[at] = Place { row, left: 0, top, width, height };
        top += height + GAP;
    }
    let arcs = lane.edges.iter().map(|edge| reach(edge, places[edge.from], places[edge.to]));
    let left = arcs.max().unwrap_or_default();
    for place in &mut places {
        place.left = left;
    }
    places
}

/// Returns how far beside the nodes an edge goes.
fn reach(edge: &Edge, from: Place, to: Place) -> i64 {
    match (from.row - to.row).abs() {
        1 if edge.kind == EdgeKind::Replaces => 0,
        rows => (rows * ARC).min(WIDEST_ARC),
    }
}

/// Draws a straight line between the borders of two nodes, or an arc from the near half of one to the
/// near half of the other.
fn way(edge: &Edge, from: Place, to: Place) -> String {
    let (upper, lower) = if to.top < from.top { (to, from) } else { (from, to) };
    let ends =
        |above: i64, below: i64| if to.top < from.top { (below, above) } else { (above, below) };
    match reach(edge, from, to) {
        0 => {
            let ((start, end), x) =
                (ends(upper.top + upper.height, lower.top), from.left + PADDING);
            format!("M{x} {start}L{x} {end}")
        }
        reach => {
            let (start, end) = ends(upper.top + upper.height - 8, lower.top + 8);
            let (x, beside) = (from.left, from.left - reach);
            format!("M{x} {start}C{beside} {start} {beside} {end} {x} {end}")
        }
    }
}

/// Returns width and height of a node.
fn size(node: &Node) -> (i64, i64) {
    let words = small_width(&node.words().join(" · "));
    let notes = node.notes.iter().map(|note| small_width(note)).max();
    let label = length_of(&node.label) * LABEL_CHARACTER;
    let width = label.max(words).max(notes.unwrap_or_default()) + 20;
    let lines = length(&node.notes) + i64::from(!node.words().is_empty());
    (width.max(64), 26 + LINE * lines)
}

/// Draws a node that has a page, as a link to it.
fn write_linked(text: &mut String, node: &Node, place: Place, links: Option<&str>) {
    match links.filter(|_| !node.has(Mark::Virtual)) {
        Some(links) => {
            let to = segment(&node.name);
            let _ = write!(text, "<a href=\"{links}/{to}\">");
            write_node(text, node, place);
            text.push_str("</a>");
        }
        None => write_node(text, node, place),
    }
}

fn write_node(text: &mut String, node: &Node, place: Place) {
    let marks = [
        (Mark::Path, "way"),
        (Mark::Deprecated, "deprecated"),
        (Mark::Virtual, "virtual"),
        (Mark::Outside, "outside"),
        (Mark::Installed, "installed"),
    ];
    let classes = marks.into_iter().filter(|(mark, _)| node.has(*mark)).map(|(_, name)| name);
    let class = std::iter::once("node").chain(classes).collect::<Vec<_>>().join(" ");
    let Place { left, top, width, height, .. } = place;
    let details = xml(&node.details.join("\n"));
    let _ = write!(text, "<g class=\"{class}\"><title>{details}</title>");
    let rect = |left: i64, top: i64| {
        format!("<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" rx=\"6\"/>")
    };
    if node.count > 1 {
        text.push_str(&rect(left + 4, top - 4));
    }
    let _ = writeln!(text, "{}", rect(left, top));
    write_text(text, "label", (left + 10, top + 18), &node.label);
    let words = node.words().join(" · ");
    let words = Some(&words).filter(|words| !words.is_empty());
    for (line, note) in (1..).zip(words.into_iter().chain(&node.notes)) {
        write_text(text, "", (left + 10, top + 18 + LINE * line), note);
    }
    text.push_str("</g>\n");
}

fn write_text(text: &mut String, class: &str, (x, y): Point, content: &str) {
    let content = xml(content);
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let _ = writeln!(text, "<text{class} x=\"{x}\" y=\"{y}\">{content}</text>");
}

/// Returns the kinds of lines that are used, each with its meaning.
fn legend(graph: &Graph) -> Vec<(String, &'static str)> {
    let edges: Vec<&Edge> = graph.channels.iter().flat_map(|lane| &lane.edges).collect();
    let kinds = [
        ("replaces", "replaces"),
        ("skips", "skips"),
        ("skip-range", "skipRange"),
        ("taken", "the way of automatic updates"),
        ("classic", "where OLM Classic would go"),
    ];
    let used = kinds.into_iter().filter(|(name, _)| edges.iter().any(|edge| class(edge) == *name));
    let mut legend: Vec<(String, &str)> =
        used.map(|(class, meaning)| (class.to_owned(), meaning)).collect();
    if edges.iter().any(|edge| edge.superseded) {
        let meaning = "dashed: not in OLM Classic, the entry is skipped";
        legend.push(("replaces superseded".to_owned(), meaning));
    }
    if graph.folded {
        legend.push((String::new(), "a stack stands for several versions"));
    }
    legend
}

fn write_legend(text: &mut String, class: &str, meaning: &str, y: i64) {
    let mut indent = 0;
    if let Some(name) = class.split(' ').next().filter(|name| !name.is_empty()) {
        indent = 44;
        let (right, middle) = (MARGIN + 34, y - 4);
        let _ = writeln!(
            text,
            "<g class=\"edge {class}\"><path d=\"M{MARGIN} {middle}L{right} {middle}\" \
             marker-end=\"url(#{name})\"/></g>"
        );
    }
    write_text(text, "", (MARGIN + indent, y), meaning);
}

fn length<T>(list: &[T]) -> i64 {
    i64::try_from(list.len()).unwrap_or(i64::MAX)
}

/// Returns how many columns a text takes; characters that are not ASCII count as two.
fn length_of(text: &str) -> i64 {
    text.chars().map(|it| if it.is_ascii() || "…·".contains(it) { 1 } else { 2 }).sum()
}

fn small_width(text: &str) -> i64 {
    length_of(text) * SMALL_CHARACTER
}
