//! Metrics of extensions: resolutions, installs, updates and deferred objects.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use olm_core::resolve::Ending;
use olm_core::revision::OPTIONAL_GROUPS;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::registered::{Registered, metrics};
use super::{Label, Metrics, whole};

/// Upper bounds of `olm_resolution_duration_seconds`.
const RESOLUTION_BUCKETS: [f64; 9] = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0];

/// Upper bounds of `olm_install_duration_seconds`.
const INSTALL_BUCKETS: [f64; 10] = [1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0];

metrics! {
    Extensions {
        resolutions: Family<Label, Counter> = "olm_resolution", "Resolutions per result";
        resolution_time: Histogram = "olm_resolution_duration_seconds",
            "Duration of a resolution, without the download of catalogs",
            Histogram::new(RESOLUTION_BUCKETS);
        updates: Family<Label<String>, Gauge> =
            "olm_clusterextension_upgrade_available", "Whether an update is available and held";
        support: Family<Label<String>, Gauge> =
            "olm_clusterextension_support_end_timestamp_seconds",
            "When the support of the installed version ends, in seconds since 1970";
        deferred: Family<Label, Gauge> = "olm_deferred_objects",
            "Objects of optional kinds that are left out because the cluster does not serve them";
        installs: Histogram = "olm_install_duration_seconds",
            "Time from the creation of a ClusterExtension until something was installed",
            Histogram::new(INSTALL_BUCKETS);
        upgrades: Family<Label, Counter> = "olm_upgrades",
            "Moves of a ClusterExtension from one installed bundle to \
             another, per result: succeeded, failed";
    }
}

/// Shows a value of one extension; absent drops the series.
fn show(gauge: &Family<Label<String>, Gauge>, extension: &str, value: Option<i64>) {
    let labels = [("name", extension.to_owned())];
    match value {
        Some(value) => {
            gauge.get_or_create(&labels).set(value);
        }
        None => {
            gauge.remove(&labels);
        }
    }
}

impl Metrics {
    pub fn resolved(&self, ending: Ending, elapsed: Duration) {
        let labels = [("result", ending.into())];
        self.extensions.resolutions.get_or_create(&labels).inc();
        self.extensions.resolution_time.observe(elapsed.as_secs_f64());
    }

    /// Notes whether a newer version could follow the installed one; absent drops the series.
    pub fn update_offered(&self, extension: &str, offered: Option<bool>) {
        show(&self.extensions.updates, extension, offered.map(i64::from));
    }

    /// Notes the last day of support of the installed version; absent drops the series.
    pub fn support_ends(&self, extension: &str, last: Option<Date>) {
        let next = last.and_then(|day| day.tomorrow().ok()?.to_zoned(TimeZone::UTC).ok());
        let end = next.map(|next| next.timestamp().as_second());
        show(&self.extensions.support, extension, end);
    }

    /// Notes how many objects of each group are left out because their kind is not served; groups
    /// that may not be left out do not count.
    pub fn deferred(&self, totals: &BTreeMap<String, usize>) {
        for group in OPTIONAL_GROUPS {
            let count = totals.get(group).copied().unwrap_or_default();
            self.extensions.deferred.get_or_create(&[("group", group)]).set(whole(count));
        }
    }

    /// Notes that something was installed, so long after it was asked for.
    pub fn installed(&self, after: Duration) {
        self.extensions.installs.observe(after.as_secs_f64());
    }

    /// Counts a move from one installed bundle to another.
    pub fn upgraded(&self, succeeded: bool) {
        let result = if succeeded { "succeeded" } else { "failed" };
        self.extensions.upgrades.get_or_create(&[("result", result)]).inc();
    }
}
