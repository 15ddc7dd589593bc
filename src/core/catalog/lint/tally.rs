//! How much is wrong with a catalog, and the worst of it, in little memory.

use std::collections::BTreeSet;

use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use super::{Finding, Severity};
use crate::catalog::model::schema;
use crate::error::plain;

/// Findings that are told of one by one.
const WORST: usize = 10;
/// Longest text of one of them, in bytes: that of the condition that shows them.
const MAX_TEXT: usize = Tally::MESSAGE;

/// How much is wrong with a catalog; notes do not count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Number of errors.
    pub errors: usize,
    /// Number of warnings.
    pub warnings: usize,
    /// Number of packages that they are about.
    pub packages: usize,
    /// The first ten: errors before warnings, then by package, file and line.
    pub worst: Vec<Line>,
}

/// A finding in one line, without characters that change what stands around it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// `FILE:LINE: TEXT`.
    pub text: String,
    /// The way out, where it is known.
    pub hint: Option<String>,
}

impl Tally {
    /// Longest message of the condition that tells of them, in bytes.
    pub const MESSAGE: usize = 4096;
    /// Longest note of an Event, in bytes.
    pub const NOTE: usize = 1000;

    /// Returns the number of findings, the most severe ones that fit into `limit` bytes, and the
    /// command that shows all; `None` if there are none.
    pub fn told(&self, catalog: &str, limit: usize) -> Option<String> {
        const CUT: &str = "…";
        let numbers = [(self.errors, "error"), (self.warnings, "warning")];
        let numbers = numbers.into_iter().filter(|(count, _)| *count > 0);
        let mut text = numbers.map(|(count, word)| number(count, word)).join(", ");
        if text.is_empty() {
            return None;
        }
        if self.packages > 0 {
            text = format!("{text} in {}", number(self.packages, "package"));
        }
        let end = format!("\nall: kubectl olm catalog lint {catalog}");
        let mut separator = "; ";
        for line in &self.worst {
            let room = limit.saturating_sub(text.len() + separator.len() + end.len());
            let hint = line.hint.as_ref().map(|hint| format!("; hint: {hint}")).unwrap_or_default();
            if line.text.len() > room {
                if let Some(room) = room.checked_sub(CUT.len()) {
                    text.push_str(separator);
                    text.push_str(&line.text[..line.text.floor_char_boundary(room)]);
                    text.push_str(CUT);
                }
                break;
            }
            text.push_str(separator);
            text.push_str(&line.text);
            if line.text.len() + hint.len() <= room {
                text.push_str(&hint);
            }
            separator = "\n";
        }
        Some(text + &end)
    }
}

fn number(count: usize, word: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {word}{s}")
}

/// Findings while they are counted.
#[derive(Debug, Default)]
pub(super) struct Counted {
    errors: usize,
    warnings: usize,
    packages: BTreeSet<String>,
    /// The worst so far, with the index of their files.
    worst: Vec<(usize, Finding)>,
    /// One that is not among them.
    other: Option<Finding>,
}

impl Counted {
    pub(super) fn add(&mut self, file: usize, mut finding: Finding) -> &mut Finding {
        match finding.severity {
            Severity::Error => self.errors += 1,
            Severity::Warning => self.warnings += 1,
            Severity::Note => return self.other.insert(finding),
        }
        let package = package(&finding);
        if !package.is_empty() && !self.packages.contains(package) {
            self.packages.insert(package.to_owned());
        }
        let place = self.place(file, &finding);
        if place >= WORST {
            return self.other.insert(finding);
        }
        let end = finding.text.floor_char_boundary(MAX_TEXT);
        finding.text.truncate(end);
        finding.text.shrink_to_fit();
        self.worst.truncate(WORST - 1);
        self.worst.insert(place, (file, finding));
        &mut self.worst[place].1
    }

    /// Returns where a finding belongs among the worst.
    fn place(&self, file: usize, finding: &Finding) -> usize {
        fn key(file: usize, it: &Finding) -> (Severity, &str, usize, usize) {
            (it.severity, package(it), file, it.line)
        }
        let before = |(other, it): &(usize, Finding)| key(*other, it) <= key(file, finding);
        self.worst.partition_point(before)
    }

    pub(super) fn finish(self) -> Tally {
        let line = |(_, finding): (usize, Finding)| {
            let mut text = finding.file;
            if finding.line > 0 {
                text = format!("{text}:{}", finding.line);
            }
            let hint = finding.hint.filter(|hint| hint.len() <= MAX_TEXT);
            Line {
                text: plain(&format!("{text}: {}", finding.text)),
                hint: hint.as_deref().map(plain),
            }
        };
        Tally {
            errors: self.errors,
            warnings: self.warnings,
            packages: self.packages.len(),
            worst: self.worst.into_iter().map(line).collect(),
        }
    }
}

/// Returns the package that a finding is about.
fn package(finding: &Finding) -> &str {
    if finding.schema == schema::PACKAGE { &finding.name } else { &finding.package }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: impl Into<String>, hint: Option<&str>) -> Line {
        Line { text: text.into(), hint: hint.map(str::to_owned) }
    }

    fn tally(worst: Vec<Line>) -> Tally {
        Tally { errors: 2, warnings: 5, packages: 3, worst }
    }

    fn told(tally: &Tally) -> String {
        tally.told("acme", Tally::MESSAGE).unwrap()
    }

    // plugin.md U62, U72
    #[test]
    fn findings_are_told_with_their_way_out() {
        let found = tally(vec![
            line("teapot/index.yaml:31: channel \"stable\" has 2 heads: a, b", None),
            line("x.yaml:4: unknown field \"name\"", Some("the field is packageName")),
        ]);
        insta::assert_snapshot!(told(&found), @r#"
        2 errors, 5 warnings in 3 packages; teapot/index.yaml:31: channel "stable" has 2 heads: a, b
        x.yaml:4: unknown field "name"; hint: the field is packageName
        all: kubectl olm catalog lint acme
        "#);
        assert_eq!(Tally::default().told("acme", Tally::MESSAGE), None);
        let one = Tally { warnings: 1, worst: vec![line("a:1: b", None)], ..Tally::default() };
        let text = "1 warning; a:1: b\nall: kubectl olm catalog lint acme";
        assert_eq!(told(&one), text);
    }

    // plugin.md U72: ten lines, 4,096 bytes, no half characters
    #[test]
    fn long_findings_are_cut() {
        let ten = (0..10).map(|i| line(format!("f:{i}: x"), None));
        let text = told(&tally(ten.collect()));
        assert_eq!(text.lines().count(), 11);
        for bytes in 1330..1350 {
            let long = (0..10).map(|_| line("é".repeat(bytes / 2), Some("h")));
            let text = told(&tally(long.collect()));
            assert!(text.len() <= Tally::MESSAGE && text.len() > Tally::MESSAGE - 16, "{bytes}");
            assert!(text.ends_with("\nall: kubectl olm catalog lint acme"), "{text}");
        }
        // A hint that does not fit is left out before the finding is.
        let room = Tally::MESSAGE - "2 errors, 5 warnings in 3 packages; ".len();
        let room = room - "\nall: kubectl olm catalog lint acme".len();
        let text = told(&tally(vec![line("x".repeat(room), Some("h"))]));
        assert!(!text.contains("hint") && !text.contains('…') && text.len() == Tally::MESSAGE);
        let note = tally(vec![line("x".repeat(room), None)]).told("acme", Tally::NOTE).unwrap();
        assert_eq!(note.len(), Tally::NOTE);
    }
}
