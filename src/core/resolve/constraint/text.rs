//! Constraints as users read them.
//!
//! Source: resolution.md 5.7.

use std::fmt;

use super::{Breakage, FoundKind, FoundVersion, Judgement, Node, Test, Verdict};
use crate::error::quote;

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt(f)
    }
}

impl fmt::Display for Breakage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items: Vec<_> = self.constraints.iter().map(ToString::to_string).collect();
        let unknown = |it: &Judgement| it.node.verdict == Verdict::Unknown;
        let would = if self.constraints.iter().all(unknown) {
            "could"
        } else {
            "would"
        };
        write!(
            f,
            "{would} break installed {}: {}",
            self.origin,
            items.join("; ")
        )
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(message) = &self.message {
            write!(f, "{message}: ")?;
        }
        match &self.test {
            Test::Package {
                package,
                range,
                found,
            } => {
                let (package, range) = (quote(package), quote(range));
                write!(f, "requires package {package} in version range {range} ")?;
                write_found(f, self.verdict, found)
            }
            Test::Kind { kind, found } => {
                write!(f, "requires API {} ", quote(&kind.to_string()))?;
                match found {
                    FoundKind::Nowhere => f.write_str("(not served by the cluster)"),
                    FoundKind::Served => f.write_str("(served by the cluster)"),
                    FoundKind::Itself => f.write_str("(provided by the bundle itself)"),
                    FoundKind::NotServedYet(origin) => {
                        write!(f, "(provided by {origin} but not served yet)")
                    }
                    FoundKind::Unknown => {
                        write!(f, "(discovery of API group {} failed)", quote(&kind.group))
                    }
                }
            }
            Test::Cel { rule, met_by } => {
                let rule = quote(rule);
                write!(f, "requires an installed bundle matching CEL rule {rule} ")?;
                match (met_by.first(), self.verdict) {
                    (Some(origin), _) => write!(f, "({origin} matches)"),
                    (None, Verdict::Unknown) => f.write_str("(what is installed is unknown)"),
                    (None, _) => f.write_str("(no installed bundle matches)"),
                }
            }
            Test::Kubernetes { minimum, cluster } => {
                let minimum = quote(minimum);
                write!(f, "requires Kubernetes version {minimum} or later ")?;
                match cluster {
                    Some(cluster) => write!(f, "(the cluster runs {})", quote(cluster)),
                    None => f.write_str("(the version of the cluster is unknown)"),
                }
            }
            Test::All(children) => write_joined(f, self, children, " and "),
            Test::Any(children) => {
                f.write_str("any of (")?;
                write_joined(f, self, children, " or ")?;
                f.write_str(")")
            }
            Test::Not(children) => {
                f.write_str("none of (")?;
                write_joined(f, self, children, " or ")?;
                f.write_str(")")
            }
        }
    }
}

/// Writes the versions of a package that were found.
fn write_found(
    f: &mut fmt::Formatter<'_>,
    verdict: Verdict,
    found: &[FoundVersion],
) -> fmt::Result {
    let would_become = |it: &&FoundVersion| it.would_become;
    if let Some(next) = found.iter().find(would_become) {
        let version = quote(&next.version);
        return write!(f, "(version would become {version} from {})", next.origin);
    }
    if verdict == Verdict::Unknown {
        return f.write_str("(what is installed is unknown)");
    }
    let from = |it: &FoundVersion| format!("{} from {}", quote(&it.version), it.origin);
    let versions: Vec<_> = found.iter().map(from).collect();
    match versions.as_slice() {
        [] => f.write_str("(no installed ClusterExtension provides it)"),
        [one] => write!(f, "(installed version is {one})"),
        many => write!(f, "(installed versions are {})", many.join(", ")),
    }
}

/// Writes those children that make the node what it is.
fn write_joined(
    f: &mut fmt::Formatter<'_>,
    node: &Node,
    children: &[Node],
    separator: &str,
) -> fmt::Result {
    let explains = |child: &&Node| match (&node.test, node.verdict) {
        (Test::All(_), Verdict::Met) | (Test::Any(_), Verdict::Unmet) => true,
        (Test::Not(_), Verdict::Met) => true,
        (Test::Not(_), Verdict::Unmet) => child.verdict == Verdict::Met,
        (_, verdict) => child.verdict == verdict,
    };
    for (position, child) in children.iter().filter(explains).enumerate() {
        if position > 0 {
            f.write_str(separator)?;
        }
        write!(f, "{child}")?;
    }
    Ok(())
}
