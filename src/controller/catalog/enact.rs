//! Doing what was planned for a ClusterCatalog.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use kube::ResourceExt as _;
use olm_api::ClusterCatalog;
use olm_api::keys::{finalizer, label};
use serde_json::json;

use super::context::Context;
use super::error::CatalogError;
use super::newer::{newest, wanted};
use super::plan::{Memory, Plan, has_finalizer, is_off, refresh, waiting};
use super::store::whole_seconds;
use super::taken::Looked;
use crate::cluster::RequestError;

const METADATA: &str = "error updating metadata";

/// Carries the plan out. Returns what was taken, and the newer content that is held back.
pub(super) async fn enact(
    ctx: &Arc<Context>,
    catalog: &ClusterCatalog,
    plan: &Plan,
) -> Result<Looked, CatalogError> {
    match plan {
        Plan::Keep => {
            let held = waiting(catalog).cloned();
            return Ok(match ctx.memories.get(&catalog.name_any()) {
                Some(Memory { taken, polled_at, refreshed, .. }) => {
                    Looked { held, taken, polled: Some((polled_at, refreshed)) }
                }
                None => Looked { held, ..Looked::default() },
            });
        }
        Plan::NoOp | Plan::Wait(_) => {}
        Plan::Disable => ctx.remove(&catalog.name_any(), CatalogError::Remove).await?,
        Plan::CleanUp => ctx.remove(&catalog.name_any(), CatalogError::Finalizer).await?,
        Plan::AddMetadata => add_metadata(ctx, catalog).await?,
        Plan::Fetch => {
            let (polled_at, refreshed) =
                (whole_seconds(Timestamp::now()), refresh(catalog).cloned());
            let wanted = wanted(ctx, catalog).await?;
            let looked = newest(ctx, catalog, &wanted).await?;
            let memory = Memory {
                uid: catalog.metadata.uid.clone(),
                wanted,
                taken: looked.taken.clone(),
                generation: catalog.metadata.generation,
                polled: Instant::now(),
                polled_at,
                refreshed: refreshed.clone(),
                jitter: fastrand::f64(),
            };
            ctx.memories.put(&catalog.name_any(), Some(memory));
            return Ok(Looked { polled: Some((polled_at, refreshed)), ..looked });
        }
    }
    Ok(Looked::default())
}

/// Puts our finalizer, unless it is switched off, and the label with the name on the object.
async fn add_metadata(ctx: &Context, catalog: &ClusterCatalog) -> Result<(), CatalogError> {
    let mut finalizers = catalog.finalizers().to_vec();
    if !has_finalizer(catalog) && !is_off(catalog) {
        finalizers.push(finalizer::DELETE_SERVER_CACHE.to_owned());
    }
    let metadata = json!({
        "finalizers": finalizers,
        "labels": { label::METADATA_NAME: catalog.name_any() },
    });
    match ctx.reconciler.patch_metadata(catalog, metadata).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        patched => Ok(patched.map(drop).map_err(RequestError::doing(METADATA))?),
    }
}

pub(super) async fn release(ctx: &Context, catalog: &ClusterCatalog) -> Result<(), CatalogError> {
    let ours = [finalizer::DELETE_SERVER_CACHE];
    let removed = ctx.reconciler.remove_finalizers(catalog, &ours).await;
    Ok(removed.map_err(RequestError::doing(METADATA))?)
}
