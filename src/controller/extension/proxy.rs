//! The cluster proxies, for extensions whose operators are to have them.
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
use crate::cluster::{RequestError, named};

impl Context {
    /// Returns the additions to the bundle of an extension, with the data that they depend on.
    pub(super) async fn extras(&self, policy: &Policy) -> Result<Extras, ExtensionError> {
        let mut extras =
            Extras { additions: policy.additions.clone(), proxy: ProxyVariables::default() };
        if policy.additions.cluster_proxy {
            let found = proxies(&self.client).await;
            let found = found.map_err(RequestError::doing("reading Proxy cluster"))?;
            if found.is_some() {
                self.platform.proxies.notify_one();
            }
            let proxy = found.as_ref().and_then(|found| found.pointer("/items/0"));
            extras.proxy = ProxyVariables::of_cluster(proxy, &self.settings.operator_proxy);
        }
        Ok(extras)
    }
}

/// Signals changes of the proxies, once an extension uses them.
pub(super) fn changes(ctx: &Arc<Context>) -> impl Stream<Item = ()> + Send + use<> {
    let ctx = Arc::clone(ctx);
    let wanted = async move {
        ctx.platform.proxies.notified().await;
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(OPENSHIFT, "v1", "Proxy"));
        let proxies = Api::<Object<NotUsed, Value>>::all_with(ctx.client.clone(), &kind);
        named(proxies, "cluster").map(drop)
    };
    stream::once(wanted).flatten()
}
