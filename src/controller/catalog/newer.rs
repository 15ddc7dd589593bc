//! Newer content of a catalog: taken, or held back as its annotations say.
//!
//! What is served stays until newer content is taken; a lost cache is filled with it again by its
//! digest. An edit of the spec is a decision: what the reference names then is taken.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use olm_api::conditions::{Reason, types};
use olm_api::keys::annotation;
use olm_api::{CatalogUpdateStatus, ClusterCatalog};
use olm_core::catalog::hold::{CatalogPolicy, Hold, suspects};
use olm_core::catalog::template;
use olm_core::status::find;
use olm_image::{ImageRef, Resolved};

use super::context::Context;
use super::enact::{Registry, blocking};
use super::error::CatalogError;
use super::plan::{digest_of, repository_of, waiting};
use super::store::{StoreError, whole_seconds};

/// Returns the image that a catalog is to have: what its template gives for the version of the API
/// server, else that of the spec.
pub(super) async fn wanted(
    ctx: &Context,
    catalog: &ClusterCatalog,
) -> Result<String, CatalogError> {
    let image = catalog.spec.source.image.as_ref();
    let image = image.ok_or_else(|| CatalogError::NoImage(catalog.name_any()))?;
    let annotations = catalog.annotations();
    let Some(template) = annotations.get(annotation::CATALOG_IMAGE_TEMPLATE) else {
        return Ok(image.ref_.clone());
    };
    let info = ctx.client.apiserver_version().await;
    let info = info.map_err(CatalogError::Version)?;
    let filled = template::fill(template, &info.git_version)?;
    match filled.parse::<ImageRef>() {
        Ok(_) => Ok(filled),
        Err(error) => Err(CatalogError::Filled(error)),
    }
}

/// Asks the registry, and stores the newest content unless it is stored already or held back.
/// Returns what is held.
pub(super) async fn newest(
    ctx: &Arc<Context>,
    catalog: &ClusterCatalog,
    image: &str,
) -> Result<Option<CatalogUpdateStatus>, CatalogError> {
    let policy = CatalogPolicy::of(catalog.annotations())?;
    let registry = Registry::of(ctx, catalog).await?;
    let newest = registry.resolve(image).await?;
    let now = whole_seconds(Timestamp::now());
    let Some(served) = served(catalog).filter(|it| is_of_one_repository(it, &newest)) else {
        registry.take(&newest, now).await?;
        return Ok(None);
    };
    let turn = turn(catalog, &policy, served, &newest).map(str::to_owned);
    let candidate = match turn {
        Some(waiting) => registry.still(&waiting).await?.unwrap_or(newest),
        None => newest,
    };
    let reference = candidate.image().to_string();
    if reference == served {
        registry.take(&candidate, unpacked(catalog, now)).await?;
        return Ok(None);
    }
    let before = waiting(catalog).filter(|waiting| waiting.ref_ == reference);
    let since = before.map_or(now, |waiting| waiting.since.0);
    let digest = digest_of(&reference);
    let hold = policy.holds(digest, since, now);
    if hold.is_none() && !policy.examines(digest) {
        registry.take(&candidate, now).await?;
        return Ok(None);
    }
    let examined = before.filter(|waiting| waiting.reason == Reason::Suspicious.as_str());
    if hold.is_none() && examined.is_some() && ctx.holds(catalog, served) {
        return Ok(examined.cloned());
    }
    if !ctx.holds(catalog, served) {
        restore(&registry, served, unpacked(catalog, now), digest).await?;
    }
    let hold = match hold {
        Some(hold) => Some(hold),
        None => examine(ctx, catalog, &registry, &candidate).await?,
    };
    Ok(hold.map(|hold| CatalogUpdateStatus {
        message: hold.text(digest),
        reason: hold.code().to_string(),
        since: Time(since),
        ref_: reference.clone(),
    }))
}

/// Returns the content that is served, unless the spec was edited since it was unpacked.
fn served(catalog: &ClusterCatalog) -> Option<&str> {
    let status = catalog.status.as_ref()?;
    let unpacked_for = find(&status.conditions, types::SERVING)?.observed_generation;
    let unedited = unpacked_for == catalog.metadata.generation;
    let resolved = status.resolved_source.as_ref().filter(|_| unedited)?;
    Some(&resolved.image.ref_)
}

/// Says whether a reference of the status is of the repository that the spec names: whoever may
/// write the status does not choose what is served.
fn is_of_one_repository(reference: &str, newest: &Resolved) -> bool {
    let newest = newest.image().to_string();
    repository_of(reference) == repository_of(&newest)
}

/// Returns when the content that is served was unpacked first.
fn unpacked(catalog: &ClusterCatalog, now: Timestamp) -> Timestamp {
    let status = catalog.status.as_ref();
    let first = status.and_then(|status| status.last_unpacked.as_ref());
    first.map_or(now, |time| time.0)
}

/// Returns what waits for its time already and keeps its turn although newer content is published,
/// or a catalog that changes every hour would never move. What was published back to what is served
/// is withdrawn.
fn turn<'a>(
    catalog: &'a ClusterCatalog,
    policy: &CatalogPolicy,
    served: &str,
    newest: &Resolved,
) -> Option<&'a str> {
    let now = newest.image().to_string();
    let waiting = waiting(catalog).filter(|_| policy.keeps_its_turn() && now != served)?;
    let waits = waiting.reason == Reason::TooYoung.as_str()
        && waiting.ref_ != now
        && is_of_one_repository(&waiting.ref_, newest);
    waits.then_some(&waiting.ref_)
}

/// Stores again what is served, from the registry. Where that has it no more, nothing is served
/// until newer content is accepted.
async fn restore(
    registry: &Registry<'_>,
    served: &str,
    unpacked: Timestamp,
    newer: &str,
) -> Result<(), CatalogError> {
    let resolved = registry.resolve(served).await?;
    let restored = registry.take(&resolved, unpacked).await;
    restored.map_err(|error| match error {
        CatalogError::Pull(source) if source.is_not_found() => {
            CatalogError::Lost { newer: newer.to_owned(), source }
        }
        error => error,
    })
}

/// Looks at what newer content changes, and takes it if nothing is suspicious.
async fn examine(
    ctx: &Arc<Context>,
    catalog: &ClusterCatalog,
    registry: &Registry<'_>,
    candidate: &Resolved,
) -> Result<Option<Hold>, CatalogError> {
    let staged = registry.stage(candidate, whole_seconds(Timestamp::now())).await?;
    let Some(served) = ctx.content(catalog) else {
        // Removed by somebody else meanwhile: nothing is left to compare it with.
        registry.place(staged).await?;
        return Ok(None);
    };
    let compared = blocking(move || {
        let changes = staged.changes(&served)?;
        Ok((staged, suspects(&changes)))
    });
    let compared = compared.await?;
    let failed = StoreError::disk("error comparing catalog contents");
    let (staged, hold) = compared.map_err(|error| CatalogError::Store(failed(error)))?;
    if hold.is_none() {
        registry.place(staged).await?;
    }
    Ok(hold)
}
