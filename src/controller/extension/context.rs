//! What reconciles of ClusterExtensions share, and what the steps of one work on.

use std::sync::Arc;
use std::time::Duration;

use kube::runtime::events::EventType;
use kube::{Client, ResourceExt as _};
use olm_api::conditions::Reason;
use olm_api::{ClusterExtension, ClusterExtensionStatus, ClusterObjectSet};
use olm_core::config::Features;
use olm_core::crd_safety::Rules;
use olm_core::extension::holds::RbacPreflight;
use olm_core::extension::{Defaults, Extras, ValidExtension};
use olm_core::render::{CertificateSource, ProxyVariables};
use olm_core::resolve::Options;
use olm_core::revision::{Account, AccountRule};
use olm_core::uninstall::UninstallPolicy;
use olm_image::BundleCache;

use super::before::Before;
use super::content::Rendered;
use super::discovery::DiscoveryCache;
use super::error::ExtensionError;
use super::moved::Moved;
use super::per_extension::PerExtension;
use super::turns::Turns;
use crate::account::{Guard, Reviews};
use crate::certificates::Issuer;
use crate::cluster::ApiError;
use crate::credentials::RegistryCredentials;
use crate::fetch::Catalogs;
use crate::gate::Platform;
use crate::rbac_watch::{RbacWatch, Waiter};
use crate::reconcile::{Deadline, Reconciler};
use crate::revision::KnownRevisions;
use crate::seen::Seen;
use crate::telemetry::Metrics;

/// Longest time a reconcile may take before it is reported as failed; the care for certificates and
/// the report come after that. Pulls do not count: they go on without it.
pub(super) const LIMIT: Duration = Duration::from_mins(5);

/// What the administrator of the controller decided about extensions.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Namespace of the Secrets that hold the objects of revisions.
    pub system_namespace: String,
    /// Which account counts.
    pub accounts: AccountRule,
    /// How resolution behaves where annotations say nothing.
    pub resolution: Options,
    /// What counts where annotations say nothing.
    pub defaults: Defaults,
    /// The proxies that operators get where there is no `Proxy`.
    pub operator_proxy: ProxyVariables,
    /// What `spec.config` may say and which bundles are accepted.
    pub features: Features,
    /// Who issues the certificates of webhooks; nobody named leaves it to what the cluster offers.
    pub certificates: Option<CertificateSource>,
    /// Whether each step of each extension has to be approved by its plan.
    pub require_approval: bool,
    /// What is done about rights that an account lacks.
    pub rbac_preflight: RbacPreflight,
    /// What becomes of CRDs where nobody says so.
    pub uninstall: UninstallPolicy,
    /// Whether objects of optional kinds wait until their kind is served.
    pub defer_optional_kinds: bool,
    /// Which changes of CRDs are let pass.
    pub crd_rules: Rules,
    /// Extensions worked on at the same time.
    pub concurrency: u16,
}

/// What reconciles of ClusterExtensions share.
pub struct Context {
    /// A client with the controller's own rights.
    pub client: Client,
    /// Says which accounts may be acted as.
    pub guard: Arc<Guard>,
    /// Says what accounts may do.
    pub reviews: Reviews,
    /// Wakes who waits for rights.
    pub rbac: Arc<RbacWatch>,
    /// What the administrator decided.
    pub settings: Settings,
    /// The revisions on the cluster.
    pub revisions: Arc<KnownRevisions>,
    /// Extensions, catalogs and accounts on the cluster.
    pub seen: Seen,
    /// The catalogs, as far as they could be read.
    pub catalogs: Catalogs,
    /// What bundle images are pulled with.
    pub credentials: Arc<RegistryCredentials>,
    /// Bundles on disk.
    pub bundles: BundleCache,
    /// Who reads bundles.
    pub turns: Turns,
    /// The rest of the cluster.
    pub discovery: DiscoveryCache,
    /// What is remembered of each extension.
    pub kept: PerExtension,
    /// Counts, delays and writes.
    pub reconciler: Reconciler,
    /// Counts resolutions.
    pub metrics: Metrics,
    /// Contents rendered last.
    pub rendered: Rendered,
    /// Issues certificates of webhooks.
    pub issuer: Issuer,
    /// The release of the platform, which bundles may hold.
    pub platform: Platform,
    /// What upstream installed in its earlier ways.
    pub before: Before,
}

/// What every step of a reconcile works on.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'a> {
    pub(super) ctx: &'a Context,
    pub(super) extension: ValidExtension<'a>,
    /// As whom is acted.
    pub(super) account: &'a Account,
    /// The revisions, sorted by number.
    pub(super) revisions: &'a [ClusterObjectSet],
    /// What its annotations add to its bundle.
    pub(super) extras: &'a Extras,
    pub(super) deadline: Deadline,
}

impl Context {
    /// Drops what is kept of an extension that is gone, here and in what others share.
    pub(super) fn forget(&self, extension: &ClusterExtension) {
        let name = extension.name_any();
        self.kept.forget(extension);
        self.reconciler.forget(extension);
        self.revisions.forget(extension);
        self.metrics.update_offered(&name, None);
        self.metrics.support_ends(&name, None);
        self.rbac.forget(&Waiter::Extension(name));
        self.discovery.changed();
    }

    /// Returns the extensions whose bundle the present credentials and files may be enough for, and
    /// forgets their delays.
    pub(super) fn mended(&self) -> Vec<String> {
        let names = self.kept.pull_state.mended(self.credentials.version());
        for name in &names {
            self.reconciler.succeeded(name);
        }
        names
    }

    /// Publishes an Event about an extension.
    pub(super) async fn publish(
        &self,
        extension: &ClusterExtension,
        type_: EventType,
        reason: Reason,
        note: String,
    ) {
        let publish = self.reconciler.publish(extension, type_, reason, note);
        publish.await;
    }

    /// Replaces the status, if it differs from the one that was read.
    pub(super) async fn write_status(
        &self,
        extension: &ClusterExtension,
        status: ClusterExtensionStatus,
    ) -> Result<(), ExtensionError> {
        let moved = Moved::between(extension.status.as_ref(), &status);
        let changed = self.reconciler.write_status(extension, status).await;
        if changed.map_err(|error| ExtensionError::Status(ApiError(error)))?.is_none() {
            return Ok(());
        }
        moved.count(&self.metrics, extension);
        if moved.platform() {
            self.platform.way_out_changed();
        }
        if moved.installed() {
            // Others may have waited for it, or may be held by it.
            self.discovery.changed();
        }
        Ok(())
    }
}
