//! Whether the installed bundles allow the next update of the cluster.

use std::collections::BTreeMap;

use olm_api::conditions::status;
use olm_core::gate::MinorRelease;
use olm_core::status::Statement;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::registered::{Registered, metrics};
use super::{Label, Metrics};

metrics! {
    Platform {
        upgradeable: Family<Label, Gauge> = "olm_platform_upgradeable",
            "Whether the installed bundles allow the next OpenShift update";
        release: Family<Label<String, 2>, Gauge> =
            "olm_platform_version_info", "The OpenShift release of the cluster, and the next one";
        extensions: Family<Label<String>, Gauge> = "olm_clusterextension_platform_upgradeable",
            "Whether the bundles of a ClusterExtension allow the next OpenShift update";
    }
}

impl Metrics {
    /// Notes whether the installed bundles allow the next platform update: all of them, and those
    /// of each extension.
    pub fn platform_upgradeable(&self, all: &Statement, extensions: &BTreeMap<&str, bool>) {
        self.platform.upgradeable.clear();
        let reason = all.reason.as_str();
        let upgradeable = all.status == status::TRUE;
        self.platform.upgradeable.get_or_create(&[("reason", reason)]).set(upgradeable.into());
        self.platform.extensions.clear();
        for (name, upgradeable) in extensions {
            let name = (*name).to_owned();
            self.platform.extensions.get_or_create(&[("name", name)]).set((*upgradeable).into());
        }
    }

    /// Notes which release of the platform the gate judges by, if one is known.
    pub fn platform_release(&self, current: Option<MinorRelease>) {
        self.platform.release.clear();
        if let Some(current) = current {
            let labels = [("current", current.to_string()), ("next", current.next().to_string())];
            self.platform.release.get_or_create(&labels).set(1);
        }
    }
}
