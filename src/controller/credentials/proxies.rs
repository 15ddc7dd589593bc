//! The proxies that OpenShift's administrators choose, in `Proxy` `cluster`.

use std::pin::pin;

use futures::channel::mpsc;
use futures::{SinkExt as _, StreamExt as _};
use kube::api::NotUsed;
use kube::core::{ApiResource, GroupVersionKind, Object};
use kube::{Api, Client};
use olm_core::error::Chain;
use olm_core::rights::OPENSHIFT;
use olm_image::Proxies;
use serde::Deserialize;

use super::Change;
use crate::cluster::named;

/// The proxies that the network operator has validated and publishes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(rename = "httpProxy")]
    http: String,
    #[serde(rename = "httpsProxy")]
    https: String,
    #[serde(rename = "noProxy")]
    except: String,
}

/// Reports the cluster proxies. Where there is no such kind, it reports none.
pub(super) async fn follow(client: Client, mut changes: mpsc::Sender<Change>) {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(OPENSHIFT, "v1", "Proxy"));
    let proxies = Api::<Object<NotUsed, Status>>::all_with(client, &kind);
    let mut found = pin!(named(proxies, "cluster"));
    while let Some(found) = found.next().await {
        let status = found.and_then(|found| found.status).unwrap_or_default();
        match Proxies::new(&status.http, &status.https, &status.except) {
            Ok(proxies) => {
                if changes.send(Change::Proxies(proxies)).await.is_err() {
                    return;
                }
            }
            Err(error) => tracing::warn!(
                error = %Chain(&error),
                "status of Proxy cluster is not used, the previous proxies stay"
            ),
        }
    }
}
