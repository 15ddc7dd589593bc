//! How much is wrong with a catalog, and the worst of it, in little memory.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Finding, Severity};
use crate::catalog::model::schema;
use crate::error::plain;

/// Findings that are told of one by one.
const WORST: usize = 10;
/// Longest text of one of them, in bytes: that of the condition that shows them.
const MAX_TEXT: usize = 4096;

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
    if finding.schema == schema::PACKAGE {
        &finding.name
    } else {
        &finding.package
    }
}
