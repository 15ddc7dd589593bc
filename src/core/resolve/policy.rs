//! How far an automatic update may go (decision 22).

use jiff::Timestamp;
use olm_api::conditions::Reason;
use serde::{Deserialize, Serialize};
use strum::{EnumString, VariantNames};

use crate::error::quote;
use crate::version::VersionRelease;

/// What an automatic update may change.
///
/// It does not apply when `version` excludes the installed bundle or is another release that the package
/// has, nor under `SelfCertified`: those are the administrator's decisions.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, EnumString, VariantNames,
)]
#[strum(parse_err_ty = UnknownUpdatePolicy, parse_err_fn = UnknownUpdatePolicy::of)]
pub enum UpdatePolicy {
    /// Nothing.
    None,
    /// The patch number, the prerelease and the release.
    PatchOnly,
    /// Those and the minor number.
    #[default]
    MinorOnly,
    /// Anything, downgrades included, as upstream does.
    Any,
}

/// Why a bundle is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HeldReason {
    /// Its version or release is lower than the installed one.
    LowerVersion,
    /// Its major number is higher.
    NextMajor,
    /// Its minor number is higher.
    NextMinor,
    /// Its patch number, prerelease or release is higher.
    NextPatch,
    /// No update window is open; the next one opens then.
    OutsideWindow(Timestamp),
    /// It comes from another catalog than the installed bundle.
    OtherCatalog,
}

impl HeldReason {
    /// Returns the stable code of the reason.
    pub fn code(self) -> Reason {
        match self {
            Self::LowerVersion => Reason::LowerVersionHeld,
            Self::NextMajor => Reason::NextMajorHeld,
            Self::NextMinor => Reason::NextMinorHeld,
            Self::NextPatch => Reason::NextPatchHeld,
            Self::OutsideWindow(_) => Reason::OutsideWindow,
            Self::OtherCatalog => Reason::OtherCatalogHeld,
        }
    }

    /// Returns what follows `held` in a sentence about a bundle of a catalog.
    pub(crate) fn words(self, catalog: &str) -> String {
        let why = match self {
            Self::LowerVersion => "is lower than the installed version",
            Self::NextMajor => "is a new major version",
            Self::NextMinor => "is a new minor version",
            Self::NextPatch => "exceeds the update policy",
            Self::OutsideWindow(opens) => {
                return format!(" until the update window opens at {opens}");
            }
            Self::OtherCatalog => {
                let from =
                    format!("comes from another catalog, {catalog}, than the installed bundle");
                return format!(", because it {from}");
            }
        };
        format!(", because it {why}")
    }
}

impl UpdatePolicy {
    /// Returns why a successor is held back, or `None` if it may be chosen.
    ///
    /// The installed version and release themselves are never held back.
    pub fn keeps_back(
        self,
        installed: &VersionRelease,
        candidate: &VersionRelease,
    ) -> Option<HeldReason> {
        let (from, to) = (&installed.version, &candidate.version);
        let order = candidate.precedence(installed);
        let reason = if order.is_eq() {
            return None;
        } else if order.is_lt() {
            HeldReason::LowerVersion
        } else if to.major != from.major {
            HeldReason::NextMajor
        } else if to.minor != from.minor {
            HeldReason::NextMinor
        } else {
            HeldReason::NextPatch
        };
        let allowed = match self {
            Self::None => false,
            Self::PatchOnly => reason == HeldReason::NextPatch,
            Self::MinorOnly => matches!(reason, HeldReason::NextPatch | HeldReason::NextMinor),
            Self::Any => true,
        };
        (!allowed).then_some(reason)
    }
}

/// A text that is not the name of an update policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown update policy {}: must be one of None, PatchOnly, MinorOnly, Any", quote(.0))]
pub struct UnknownUpdatePolicy(pub String);

impl UnknownUpdatePolicy {
    fn of(text: &str) -> Self {
        Self(text.to_owned())
    }
}
