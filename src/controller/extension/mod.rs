//! The life of a ClusterExtension: observe, plan, enact, report.
//!
//! In: the object, its revisions, its account, the catalogs. Out: at most one revision (a
//! ClusterObjectSet) and the status. Applying the revision's objects is the business of
//! [`crate::objectset`].

mod certificates;
mod content;
mod environment;
mod error;
mod explain;
mod observe;
mod pass;
mod policy;
mod pulls;
mod removal;
mod report;
mod resolve;
mod target;
mod telling;
mod watch;

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::core::DeserializeGuard;
use kube::runtime::controller::Action;
use kube::runtime::events::{EventType, Recorder};
use kube::{Client, Resource, ResourceExt};
use olm_api::{ClusterExtension, ClusterExtensionStatus, UpdateStatus, keys};
use olm_core::config::Features;
use olm_core::error::Chain;
use olm_core::render::CertificateSource;
use olm_core::resolve::{Dependencies, Unavailability, UpdatePolicy};
use olm_core::revision::AccountRule;
use olm_image::{BundleCache, BundleImage, Puller, Resolved};
use serde_json::json;

pub use content::Rendered;
pub use environment::Surroundings;
pub use error::ExtensionError;
pub use pulls::{Pulls, ended};
pub use telling::Told;
pub use watch::{News, refills, run};

use crate::account::Guard;
use crate::backoff::Backoff;
use crate::certificates::Issuer;
use crate::fetch::Catalogs;
use crate::reconcile::{self, Own};
use crate::telemetry::{CONTROLLER_EXTENSION, Metrics};
use crate::written::Written;
use pass::Pass;
use telling::Telling;

/// Longest time one pass may take before it is reported as failed. Pulls do not count: they go on
/// without it.
const PASS_LIMIT: Duration = Duration::from_mins(5);

/// What the administrator of the controller decided about extensions.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Namespace of the Secrets that hold the objects of revisions.
    pub system_namespace: String,
    /// Which account counts.
    pub accounts: AccountRule,
    /// What an automatic upgrade may change, unless the extension says otherwise.
    pub updates: UpdatePolicy,
    /// What a catalog that cannot be read means.
    pub unavailability: Unavailability,
    /// What declared dependencies mean.
    pub dependencies: Dependencies,
    /// Gate `BundleReleaseSupport`.
    pub release_support: bool,
    /// What `spec.config` may say and which bundles are accepted.
    pub features: Features,
    /// Who issues the certificates of webhooks; nobody named leaves it to what the cluster offers.
    pub certificates: Option<CertificateSource>,
    /// Extensions worked on at the same time.
    pub concurrency: u16,
}

/// Everything a pass needs.
pub struct Context {
    /// A client with the controller's own rights.
    pub client: Client,
    /// Says which accounts may be acted as.
    pub guard: Arc<Guard>,
    /// What the administrator decided.
    pub settings: Settings,
    /// The catalogs, as far as they could be read.
    pub catalogs: Catalogs,
    /// Pulls bundle images.
    pub puller: Arc<Puller>,
    /// Bundles on disk.
    pub bundles: BundleCache,
    /// Tags that are being resolved.
    pub digests: Pulls<Resolved>,
    /// Bundles that are being pulled.
    pub images: Pulls<BundleImage>,
    /// The rest of the cluster.
    pub surroundings: Surroundings,
    /// Writes Events.
    pub recorder: Recorder,
    /// What was told last.
    pub told: Told,
    /// What was written last.
    pub written: Written,
    /// Counts passes.
    pub metrics: Arc<Metrics>,
    /// Contents rendered last.
    pub rendered: Rendered,
    /// Issues certificates of webhooks.
    pub issuer: Issuer,
    /// Delays of failing extensions.
    pub backoff: Backoff<String>,
}

impl Context {
    fn own(&self) -> Own<'_> {
        Own {
            client: &self.client,
            manager: keys::manager::OPERATOR_CONTROLLER,
        }
    }

    /// Drops what is kept of an extension that is gone.
    fn forget(&self, extension: &ClusterExtension) {
        let name = extension.name_any();
        let uid = extension.metadata.uid.as_deref().unwrap_or_default();
        self.told.forget(uid);
        self.written.forget(uid);
        self.surroundings.note(&name, false);
        self.surroundings.changed();
        self.metrics.update_offered(&name, None);
        self.digests.forget(&name);
        self.images.forget(&name);
    }

    /// Tells what is the case, as far as it was not told before.
    async fn tell_news(&self, extension: &ClusterExtension, now: Vec<Telling>) {
        let uid = extension.metadata.uid.as_deref().unwrap_or_default();
        for news in self.told.news(uid, now) {
            self.tell(extension, news.type_, news.reason, news.note)
                .await;
        }
    }

    /// Writes an Event about an extension; that it cannot be written is only logged.
    async fn tell(
        &self,
        extension: &ClusterExtension,
        type_: EventType,
        reason: &str,
        note: String,
    ) {
        let about = extension.object_ref(&());
        reconcile::tell(&self.recorder, &about, type_, reason, note).await;
    }
}

/// One pass over one extension.
#[tracing::instrument(skip_all, fields(
    controller = CONTROLLER_EXTENSION, name = %object.name_any(),
    generation = object.meta().generation,
))]
async fn reconcile(
    object: Arc<DeserializeGuard<ClusterExtension>>,
    ctx: Arc<Context>,
) -> Result<Action, ExtensionError> {
    let Ok(extension) = &object.0 else {
        // It is looked at again when it changes; the others go on.
        tracing::warn!("the ClusterExtension does not follow its schema and is left alone");
        return Ok(Action::await_change());
    };
    let started = Instant::now();
    let result = Box::pin(work(extension, &ctx)).await;
    let counted = reconcile::counted(&result);
    ctx.metrics
        .reconciled(CONTROLLER_EXTENSION, counted, started.elapsed());
    tracing::info!("reconcile ending");
    if result.is_ok() {
        ctx.backoff.forget(&extension.name_any());
    }
    result
}

/// Reads, decides, writes; the status is written on every path.
async fn work(extension: &ClusterExtension, ctx: &Context) -> Result<Action, ExtensionError> {
    if extension.metadata.deletion_timestamp.is_some() {
        return within(removal::remove(extension, ctx)).await;
    }
    if add_finalizer(extension, ctx).await? {
        // The change of the object brings the next pass.
        return Ok(Action::await_change());
    }
    let mut pass = Pass::default();
    let result = Box::pin(within(pass.run(extension, ctx))).await;
    let status = report::status(extension, &pass, result.as_ref().err(), Timestamp::now());
    if let Some(told) = pass.told.take() {
        ctx.tell_news(extension, told).await;
    }
    let reachable = |update: &UpdateStatus| update.version.is_some();
    let offered = status.update.as_ref().is_some_and(reachable);
    ctx.metrics
        .update_offered(&extension.name_any(), Some(offered));
    write_status(ctx, extension, status).await?;
    result?;
    Ok(Action::requeue(pass.next_look()))
}

/// Fails when what a pass does takes too long.
async fn within<T>(
    part: impl Future<Output = Result<T, ExtensionError>>,
) -> Result<T, ExtensionError> {
    let ended = tokio::time::timeout(PASS_LIMIT, part).await;
    ended.unwrap_or(Err(ExtensionError::TooLong(PASS_LIMIT)))
}

/// What is done after a pass failed.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the controller passes them so"
)]
fn error_policy(
    object: Arc<DeserializeGuard<ClusterExtension>>,
    error: &ExtensionError,
    ctx: Arc<Context>,
) -> Action {
    let name = object.name_any();
    let delay = reconcile::delay(error, &ctx.backoff, name.clone());
    tracing::warn!(name, error = %Chain(error), ?delay, "reconcile failed");
    Action::requeue(delay)
}

/// Adds our finalizer; says whether it was missing.
async fn add_finalizer(
    extension: &ClusterExtension,
    ctx: &Context,
) -> Result<bool, ExtensionError> {
    let finalizer = keys::finalizer::CLEANUP_UNPACK_CACHE;
    if extension
        .finalizers()
        .iter()
        .any(|found| found == finalizer)
    {
        return Ok(false);
    }
    let mut finalizers = extension.finalizers().to_vec();
    finalizers.push(finalizer.to_owned());
    set_finalizers(extension, ctx, &finalizers)
        .await
        .map_err(|cause| ExtensionError::Finalizer { finalizer, cause })?;
    Ok(true)
}

/// Replaces the finalizers, unless the object changed since it was read.
async fn set_finalizers(
    extension: &ClusterExtension,
    ctx: &Context,
    finalizers: &[String],
) -> Result<(), kube::Error> {
    let metadata = json!({"finalizers": finalizers});
    let patched = ctx.own().patch_metadata(extension, metadata).await;
    patched.map(drop)
}

/// Replaces the status, if it differs from the one that was read.
async fn write_status(
    ctx: &Context,
    extension: &ClusterExtension,
    status: ClusterExtensionStatus,
) -> Result<(), ExtensionError> {
    let install = |status: &ClusterExtensionStatus| status.install.clone();
    let was = extension.status.as_ref().and_then(install);
    let moved = was != install(&status);
    let own = ctx.own();
    let changed = own.write_status(&ctx.written, extension, status).await;
    if changed.map_err(ExtensionError::Status)?.is_some() && moved {
        // Others may have waited for it, or may be held by it.
        ctx.surroundings.changed();
    }
    Ok(())
}
