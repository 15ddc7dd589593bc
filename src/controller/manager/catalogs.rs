//! Starts the half that reads and serves catalogs.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use futures::FutureExt as _;
use kube::Client;
use olm_api::keys;
use olm_core::settings::FeatureGate;

use super::half::Half;
use super::{Manager, Signal};
use crate::args::{Component, Listen};
use crate::catalog::store::Store;
use crate::catalog::{self, CatalogServer, Trust};
use crate::server::{self, Limits};

/// Check of readiness: what the leader serves is here.
const CONTENT: &str = "catalogs";

impl Manager {
    pub(super) fn start_catalogs(&mut self) -> anyhow::Result<(Arc<Store>, Half)> {
        let store = Store::open(&self.args.cache_dir, self.room.clone())
            .with_context(|| format!("opening --cache-dir {}", self.args.cache_dir.display()))?;
        let store = Arc::new(store);
        let Listen::At(address) = self.args.catalogs_server_addr else {
            bail!("--catalogs-server-addr must be an address: catalogs are served there");
        };
        let routes = server::catalogs::routes(server::catalogs::Catalogs {
            store: Arc::clone(&store),
            metrics: self.metrics.clone(),
            metas: self.settings.is_on(FeatureGate::ApiV1MetasHandler),
        });
        let certificates = self.certificates.clone();
        let bound =
            self.serve("catalog server", address, Limits::CATALOGS, certificates, routes)?;
        let half = self.half(Component::Catalogs);
        let ctx = self.catalog_context(half.client.clone(), &store, bound);
        let run = catalog::run(ctx, self.args.gc_interval, self.shutdown.clone());
        let followed = if self.args.leader_elect {
            self.start_follower(&half, &store, bound)?
        } else {
            std::future::ready(()).boxed().shared()
        };
        self.act("ClusterCatalog controller", &half, async move {
            followed.await;
            run.await;
        });
        Ok((store, half))
    }

    /// Copies what the leader serves until this process leads; it is ready when it has that.
    /// Returns what resolves when that is over.
    fn start_follower(
        &mut self,
        half: &Half,
        store: &Arc<Store>,
        bound: SocketAddr,
    ) -> anyhow::Result<Signal> {
        let ctx = self.catalog_context(self.client.clone(), store, bound);
        let trust = match &self.args.catalogd_cas_dir {
            Some(folder) => Trust::Folder(folder.clone()),
            None => Trust::Published(self.serving_ca.clone()),
        };
        let replica = CatalogServer::replica(&self.args.cache_dir, trust, self.profile.clone())?;
        let (turn, shutdown) = (half.turn.clone(), self.shutdown.clone());
        let end = async move {
            tokio::select! {
                () = turn => {}
                () = shutdown => {}
            }
        };
        self.health.set_ready(CONTENT, false);
        let (complete, leading) = (Arc::clone(&self.health), Arc::clone(&self.health));
        let interval = self.args.gc_interval;
        let following = tokio::spawn(async move {
            let complete = move || complete.set_ready(CONTENT, true);
            catalog::follow(ctx, replica, interval, complete, end).await;
            // Who leads has nobody to copy from.
            leading.set_ready(CONTENT, true);
        });
        Ok(following.map(drop).boxed().shared())
    }

    fn catalog_context(
        &self,
        client: Client,
        store: &Arc<Store>,
        bound: SocketAddr,
    ) -> Arc<catalog::Context> {
        let (store, credentials) = (Arc::clone(store), Arc::clone(&self.credentials));
        let (base, metrics) = (self.base(bound), self.metrics.clone());
        Arc::new(catalog::Context::new(client, store, credentials, base, metrics))
    }

    /// Returns the address under which clients reach the catalog server.
    fn base(&self, bound: SocketAddr) -> String {
        let scheme = if self.certificates.is_some() { "https" } else { "http" };
        let host = match &self.args.external_address {
            Some(address) => address.clone(),
            None if bound.ip().is_loopback() => bound.to_string(),
            None => format!("{}.{}.svc", keys::name::SERVICE_CATALOGD, self.args.namespace()),
        };
        format!("{scheme}://{host}")
    }
}
