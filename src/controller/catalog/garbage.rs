//! Removes the content of catalogs that are gone, whose deletion nobody here saw.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use kube::api::{Api, ListParams};
use olm_api::ClusterCatalog;
use olm_core::error::Chain;

use super::context::Context;
use super::error::CatalogError;
use crate::cluster::Sentence;

/// Collects garbage at once and then every `interval`. Never returns.
pub(super) async fn collect_regularly(ctx: Arc<Context>, interval: Duration) {
    let mut ticks = tokio::time::interval(interval);
    loop {
        ticks.tick().await;
        collect(&ctx).await;
    }
}

async fn collect(ctx: &Context) {
    // Read before the list: what is stored later belongs to an object the list may not have.
    let stored = ctx.store.catalogs();
    let listed =
        Api::<ClusterCatalog>::all(ctx.client.clone()).list_metadata(&ListParams::default()).await;
    let live: BTreeSet<String> = match listed {
        Ok(list) => list.items.iter().map(ResourceExt::name_any).collect(),
        Err(error) => {
            tracing::warn!(error = %Sentence(&error), "garbage collection could not list catalogs");
            return;
        }
    };
    for name in stored.into_iter().filter(|name| !live.contains(name)) {
        match ctx.remove(&name, CatalogError::Remove).await {
            Ok(()) => tracing::info!(catalog = name, "content of a deleted catalog removed"),
            Err(error) => {
                tracing::warn!(catalog = name, error = %Chain(&error), "garbage collection failed");
            }
        }
    }
}
