//! Versions as people write them: `v1.2`, `1.02`.

use super::{Version, VersionError};

impl Version {
    /// Parses tolerantly: blanks around it, one leading `v` and leading zeros are dropped, missing
    /// numbers are 0.
    ///
    /// A version with missing numbers has neither prerelease nor build metadata.
    ///
    /// Source: blang/semver v4 `ParseTolerant`; used by `semver_compare` in CEL rules and for
    /// `minKubeVersion`.
    pub fn parse_tolerant(text: &str) -> Result<Self, VersionError> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_leading_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err(VersionError::Parts);
            }
            parts.resize(3, "0".to_owned());
        }
        parts.join(".").parse()
    }
}

/// Removes leading zeros from a part of more than one character; one that does not begin with a digit
/// then gets a zero, as the source has it.
pub(crate) fn without_leading_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let rest = part.trim_start_matches('0');
    let zero = if rest.starts_with(|first: char| first.is_ascii_digit()) { "" } else { "0" };
    format!("{zero}{rest}")
}
