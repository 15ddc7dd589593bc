//! Newer content of a catalog: taken, or held back as its annotations say.
//!
//! What is served stays until newer content is taken; a lost cache is filled with it again by its
//! digest. Another reference is a decision: what it names is taken, unless the catalog is paused. That
//! a template gives another one with another version of the cluster is none.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use olm_api::conditions::Reason;
use olm_api::keys::annotation;
use olm_api::{CatalogUpdateStatus, ClusterCatalog};
use olm_core::catalog::hold::{CatalogPolicy, Hold, suspects};
use olm_core::catalog::template;
use olm_core::error::quote;
use olm_image::{ImageRef, Resolved};

use super::context::{Context, blocking};
use super::error::CatalogError;
use super::plan::{Wanted, digest_of, repository_of, waiting};
use super::registry::Registry;
use super::store::{StoreError, whole_seconds};
use super::taken::{Known, Looked};
use crate::cluster::RequestError;

/// Returns the image that a catalog is to have: what its template gives for the version of the API
/// server, else that of the spec.
pub(super) async fn wanted(
    ctx: &Context,
    catalog: &ClusterCatalog,
) -> Result<Wanted, CatalogError> {
    let image = catalog.spec.source.image.as_ref();
    let image = image.ok_or_else(|| CatalogError::NoImage(catalog.name_any()))?;
    let Some(template) = catalog.annotations().get(annotation::CATALOG_IMAGE_TEMPLATE) else {
        return Ok(Wanted { written: image.ref_.clone(), image: image.ref_.clone() });
    };
    let info = ctx.client.apiserver_version().await;
    let info = info.map_err(RequestError::doing("error reading the version of the API server"))?;
    let filled = template::fill(template, &info.git_version)?;
    match filled.parse::<ImageRef>() {
        Ok(_) => Ok(Wanted { written: template.clone(), image: filled }),
        Err(error) => Err(CatalogError::Filled(error)),
    }
}

/// Asks the registry, and stores the newest content unless it is stored already or held back.
pub(super) async fn newest(
    ctx: &Arc<Context>,
    catalog: &ClusterCatalog,
    wanted: &Wanted,
) -> Result<Looked, CatalogError> {
    let image: ImageRef = wanted.image.parse().map_err(CatalogError::Reference)?;
    let known = Known::of(catalog, ctx.memories.get(&catalog.name_any()).as_ref());
    let policy = match CatalogPolicy::of(catalog.annotations()) {
        Ok(policy) => policy,
        Err(error) => {
            let lost = known.filter(|it| it.is_of(&image) && !ctx.holds(catalog, &it.reference));
            if let Some(lost) = lost {
                let registry = Registry::of(ctx, catalog).await?;
                restore(&registry, catalog, &lost.reference).await?;
            }
            return Err(error.into());
        }
    };
    let registry = Registry::of(ctx, catalog).await?;
    let newest = registry.resolve(&wanted.image).await?;
    let takes = |known: &Known| known.is_decided(wanted, &image) && !policy.is_paused();
    let Some(known) = known.filter(|known| !takes(known)) else {
        registry.take_newer(&newest, whole_seconds(Timestamp::now())).await?;
        return Ok(Looked::taken(wanted, newest.image().to_string()));
    };
    Look { ctx, catalog, wanted, image, policy, registry }.newer(known, newest).await
}

/// A look at the image of a catalog of which content was taken before.
struct Look<'a> {
    ctx: &'a Arc<Context>,
    catalog: &'a ClusterCatalog,
    wanted: &'a Wanted,
    image: ImageRef,
    policy: CatalogPolicy,
    registry: Registry<'a>,
}

impl Look<'_> {
    /// Takes content that is newer than what is known, unless it is held back.
    async fn newer(&self, known: Known, newest: Resolved) -> Result<Looked, CatalogError> {
        let Self { catalog, policy, registry, .. } = self;
        let now = whole_seconds(Timestamp::now());
        let turn = turn(catalog, policy, &known.reference, &newest).map(str::to_owned);
        let candidate = match turn {
            Some(waiting) => registry.still(&waiting).await?.unwrap_or(newest),
            None => newest,
        };
        let reference = candidate.image().to_string();
        if reference == known.reference {
            registry.take(&candidate, unpacked(catalog)).await?;
            return Ok(Looked::taken(self.wanted, reference));
        }
        let before = waiting(catalog).filter(|waiting| waiting.ref_ == reference);
        let since = before.map_or(now, |waiting| waiting.since.0);
        let digest = digest_of(&reference);
        let hold = policy.holds(digest, since, now);
        if hold.is_none() && !policy.examines(digest) {
            registry.take_newer(&candidate, now).await?;
            return Ok(Looked::taken(self.wanted, reference));
        }
        let examined = before.filter(|waiting| waiting.reason == Reason::Suspicious.as_str());
        if hold.is_none() && examined.is_some() && self.ctx.holds(catalog, &known.reference) {
            let taken = Some(known.stays(self.wanted));
            return Ok(Looked { held: examined.cloned(), taken, polled: None });
        }
        self.keep(&known, digest).await?;
        let hold = match hold {
            Some(hold) => Some(hold),
            None => self.examine(&known, &candidate).await?,
        };
        let Some(hold) = hold else { return Ok(Looked::taken(self.wanted, reference)) };
        let waits = CatalogUpdateStatus {
            message: hold.text(digest),
            reason: hold.code().to_string(),
            since: Time(since),
            ref_: reference,
        };
        Ok(Looked { held: Some(waits), taken: Some(known.stays(self.wanted)), polled: None })
    }

    /// Stores again what is served if that was lost, from the registry. Where it is not there any more,
    /// nothing is served until newer content is accepted.
    async fn keep(&self, known: &Known, newer: &str) -> Result<(), CatalogError> {
        if self.ctx.holds(self.catalog, &known.reference) {
            return Ok(());
        }
        let way_out = self.policy.way_out(newer);
        if !known.is_of(&self.image) {
            return Err(CatalogError::Elsewhere(quote(&self.wanted.image), way_out));
        }
        restore(&self.registry, self.catalog, &known.reference).await.map_err(|error| match error {
            CatalogError::Pull(source) if source.is_not_found() => {
                CatalogError::Lost(newer.to_owned(), way_out, source)
            }
            error => error,
        })
    }

    /// Looks at what newer content changes, and takes it if nothing is suspicious.
    async fn examine(
        &self,
        known: &Known,
        candidate: &Resolved,
    ) -> Result<Option<Hold>, CatalogError> {
        // Nothing is taken that cannot be compared.
        let served = self.ctx.store.content_of(self.catalog);
        let served = served.filter(|served| served.origin().reference == known.reference);
        let served = served.ok_or(CatalogError::Removed)?;
        let staged = self.registry.stage_newer(candidate, whole_seconds(Timestamp::now())).await?;
        let compared = blocking(move || {
            let changes = staged.changes(&served)?;
            Ok((staged, suspects(&changes)))
        });
        let compared = compared.await?;
        let failed = StoreError::disk("error comparing catalog contents");
        let (staged, hold) = compared.map_err(|error| CatalogError::Store(failed(error)))?;
        if hold.is_none() {
            self.registry.place_newer(staged).await?;
        }
        Ok(hold)
    }
}

/// Returns when the content that is served was unpacked first.
pub(super) fn unpacked(catalog: &ClusterCatalog) -> Timestamp {
    let status = catalog.status.as_ref();
    let first = status.and_then(|status| status.last_unpacked.as_ref());
    first.map_or_else(|| whole_seconds(Timestamp::now()), |time| time.0)
}

/// Stores again what was taken before, by its digest.
pub(super) async fn restore(
    registry: &Registry<'_>,
    catalog: &ClusterCatalog,
    reference: &str,
) -> Result<(), CatalogError> {
    let resolved = registry.resolve(reference).await?;
    registry.take(&resolved, unpacked(catalog)).await
}

/// Returns the content that waits for its minimum age and keeps its place although newer content is
/// published; otherwise a catalog that changes every hour would never be updated. If the served
/// content is published again, the wait ends.
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
        && repository_of(&waiting.ref_) == repository_of(&now);
    waits.then_some(&waiting.ref_)
}
