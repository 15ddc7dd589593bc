//! The shared state of reconciles of ClusterExtensions, and the state of a single one.

use std::sync::Arc;
use std::time::Duration;

use kube::{Client, ResourceExt as _};
use olm_api::{ClusterExtension, ClusterExtensionStatus, ClusterObjectSet};
use olm_core::extension::{Extras, ValidExtension};
use olm_core::revision::{Account, Extension};
use olm_core::settings::ControllerSettings;
use olm_core::uninstall::UninstallPolicy;
use olm_image::BundleCache;

use super::before::Before;
use super::content::Rendered;
use super::discovery::DiscoveryCache;
use super::error::ExtensionError;
use super::moved::Moved;
use super::per_extension::PerExtension;
use super::turns::Turns;
use crate::account::Guard;
use crate::certificates::Issuer;
use crate::cluster::RequestError;
use crate::credentials::RegistryCredentials;
use crate::fetch::Catalogs;
use crate::gate::Platform;
use crate::pull_secrets::PullSecrets;
use crate::rbac_watch::{RbacWatch, Waiter};
use crate::reconcile::{Deadline, Reconciler};
use crate::revision::KnownRevisions;
use crate::seen::Seen;
use crate::telemetry::Metrics;

/// Longest time a reconcile may take before it is reported as failed; the care for certificates and
/// the report come after that. Pulls do not count: they go on without it.
pub(super) const LIMIT: Duration = Duration::from_mins(5);

/// What reconciles of ClusterExtensions share.
pub struct Context {
    /// A client with the controller's own rights.
    pub client: Client,
    /// Decides which accounts may be impersonated.
    pub guard: Arc<Guard>,
    /// Wakes who waits for rights.
    pub rbac: Arc<RbacWatch>,
    /// What the flags say.
    pub settings: ControllerSettings,
    /// Namespace of the Secrets that hold the objects of revisions.
    pub system_namespace: String,
    /// What becomes of CRDs where nobody says so.
    pub uninstall: UninstallPolicy,
    /// Extensions worked on at the same time.
    pub concurrency: u16,
    /// The revisions on the cluster.
    pub revisions: Arc<KnownRevisions>,
    /// Extensions, catalogs and accounts on the cluster.
    pub seen: Seen,
    /// The catalogs, as far as they could be read.
    pub catalogs: Catalogs,
    /// The credentials for bundle images.
    pub credentials: Arc<RegistryCredentials>,
    /// Bundles on disk.
    pub bundles: BundleCache,
    /// Limits the extensions that read bundles at the same time.
    pub turns: Turns,
    /// The rest of the cluster.
    pub discovery: DiscoveryCache,
    /// The memory of each extension.
    pub kept: PerExtension,
    /// Counts, delays and writes.
    pub reconciler: Reconciler,
    /// Counts resolutions.
    pub metrics: Metrics,
    /// Contents rendered last.
    pub rendered: Rendered,
    /// Issues certificates of webhooks.
    pub issuer: Issuer,
    /// Copies pull secrets for operators' pods.
    pub pull_secrets: PullSecrets,
    /// The release of the platform, which bundles may hold.
    pub platform: Platform,
    /// Installations of earlier upstream versions.
    pub before: Before,
}

/// The state of one reconcile.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'a> {
    pub(super) ctx: &'a Context,
    pub(super) extension: ValidExtension<'a>,
    /// As whom is acted.
    pub(super) account: &'a Account,
    /// The revisions, sorted by number.
    pub(super) revisions: &'a [ClusterObjectSet],
    /// The additions of its annotations to its bundle.
    pub(super) extras: &'a Extras,
    pub(super) deadline: Deadline,
}

impl Context {
    /// Drops what is kept of an extension that is gone, here and in what others share.
    pub(super) fn forget(&self, extension: &ClusterExtension) {
        let name = extension.name_any();
        self.kept.forget(extension);
        self.pull_secrets.forget(&name);
        self.issuer.forget(&Extension::of(extension));
        self.reconciler.forget(extension);
        self.revisions.forget(extension);
        self.metrics.update_offered(&name, None);
        self.metrics.support_ends(&name, None);
        self.rbac.forget(&Waiter::Extension(name));
        self.discovery.changed();
        // It may have counted without revisions.
        self.platform.ways_out.notify_one();
    }

    /// Returns those of the `wanted` extensions whose bundle the present credentials and files may be
    /// enough for, and forgets their delays.
    pub(super) fn mended(&self, wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let names = self.kept.pull_state.mended(self.credentials.version(), wanted);
        for name in &names {
            self.reconciler.succeeded(name);
        }
        names
    }

    /// Replaces the status, if it differs from the one that was read.
    pub(super) async fn write_status(
        &self,
        extension: &ClusterExtension,
        status: ClusterExtensionStatus,
    ) -> Result<(), ExtensionError> {
        let moved = Moved::between(extension.status.as_ref(), &status);
        let changed = self.reconciler.write_status(extension, status).await;
        if changed.map_err(RequestError::doing("error updating status"))?.is_none() {
            return Ok(());
        }
        moved.count(&self.metrics, extension);
        if moved.platform {
            self.platform.ways_out.notify_one();
        }
        if moved.installed() {
            // Others may have waited for it, or may be held by it.
            self.discovery.changed();
        }
        Ok(())
    }
}
