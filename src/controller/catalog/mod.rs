//! ClusterCatalogs: their images are pulled, read, stored and served.
//!
//! In: ClusterCatalog objects and image registries. Out: a [`store::Store`] that
//! [`crate::server::catalogs`] serves from, and the status of the objects. Nothing here resolves
//! or installs anything.

mod error;
mod garbage;
pub mod index;
mod plan;
mod reconcile;
mod report;
pub mod store;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::Api;
use kube::core::DeserializeGuard;
use kube::runtime::{Controller, WatchStreamExt as _, controller, reflector, watcher};
use olm_api::ClusterCatalog;

pub use error::CatalogError;
pub use reconcile::Context;

use crate::client;

/// Catalogs worked on at the same time, so that one hanging registry does not stop the others.
const CONCURRENCY: u16 = 4;

/// Keeps all ClusterCatalogs until `shutdown` is done and running passes have ended.
///
/// Every `gc_interval`, and at start, content of catalogs that no longer exist is removed.
pub async fn run(
    ctx: Arc<Context>,
    gc_interval: Duration,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let garbage = tokio::spawn(garbage::collect_regularly(Arc::clone(&ctx), gc_interval));
    let catalogs = Api::<DeserializeGuard<ClusterCatalog>>::all(ctx.client.clone());
    let (store, writer) = reflector::store();
    // Every change counts: an edited status is repaired at once.
    let catalogs = client::changes(catalogs, watcher::Config::default())
        .reflect(writer)
        .applied_objects();
    Controller::for_stream(catalogs, store)
        .with_config(controller::Config::default().concurrency(CONCURRENCY))
        .graceful_shutdown_on(shutdown)
        .run(reconcile::reconcile, reconcile::error_policy, ctx)
        .for_each(|result| async move {
            if let Err(error) = result {
                tracing::debug!(%error, "controller event");
            }
        })
        .await;
    garbage.abort();
}
