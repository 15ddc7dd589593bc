//! Releases: the order of bundles that carry the same version.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use itertools::Itertools as _;

use super::{Identifier, Version, VersionError};
use crate::error::quote;

/// The most characters a release may have.
const MAX_RELEASE_BYTES: usize = 20;

/// A release: dot-separated identifiers that follow the rules of prereleases; may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Release(Vec<Identifier>);

/// Why a text is not a release.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// More than 20 characters.
    #[error("invalid release {}: exceeds maximum length of 20 characters", quote(.0))]
    TooLong(String),
    /// An identifier is not valid.
    /// `text` is the whole release, `index` the position of the identifier, from 0.
    #[error("invalid release {}: segment {index}", quote(.text))]
    Segment { text: String, index: usize, source: VersionError },
}

impl Release {
    /// Says whether this is the empty release, which ranks like an absent one.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromStr for Release {
    type Err = ReleaseError;

    /// Parses a release; the empty text is the empty release.
    fn from_str(text: &str) -> Result<Self, ReleaseError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        if text.len() > MAX_RELEASE_BYTES {
            return Err(ReleaseError::TooLong(text.to_owned()));
        }
        let segment = |(index, part)| {
            Identifier::parse(part).map_err(|source| ReleaseError::Segment {
                text: text.to_owned(),
                index,
                source,
            })
        };
        text.split('.').enumerate().map(segment).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.iter().format("."))
    }
}

/// A version and its release: what orders the bundles of a package.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VersionRelease {
    /// The version; has build metadata only if that is not a release.
    pub version: Version,
    /// The release; absent and explicitly empty rank the same.
    pub release: Option<Release>,
}

/// Why a version and a release do not form a pair.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionReleaseError {
    /// The version of the legacy form is invalid.
    #[error(transparent)]
    Legacy(#[from] VersionError),
    /// The version beside an explicit release is invalid.
    #[error("error parsing version {}", quote(.text))]
    Version { text: String, source: VersionError },
    /// The explicit release is invalid.
    #[error("error parsing release {}", quote(.text))]
    Release { text: String, source: ReleaseError },
}

impl VersionRelease {
    /// Reads the legacy form, in which build metadata that is a valid release is the release.
    ///
    /// Examples: `1.0.0+2` is version 1.0.0, release 2; `1.0.0+001` keeps its build metadata and
    /// has no release, because of the leading zero.
    pub fn legacy(text: &str) -> Result<Self, VersionReleaseError> {
        let version: Version = text.parse()?;
        let release = version.build.join(".").parse::<Release>();
        Ok(match release {
            Ok(release) if !release.is_empty() => {
                Self { version: version.without_build(), release: Some(release) }
            }
            Ok(_) | Err(_) => Self { version, release: None },
        })
    }

    /// Parses a version and an explicit release, which may be empty; build metadata stays in the
    /// version and does not affect the order.
    pub fn explicit(version: &str, release: &str) -> Result<Self, VersionReleaseError> {
        let parsed = version
            .parse()
            .map_err(|source| VersionReleaseError::Version { text: version.to_owned(), source })?;
        let release = release
            .parse()
            .map_err(|source| VersionReleaseError::Release { text: release.to_owned(), source })?;
        Ok(Self { version: parsed, release: Some(release) })
    }

    /// Compares the versions by precedence, then the releases; an absent release is the lowest.
    pub fn precedence(&self, other: &Self) -> Ordering {
        let release = |pair: &Self| pair.release.clone().unwrap_or_default();
        let versions = self.version.precedence(&other.version);
        versions.then_with(|| release(self).cmp(&release(other)))
    }

    /// Returns the version as recorded in status and annotations where releases have no field of
    /// their own: the release is build metadata.
    ///
    /// Example: version 1.0.0 with release 2 is `1.0.0+2`.
    pub fn recorded(&self) -> String {
        match &self.release {
            Some(release) if !release.is_empty() => {
                format!("{}+{release}", self.version.clone().without_build())
            }
            Some(_) | None => self.version.to_string(),
        }
    }
}
