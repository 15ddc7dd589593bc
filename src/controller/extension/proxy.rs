//! The proxies of the cluster, for extensions whose operators are to have them.
//!
//! They are read in each reconcile of such an extension; the watch, which begins when the first of
//! them is there, only wakes. Source: applying.md 10.

use std::sync::Arc;

use futures::{Stream, StreamExt as _, stream};
use kube::api::{Api, NotUsed};
use kube::core::{ApiResource, GroupVersionKind, Object};
use olm_cluster::proxies;
use olm_core::extension::{Extras, Policy};
use olm_core::render::ProxyVariables;
use olm_core::rights::OPENSHIFT;
use serde_json::Value;

use super::Context;
use super::error::ExtensionError;
use crate::cluster::{ApiError, named};

impl Context {
    /// Returns what is added to the bundle of an extension, with what that depends on.
    pub(super) async fn extras(&self, policy: &Policy) -> Result<Extras, ExtensionError> {
        let mut extras =
            Extras { additions: policy.additions.clone(), proxy: ProxyVariables::default() };
        if policy.additions.cluster_proxy {
            let found = proxies(&self.client).await;
            let found = found.map_err(|error| ExtensionError::Proxy(ApiError(error)))?;
            if found.is_some() {
                self.platform.count_proxies();
            }
            let proxy = found.as_ref().and_then(|found| found.pointer("/items/0"));
            extras.proxy = ProxyVariables::of_cluster(proxy, &self.settings.operator_proxy);
        }
        Ok(extras)
    }
}

/// Says whenever the proxies have changed, once anybody wants them.
pub(super) fn changes(ctx: &Arc<Context>) -> impl Stream<Item = ()> + Send + use<> {
    let ctx = Arc::clone(ctx);
    let wanted = async move {
        ctx.platform.proxies_count().await;
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(OPENSHIFT, "v1", "Proxy"));
        let proxies = Api::<Object<NotUsed, Value>>::all_with(ctx.client.clone(), &kind);
        named(proxies, "cluster").map(drop)
    };
    stream::once(wanted).flatten()
}
