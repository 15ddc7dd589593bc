//! Who may do what: the rights of this process, who may name an account, who may read the metrics.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::registered::{Registered, metrics};
use super::{Label, Metrics};

metrics! {
    Access {
        missing: Family<Label<String, 2>, Gauge> =
            "olm_missing_rights", "Rights that this process needs and does not have";
        policies: Family<Label, Gauge> = "olm_account_policy_enforced",
            "Whether the admission policy that checks who may name an account is in force";
        reads: Family<Label, Counter> = "olm_metrics_auth",
            "Requests for metrics, per result: ok, unauthorized, denied, error";
    }
}

impl Metrics {
    /// Notes which rights this process lacks, each by its resource and verb.
    pub fn missing_rights(&self, missing: impl Iterator<Item = (String, String)>) {
        self.access.missing.clear();
        for (resource, verb) in missing {
            self.access.missing.get_or_create(&[("resource", resource), ("verb", verb)]).inc();
        }
    }

    pub fn policy_enforced(&self, policy: &'static str, enforced: bool) {
        self.access.policies.get_or_create(&[("policy", policy)]).set(enforced.into());
    }

    pub fn metrics_requested(&self, result: &'static str) {
        self.access.reads.get_or_create(&[("result", result)]).inc();
    }
}
