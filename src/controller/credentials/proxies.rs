//! The proxies that OpenShift's administrators choose, in `Proxy` `cluster`.

use std::future::ready;

use futures::{Stream, StreamExt as _};
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

/// Follows the cluster proxies. Where there is no such kind, there are none.
pub(super) fn changes(client: Client) -> impl Stream<Item = Change> + Send {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(OPENSHIFT, "v1", "Proxy"));
    let proxies = Api::<Object<NotUsed, Status>>::all_with(client, &kind);
    named(proxies, "cluster").filter_map(|found| {
        let status = found.and_then(|found| found.status).unwrap_or_default();
        let proxies = Proxies::new(&status.http, &status.https, &status.except);
        let usable = proxies.inspect_err(|error| {
            tracing::warn!(
                error = %Chain(error),
                "status of Proxy cluster is not used, the previous proxies stay"
            );
        });
        ready(usable.ok().map(Change::Proxies))
    })
}
