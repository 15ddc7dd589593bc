//! How a new status changes the installed bundle, for the metrics.

use std::time::Duration;

use jiff::Timestamp;
use olm_api::conditions::{Reason, status, types};
use olm_api::{ClusterExtension, ClusterExtensionStatus};
use olm_core::status::find;

use crate::telemetry::Metrics;

/// The difference between two statuses of one extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moved {
    install: Install,
    /// A rollout of something newer has passed its deadline, and had not before.
    failed: bool,
    /// Whether the condition about updates of the platform differs.
    pub(super) platform: bool,
}

/// How the installed bundle differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Install {
    Same,
    First,
    Other,
    /// It went, or was not known before.
    Uncounted,
}

impl Moved {
    /// Compares a status with the one before.
    pub(super) fn between(
        before: Option<&ClusterExtensionStatus>,
        now: &ClusterExtensionStatus,
    ) -> Self {
        let was = before.and_then(|status| status.install.as_ref());
        let said = before.and_then(|status| find(&status.conditions, types::INSTALLED));
        let is_unknown = said.is_some_and(|found| found.status == status::UNKNOWN);
        let install = match (was, &now.install) {
            (was, is) if was == is.as_ref() => Install::Same,
            (None, _) if !is_unknown => Install::First,
            (Some(_), Some(_)) => Install::Other,
            (None, _) | (Some(_), None) => Install::Uncounted,
        };
        Self {
            install,
            platform: platform(before) != platform(Some(now)),
            failed: was.is_some() && is_late(now) && !before.is_some_and(is_late),
        }
    }

    /// Returns whether another bundle is installed now.
    pub(super) fn installed(self) -> bool {
        self.install != Install::Same
    }

    pub(super) fn count(self, metrics: &Metrics, extension: &ClusterExtension) {
        match self.install {
            Install::First => {
                if let Some(created) = &extension.metadata.creation_timestamp {
                    let since = Timestamp::now().duration_since(created.0);
                    metrics.installed(Duration::try_from(since).unwrap_or_default());
                }
            }
            Install::Other => metrics.upgraded(true),
            Install::Same | Install::Uncounted => {}
        }
        if self.failed {
            metrics.upgraded(false);
        }
    }
}

fn platform(status: Option<&ClusterExtensionStatus>) -> Option<&str> {
    let condition = find(&status?.conditions, types::PLATFORM_UPGRADEABLE)?;
    Some(&condition.message)
}

fn is_late(status: &ClusterExtensionStatus) -> bool {
    let progressing = find(&status.conditions, types::PROGRESSING);
    progressing.is_some_and(|found| found.reason == Reason::ProgressDeadlineExceeded.to_string())
}

#[cfg(test)]
mod tests {
    use olm_api::{BundleMetadata, InstallStatus};
    use olm_core::status::Statement;

    use super::*;

    fn installed(version: &str) -> ClusterExtensionStatus {
        let bundle = BundleMetadata {
            name: format!("lamp.v{version}"),
            version: version.to_owned(),
            release: None,
        };
        ClusterExtensionStatus {
            install: Some(InstallStatus { bundle }),
            ..ClusterExtensionStatus::default()
        }
    }

    // deploying.md 9.1
    #[test]
    fn installs_and_upgrades_are_told_apart() {
        let metrics = Metrics::default();
        let mut extension = ClusterExtension::default();
        extension.metadata.creation_timestamp =
            serde_json::from_str("\"2026-01-01T00:00:00Z\"").ok();
        let count = |before: Option<&ClusterExtensionStatus>, now: &ClusterExtensionStatus| {
            Moved::between(before, now).count(&metrics, &extension);
            metrics.encode()
        };
        let none = ClusterExtensionStatus::default();
        let text = count(Some(&none), &installed("1.0.0"));
        assert!(text.contains("olm_install_duration_seconds_count 1\n"), "{text}");
        assert!(!text.contains("olm_upgrades_total{"), "{text}");
        let text = count(Some(&installed("1.0.0")), &installed("1.1.0"));
        assert!(text.contains("olm_upgrades_total{result=\"succeeded\"} 1\n"), "{text}");
        let text = count(Some(&installed("1.1.0")), &installed("1.1.0"));
        assert!(text.contains("olm_upgrades_total{result=\"succeeded\"} 1\n"), "{text}");
        let mut unread = ClusterExtensionStatus::default();
        let unknown = Statement::unknown(types::INSTALLED, Reason::Failed, "no access");
        unknown.put(&mut unread.conditions, None, Timestamp::UNIX_EPOCH);
        let text = count(Some(&unread), &installed("1.1.0"));
        assert!(text.contains("olm_install_duration_seconds_count 1\n"), "{text}");
        assert!(text.contains("olm_upgrades_total{result=\"succeeded\"} 1\n"), "{text}");
    }
}
