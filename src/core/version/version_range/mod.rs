//! The language of `spec.source.catalog.version`.
//!
//! The terms of a group are separated by blanks or commas, groups by `||`; versions may be partial
//! or have wildcards, and prereleases are excluded unless a term of the group names one.
//!
//! Source: resolution.md section 2, Masterminds/semver v3.5.0.

mod explain;

use std::cmp::Ordering;
use std::str::FromStr;

use super::{Identifier, Version, has_leading_zero, is_blank, is_identifier_byte};
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

/// Operators by their text, the longer ones before those they start with.
#[rustfmt::skip]
const OPERATORS: [(&str, Operator); 11] = [
    ("!=", Operator::NotEqual), (">=", Operator::GreaterOrEqual), ("=>", Operator::GreaterOrEqual),
    ("<=", Operator::LessOrEqual), ("=<", Operator::LessOrEqual), ("~>", Operator::Tilde),
    ("=", Operator::Equal), (">", Operator::Greater), ("<", Operator::Less),
    ("~", Operator::Tilde), ("^", Operator::Caret),
];

impl VersionRange {
    /// Says whether the range contains a version; build metadata never matters.
    ///
    /// A prerelease is contained only if a term of the same group names some prerelease, whatever
    /// its numbers: `>=1.0.0-0 <2.0.0` contains 2.0.0-rc.1, `>=1.0.0` does not.
    pub fn contains(&self, version: &Version) -> bool {
        self.groups.iter().any(|terms| {
            let admits_prereleases = terms.iter().any(|term| term.base.is_prerelease());
            (admits_prereleases || !version.is_prerelease())
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

    /// Returns whether the range is one full version, so that it never contains a newer one.
    pub fn is_one_version(&self) -> bool {
        let one = |term: &Term| term.operator == Operator::Equal && term.wildcard == Wildcard::None;
        matches!(self.groups.as_slice(), [terms] if terms.iter().any(one))
    }
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
        let text = rewrite_hyphen_ranges(text);
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
    let mut scanner = Scanner::new(text);
    let mut shapes = Vec::new();
    scanner.blanks();
    loop {
        shapes.push(scanner.term().ok_or_else(improper)?);
        let parted = scanner.blanks();
        if scanner.rest().is_empty() {
            break;
        }
        if scanner.literal(",") {
            scanner.blanks();
        } else if !parted {
            return Err(improper());
        }
    }
    let build = |shape: &TermShape<'_>| shape.build().ok_or(VersionRangeError::Version);
    shapes.iter().map(build).collect()
}

/// Turns every `A - B` into `>= A, <= B `, dropping the blanks around it.
fn rewrite_hyphen_ranges(text: &str) -> String {
    let mut rewritten = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if let Some((lower, upper, length)) = hyphen_range(rest) {
            rewritten.extend([">= ", lower, ", <= ", upper, " "]);
            rest = &rest[length..];
        } else {
            rewritten.push(character);
            rest = &rest[character.len_utf8()..];
        }
    }
    rewritten
}

/// Returns both versions and the length of the hyphen range at the start of a text.
fn hyphen_range(text: &str) -> Option<(&str, &str, usize)> {
    let mut scanner = Scanner::new(text);
    scanner.blanks();
    let lower = scanner.version()?.text;
    let parted = scanner.blanks() && scanner.literal("-") && scanner.blanks();
    let upper = scanner.version().filter(|_| parted)?.text;
    scanner.blanks();
    Some((lower, upper, scanner.position))
}

/// A term that follows the grammar; its version is not parsed yet.
struct TermShape<'a> {
    operator: Operator,
    version: VersionShape<'a>,
    text: &'a str,
}

/// A version that follows the grammar: segments of digits, wildcards and bars.
struct VersionShape<'a> {
    text: &'a str,
    segments: Vec<&'a str>,
    prerelease: Option<&'a str>,
}

impl TermShape<'_> {
    /// Builds the term, unless its version is invalid.
    fn build(&self) -> Option<Term> {
        let shape = &self.version;
        let is_wildcard = |segment: &&str| matches!(*segment, "x" | "X" | "*");
        let used = shape.segments.iter().position(is_wildcard);
        let used = &shape.segments[..used.unwrap_or(shape.segments.len())];
        let wildcard = match used.len() {
            0 => Wildcard::Major,
            1 => Wildcard::Minor,
            2 => Wildcard::Patch,
            _ => Wildcard::None,
        };
        if shape.base_length(used) > MAX_VERSION_BYTES {
            return None;
        }
        let number = |index: usize| used.get(index).map_or(Some(0), |segment| digits(segment));
        let prerelease = shape.prerelease.into_iter();
        let base = Version {
            major: number(0)?,
            minor: number(1)?,
            patch: number(2)?,
            prerelease: prerelease
                .flat_map(|text| text.split('.'))
                .map(identifier)
                .collect::<Option<_>>()?,
            build: Vec::new(),
        };
        Some(Term { operator: self.operator, base, wildcard, text: self.text.to_owned() })
    }
}

impl VersionShape<'_> {
    /// Returns the length of the version text the library would build, which it limits.
    fn base_length(&self, used: &[&str]) -> usize {
        if used.len() == 3 {
            return self.text.len();
        }
        let written: usize = used.iter().map(|segment| segment.len() + 1).sum();
        let filled = 2 * (3 - used.len());
        written + filled - 1 + self.prerelease.map_or(0, |text| text.len() + 1)
    }
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

/// Reads a text from left to right; what does not match is left unread.
struct Scanner<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, position: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    /// Reads the bytes a predicate accepts; only ASCII is ever accepted.
    fn take_while(&mut self, accepts: impl Fn(u8) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.bytes().take_while(|byte| accepts(*byte)).count();
        self.position += length;
        &rest[..length]
    }

    /// Reads blanks and says whether there were any.
    fn blanks(&mut self) -> bool {
        !self.take_while(is_blank).is_empty()
    }

    /// Reads a literal and says whether it was there.
    fn literal(&mut self, literal: &str) -> bool {
        let found = self.rest().starts_with(literal);
        if found {
            self.position += literal.len();
        }
        found
    }

    fn term(&mut self) -> Option<TermShape<'a>> {
        let start = self.position;
        let found = OPERATORS.into_iter().find(|(text, _)| self.rest().starts_with(text));
        let (text, operator) = found.unwrap_or(("", Operator::Equal));
        self.position += text.len();
        self.blanks();
        let version = self.version()?;
        Some(TermShape { operator, version, text: &self.text[start..self.position] })
    }

    fn version(&mut self) -> Option<VersionShape<'a>> {
        let start = self.position;
        self.literal("v");
        let mut segments = vec![self.segment()?];
        while segments.len() < 3 {
            let Some(segment) = self.after(".", Self::segment) else { break };
            segments.push(segment);
        }
        let prerelease = self.after("-", Self::identifiers);
        self.after("+", Self::identifiers);
        Some(VersionShape { text: &self.text[start..self.position], segments, prerelease })
    }

    /// Reads a mark and what must follow it, or nothing.
    fn after<T>(&mut self, mark: &str, read: fn(&mut Self) -> Option<T>) -> Option<T> {
        let start = self.position;
        let found = if self.literal(mark) { read(self) } else { None };
        if found.is_none() {
            self.position = start;
        }
        found
    }

    fn segment(&mut self) -> Option<&'a str> {
        let is_segment =
            |byte: u8| byte.is_ascii_digit() || matches!(byte, b'x' | b'X' | b'*' | b'|');
        Some(self.take_while(is_segment)).filter(|segment| !segment.is_empty())
    }

    fn identifiers(&mut self) -> Option<&'a str> {
        let start = self.position;
        self.identifier()?;
        while self.after(".", Self::identifier).is_some() {}
        Some(&self.text[start..self.position])
    }

    fn identifier(&mut self) -> Option<&'a str> {
        Some(self.take_while(is_identifier_byte)).filter(|text| !text.is_empty())
    }
}
