//! The language of `skipRange` and of `versionRange` in package constraints.
//!
//! The terms of an alternative are separated by blanks only, alternatives by `||`; versions are
//! complete, `x` is a wildcard, and prereleases are ordinary versions.
//!
//! Source: resolution.md section 3, blang/semver v4.0.0.

use std::str::FromStr;

use super::{Version, VersionError};
use crate::error::quote;

/// The longest text that is read; upstream has no limit.
const MAX_BYTES: usize = 4096;

/// A range as channel entries and package constraints write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkipRange {
    alternatives: Vec<Vec<Term>>,
}

/// Why a text is not a range of this language; the texts are those of blang/semver v4.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkipRangeError {
    /// Longer than 4096 bytes.
    #[error("range is too long (max {MAX_BYTES} bytes)")]
    TooLong,
    /// The range starts with `||`.
    #[error("First element in range is '||'")]
    StartsWithOr,
    /// The range ends with `||`, or is empty.
    #[error("Last element in range is '||'")]
    EndsWithOr,
    /// Nothing is between two `||`; the library accepts this and then crashes.
    #[error("empty alternative")]
    EmptyAlternative,
    /// A term has no digit.
    #[error("Could not get version from string: {}", quote(.0))]
    NoVersion(String),
    /// A term has an unknown operator.
    /// `token` is the whole term, `operator` what is before its first digit, `version` the rest.
    #[error(
        "Could not parse Range {}: Could not parse comparator {} in {}",
        quote(.token), quote(.operator), quote(&format!("{operator}{version}"))
    )]
    Operator { token: String, operator: String, version: String },
    /// The version of a term is invalid.
    /// `token` is the whole term, `operator` what is before its first digit, `version` the rest.
    #[error(
        "Could not parse Range {}: Could not parse version {} in {}",
        quote(.token), quote(.version), quote(&format!("{operator}{version}"))
    )]
    Version { token: String, operator: String, version: String, source: VersionError },
}

/// One comparison of an alternative.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    operator: Operator,
    version: Version,
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
}

impl SkipRange {
    /// Says whether the range contains a version; build metadata never matters.
    ///
    /// A prerelease is an ordinary lower version: `<2.0.0` contains 2.0.0-rc.1.
    pub fn contains(&self, version: &Version) -> bool {
        let holds = |term: &Term| term.holds(version);
        self.alternatives.iter().any(|terms| terms.iter().all(holds))
    }

    /// Says whether there is no version that the range contains.
    pub fn is_empty(&self) -> bool {
        !self.samples().any(|version| self.contains(&version))
    }

    /// Says whether the range contains a version above this one.
    pub fn exceeds(&self, version: &Version) -> bool {
        let mut above = self.samples().chain([version.successor()]);
        above.any(|other| other.precedence(version).is_gt() && self.contains(&other))
    }

    /// Returns the lowest version of all, each version of the range, and the next one above each:
    /// every interval of the range begins with one of them.
    fn samples(&self) -> impl Iterator<Item = Version> {
        let versions = self.alternatives.iter().flatten().map(|term| &term.version);
        let near = versions.flat_map(|version| [version.clone(), version.successor()]);
        std::iter::once(Version::lowest()).chain(near)
    }
}

impl Term {
    fn holds(&self, version: &Version) -> bool {
        let order = version.precedence(&self.version);
        match self.operator {
            Operator::Equal => order.is_eq(),
            Operator::NotEqual => order.is_ne(),
            Operator::Greater => order.is_gt(),
            Operator::GreaterOrEqual => order.is_ge(),
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
        }
    }
}

impl FromStr for SkipRange {
    type Err = SkipRangeError;

    fn from_str(text: &str) -> Result<Self, SkipRangeError> {
        if text.len() > MAX_BYTES {
            return Err(SkipRangeError::TooLong);
        }
        let tokens = tokens(text);
        let mut alternatives = Vec::new();
        for alternative in alternatives_of(&tokens)? {
            let mut expanded = Vec::new();
            for token in alternative {
                expand(token, &mut expanded)?;
            }
            alternatives.push(expanded);
        }
        let parse = |tokens: &Vec<String>| tokens.iter().map(|token| term(token)).collect();
        let alternatives = alternatives.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Self { alternatives })
    }
}

/// Splits at spaces, except after `>`, `<` and `=`; a token of one byte is dropped.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut push = |token: &str| {
        if token.len() > 1 {
            tokens.push(token.replace(' ', ""));
        }
    };
    let mut start = 0;
    let mut last = 0;
    for (index, byte) in text.bytes().enumerate() {
        if byte != b' ' {
            last = byte;
        } else if !matches!(last, b'>' | b'<' | b'=') {
            push(&text[start..index]);
            start = index + 1;
        }
    }
    push(&text[start..]);
    tokens
}

/// Splits the tokens at `||`.
fn alternatives_of(tokens: &[String]) -> Result<Vec<&[String]>, SkipRangeError> {
    let is_or = |token: &String| token == "||";
    if tokens.first().is_some_and(is_or) {
        return Err(SkipRangeError::StartsWithOr);
    }
    if tokens.last().is_none_or(is_or) {
        return Err(SkipRangeError::EndsWithOr);
    }
    let alternatives: Vec<_> = tokens.split(is_or).collect();
    if alternatives.iter().any(|tokens| tokens.is_empty()) {
        return Err(SkipRangeError::EmptyAlternative);
    }
    Ok(alternatives)
}

/// Adds the token, or its expansion if it has an `x` anywhere.
///
/// An unknown operator is lost here: `~1.2.x` is `1.2.0`.
fn expand(token: &str, expanded: &mut Vec<String>) -> Result<(), SkipRangeError> {
    if !token.contains('x') {
        expanded.push(token.to_owned());
        return Ok(());
    }
    let (operator, version) = split_operator(token)?;
    let base = base_of(version);
    let next = next_of(version, &base);
    expanded.extend(match operator {
        "" | "=" | "==" => vec![format!(">={base}"), format!("<{next}")],
        "!=" | "!" => vec![format!("<{base}"), format!(">={next}")],
        ">" => vec![format!(">={next}")],
        ">=" => vec![format!(">={base}")],
        "<" => vec![format!("<{base}")],
        "<=" => vec![format!("<{next}")],
        _ => vec![base],
    });
    Ok(())
}

/// Returns the lowest version a wildcard stands for.
fn base_of(version: &str) -> String {
    let base = version.replacen(".x.x", ".x", 1).replacen(".x", ".0", 1);
    if base.matches('.').count() == 1 { base + ".0" } else { base }
}

/// Returns the first version above a wildcard, empty if the text does not end in one.
fn next_of(version: &str, base: &str) -> String {
    let parts: Vec<&str> = version.split('.').collect();
    let raised = match parts.as_slice() {
        [_, "x"] => 0,
        [_, _, "x"] => 1,
        _ => return String::new(),
    };
    let mut parts: Vec<String> = base.split('.').map(str::to_owned).collect();
    let number = parts.get(raised).and_then(|part| part.parse::<i64>().ok());
    let Some(number) = number.and_then(|number| number.checked_add(1)) else {
        return String::new();
    };
    parts[raised] = number.to_string();
    parts.join(".")
}

/// Splits a token at its first digit.
fn split_operator(token: &str) -> Result<(&str, &str), SkipRangeError> {
    let Some(digit) = token.find(|character: char| character.is_ascii_digit()) else {
        return Err(SkipRangeError::NoVersion(token.to_owned()));
    };
    let (operator, version) = token.split_at(digit);
    Ok((operator.trim(), version))
}

/// Parses one comparison.
fn term(token: &str) -> Result<Term, SkipRangeError> {
    let (operator_text, version_text) = split_operator(token)?;
    let parts = || [token, operator_text, version_text].map(str::to_owned);
    let operator = match operator_text {
        "" | "=" | "==" => Operator::Equal,
        "!" | "!=" => Operator::NotEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        _ => {
            let [token, operator, version] = parts();
            return Err(SkipRangeError::Operator { token, operator, version });
        }
    };
    let version = version_text.parse().map_err(|source| {
        let [token, operator, version] = parts();
        SkipRangeError::Version { token, operator, version, source }
    })?;
    Ok(Term { operator, version })
}
