//! Minor releases of OpenShift, and which one comes next.

use std::fmt;

/// A minor release of OpenShift, such as 4.19; patch, pre-release and build do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MinorRelease {
    /// Major version.
    pub major: u64,
    /// Minor version.
    pub minor: u64,
}

/// 4.23 and 5.0 are released together as equals: both are followed by 5.1.
const LAST_OF_4: MinorRelease = MinorRelease::new(4, 23);
const FIRST_OF_5: MinorRelease = MinorRelease::new(5, 0);

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

    /// Replaces 4.23 by its equal 5.0.
    fn as_peer(self) -> Self {
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
