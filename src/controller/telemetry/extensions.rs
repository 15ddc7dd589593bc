//! What becomes of extensions: resolutions, installs, updates, and what is left out.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use olm_core::resolve::Ending;
use olm_core::revision::OPTIONAL_GROUPS;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::registered::Registered;
use super::{Metrics, NameLabels, whole};

/// Upper bounds of `olm_resolution_duration_seconds`.
const RESOLUTION_BUCKETS: [f64; 9] = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0];

/// Upper bounds of `olm_install_duration_seconds`.
const INSTALL_BUCKETS: [f64; 10] = [1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResolutionLabels {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UpgradeLabels {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GroupLabels {
    group: &'static str,
}

/// The metrics of extensions.
#[derive(Debug, Clone)]
pub(super) struct Extensions {
    resolutions: Family<ResolutionLabels, Counter>,
    resolution_time: Histogram,
    updates: Family<NameLabels, Gauge>,
    support: Family<NameLabels, Gauge>,
    deferred: Family<GroupLabels, Gauge>,
    installs: Histogram,
    upgrades: Family<UpgradeLabels, Counter>,
}

impl Extensions {
    pub(super) fn new(registered: &mut Registered) -> Self {
        Self {
            resolutions: registered.register(
                "olm_resolution",
                "Resolutions per result",
                Family::default(),
            ),
            resolution_time: registered.register(
                "olm_resolution_duration_seconds",
                "Time a resolution took, without the download of catalogs",
                Histogram::new(RESOLUTION_BUCKETS),
            ),
            updates: registered.register(
                "olm_clusterextension_upgrade_available",
                "Whether a newer version could follow the installed one and is not taken",
                Family::default(),
            ),
            support: registered.register(
                "olm_clusterextension_support_end_timestamp_seconds",
                "When the support of the installed version ends, in seconds since 1970",
                Family::default(),
            ),
            deferred: registered.register(
                "olm_deferred_objects",
                "Objects of optional kinds that are left out \
                 because the cluster does not serve them",
                Family::default(),
            ),
            installs: registered.register(
                "olm_install_duration_seconds",
                "Time from the creation of a ClusterExtension until something was installed",
                Histogram::new(INSTALL_BUCKETS),
            ),
            upgrades: registered.register(
                "olm_upgrades",
                "Moves of a ClusterExtension from one installed bundle to \
                 another, per result: succeeded, failed",
                Family::default(),
            ),
        }
    }
}

impl Metrics {
    /// Counts a resolution and how it ended, after `elapsed`.
    pub fn resolved(&self, ending: Ending, elapsed: Duration) {
        let labels = ResolutionLabels { result: ending.into() };
        self.extensions.resolutions.get_or_create(&labels).inc();
        self.extensions.resolution_time.observe(elapsed.as_secs_f64());
    }

    /// Notes whether a newer version could follow the installed one; absent drops the series.
    pub fn update_offered(&self, extension: &str, offered: Option<bool>) {
        let name = extension.to_owned();
        let labels = NameLabels { name };
        match offered {
            Some(offered) => {
                self.extensions.updates.get_or_create(&labels).set(offered.into());
            }
            None => {
                self.extensions.updates.remove(&labels);
            }
        }
    }

    /// Notes the last day of support of the installed version; absent drops the series.
    pub fn support_ends(&self, extension: &str, last: Option<Date>) {
        let labels = NameLabels { name: extension.to_owned() };
        let next = last.and_then(|day| day.tomorrow().ok()?.to_zoned(TimeZone::UTC).ok());
        match next {
            Some(next) => {
                self.extensions.support.get_or_create(&labels).set(next.timestamp().as_second());
            }
            None => {
                self.extensions.support.remove(&labels);
            }
        }
    }

    /// Notes how many objects of each group are left out because their kind is not served; groups
    /// that may not be left out do not count.
    pub fn deferred(&self, totals: &BTreeMap<String, usize>) {
        for group in OPTIONAL_GROUPS {
            let count = totals.get(group).copied().unwrap_or_default();
            self.extensions.deferred.get_or_create(&GroupLabels { group }).set(whole(count));
        }
    }

    /// Notes that something was installed, so long after it was asked for.
    pub fn installed(&self, after: Duration) {
        self.extensions.installs.observe(after.as_secs_f64());
    }

    /// Counts a move from one installed bundle to another.
    pub fn upgraded(&self, succeeded: bool) {
        let result = if succeeded { "succeeded" } else { "failed" };
        self.extensions.upgrades.get_or_create(&UpgradeLabels { result }).inc();
    }
}
