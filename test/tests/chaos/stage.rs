//! The stages of a test: what is done to an extension.

use olm_test::random::Random;

/// What is done to an extension, in this order. One of the steps back follows the upgrade, and one of
/// the last three comes at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Nothing is installed: how a world begins.
    Empty,
    Install,
    Upgrade,
    /// The older version is asked for, by force.
    Rollback,
    /// An annotation names the earlier revision.
    StepBack,
    /// The rollout that is stuck times out and is reverted; the other extensions go back by force.
    Revert,
    Uninstall,
    /// `kubectl delete --cascade=orphan`.
    Orphan,
    /// The extension goes together with its binding, account and namespace.
    Folder,
}

impl Stage {
    pub(crate) const ALL: [Self; 4] =
        [Self::Install, Self::Upgrade, Self::Rollback, Self::Uninstall];

    /// Returns the stages of a round.
    pub(crate) fn drawn(random: &mut Random) -> [Self; 4] {
        let back = *random.one_of(&[Self::Rollback, Self::StepBack, Self::Revert]);
        let end = *random.one_of(&[Self::Uninstall, Self::Orphan, Self::Folder]);
        [Self::Install, Self::Upgrade, back, end]
    }

    /// Says whether an earlier version comes back.
    pub(crate) fn is_back(self) -> bool {
        matches!(self, Self::Rollback | Self::StepBack | Self::Revert)
    }
}
