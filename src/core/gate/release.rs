//! Minor releases of OpenShift, and which one comes next.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::version::Version;

/// A minor release of OpenShift, such as 4.19; patch, pre-release and build do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MinorRelease {
    pub major: u64,
    pub minor: u64,
}

/// 4.23 and 5.0 are released together as equals: both are followed by 5.1.
const LAST_OF_4: MinorRelease = MinorRelease::new(4, 23);
const FIRST_OF_5: MinorRelease = MinorRelease::new(5, 0);

/// OpenShift 4.N brings Kubernetes 1.(N + 13).
const KUBERNETES_AHEAD: u64 = 13;

/// A text is not a minor release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected <major>.<minor>, for example 4.19")]
pub struct NotARelease;

impl TryFrom<String> for MinorRelease {
    type Error = NotARelease;

    fn try_from(text: String) -> Result<Self, NotARelease> {
        text.parse()
    }
}

impl From<MinorRelease> for String {
    fn from(release: MinorRelease) -> Self {
        release.to_string()
    }
}

impl FromStr for MinorRelease {
    type Err = NotARelease;

    /// Reads `<major>.<minor>`; a patch, pre-release or build behind it does not count.
    fn from_str(text: &str) -> Result<Self, NotARelease> {
        let found = Self::of_cluster(text).or_else(|| Self::of_cluster(&format!("{text}.0")));
        found.ok_or(NotARelease)
    }
}

impl MinorRelease {
    /// Makes a release from its two numbers.
    pub const fn new(major: u64, minor: u64) -> Self {
        Self { major, minor }
    }

    /// Reads the version of a cluster: strict semver, of which only the first two numbers count.
    ///
    /// `4.18.0-rc.3` is 4.18; `v4.18.0` and `4.18` are not versions.
    pub fn of_cluster(version: &str) -> Option<Self> {
        let version = semver::Version::parse(version).ok()?;
        Some(Self::new(version.major, version.minor))
    }

    /// Returns the release a cluster is updated to next.
    #[must_use]
    pub fn next(self) -> Self {
        let from = self.as_peer();
        Self::new(from.major, from.minor.saturating_add(1))
    }

    /// Returns the release that belongs to a version of Kubernetes: 4.N to 1.(N + 13), and from 1.37 on
    /// 5.N to 1.(N + 36).
    pub fn of_kubernetes(version: &Version) -> Option<Self> {
        let minor = version.minor.checked_sub(KUBERNETES_AHEAD)?;
        let release = match minor.checked_sub(LAST_OF_4.minor) {
            Some(after) if after > 0 => Self::new(FIRST_OF_5.major, after),
            _ => Self::new(LAST_OF_4.major, minor),
        };
        (version.major == 1).then_some(release)
    }

    /// Returns the minor version of Kubernetes 1 that it brings.
    pub fn kubernetes_minor(self) -> u64 {
        let before = if self.major > LAST_OF_4.major { LAST_OF_4.minor } else { 0 };
        self.minor.saturating_add(before + KUBERNETES_AHEAD)
    }

    /// Replaces 4.23 by its equal 5.0.
    pub(crate) fn as_peer(self) -> Self {
        if self == LAST_OF_4 { FIRST_OF_5 } else { self }
    }
}

impl fmt::Display for MinorRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Says whether a bundle that supports OpenShift up to `max` blocks the next cluster update.
///
/// The next update is always the following minor release, so a cluster at `4.19.0-rc1` is heading
/// for `4.20` just as one at `4.19.7` is. Source: applying.md 9.2.
pub fn blocks_update(current: MinorRelease, max: MinorRelease) -> bool {
    max <= current.as_peer()
}
