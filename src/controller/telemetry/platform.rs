//! Whether the installed bundles allow the next update of the cluster.

use std::collections::BTreeMap;

use olm_api::conditions::status;
use olm_core::gate::MinorRelease;
use olm_core::status::Statement;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::registered::Registered;
use super::{Metrics, NameLabels};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReleaseLabels {
    current: String,
    next: String,
}

/// The metrics of the gate.
#[derive(Debug, Clone)]
pub(super) struct Platform {
    upgradeable: Family<ReasonLabels, Gauge>,
    release: Family<ReleaseLabels, Gauge>,
    extensions: Family<NameLabels, Gauge>,
}

impl Platform {
    pub(super) fn new(registered: &mut Registered) -> Self {
        Self {
            upgradeable: registered.register(
                "olm_platform_upgradeable",
                "Whether the installed bundles allow the next OpenShift update",
                Family::default(),
            ),
            release: registered.register(
                "olm_platform_version_info",
                "Which OpenShift release the gate judges by, and which is next",
                Family::default(),
            ),
            extensions: registered.register(
                "olm_clusterextension_platform_upgradeable",
                "Whether the bundles of a ClusterExtension allow the next OpenShift update",
                Family::default(),
            ),
        }
    }
}

impl Metrics {
    /// Notes whether the installed bundles allow the next platform update: all of them, and those
    /// of each extension.
    pub fn platform_upgradeable(&self, all: &Statement, extensions: &BTreeMap<&str, bool>) {
        self.platform.upgradeable.clear();
        let reason = all.reason.as_str();
        let upgradeable = all.status == status::TRUE;
        self.platform.upgradeable.get_or_create(&ReasonLabels { reason }).set(upgradeable.into());
        self.platform.extensions.clear();
        for (name, upgradeable) in extensions {
            let name = (*name).to_owned();
            self.platform.extensions.get_or_create(&NameLabels { name }).set((*upgradeable).into());
        }
    }

    /// Notes which release of the platform the gate judges by, if one is known.
    pub fn platform_release(&self, current: Option<MinorRelease>) {
        self.platform.release.clear();
        if let Some(current) = current {
            let labels =
                ReleaseLabels { current: current.to_string(), next: current.next().to_string() };
            self.platform.release.get_or_create(&labels).set(1);
        }
    }
}
