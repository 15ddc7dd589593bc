//! Constraints as text for users.
//!
//! Source: resolution.md 5.7.

use std::fmt;

use super::{Breakage, FoundKind, FoundVersion, Judgement, Node, Test, Verdict};
use crate::error::quote;

/// How many leaves of trees one text names.
const MAX_LEAVES: usize = 20;

/// Writes judgements, the first of their leaves in full and the number of the rest.
pub(in crate::resolve) struct Items<'a>(pub(in crate::resolve) &'a [Judgement]);

/// Counts the leaves of a text.
struct Leaves {
    left: usize,
    more: usize,
}

impl fmt::Display for Items<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut leaves = Leaves { left: MAX_LEAVES, more: 0 };
        let items = self.0.iter().map(|item| &item.tree);
        let items: Vec<_> = items.filter_map(|node| leaves.node(node)).collect();
        f.write_str(&items.join("; "))?;
        if leaves.more > 0 {
            write!(f, " and {} more", leaves.more)?;
        }
        Ok(())
    }
}

impl fmt::Display for Breakage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Leaves {
    /// Returns the text of a node, or `None` if the limit leaves no room for any of its leaves.
    fn node(&mut self, node: &Node) -> Option<String> {
        let text = match &node.test {
            Test::All { constraints: of } => self.children(node, of, " and ")?,
            Test::Any { constraints: of } => {
                format!("any of ({})", self.children(node, of, " or ")?)
            }
            Test::Not { constraints: of } => {
                format!("none of ({})", self.children(node, of, " or ")?)
            }
            leaf if self.left > 0 => {
                self.left -= 1;
                leaf_text(leaf, node.verdict)
            }
            _ => {
                self.more += 1;
                return None;
            }
        };
        Some(match &node.message {
            Some(message) => format!("{message}: {text}"),
            None => text,
        })
    }

    /// Joins the children that explain the node's verdict; `None` if there is room for none.
    fn children(&mut self, node: &Node, children: &[Node], separator: &str) -> Option<String> {
        let children: Vec<_> = children.iter().filter(|it| explains(node, it)).collect();
        let texts: Vec<_> = children.iter().filter_map(|it| self.node(it)).collect();
        (children.is_empty() || !texts.is_empty()).then(|| texts.join(separator))
    }
}

/// Says whether the verdict on a child is a reason for the verdict on its parent.
fn explains(node: &Node, child: &Node) -> bool {
    match (&node.test, node.verdict) {
        (Test::All { .. } | Test::Not { .. }, Verdict::Met)
        | (Test::Any { .. }, Verdict::Unmet) => true,
        (Test::Not { .. }, Verdict::Unmet) => child.verdict == Verdict::Met,
        (_, verdict) => child.verdict == verdict,
    }
}

/// Returns the text of a node without children.
fn leaf_text(leaf: &Test, verdict: Verdict) -> String {
    match leaf {
        Test::Package { package, range, found } => {
            let (package, range) = (quote(package), quote(range));
            let why = found_versions(verdict, found);
            format!("requires package {package} in version range {range} ({why})")
        }
        Test::Kind { kind, found } => {
            let why = match found {
                FoundKind::Nowhere => "not served by the cluster".to_owned(),
                FoundKind::Served => "served by the cluster".to_owned(),
                FoundKind::Itself => "provided by the bundle itself".to_owned(),
                FoundKind::NotServedYet(origin) => {
                    format!("provided by {origin} but not served yet")
                }
                FoundKind::Unknown => "the served APIs are unknown".to_owned(),
            };
            format!("requires API {} ({why})", quote(&kind.to_string()))
        }
        Test::Cel { rule, met_by, is_evaluated } => {
            let why = match (met_by.first(), verdict) {
                (Some(origin), _) => format!("{origin} matches"),
                (None, Verdict::Unknown) if !is_evaluated => {
                    "the rules take too many steps together".to_owned()
                }
                (None, Verdict::Unknown) => "the installed bundles are unknown".to_owned(),
                (None, _) => "no installed bundle matches".to_owned(),
            };
            let rule = quote(rule);
            format!("requires an installed bundle matching CEL rule {rule} ({why})")
        }
        Test::Kubernetes { minimum, cluster } => {
            let (minimum, cluster) = (quote(minimum), quote(cluster));
            format!("requires Kubernetes {minimum} or later (the cluster runs {cluster})")
        }
        // These have children.
        Test::All { .. } | Test::Any { .. } | Test::Not { .. } => String::new(),
    }
}

/// Says which versions of a package were found.
fn found_versions(verdict: Verdict, found: &[FoundVersion]) -> String {
    if let Some(next) = found.iter().find(|it| it.would_become) {
        let version = quote(&next.version);
        return format!("version would become {version} from {}", next.origin);
    }
    if verdict == Verdict::Unknown {
        return "the installed bundles are unknown".to_owned();
    }
    let from = |it: &FoundVersion| format!("{} from {}", quote(&it.version), it.origin);
    let versions: Vec<_> = found.iter().map(from).collect();
    match versions.as_slice() {
        [] => "no installed ClusterExtension provides it".to_owned(),
        [one] => format!("installed version is {one}"),
        many => format!("installed versions are {}", many.join(", ")),
    }
}
