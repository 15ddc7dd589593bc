//! The language of `spec.source.catalog.version`.
//!
//! The terms of a group are separated by blanks or commas, groups by `||`; versions may be partial
//! or have wildcards, and prereleases are excluded unless a term of the group names one.
//!
//! Source: resolution.md section 2, Masterminds/semver v3.5.0.

mod explain;

use std::cmp::Ordering;
use std::str::FromStr;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::{Identifier, Version, has_leading_zero};
use crate::error::quote;

/// The longest text that is read.
const MAX_BYTES: usize = 512;
/// The most groups a range may have.
const MAX_GROUPS: usize = 32;
/// The longest version text of one term.
const MAX_VERSION_BYTES: usize = 256;

/// A range as requested by a ClusterExtension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionRange {
    groups: Vec<Vec<Term>>,
}

/// Why a text is not a range of this language; the texts are those of Masterminds/semver v3.5.0,
/// which reach conditions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionRangeError {
    /// Longer than 512 bytes.
    #[error("constraint string is too long (max {MAX_BYTES} bytes)")]
    TooLong,
    /// More than 32 groups.
    #[error("too many constraint groups (max {MAX_GROUPS})")]
    TooManyGroups,
    /// A group does not follow the grammar; holds the group after hyphen ranges are rewritten.
    #[error("improper constraint: {}", quote(.0))]
    Improper(String),
    /// A term follows the grammar but has no valid version.
    #[error("constraint parser error")]
    Version,
}

/// One comparison of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    operator: Operator,
    base: Version,
    wildcard: Wildcard,
    /// The term as written, after hyphen ranges are rewritten.
    text: String,
}

/// How a term compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Tilde,
    Caret,
}

/// The first part of a term's version that is missing or a wildcard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wildcard {
    None,
    Patch,
    Minor,
    Major,
}

#[rustfmt::skip]
const OPERATORS: [(&str, Operator); 10] = [
    ("!=", Operator::NotEqual), (">=", Operator::GreaterOrEqual), ("=>", Operator::GreaterOrEqual),
    ("<=", Operator::LessOrEqual), ("=<", Operator::LessOrEqual), ("~>", Operator::Tilde),
    (">", Operator::Greater), ("<", Operator::Less), ("~", Operator::Tilde), ("^", Operator::Caret),
];

const BLANKS: [char; 5] = [' ', '\t', '\n', '\x0c', '\r'];

/// A version that follows the grammar, with its segments of digits, wildcards and bars, and its
/// prerelease as groups.
const VERSION: &str = concat!(
    r"v?([0-9|xX*]+)(?:\.([0-9|xX*]+))?(?:\.([0-9|xX*]+))?",
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
);

/// A term at the start of a text: operator, version, and the groups of the version.
static TERM: LazyLock<Regex> =
    LazyLock::new(|| pattern(&format!(r"^(!=|>=|=>|<=|=<|~>|[=><~^])?[ \t\n\f\r]*({VERSION})")));

/// `A - B` with the blanks around it.
static HYPHEN_RANGE: LazyLock<Regex> = LazyLock::new(|| {
    let blank = r"[ \t\n\f\r]";
    pattern(&format!("{blank}*(?<lower>{VERSION}){blank}+-{blank}+(?<upper>{VERSION}){blank}*"))
});

#[expect(clippy::expect_used, reason = "the patterns are ours, and valid")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

impl VersionRange {
    /// Says whether the range contains a version; build metadata never matters.
    ///
    /// A prerelease is contained only if a term of the same group names some prerelease, whatever
    /// its numbers: `>=1.0.0-0 <2.0.0` contains 2.0.0-rc.1, `>=1.0.0` does not.
    pub fn contains(&self, version: &Version) -> bool {
        self.groups.iter().any(|terms| {
            (names_prerelease(terms) || !version.is_prerelease())
                && terms.iter().all(|term| term.holds(version))
        })
    }

    /// Says whether the range would contain the version if every group admitted prereleases.
    ///
    /// Distinguishes a prerelease that was not requested from a version that is out of range.
    pub fn contains_admitting_prereleases(&self, version: &Version) -> bool {
        let holds = |term: &Term| term.holds(version);
        self.groups.iter().any(|terms| terms.iter().all(holds))
    }

    /// Returns whether a term of the range names a prerelease.
    pub fn names_prereleases(&self) -> bool {
        self.groups.iter().any(|terms| names_prerelease(terms))
    }

    /// Returns whether the range is one full version, so that it never contains a newer one.
    pub fn is_one_version(&self) -> bool {
        let one = |term: &Term| term.operator == Operator::Equal && term.wildcard == Wildcard::None;
        matches!(self.groups.as_slice(), [terms] if terms.iter().any(one))
    }
}

fn names_prerelease(terms: &[Term]) -> bool {
    terms.iter().any(|term| term.base.is_prerelease())
}

impl Term {
    fn holds(&self, version: &Version) -> bool {
        let order = version.precedence(&self.base);
        match self.operator {
            Operator::Equal if self.wildcard == Wildcard::None => order.is_eq(),
            Operator::Equal | Operator::Tilde => self.tilde(version, order),
            Operator::NotEqual => self.not_equal(version, order),
            Operator::Greater => match self.wildcard {
                Wildcard::None => order.is_gt(),
                Wildcard::Patch => minor_of(version) > minor_of(&self.base),
                Wildcard::Minor => version.major > self.base.major,
                Wildcard::Major => version.major > 0 || order.is_gt(),
            },
            Operator::GreaterOrEqual => order.is_ge(),
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => match self.wildcard {
                Wildcard::None => order.is_le(),
                Wildcard::Patch => minor_of(version) <= minor_of(&self.base),
                Wildcard::Minor => version.major <= self.base.major,
                Wildcard::Major => minor_of(version) == (0, 0),
            },
            Operator::Caret => self.caret(version, order),
        }
    }

    fn tilde(&self, version: &Version, order: Ordering) -> bool {
        let base = &self.base;
        // The library reads `~0.0.0` as `~*`.
        let is_zero = (base.major, base.minor, base.patch) == (0, 0, 0);
        let within = match self.wildcard {
            Wildcard::None => is_zero || minor_of(version) == minor_of(base),
            Wildcard::Patch => minor_of(version) == minor_of(base),
            Wildcard::Minor => version.major == base.major,
            Wildcard::Major => true,
        };
        order.is_ge() && within
    }

    fn not_equal(&self, version: &Version, order: Ordering) -> bool {
        let base = &self.base;
        match self.wildcard {
            Wildcard::None => order.is_ne(),
            // Within the same minor release only the prereleases are compared; two versions
            // without one are equal here.
            Wildcard::Patch => {
                minor_of(version) != minor_of(base) || version.prerelease != base.prerelease
            }
            Wildcard::Minor => version.major != base.major,
            Wildcard::Major => {
                (version.major, version.minor, version.patch) != (0, 0, 0) || order.is_ne()
            }
        }
    }

    fn caret(&self, version: &Version, order: Ordering) -> bool {
        let base = &self.base;
        if order.is_lt() {
            return false;
        }
        if base.major > 0 || self.wildcard == Wildcard::Minor {
            return version.major == base.major;
        }
        if base.minor > 0 || self.wildcard == Wildcard::Patch {
            return version.major == 0 && version.minor == base.minor;
        }
        version.major == 0 && version.minor == 0 && version.patch == base.patch
    }
}

/// Returns major and minor, which order a release series.
fn minor_of(version: &Version) -> (u64, u64) {
    (version.major, version.minor)
}

impl FromStr for VersionRange {
    type Err = VersionRangeError;

    fn from_str(text: &str) -> Result<Self, VersionRangeError> {
        if text.len() > MAX_BYTES {
            return Err(VersionRangeError::TooLong);
        }
        // As the library does it.
        let text = HYPHEN_RANGE.replace_all(text, ">= $lower, <= $upper ");
        let groups: Vec<&str> = text.split("||").collect();
        if groups.len() > MAX_GROUPS {
            return Err(VersionRangeError::TooManyGroups);
        }
        let groups = groups.into_iter().map(group).collect::<Result<_, _>>()?;
        Ok(Self { groups })
    }
}

/// Parses one group: first its shape as a whole, then the versions from left to right.
fn group(text: &str) -> Result<Vec<Term>, VersionRangeError> {
    let improper = || VersionRangeError::Improper(text.to_owned());
    let mut rest = text.trim_start_matches(BLANKS);
    let mut shapes = Vec::new();
    loop {
        let shape = TERM.captures(rest).ok_or_else(improper)?;
        rest = &rest[shape.get_match().end()..];
        shapes.push(shape);
        let next = rest.trim_start_matches(BLANKS);
        let parted = next.len() < rest.len();
        rest = match next.strip_prefix(',') {
            _ if next.is_empty() => break,
            Some(after) => after.trim_start_matches(BLANKS),
            None if parted => next,
            None => return Err(improper()),
        };
    }
    shapes.iter().map(|shape| term(shape).ok_or(VersionRangeError::Version)).collect()
}

/// Builds a term that follows the grammar, unless its version is invalid.
fn term(shape: &Captures<'_>) -> Option<Term> {
    let part = |group| shape.get(group).map(|part| part.as_str());
    let segments = (3..=5).map_while(part);
    let used: Vec<_> = segments.take_while(|it| !matches!(*it, "x" | "X" | "*")).collect();
    let wildcard = match used.len() {
        0 => Wildcard::Major,
        1 => Wildcard::Minor,
        2 => Wildcard::Patch,
        _ => Wildcard::None,
    };
    let prerelease = part(6);
    // The length of the version text that the library would build, which it limits.
    let length = if wildcard == Wildcard::None {
        part(2)?.len()
    } else {
        let written: usize = used.iter().map(|segment| segment.len() + 1).sum();
        written + 2 * (3 - used.len()) - 1 + prerelease.map_or(0, |text| text.len() + 1)
    };
    if length > MAX_VERSION_BYTES {
        return None;
    }
    let number = |index: usize| used.get(index).map_or(Some(0), |segment| digits(segment));
    let identifiers = prerelease.into_iter().flat_map(|text| text.split('.')).map(identifier);
    let base = Version {
        major: number(0)?,
        minor: number(1)?,
        patch: number(2)?,
        prerelease: identifiers.collect::<Option<_>>()?,
        build: Vec::new(),
    };
    let found = OPERATORS.iter().find(|(text, _)| part(1) == Some(text));
    let operator = found.map_or(Operator::Equal, |(_, operator)| *operator);
    Some(Term { operator, base, wildcard, text: shape.get_match().as_str().to_owned() })
}

/// Returns a number, leading zeros allowed.
fn digits(text: &str) -> Option<u64> {
    let all_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| all_digits)
}

/// Returns a prerelease identifier; digits beyond 64 bits count as text here.
fn identifier(text: &str) -> Option<Identifier> {
    let all_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if all_digits && has_leading_zero(text) {
        return None;
    }
    let number = text.parse().ok().filter(|_| all_digits);
    Some(number.map_or_else(|| Identifier::Text(text.to_owned()), Identifier::Number))
}
