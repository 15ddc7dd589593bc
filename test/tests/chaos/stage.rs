//! The stages of a test: what is done to an extension.

/// What is done to an extension, in this order; an uninstall or an orphaning deletion comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Install,
    Upgrade,
    Rollback,
    Uninstall,
    /// `kubectl delete --cascade=orphan`.
    Orphan,
}

impl Stage {
    pub(crate) const ALL: [Self; 4] =
        [Self::Install, Self::Upgrade, Self::Rollback, Self::Uninstall];

    pub(crate) const WITH_ORPHANING: [Self; 4] =
        [Self::Install, Self::Upgrade, Self::Rollback, Self::Orphan];
}
