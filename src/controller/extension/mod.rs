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
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::DeserializeGuard;
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType, Recorder};
use kube::runtime::reflector::ObjectRef;
use kube::{Client, Resource, ResourceExt};
use olm_api::{ClusterExtension, ClusterExtensionStatus, UpdateStatus, keys};
use olm_core::config::Features;
use olm_core::error::{Chain, Classify, Disposition};
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
use crate::backoff::{self, Backoff};
use crate::certificates::Issuer;
use crate::fetch::Catalogs;
use crate::telemetry::{CONTROLLER_EXTENSION, Metrics, ReconcileResult};
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
    pub backoff: Backoff<ObjectRef<DeserializeGuard<ClusterExtension>>>,
}

impl Context {
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
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note),
            action: reason.to_owned(),
            secondary: None,
        };
        if let Err(error) = self
            .recorder
            .publish(&event, &extension.object_ref(&()))
            .await
        {
            tracing::debug!(error = %Chain(&error), reason, "event not written");
        }
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
    let counted = match &result {
        Ok(_) => ReconcileResult::Success,
        Err(error) if matches!(error.disposition(), Disposition::Wait(_)) => {
            ReconcileResult::RequeueAfter
        }
        Err(_) => ReconcileResult::Error,
    };
    ctx.metrics
        .reconciled(CONTROLLER_EXTENSION, counted, started.elapsed());
    tracing::info!("reconcile ending");
    if result.is_ok() {
        ctx.backoff.forget(&ObjectRef::from_obj(&*object));
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
    let key = || ObjectRef::from_obj(&*object);
    let delay = match error.disposition() {
        Disposition::Terminal(_) => backoff::resync(),
        Disposition::Wait(delay) => delay,
        Disposition::Retry => ctx.backoff.next(key()),
        Disposition::RetryWithin(limit) => ctx.backoff.next_within(key(), limit),
    };
    tracing::warn!(name = %object.name_any(), error = %Chain(error), ?delay, "reconcile failed");
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
    let patch = json!({"metadata": {
        "finalizers": finalizers,
        "resourceVersion": extension.metadata.resource_version,
    }});
    let params = PatchParams {
        field_manager: Some(keys::manager::OPERATOR_CONTROLLER.to_owned()),
        ..PatchParams::default()
    };
    Api::<ClusterExtension>::all(ctx.client.clone())
        .patch_metadata(&extension.name_any(), &params, &Patch::Merge(patch))
        .await
        .map(drop)
}

/// Replaces the status, if it differs from the one that was read.
async fn write_status(
    ctx: &Context,
    extension: &ClusterExtension,
    status: ClusterExtensionStatus,
) -> Result<(), ExtensionError> {
    let uid = extension.metadata.uid.as_deref().unwrap_or_default();
    if extension.status.as_ref() == Some(&status) && ctx.written.is_current(uid, &status) {
        return Ok(());
    }
    let install = |status: &ClusterExtensionStatus| status.install.clone();
    let was = extension.status.as_ref().and_then(install);
    let moved = was != install(&status);
    let mut changed = extension.clone();
    changed.status = Some(status);
    changed.metadata.managed_fields = None;
    let params = PostParams {
        field_manager: Some(keys::manager::OPERATOR_CONTROLLER.to_owned()),
        ..PostParams::default()
    };
    ctx.written.begin(uid);
    match Api::<ClusterExtension>::all(ctx.client.clone())
        .replace_status(&extension.name_any(), &params, &changed)
        .await
    {
        Ok(answer) => {
            if let Some(status) = &answer.status {
                ctx.written.end(uid, status);
            }
            if moved {
                // Others may have waited for it, or may be held by it.
                ctx.surroundings.changed();
            }
            Ok(())
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(ExtensionError::Status(error)),
    }
}
