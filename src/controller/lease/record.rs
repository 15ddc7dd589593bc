//! The Lease as it stands on the cluster.
//!
//! Not the struct of k8s-openapi: that one would drop every field newer than itself, and other
//! programs' fields are kept.

use std::time::Duration;

use k8s_openapi::api::coordination;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Resource;
use kube::core::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A Lease of group `coordination.k8s.io`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Resource)]
#[resource(inherit = "coordination::v1::Lease")]
#[serde(rename_all = "camelCase")]
pub(super) struct Lease {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    pub(super) spec: Spec,
}

/// The holder of a Lease, with the times.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec {
    /// Nobody when it is absent or empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) holder_identity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lease_duration_seconds: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) acquire_time: Option<MicroTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) renew_time: Option<MicroTime>,
    /// The number of changes of the holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lease_transitions: Option<i32>,
    /// Fields that are somebody else's business.
    #[serde(flatten)]
    pub(super) others: Map<String, Value>,
}

impl Lease {
    pub(super) fn new(name: &str, spec: Spec) -> Self {
        Self {
            api_version: Self::api_version(&()).into_owned(),
            kind: Self::kind(&()).into_owned(),
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            spec,
        }
    }
}

impl Spec {
    /// Returns the holder of the Lease, if there is one.
    pub(super) fn holder(&self) -> Option<&str> {
        self.holder_identity.as_deref().filter(|name| !name.is_empty())
    }

    /// Returns for how long it is held unless the holder writes again.
    pub(super) fn duration(&self) -> Duration {
        let seconds = self.lease_duration_seconds.unwrap_or_default();
        Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
    }
}
