//! Effects of an extension's bundles on updates of the platform: its condition, and the warning
//! before a bundle is installed that will hold them. Also whether the installed bundle is supported
//! on the platform.
//!
//! Source: applying.md 9.7.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use olm_api::conditions::{Reason, status, types};
use olm_api::{ClusterExtension, ClusterObjectSet};
use olm_core::catalog::Lifecycle;
use olm_core::extension::{counting, supported};
use olm_core::gate::{self, Bundle, MinorRelease, platform_upgradeable, way_out, with_way_out};
use olm_core::revision::states;
use olm_core::status::{Note, find, remove_condition};

use super::Attempt;
use super::outcome::Outcome;
use crate::gate::Release;

impl Attempt<'_> {
    /// Returns the release of the platform that the bundles of the extension hold, if they do.
    pub(super) fn held_release(&self) -> Option<MinorRelease> {
        let Release::At(current) = self.ctx.platform.release() else { return None };
        let name = self.extension.object.name_any();
        let held = platform_upgradeable(current, counting(&name, self.revisions))?;
        (held.status == status::FALSE).then(|| current.next())
    }
}

/// Puts condition `PlatformUpgradeable`. What is not known leaves it as it is.
pub(super) fn put(
    release: Release,
    extension: &ClusterExtension,
    outcome: &Outcome,
    conditions: &mut Vec<Condition>,
) {
    let name = extension.name_any();
    let statement = match (release, &outcome.revisions) {
        (Release::At(current), Some(revisions)) => {
            platform_upgradeable(current, counting(&name, revisions))
        }
        (Release::Absent, _) => None,
        (Release::Unread, _) | (Release::At(_), None) => return,
    };
    let Some(mut statement) = statement else {
        remove_condition(conditions, types::PLATFORM_UPGRADEABLE);
        return;
    };
    if statement.status == status::FALSE {
        let lift = outcome.answer.as_ref().and_then(|answer| answer.lift.as_ref());
        let before = find(conditions, types::PLATFORM_UPGRADEABLE);
        let before = before.and_then(|it| way_out(&statement, &it.message).map(str::to_owned));
        if let Some(way) = lift.map(|lift| lift.text(&name)).or(before) {
            statement = with_way_out(statement, &way);
        }
    }
    statement.put(conditions, extension.metadata.generation, Timestamp::now());
}

/// Puts condition `Supported`. What the platform says against it stays while that is not read.
pub(super) fn support(
    release: Release,
    extension: &ClusterExtension,
    lifecycle: Option<&Lifecycle>,
    conditions: &mut Vec<Condition>,
) {
    let now = Timestamp::now();
    let before = find(conditions, types::SUPPORTED).map(|found| found.reason.as_str());
    let platform = match release {
        Release::At(current) => Some(current),
        Release::Unread if before == Some(Reason::PlatformUnsupported.as_str()) => return,
        Release::Absent | Release::Unread => None,
    };
    let today = now.to_zoned(TimeZone::UTC).date();
    match lifecycle.and_then(|lifecycle| supported(lifecycle, today, platform)) {
        Some(statement) => {
            statement.put(conditions, extension.metadata.generation, now);
        }
        None => {
            remove_condition(conditions, types::SUPPORTED);
        }
    }
}

/// Returns the warning that what is rolled out will hold the next update of the platform.
pub(super) fn closing(release: Release, revisions: &[ClusterObjectSet]) -> Option<Note> {
    let Release::At(current) = release else { return None };
    let bundle = Bundle::recorded("", &states(revisions).rolling.last().copied()?.metadata);
    gate::closing(current, bundle.name, bundle.max())
        .map(|message| Note { reason: Reason::IncompatibleWithNextVersion, message })
}
