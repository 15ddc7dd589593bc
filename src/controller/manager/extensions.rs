//! Starts the half that installs extensions, and the gate of cluster updates.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use futures::stream::{select, select_all};
use jiff::Timestamp;
use kube::{Api, Client};
use olm_api::keys;
use olm_core::settings::MissingOptionalKinds;
use olm_image::BundleCache;

use super::half::Half;
use super::{Manager, Signal};
use crate::account::Guard;
use crate::args::UninstallFallback;
use crate::backoff::FIRST_DELAY_EXTENSION;
use crate::catalog::store::Store;
use crate::catalog::{Published, Trust};
use crate::certificates::Issuer;
use crate::cluster::Sentence;
use crate::fetch::Catalogs;
use crate::pull_secrets::PullSecrets;
use crate::rbac_watch::RbacWatch;
use crate::reconcile::Reconciler;
use crate::revision::{self, KnownRevisions};
use crate::seen::Seen;
use crate::telemetry::CONTROLLER_EXTENSION;
use crate::{extension, gate, objectset, settings};

/// The interval of checks for Secrets of revisions that were never created.
const ORPHAN_INTERVAL: Duration = Duration::from_hours(1);
/// Environment variable with the version of the OpenShift release this program is part of.
const PAYLOAD_VERSION: &str = "OPERATOR_IMAGE_VERSION";

impl Manager {
    /// Starts what works on extensions, and returns what it knows of them and of their revisions.
    pub(super) fn start_extensions(
        &mut self,
        half: &Half,
        store: Option<Arc<Store>>,
    ) -> anyhow::Result<gate::Known> {
        let bundles = self.cache("bundles")?;
        let catalogs = match store {
            Some(store) => Catalogs::own(store),
            None => self.remote_catalogs()?,
        };
        let client = half.client.clone();
        let (issuer, touched) = Issuer::new(client.clone(), self.args.namespace());
        let (pull_secrets, touched_copies) =
            PullSecrets::new(client.clone(), self.args.namespace());
        let (revisions, feed, touched_revisions) =
            KnownRevisions::new(client.clone(), self.args.namespace());
        let (seen, writers, touched_extensions) = Seen::new();
        let known =
            gate::Known { extensions: seen.extensions.clone(), revisions: Arc::clone(&revisions) };
        let discovery = extension::DiscoveryCache::new(
            Arc::clone(&revisions),
            seen.extensions.clone(),
            (client.clone(), self.args.namespace()),
            self.settings.counts_classic(),
        );
        let (kept, pulled) = extension::PerExtension::new();
        let guard = self.start_guard();
        let (rbac, rights, revision_rights) = RbacWatch::new();
        let ctx = extension::Context {
            guard: Arc::clone(&guard),
            rbac: Arc::clone(&rbac),
            discovery,
            kept,
            reconciler: Reconciler::new(
                CONTROLLER_EXTENSION,
                keys::manager::OPERATOR_CONTROLLER,
                client.clone(),
                self.metrics.clone(),
                FIRST_DELAY_EXTENSION,
            ),
            settings: self.settings.clone(),
            system_namespace: self.args.namespace(),
            uninstall: self.args.default_uninstall_policy,
            concurrency: self.args.max_concurrent_reconciles,
            issuer,
            pull_secrets,
            revisions,
            seen: seen.clone(),
            catalogs,
            credentials: Arc::clone(&self.credentials),
            bundles,
            turns: extension::Turns::default(),
            metrics: self.metrics.clone(),
            rendered: extension::Rendered::default(),
            platform: self.platform.clone(),
            before: extension::Before::default(),
            client: client.clone(),
        };
        let named = [pulled.boxed(), rights.boxed(), touched_revisions.boxed()];
        let triggers = extension::Triggers {
            secrets: select(touched, touched_copies).boxed(),
            named: select_all(named).boxed(),
            seen: writers,
        };
        let run = extension::run(Arc::new(ctx), triggers, self.shutdown.clone());
        self.act("ClusterExtension controller", half, run);
        let (ctx, woken) = objectset::Context::new(
            client.clone(),
            self.object_set_settings(guard, self.cache("settled")?),
            (&feed, seen.clone()),
            Arc::clone(&rbac),
            self.metrics.clone(),
        );
        let woken = objectset::Woken {
            feed,
            extensions: touched_extensions,
            revisions: select(woken, revision_rights).boxed(),
        };
        let run = objectset::run(Arc::new(ctx), woken, self.shutdown.clone());
        self.act("ClusterObjectSet controller", half, run);
        self.start_chores(half, rbac);
        Ok(known)
    }

    /// Starts what both reconcilers of extensions count on.
    fn start_chores(&mut self, half: &Half, rbac: Arc<RbacWatch>) {
        let (client, end) = (half.client.clone(), self.shutdown.clone());
        let run = async move { rbac.run(client, end).await };
        self.act("watch of rights", half, run);
        let run =
            collect_secrets(half.client.clone(), self.args.namespace(), self.shutdown.clone());
        self.act("clean-up of Secrets", half, run);
        let run = settings::publish(
            half.client.clone(),
            self.args.namespace(),
            self.settings.clone(),
            self.shutdown.clone(),
        );
        self.act("settings", half, run);
    }

    /// Returns the view on catalogs that another process serves.
    fn remote_catalogs(&mut self) -> anyhow::Result<Catalogs> {
        let trust = match &self.args.catalogd_cas_dir {
            Some(folder) => Trust::Folder(folder.clone()),
            None => Trust::Published(Published::default()),
        };
        let follows = matches!(trust, Trust::Published(_));
        let catalogs = Catalogs::remote(
            &self.args.cache_path,
            trust,
            self.profile.clone(),
            self.room.clone(),
            self.metrics.clone(),
        )?;
        if follows {
            let map = self.args.catalogd_ca();
            let maps = Api::namespaced(self.client.clone(), &map.namespace);
            let follow = catalogs.clone().follow_ca(maps, map.name);
            self.parts.keep("CA of catalogs", follow);
        }
        Ok(catalogs)
    }

    /// Starts watching the policies on who may name an account.
    fn start_guard(&mut self) -> Arc<Guard> {
        let args = &self.args;
        let reserved = self.settings.reserved(&args.namespace());
        let guard =
            Guard::new(self.client.clone(), reserved, args.account_policy, self.metrics.clone());
        let guard = Arc::new(guard);
        let watched = Arc::clone(&guard);
        // Reconciles that end ask it to the last.
        self.parts.keep("account policies", async move { watched.run().await });
        guard
    }

    fn cache(&self, folder: &str) -> anyhow::Result<BundleCache> {
        let cache = BundleCache::open(self.args.cache_path.join(folder))
            .with_context(|| format!("opening --cache-path {}", self.args.cache_path.display()))?;
        Ok(cache.within(self.room.clone()))
    }

    fn object_set_settings(&self, guard: Arc<Guard>, settled: BundleCache) -> objectset::Settings {
        let args = &self.args;
        objectset::Settings {
            guard,
            settled,
            system_namespace: args.namespace(),
            accounts: self.settings.accounts(),
            managed_resync: args.managed_resync_interval,
            uninstall: args.default_uninstall_policy,
            crd_timeout: args.uninstall_crd_timeout,
            fall_back_to_gc: args.uninstall_fallback == UninstallFallback::Gc,
            defer_optional_kinds: args.missing_optional_kinds == MissingOptionalKinds::Defer,
            concurrency: args.max_concurrent_reconciles,
        }
    }

    pub(super) fn start_gate(&mut self, half: &Half, known: Option<gate::Known>) {
        let gate = gate::Gate {
            client: half.client.clone(),
            payload: std::env::var(PAYLOAD_VERSION).ok(),
            manage: self.args.manage_clusteroperator,
            given: self.args.platform_version,
            infers: self.args.infer_platform_version,
            platform: self.platform.clone(),
            known,
            metrics: self.metrics.clone(),
        };
        let run = gate.run(self.shutdown.clone());
        self.act("gate", half, run);
    }
}

/// Removes Secrets of revisions that were never made, at start and every hour, until `shutdown`.
async fn collect_secrets(client: Client, namespace: String, shutdown: Signal) {
    loop {
        match revision::collect_orphaned_secrets(&client, &namespace, Timestamp::now()).await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "orphaned Secrets removed"),
            Err(error) => tracing::warn!(error = %Sentence(&error), "orphaned Secrets not removed"),
        }
        tokio::select! {
            () = shutdown.clone() => return,
            () = tokio::time::sleep(ORPHAN_INTERVAL) => {}
        }
    }
}
