//! The profile that OpenShift's administrators choose, in `APIServer` `cluster`.

use std::pin::pin;

use anyhow::{Context as _, bail};
use futures::StreamExt as _;
use kube::api::NotUsed;
use kube::core::{ApiResource, GroupVersionKind, Object};
use kube::{Api, Client};
use olm_core::error::Chain;
use olm_core::rights::OPENSHIFT;
use serde_json::Value;

use super::{CurrentProfile, Offer, Version};
use crate::cluster::named;

/// Has `current` follow the profile of the cluster, and calls `changed` after each change. Never
/// returns. Where there is no such kind, nothing changes.
pub async fn follow(client: Client, current: CurrentProfile, changed: impl Fn()) {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(OPENSHIFT, "v1", "APIServer"));
    let servers = Api::<Object<Option<Value>, NotUsed>>::all_with(client, &kind);
    let mut servers = pin!(named(servers, "cluster"));
    let mut said = None;
    while let Some(server) = servers.next().await {
        let spec = server.and_then(|server| server.spec).unwrap_or_default();
        match offer(&spec["tlsSecurityProfile"]) {
            Ok(Offer { profile, note }) => {
                if let Some(note) = note.as_deref().filter(|note| said.as_deref() != Some(*note)) {
                    tracing::warn!("{note}");
                }
                said = note;
                if current.take(profile) {
                    tracing::info!("the TLS profile of the cluster is used");
                    changed();
                }
            }
            Err(error) => tracing::warn!(
                error = %Chain(&*error),
                "the TLS profile of the cluster is not used, the previous one stays"
            ),
        }
    }
}

/// Returns what a `tlsSecurityProfile` asks for, as far as it can be had.
pub(super) fn offer(asked: &Value) -> anyhow::Result<Offer> {
    let kind = asked["type"].as_str().unwrap_or_default();
    let custom = &asked["custom"];
    let names = |key: &str| -> Vec<String> {
        let names = custom[key].as_array().into_iter().flatten();
        names.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let offered = match kind {
        "" | "Intermediate" => Ok(Offer::default()),
        "Old" => Offer::of(Version::Tls10, &[], &[]),
        "Modern" => Offer::of(Version::Tls13, &[], &[]),
        "Custom" => {
            let lowest = custom["minTLSVersion"].as_str().unwrap_or("VersionTLS12");
            let Ok(version) = lowest.parse::<Version>() else {
                bail!("spec.tlsSecurityProfile.custom.minTLSVersion {lowest:?} is not known");
            };
            Offer::of(version, &names("ciphers"), &names("groups"))
        }
        other => bail!("spec.tlsSecurityProfile.type {other:?} is not known"),
    };
    offered.context("spec.tlsSecurityProfile.custom.groups")
}
