//! Places the nodes of a channel in layers, the heads on top, and routes the edges between them.
//!
//! The layered method: edges that close a cycle are reversed, each node goes into the first layer
//! below everything that replaces it, edges over several layers get a bend in each, nodes are
//! ordered within their layer by where their neighbors are, and pulled towards them. All numbers
//! are integers, so that the picture is the same on every machine.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Edge, Lane};

/// The most nodes side by side.
const MAX_LAYER: usize = 4;
/// The most bends in a channel; edges after that are straight, whatever they cross.
const MAX_BENDS: usize = 4000;
/// The number of passes that sort and straighten layers.
const SWEEPS: usize = 6;
const GAP_X: i64 = 26;
const GAP_Y: i64 = 34;
const BEND_WIDTH: i64 = 6;
/// Distance between the ends of edges at one node.
const PORT: i64 = 12;
/// Precision of a mean.
const SCALE: i64 = 1000;

/// The positions in a channel, from its upper left corner.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// The nodes, in their order.
    pub(super) places: Vec<Place>,
    /// The edges, in their order: start, two points for each bend, end.
    pub(super) routes: Vec<Vec<Point>>,
    pub(super) width: i64,
    pub(super) height: i64,
}

/// The box of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Its middle.
    pub(super) center: i64,
    pub(super) top: i64,
    pub(super) width: i64,
    pub(super) height: i64,
}

/// A point: right, down.
pub(super) type Point = (i64, i64);

/// The layer of each node, 0 on top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layers {
    layer: Vec<usize>,
    /// The nodes so that each comes after everything that replaces it, as far as cycles allow, the
    /// higher version first.
    pub(super) order: Vec<usize>,
}

/// Finds the layer of each node.
pub(super) fn layers(lane: &Lane) -> Layers {
    let count = lane.nodes.len();
    let turned = turned(count, &lane.edges);
    let mut above: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (at, edge) in lane.edges.iter().enumerate() {
        let (lower, upper) =
            if turned.contains(&at) { (edge.to, edge.from) } else { (edge.from, edge.to) };
        above[lower].push(upper);
        below[upper].push(lower);
    }
    let mut waiting: Vec<usize> = above.iter().map(Vec::len).collect();
    let mut free: BTreeSet<usize> = (0..count).filter(|at| waiting[*at] == 0).collect();
    let (mut layer, mut order, mut filled) = (vec![0; count], Vec::new(), Vec::<usize>::new());
    // Nodes are in the order of their versions, so the last one is the highest.
    while let Some(at) = free.pop_last() {
        let mut row = above[at].iter().map(|upper| layer[*upper] + 1).max().unwrap_or(0);
        while filled.get(row).is_some_and(|filled| *filled >= MAX_LAYER) {
            row += 1;
        }
        if filled.len() <= row {
            filled.resize(row + 1, 0);
        }
        filled[row] += 1;
        layer[at] = row;
        order.push(at);
        for &lower in &below[at] {
            waiting[lower] -= 1;
            if waiting[lower] == 0 {
                free.insert(lower);
            }
        }
    }
    Layers { layer, order }
}

/// Returns the edges that close a cycle when edges are followed from the lowest version on.
fn turned(count: usize, edges: &[Edge]) -> BTreeSet<usize> {
    let mut ways: Vec<Vec<(usize, usize)>> = vec![Vec::new(); count];
    for (at, edge) in edges.iter().enumerate() {
        ways[edge.from].push((at, edge.to));
    }
    let mut turned = BTreeSet::new();
    let (mut open, mut done) = (vec![false; count], vec![false; count]);
    for start in 0..count {
        // Each node with how many of its ways were followed; no recursion, chains are long.
        let mut pending = vec![(start, 0)];
        while let Some((node, next)) = pending.pop() {
            if next == 0 && done[node] {
                continue;
            }
            open[node] = true;
            let Some(&(edge, to)) = ways[node].get(next) else {
                open[node] = false;
                done[node] = true;
                continue;
            };
            pending.push((node, next + 1));
            if open[to] {
                turned.insert(edge);
            } else {
                pending.push((to, 0));
            }
        }
    }
    turned
}

/// Places everything; `sizes` are width and height of each node.
pub(super) fn layout(lane: &Lane, sizes: &[(i64, i64)]) -> Layout {
    let mut grid = Grid::new(lane, sizes);
    grid.sort();
    grid.straighten();
    grid.layout(lane, sizes)
}

/// A node, or a bend of an edge.
#[derive(Debug, Clone, Default)]
struct Vertex {
    layer: usize,
    width: i64,
    /// Neighbors in the layer above, and below.
    above: Vec<usize>,
    below: Vec<usize>,
}

/// An end of an edge at one side of a node: its target, the edge, and whether it starts there.
type EdgeEnd = (i64, usize, bool);

#[derive(Debug, Clone, Copy)]
enum Side {
    Above,
    Below,
}

/// Nodes and bends in their layers.
#[derive(Debug)]
struct Grid {
    /// The nodes in their order, then the bends.
    vertices: Vec<Vertex>,
    /// The middle of each.
    centers: Vec<i64>,
    rows: Vec<Vec<usize>>,
    /// The bends of each edge, the lowest first.
    bends: Vec<Vec<usize>>,
}

impl Grid {
    fn new(lane: &Lane, sizes: &[(i64, i64)]) -> Self {
        let layers = layers(lane);
        let vertex = |(layer, (width, _)): (&usize, &(i64, i64))| Vertex {
            layer: *layer,
            width: *width,
            ..Vertex::default()
        };
        let vertices: Vec<Vertex> = layers.layer.iter().zip(sizes).map(vertex).collect();
        let height = layers.layer.iter().max().map_or(0, |layer| layer + 1);
        let mut rows = vec![Vec::new(); height];
        for at in layers.order {
            rows[vertices[at].layer].push(at);
        }
        let mut grid = Self { vertices, centers: Vec::new(), rows, bends: Vec::new() };
        let nodes = grid.vertices.len();
        for edge in &lane.edges {
            let left = MAX_BENDS.saturating_sub(grid.vertices.len() - nodes);
            let bends = grid.add_edge(edge, left);
            grid.bends.push(bends);
        }
        grid.centers = vec![0; grid.vertices.len()];
        grid
    }

    /// Adds the bends of an edge, unless there are too many.
    fn add_edge(&mut self, edge: &Edge, left: usize) -> Vec<usize> {
        let layer = |at: usize| self.vertices[at].layer;
        let (upper, lower) = if layer(edge.to) <= layer(edge.from) {
            (edge.to, edge.from)
        } else {
            (edge.from, edge.to)
        };
        let (top, bottom) = (layer(upper), layer(lower));
        if bottom.saturating_sub(top + 1) > left {
            return Vec::new();
        }
        let (mut bends, mut last) = (Vec::new(), lower);
        for layer in (top + 1..bottom).rev() {
            let bend = self.vertices.len();
            self.vertices.push(Vertex { layer, width: BEND_WIDTH, ..Vertex::default() });
            self.rows[layer].push(bend);
            self.join(last, bend);
            bends.push(bend);
            last = bend;
        }
        self.join(last, upper);
        bends
    }

    fn join(&mut self, lower: usize, upper: usize) {
        self.vertices[lower].above.push(upper);
        self.vertices[upper].below.push(lower);
    }

    /// Orders each layer by the mean position of the neighbors, going down and up in turn.
    fn sort(&mut self) {
        let mut position: Vec<i64> = vec![0; self.vertices.len()];
        for row in &self.rows {
            number(&mut position, row);
        }
        for sweep in 0..SWEEPS {
            for (index, side) in self.sweep(sweep) {
                let mut row = std::mem::take(&mut self.rows[index]);
                row.sort_by_cached_key(|at| {
                    self.mean(*at, side, &position).unwrap_or(position[*at] * SCALE)
                });
                number(&mut position, &row);
                self.rows[index] = row;
            }
        }
    }

    /// Returns the layers in the order of a sweep, each with the side whose neighbors are used.
    fn sweep(&self, sweep: usize) -> Vec<(usize, Side)> {
        let rows = 0..self.rows.len();
        if sweep.is_multiple_of(2) {
            rows.map(|row| (row, Side::Above)).collect()
        } else {
            rows.rev().map(|row| (row, Side::Below)).collect()
        }
    }

    fn mean(&self, at: usize, side: Side, values: &[i64]) -> Option<i64> {
        let neighbors = match side {
            Side::Above => &self.vertices[at].above,
            Side::Below => &self.vertices[at].below,
        };
        let count = i64::try_from(neighbors.len()).ok().filter(|count| *count > 0)?;
        Some(neighbors.iter().map(|it| values[*it]).sum::<i64>() * SCALE / count)
    }

    /// Pulls each node towards its neighbors without changing the order of its layer.
    fn straighten(&mut self) {
        for index in 0..self.rows.len() {
            self.pull(index, None);
        }
        for sweep in 0..=SWEEPS {
            for (index, side) in self.sweep(sweep) {
                self.pull(index, Some(side));
            }
        }
        let lefts = self.centers.iter().zip(&self.vertices);
        let left = lefts.map(|(center, it)| center - it.width / 2).min();
        for center in &mut self.centers {
            *center -= left.unwrap_or_default();
        }
    }

    /// Places one layer as near to its neighbors as the widths allow.
    fn pull(&mut self, index: usize, side: Option<Side>) {
        let row = &self.rows[index];
        let (mut right, mut drift, mut placed) = (i64::MIN / 2, 0, Vec::new());
        for &at in row {
            let mean = side.and_then(|side| self.mean(at, side, &self.centers));
            let wanted = mean.map_or(self.centers[at], |mean| mean / SCALE);
            let width = self.vertices[at].width;
            let center = wanted.max(right + GAP_X + width / 2);
            right = center + width / 2;
            drift += wanted - center;
            placed.push((at, center));
        }
        let drift = drift / i64::try_from(row.len().max(1)).unwrap_or(1);
        for (at, center) in placed {
            self.centers[at] = center + drift;
        }
    }

    fn layout(&self, lane: &Lane, sizes: &[(i64, i64)]) -> Layout {
        let mut heights = vec![0; self.rows.len()];
        for (vertex, (_, height)) in self.vertices.iter().zip(sizes) {
            heights[vertex.layer] = (*height).max(heights[vertex.layer]);
        }
        let mut top = 0;
        let mut bands: Vec<(i64, i64)> = Vec::new();
        for height in heights {
            bands.push((top, height));
            top += height + GAP_Y;
        }
        let place = |(at, (vertex, (width, height))): (usize, (&Vertex, &(i64, i64)))| {
            let (top, room) = bands[vertex.layer];
            let top = top + (room - height) / 2;
            Place { center: self.centers[at], top, width: *width, height: *height }
        };
        let places: Vec<Place> = self.vertices.iter().zip(sizes).enumerate().map(place).collect();
        let rights = self.centers.iter().zip(&self.vertices);
        let right = rights.map(|(center, it)| center + it.width / 2).max();
        let routes = self.routes(lane, &places, &bands);
        Layout { places, routes, width: right.unwrap_or_default(), height: (top - GAP_Y).max(0) }
    }

    fn routes(&self, lane: &Lane, places: &[Place], bands: &[(i64, i64)]) -> Vec<Vec<Point>> {
        let ports = self.ports(lane, places);
        let route = |((edge, bends), (start, end)): ((&Edge, &Vec<usize>), (i64, i64))| {
            let (from, to) = (places[edge.from], places[edge.to]);
            let rises = to.top <= from.top;
            let through = bends.iter().flat_map(|bend| {
                let ((top, height), center) =
                    (bands[self.vertices[*bend].layer], self.centers[*bend]);
                [(center, top + height), (center, top)]
            });
            let mut points: Vec<Point> = through.collect();
            if rises {
                points.insert(0, (start, from.top));
                points.push((end, to.top + to.height));
            } else {
                points.reverse();
                points.insert(0, (start, from.top + from.height));
                points.push((end, to.top));
            }
            points
        };
        lane.edges.iter().zip(&self.bends).zip(ports).map(route).collect()
    }

    /// Returns where each edge starts and ends, spread over the sides of the nodes.
    fn ports(&self, lane: &Lane, places: &[Place]) -> Vec<(i64, i64)> {
        let mut ports = vec![(0, 0); lane.edges.len()];
        let mut sides: BTreeMap<(usize, bool), Vec<EdgeEnd>> = BTreeMap::new();
        for (at, (edge, bends)) in lane.edges.iter().zip(&self.bends).enumerate() {
            let (from, to) = (places[edge.from], places[edge.to]);
            let rises = to.top <= from.top;
            let center = |bend: Option<&usize>, otherwise: i64| {
                bend.map_or(otherwise, |bend| self.centers[*bend])
            };
            let (near_from, near_to) =
                if rises { (bends.first(), bends.last()) } else { (bends.last(), bends.first()) };
            let start = (center(near_from, to.center), at, true);
            let end = (center(near_to, from.center), at, false);
            sides.entry((edge.from, rises)).or_default().push(start);
            sides.entry((edge.to, !rises)).or_default().push(end);
        }
        for ((node, _), mut edges) in sides {
            edges.sort_unstable();
            let place = places[node];
            let count = i64::try_from(edges.len()).unwrap_or(i64::MAX);
            let step = PORT.min((place.width - 16).max(0) / count.max(1));
            let mut port = place.center - step * (count - 1) / 2;
            for (_, at, starts) in edges {
                let (start, end) = &mut ports[at];
                *(if starts { start } else { end }) = port;
                port += step;
            }
        }
        ports
    }
}

/// Numbers the vertices of a layer from left to right.
fn number(position: &mut [i64], row: &[usize]) {
    for (at, vertex) in (0..).zip(row) {
        position[*vertex] = at;
    }
}
