//! The virtual file tree that layers are applied to.
//!
//! A flat map from path to node: directories are implied by the paths below them, links are kept as
//! text and resolved only inside this map, and regular files are kept only below the wanted
//! directories. That rules out bugs with symbolic links, devices, permissions and path traversal:
//! nothing here can refer to a path outside the map.
//!
//! Source: catalogs.md 5.7.

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::files::Span;
use crate::limits::MAX_LINK_HOPS;

/// A path inside the image, components joined by `/`; the root is the empty text.
pub(crate) type Path = String;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    File(Span),
    /// A link with its target as written.
    Link(String),
    /// A wanted directory that has an entry of its own.
    Directory,
}

#[derive(Debug)]
struct Placed {
    node: Node,
    /// Index of the layer it comes from: a whiteout hides only older ones.
    layer: usize,
}

/// Too many links on a path, most likely a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyLinks;

#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: BTreeMap<Path, Placed>,
    /// Bytes of all paths and targets in `nodes`.
    names: usize,
    steps: Cell<u64>,
}

impl Tree {
    pub(crate) fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path).map(|placed| &placed.node)
    }

    pub(crate) fn names(&self) -> usize {
        self.names
    }

    /// Returns how many components of paths were visited so far, and nodes below a whiteout.
    pub(crate) fn steps(&self) -> u64 {
        self.steps.get()
    }

    fn count(&self, steps: usize) {
        self.steps.set(self.steps.get().saturating_add(steps as u64));
    }

    /// Puts `node` at `path` and removes what it replaces: everything at `path` and below, unless
    /// both are directories, and files or links where its parents must be.
    pub(crate) fn place(&mut self, path: &str, node: Node, layer: usize) {
        self.make_way(path, node != Node::Directory);
        self.names += path.len() + target_len(&node);
        let placed = Placed { node, layer };
        if let Some(old) = self.nodes.insert(path.to_owned(), placed) {
            self.names -= path.len() + target_len(&old.node);
        }
    }

    /// Removes what an entry at `path` replaces. `leaf`: the entry is not a directory.
    pub(crate) fn make_way(&mut self, path: &str, leaf: bool) {
        for (slash, _) in path.match_indices('/') {
            self.remove_leaf(&path[..slash]);
        }
        if leaf {
            self.remove_below(path, usize::MAX);
        }
        self.remove_leaf(path);
    }

    /// Removes `path` and all below it, if it comes from a layer before `layer`.
    pub(crate) fn whiteout(&mut self, path: &str, layer: usize) {
        if self.nodes.get(path).is_some_and(|placed| placed.layer < layer) {
            self.remove(path);
        }
        self.remove_below(path, layer);
    }

    /// Removes all below `path` that comes from a layer before `layer`.
    pub(crate) fn remove_below(&mut self, path: &str, layer: usize) {
        let old: Vec<Path> = self
            .below(path)
            .inspect(|_| self.count(1))
            .filter(|(_, placed)| placed.layer < layer)
            .map(|(path, _)| path.clone())
            .collect();
        for path in old {
            self.remove(&path);
        }
    }

    /// Returns the files and links at `path` and below it, in byte order.
    pub(crate) fn leaves(&self, path: &str) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes
            .get_key_value(path)
            .into_iter()
            .chain(self.below(path))
            .map(|(path, placed)| (path.as_str(), &placed.node))
            .filter(|(_, node)| !matches!(node, Node::Directory))
    }

    /// Follows links in all components of `path`, including the last one if `last`. The result need
    /// not exist. Absolute targets start at the image's root, and `..` never leaves it.
    pub(crate) fn resolve(&self, path: &str, last: bool) -> Result<Path, TooManyLinks> {
        let mut hops = 0;
        let mut resolved = Path::new();
        // Components still to visit, the next one at the end.
        let mut left: Vec<String> = components(path).rev().collect();
        while let Some(component) = left.pop() {
            self.count(1);
            match component.as_str() {
                "." => continue,
                ".." => {
                    pop(&mut resolved);
                    continue;
                }
                name => push(&mut resolved, name),
            }
            if left.is_empty() && !last {
                break;
            }
            let Some(Node::Link(target)) = self.get(&resolved) else { continue };
            hops += 1;
            if hops > MAX_LINK_HOPS {
                return Err(TooManyLinks);
            }
            if target.starts_with('/') {
                resolved.clear();
            } else {
                pop(&mut resolved);
            }
            left.extend(components(target).rev());
        }
        Ok(resolved)
    }

    fn below(&self, path: &str) -> impl Iterator<Item = (&Path, &Placed)> {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        self.nodes
            .range(prefix.clone()..)
            .take_while(move |(path, _)| path.starts_with(&prefix))
            .filter(|(path, _)| !path.is_empty())
    }

    fn remove_leaf(&mut self, path: &str) {
        if !matches!(self.get(path), None | Some(Node::Directory)) {
            self.remove(path);
        }
    }

    fn remove(&mut self, path: &str) {
        if let Some(old) = self.nodes.remove(path) {
            self.names -= path.len() + target_len(&old.node);
        }
    }
}

fn push(path: &mut Path, component: &str) {
    if !path.is_empty() {
        path.push('/');
    }
    path.push_str(component);
}

fn pop(path: &mut Path) {
    path.truncate(path.rfind('/').unwrap_or(0));
}

fn target_len(node: &Node) -> usize {
    match node {
        Node::Link(target) => target.len(),
        Node::File(_) | Node::Directory => 0,
    }
}

fn components(path: &str) -> impl DoubleEndedIterator<Item = String> {
    path.split('/').filter(|part| !part.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cases;

    fn tree(links: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, target) in links {
            tree.place(path, Node::Link((*target).to_owned()), 0);
        }
        tree
    }

    #[test]
    fn links_stay_inside() {
        let tree = tree(&[
            ("a/up", "../b"),
            ("a/abs", "/etc/passwd"),
            ("a/out", "../../../x"),
            ("dir", "./a"),
            ("two", "dir/up"),
        ]);
        for (path, want) in cases::<(String, String)>("links_stay_inside") {
            assert_eq!(tree.resolve(&path, true).unwrap(), want, "{path}");
        }
    }

    // catalogs.md A3
    #[test]
    fn loops_end() {
        let tree = tree(&[("a", "b"), ("b", "a")]);
        assert_eq!(tree.resolve("a", true), Err(TooManyLinks));
        assert_eq!(tree.resolve("a", false), Ok("a".into()));
        assert_eq!(tree.resolve("a/x", false), Err(TooManyLinks));
    }

    #[test]
    fn names_are_counted_through_every_replacement() {
        let mut tree = tree(&[("a", "1234"), ("b/c", "12"), ("b/d", "1")]);
        assert_eq!(tree.names(), 5 + 5 + 4);
        tree.place("b", Node::Link("x".into()), 1);
        assert_eq!(tree.names(), 5 + 2);
        tree.place("b/c", Node::Link(String::new()), 1);
        assert_eq!(tree.names(), 5 + 3);
        tree.whiteout("b", 1);
        assert_eq!(tree.names(), 5 + 3);
        tree.whiteout("b", 2);
        tree.whiteout("a", 2);
        assert_eq!(tree.names(), 0);
    }
}
