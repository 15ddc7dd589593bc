//! An SVG picture without external resources: colors for light and dark pages, details on hover. The
//! nodes of a channel stand below one another, the heads on top; an edge to the next one is a straight
//! line, any other an arc beside them, the wider the more nodes it passes.

use askama::Template;
use olm_core::catalog::EdgeKind;

use super::model::{Edge, Graph, Lane, Mark, Node};
use super::order::order;
use super::text::segment;

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
    /// The height of the text above them.
    head: i64,
    left: i64,
    top: i64,
    width: i64,
    height: i64,
}

/// A kind of line: its class, another one, and its meaning.
type Legend = (&'static str, &'static str, &'static str);

#[derive(Template)]
#[template(path = "picture.svg")]
struct Picture<'a> {
    graph: &'a Graph,
    /// Whether it stands on a page that has its style.
    is_inside: bool,
    links: Option<&'a str>,
    panels: Vec<Panel<'a>>,
    /// The kinds of lines that are used, each at its height.
    legend: Vec<(i64, Legend)>,
    width: i64,
    height: i64,
}

/// Draws a graph, as a file of its own or for a page; each bundle leads to its name below `links`.
pub(super) fn draw(graph: &Graph, is_inside: bool, links: Option<&str>) -> String {
    let head = MARGIN + 24 + LINE * length(&graph.facts) + 10;
    let (panels, bottom) = arrange(graph, head);
    let right = panels.iter().map(|panel| panel.left + panel.width).max();
    let facts = graph.facts.iter().map(|fact| small_width(fact)).max();
    let legend = legend(graph);
    let inner = [
        right.unwrap_or_default() - MARGIN,
        facts.unwrap_or_default(),
        length_of(&graph.package) * 11,
        legend.iter().map(|(.., text)| small_width(text) + 60).max().unwrap_or_default(),
    ];
    let picture = Picture {
        graph,
        is_inside,
        links,
        panels,
        width: inner.into_iter().max().unwrap_or_default() + 2 * MARGIN,
        height: bottom + 10 + LINE * length(&legend) + MARGIN,
        legend: (0..).map(|line| bottom + 20 + LINE * line).zip(legend).collect(),
    };
    // Writing to a String cannot fail.
    picture.render().unwrap_or_default()
}

impl Picture<'_> {
    /// Returns the address of the page of a node, if it has one.
    fn link(&self, node: &Node) -> Option<String> {
        let links = self.links.filter(|_| !node.has(Mark::Virtual))?;
        Some(format!("{links}/{}", segment(&node.name)))
    }
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
        let head = PADDING + 14 + LINE * length(&lane.facts) + 4;
        let (width, height) = (inner + 2 * PADDING, head + bottom + PADDING);
        Self { lane, places, head, left: 0, top: 0, width, height }
    }

    fn nodes(&self) -> impl Iterator<Item = (&Node, &Place)> {
        self.lane.nodes.iter().zip(&self.places)
    }

    fn title(&self, edge: &Edge) -> String {
        let [from, to] = [edge.from, edge.to].map(|at| &self.lane.nodes[at].label);
        format!("{to} follows {from}: {}", edge.label())
    }

    /// Draws a straight line between the borders of two nodes, or an arc from the near half of one to the
    /// near half of the other.
    fn way(&self, edge: &Edge) -> String {
        let [from, to] = [edge.from, edge.to].map(|at| self.places[at]);
        let (upper, lower) = if to.top < from.top { (to, from) } else { (from, to) };
        let reach = reach(edge, from, to);
        let inside = if reach == 0 { 0 } else { 8 };
        let ends = (upper.top + upper.height - inside, lower.top + inside);
        let (start, end) = if to.top < from.top { (ends.1, ends.0) } else { ends };
        let x = from.left;
        if reach == 0 {
            return format!("M{0} {start}L{0} {end}", x + PADDING);
        }
        let beside = x - reach;
        format!("M{x} {start}C{beside} {start} {beside} {end} {x} {end}")
    }
}

impl Edge {
    /// Returns the class that colors it.
    fn class(&self) -> &'static str {
        match self.kind {
            _ if self.path => "taken",
            _ if self.classic => "classic",
            EdgeKind::Replaces => "replaces",
            EdgeKind::Skips => "skips",
            EdgeKind::SkipRange => "skip-range",
        }
    }
}

impl Node {
    /// Returns the classes that color it.
    fn class(&self) -> String {
        let marks = [
            (Mark::Path, "way"),
            (Mark::Deprecated, "deprecated"),
            (Mark::Virtual, "virtual"),
            (Mark::Outside, "outside"),
            (Mark::Installed, "installed"),
        ];
        let classes = marks.into_iter().filter(|(mark, _)| self.has(*mark)).map(|(_, name)| name);
        std::iter::once("node").chain(classes).collect::<Vec<_>>().join(" ")
    }

    /// Returns the lines below its label.
    fn lines(&self) -> Vec<String> {
        let words = Some(self.words().join(" · ")).filter(|words| !words.is_empty());
        words.into_iter().chain(self.notes.iter().cloned()).collect()
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

/// Returns width and height of a node.
fn size(node: &Node) -> (i64, i64) {
    let lines = node.lines();
    let widest = lines.iter().map(|line| small_width(line)).max().unwrap_or_default();
    let width = widest.max(length_of(&node.label) * LABEL_CHARACTER) + 20;
    (width.max(64), 26 + LINE * length(&lines))
}

/// Returns the kinds of lines that are used.
fn legend(graph: &Graph) -> Vec<Legend> {
    let edges: Vec<&Edge> = graph.channels.iter().flat_map(|lane| &lane.edges).collect();
    let kinds = [
        ("replaces", "", "replaces"),
        ("skips", "", "skips"),
        ("skip-range", "", "skipRange"),
        ("taken", "", "the way of automatic updates"),
        ("classic", "", "where OLM Classic would go"),
    ];
    let is_used = |class| edges.iter().any(|edge| edge.class() == class);
    let mut legend: Vec<_> = kinds.into_iter().filter(|(class, ..)| is_used(*class)).collect();
    if edges.iter().any(|edge| edge.superseded) {
        let meaning = "dashed: not in OLM Classic, the entry is skipped";
        legend.push(("replaces", " superseded", meaning));
    }
    if graph.channels.iter().flat_map(|lane| &lane.nodes).any(|node| node.count > 1) {
        legend.push(("", "", "a stack stands for several versions"));
    }
    legend
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
