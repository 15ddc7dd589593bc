//! Versions, their precedence, releases, and the two range languages.
//!
//! Parses text into values that are always valid. The two languages are two types that cannot be
//! confused: [`VersionRange`] is `spec.source.catalog.version`, [`SkipRange`] is `skipRange` of
//! channel entries and `versionRange` of package constraints. The same text means different things
//! in them, and neither is the language of Cargo.

mod release;
mod skip_range;
mod tolerant;
mod version_range;

#[cfg(test)]
mod tests;

pub use release::{Release, ReleaseError, VersionRelease, VersionReleaseError};
pub use skip_range::{SkipRange, SkipRangeError};
pub(crate) use tolerant::without_leading_zeros;
pub use version_range::{VersionRange, VersionRangeError};

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use itertools::Itertools as _;

use crate::error::quote;

/// A version, `MAJOR.MINOR.PATCH[-prerelease][+build]`.
///
/// `==` compares everything, build metadata included; [`Version::precedence`] is the order of
/// versions, in which build metadata does not count.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version {
    /// Major version.
    pub major: u64,
    /// Minor version.
    pub minor: u64,
    /// Patch version.
    pub patch: u64,
    /// Identifiers after `-`; empty for a version that is not a prerelease.
    pub prerelease: Vec<Identifier>,
    /// Identifiers after `+`.
    pub build: Vec<String>,
}

/// One identifier of a prerelease or a release.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Identifier {
    /// Digits without leading zeros, at most 2^64-1. Orders below every text.
    Number(u64),
    /// Anything else; ordered by bytes.
    Text(String),
}

/// Why a text is not a version; the texts are those of blang/semver v4, which reach conditions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// The text is empty.
    #[error("Version string empty")]
    Empty,
    /// There are not exactly three parts.
    #[error("No Major.Minor.Patch elements found")]
    Parts,
    /// A number holds something other than digits.
    /// `part` is `major`, `minor` or `patch`.
    #[error("Invalid character(s) found in {part} number {}", quote(.text))]
    NumberCharacter { part: &'static str, text: String },
    /// A number other than 0 starts with a zero.
    /// `part` is `major`, `minor` or `patch`.
    #[error("{} number must not contain leading zeroes {}", capitalized(.part), quote(.text))]
    NumberLeadingZero { part: &'static str, text: String },
    /// A number is missing.
    #[error("strconv.ParseUint: parsing \"\": invalid syntax")]
    NumberEmpty,
    /// A number does not fit into 64 bits.
    #[error("strconv.ParseUint: parsing {}: value out of range", quote(.0))]
    NumberTooLarge(String),
    /// A prerelease identifier is missing.
    #[error("Prerelease is empty")]
    PrereleaseEmpty,
    /// A prerelease identifier holds something other than letters, digits and `-`.
    #[error("Invalid character(s) found in prerelease {}", quote(.0))]
    PrereleaseCharacter(String),
    /// A numeric prerelease identifier other than 0 starts with a zero.
    #[error("Numeric PreRelease version must not contain leading zeroes {}", quote(.0))]
    PrereleaseLeadingZero(String),
    /// A build identifier is missing.
    #[error("Build meta data is empty")]
    BuildEmpty,
    /// A build identifier holds something other than letters, digits and `-`.
    #[error("Invalid character(s) found in build meta data {}", quote(.0))]
    BuildCharacter(String),
}

/// Returns a sort key for names in which numbers count as numbers: `stable-3.9` before `stable-3.10`.
pub fn natural(text: &str) -> Vec<(bool, u64, String)> {
    let chunks = text.chars().chunk_by(char::is_ascii_digit);
    let parts = chunks.into_iter().map(|(is_number, part)| (is_number, part.collect::<String>()));
    let key = |(is_number, part): (bool, String)| {
        let number = if is_number { part.parse().unwrap_or(u64::MAX) } else { 0 };
        (!is_number, number, part)
    };
    parts.map(key).collect()
}

impl Version {
    /// Parses the version of an API server, without the suffixes that vendors add.
    ///
    /// Example: `v1.33.1-eks-036c24b` is 1.33.1.
    pub fn of_kubernetes(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        text.split(['-', '+']).next()?.parse().ok()
    }

    /// Compares by precedence: numbers, then a prerelease below none, then the identifiers of the
    /// prerelease one by one, the longer list above its own prefix. Build metadata is ignored.
    ///
    /// Example: `1.0.0-alpha < 1.0.0-alpha.1 < 1.0.0-rc.1 < 1.0.0 = 1.0.0+5`.
    ///
    /// Source: Semantic Versioning 2.0.0, section 11.
    pub fn precedence(&self, other: &Self) -> Ordering {
        let numbers = |version: &Self| (version.major, version.minor, version.patch);
        numbers(self)
            .cmp(&numbers(other))
            .then_with(|| {
                let is_final = |version: &Self| version.prerelease.is_empty();
                is_final(self).cmp(&is_final(other))
            })
            .then_with(|| self.prerelease.cmp(&other.prerelease))
    }

    /// Says whether this is a prerelease.
    pub fn is_prerelease(&self) -> bool {
        !self.prerelease.is_empty()
    }

    /// Returns the lowest version there is: 0.0.0-0.
    fn lowest() -> Self {
        let prerelease = vec![Identifier::Number(0)];
        Self { major: 0, minor: 0, patch: 0, prerelease, build: Vec::new() }
    }

    /// Returns the next version above this one: 1.0.1-0 for 1.0.0, 1.0.0-rc.0 for 1.0.0-rc.
    fn successor(&self) -> Self {
        let mut next = self.clone().without_build();
        if next.prerelease.is_empty() {
            next.patch = next.patch.saturating_add(1);
        }
        next.prerelease.push(Identifier::Number(0));
        next
    }

    /// Returns the version without build metadata.
    #[must_use]
    pub fn without_build(mut self) -> Self {
        self.build.clear();
        self
    }
}

impl FromStr for Version {
    type Err = VersionError;

    /// Parses strictly: three numbers without leading zeros, no prefix, no blanks.
    fn from_str(text: &str) -> Result<Self, VersionError> {
        if text.is_empty() {
            return Err(VersionError::Empty);
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(VersionError::Parts);
        };
        let major = number("major", major)?;
        let minor = number("minor", minor)?;
        let (rest, build) = split_at_mark(rest, '+');
        let (patch, prerelease) = split_at_mark(rest, '-');
        Ok(Self {
            major,
            minor,
            patch: number("patch", patch)?,
            prerelease: identifiers(prerelease).map(Identifier::parse).collect::<Result<_, _>>()?,
            build: identifiers(build).map(build_identifier).collect::<Result<_, _>>()?,
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.prerelease.is_empty() {
            write!(f, "-{}", self.prerelease.iter().format("."))?;
        }
        if !self.build.is_empty() {
            write!(f, "+{}", self.build.iter().format("."))?;
        }
        Ok(())
    }
}

impl Identifier {
    /// Parses one prerelease identifier.
    fn parse(text: &str) -> Result<Self, VersionError> {
        if text.is_empty() {
            return Err(VersionError::PrereleaseEmpty);
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            if has_leading_zero(text) {
                return Err(VersionError::PrereleaseLeadingZero(text.to_owned()));
            }
            let number = text.parse().map(Self::Number);
            return number.map_err(|_| VersionError::NumberTooLarge(text.to_owned()));
        }
        if text.bytes().all(is_identifier_byte) {
            return Ok(Self::Text(text.to_owned()));
        }
        Err(VersionError::PrereleaseCharacter(text.to_owned()))
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Splits at the first mark; the second part is `None` without a mark, and may be empty.
fn split_at_mark(text: &str, mark: char) -> (&str, Option<&str>) {
    match text.split_once(mark) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

/// Returns the dot-separated identifiers of a part that may be absent.
fn identifiers(part: Option<&str>) -> impl Iterator<Item = &str> {
    part.into_iter().flat_map(|part| part.split('.'))
}

/// Parses one of the three numbers.
fn number(part: &'static str, text: &str) -> Result<u64, VersionError> {
    let owned = || text.to_owned();
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(VersionError::NumberCharacter { part, text: owned() });
    }
    if has_leading_zero(text) {
        return Err(VersionError::NumberLeadingZero { part, text: owned() });
    }
    if text.is_empty() {
        return Err(VersionError::NumberEmpty);
    }
    text.parse().map_err(|_| VersionError::NumberTooLarge(owned()))
}

/// Checks one build identifier.
fn build_identifier(text: &str) -> Result<String, VersionError> {
    if text.is_empty() {
        return Err(VersionError::BuildEmpty);
    }
    if text.bytes().all(is_identifier_byte) {
        return Ok(text.to_owned());
    }
    Err(VersionError::BuildCharacter(text.to_owned()))
}

/// Says whether a byte is allowed in an identifier.
fn is_identifier_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

/// Says whether digits other than a single 0 start with a zero.
fn has_leading_zero(digits: &str) -> bool {
    digits.len() > 1 && digits.starts_with('0')
}

/// Returns a lower-case ASCII word with its first letter in upper case.
fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}
