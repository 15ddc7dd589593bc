//! Starts the parts in order, and stops them in order.
//!
//! Addresses are bound and folders opened before any controller starts, so that what is wrong with
//! the configuration is said at once. What serves runs at once; what acts begins in its turn: when
//! the rights of this process are limited and, with leader election, its lease is held. A part that
//! ends by itself, or a lease that is lost, ends the process.

mod endpoints;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use olm_api::keys;
use olm_core::error::Chain;
use olm_core::guard::{AccountPattern, Reserved};
use olm_core::rbac::Permissions;
use olm_core::rights::on_secret;
use olm_core::settings::{
    ControllerSettings, FeatureGate, MissingOptionalKinds, NamedServiceAccount,
};
use olm_image::trust::CertificateDirs;
use olm_image::{BundleCache, PullConfig, Puller, Room};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::account::{Guard, Reviews};
use crate::args::{AccountAuth, Args, Component, Listen, TlsProfile, UninstallFallback};
use crate::backoff::FIRST_DELAY_EXTENSION;
use crate::catalog::store::Store;
use crate::catalog::{CatalogServer, Published, Trust};
use crate::certificates::Issuer;
use crate::cluster::{bounded, connect, counted};
use crate::credentials::RegistryCredentials;
use crate::fetch::Catalogs;
use crate::lease::{Candidacy, Elector, Loss};
use crate::parts::Parts;
use crate::rbac_watch::RbacWatch;
use crate::reconcile::Reconciler;
use crate::revision::KnownRevisions;
use crate::seen::Seen;
use crate::server::health::Health;
use crate::server::tls::{CertificateFiles, Certificates};
use crate::server::{Limited, Limits};
use crate::serving::serving;
use crate::telemetry::{CONTROLLER_EXTENSION, Metrics};
use crate::term::Term;
use crate::tls::CurrentProfile;
use crate::watchdog::Watchdog;
use crate::{
    catalog, excess, extension, gate, lease, objectset, revision, rights, server, settings,
    telemetry, tls,
};

/// How often Secrets of revisions that were never made are looked for.
const ORPHAN_INTERVAL: Duration = Duration::from_hours(1);
/// Check of readiness: what the leader serves is here.
const CONTENT: &str = "catalogs";
/// Environment variable with the version of the OpenShift release this program is part of.
const PAYLOAD_VERSION: &str = "OPERATOR_IMAGE_VERSION";

/// Something that happens once and is waited for by many.
type Signal = Shared<BoxFuture<'static, ()>>;

/// The parts that run in this process, and what they share.
struct Manager {
    args: Args,
    /// What is decided by, as the flags say it.
    settings: ControllerSettings,
    /// The controller's own rights, for what is done without leading.
    client: Client,
    metrics: Metrics,
    health: Arc<Health>,
    /// What listeners and the client of catalogs obey.
    profile: CurrentProfile,
    /// What listeners present.
    certificates: Option<Certificates>,
    /// Where that comes from, if it is files.
    files: Option<CertificateFiles>,
    /// The CA of our own listeners, where the program issues their certificates.
    serving_ca: Published,
    credentials: Arc<RegistryCredentials>,
    /// What the caches may take on disk.
    room: Room,
    /// What gate and extensions tell each other.
    platform: gate::Platform,
    shutdown: Signal,
    /// Resolves when the rights of this process are limited.
    limited: Signal,
    /// What the health of this process is judged by.
    watchdog: Watchdog,
    parts: Parts,
    /// The leases that are held or waited for.
    elections: JoinSet<Result<(), (String, Loss)>>,
    /// Set when leases are to be given up.
    release: watch::Sender<bool>,
    terms: Vec<Term>,
    listening: BTreeMap<&'static str, SocketAddr>,
}

/// What acts under one lease, or without one.
struct Half {
    /// Writes in its term only.
    client: Client,
    /// Resolves when the half may act.
    turn: Signal,
}

/// Runs everything the flags ask for until a signal ends it.
pub async fn run(args: Args, program: &str) -> anyhow::Result<()> {
    if args.service_account_auth == AccountAuth::Token {
        bail!("--service-account-auth=token is not built yet; use impersonate");
    }
    for warning in args.warnings() {
        tracing::warn!("{warning}");
    }
    let components: Vec<Component> = [Component::Catalogs, Component::Extensions, Component::Gate]
        .into_iter()
        .filter(|component| args.runs(*component, program))
        .collect();
    let mut manager = Manager::new(args).await?;
    manager.start(&components)?;
    manager.wait().await
}

impl Manager {
    async fn new(args: Args) -> anyhow::Result<Self> {
        let profile = CurrentProfile::from(args.tls().context("--tls-custom-curves")?.profile);
        let metrics = Metrics::default();
        let watchdog = Watchdog::default();
        let client = client(&args, metrics.clone()).await?;
        let (certificates, files) = endpoints::certificates(&args, &profile)?;
        let config = PullConfig::from_env();
        let policy = &config.policy;
        if !policy.required && !policy.file.exists() {
            let file = policy.file.display();
            tracing::warn!(%file, "no signature policy: images are taken whoever signed them, or nobody");
        }
        let puller = Puller::new(PullConfig {
            certificates: CertificateDirs {
                only: args.pull_cas_dir.clone(),
                ..CertificateDirs::default()
            },
            auth: args.auth_files(),
            ..config
        });
        let limited = if args.allow_excessive_rights {
            std::future::ready(()).boxed().shared()
        } else {
            excess::gone(client.clone(), metrics.clone())
                .boxed()
                .shared()
        };
        let mut credentials = RegistryCredentials::new(
            client.clone(),
            args.namespace(),
            args.global_pull_secret.clone(),
            Arc::new(puller),
        );
        if args.cluster_proxy {
            credentials.follow_proxies();
        }
        Ok(Self {
            client,
            limited,
            profile,
            certificates,
            files,
            credentials: Arc::new(credentials),
            room: Room::default(),
            platform: gate::Platform::default(),
            serving_ca: Published::default(),
            metrics,
            health: Arc::new(Health::new(&["started"], watchdog.clone())),
            shutdown: termination()?.boxed().shared(),
            parts: Parts::new(watchdog.clone()),
            watchdog,
            elections: JoinSet::new(),
            release: watch::Sender::new(false),
            terms: Vec::new(),
            listening: BTreeMap::new(),
            settings: settings::of(&args),
            args,
        })
    }

    fn start(&mut self, components: &[Component]) -> anyhow::Result<()> {
        let runs = |component| components.contains(&component);
        let mut folders = Vec::new();
        if runs(Component::Catalogs) {
            folders.push(self.args.cache_dir.clone());
        }
        if runs(Component::Extensions) {
            folders.push(self.args.cache_path.clone());
        }
        self.room = Room::within(self.args.cache_limit, folders);
        let (store, mut half) = if runs(Component::Catalogs) {
            let (store, half) = self.start_catalogs()?;
            (Some(store), Some(half))
        } else {
            (None, None)
        };
        if runs(Component::Extensions) || runs(Component::Gate) {
            let extensions = self.half(Component::Extensions);
            let seen = if runs(Component::Extensions) {
                Some(self.start_extensions(&extensions, store)?)
            } else {
                None
            };
            if runs(Component::Gate) {
                self.start_gate(&extensions, seen);
            }
            half.get_or_insert(extensions);
        }
        if runs(Component::Catalogs) || runs(Component::Extensions) {
            let credentials = Arc::clone(&self.credentials);
            let run = async move { credentials.run().await };
            self.parts.keep("registry credentials", run);
        }
        self.start_endpoints(runs(Component::Catalogs))?;
        self.follow_profile();
        self.start_certificates(half);
        let needed = self.needed_rights(components);
        let watched = rights::watch(self.client.clone(), needed, self.metrics.clone());
        self.parts.keep("own rights", watched);
        if self.args.named_service_account == NamedServiceAccount::Use {
            tokio::spawn(excess::warn_of_leftovers(self.client.clone()));
        }
        let caches = vec![
            ("catalogs", self.args.cache_dir.clone()),
            ("bundles", self.args.cache_path.clone()),
        ];
        let measured = telemetry::measure_caches(self.metrics.clone(), caches);
        self.parts.keep("measuring of caches", measured);
        if let Some(path) = &self.args.listen_info {
            server::write_listen_info(path, &self.listening)
                .with_context(|| format!("writing {}", path.display()))?;
        }
        self.health.set_ready("started", true);
        tracing::info!(?components, listening = ?self.listening, "started");
        Ok(())
    }

    /// Returns what the account of this process has to be allowed.
    fn needed_rights(&self, components: &[Component]) -> Permissions {
        let mut needed = Permissions::default();
        for component in components {
            let half = match component {
                Component::Catalogs => olm_core::rights::Half::Catalogs,
                Component::Extensions | Component::Gate => olm_core::rights::Half::Extensions,
            };
            let lease = self.args.lease(*component);
            let lease = (lease.namespace.as_str(), lease.name.as_str());
            let lease = self.args.leader_elect.then_some(lease);
            needed.extend(&half.needed(&self.args.namespace(), lease));
        }
        if let Some(secret) = &self.args.global_pull_secret.0 {
            needed.extend(&on_secret(&secret.namespace, &secret.name));
        }
        needed
    }

    /// Has listeners and the client of catalogs follow the TLS profile of the cluster, if they do.
    fn follow_profile(&mut self) {
        if self.args.tls_profile == TlsProfile::Cluster {
            let certificates = self.certificates.clone();
            let changed = move || certificates.iter().for_each(Certificates::renew);
            let follow = tls::follow(self.client.clone(), self.profile.clone(), changed);
            self.parts.keep("TLS profile", follow);
        }
    }

    /// Starts what keeps the certificate of listeners current. `half` is whose leader keeps the CA,
    /// if it is ours.
    fn start_certificates(&mut self, half: Option<Half>) {
        if let Some(files) = self.files.take() {
            let current = files.keep_current(self.metrics.clone());
            self.parts.keep("certificate reload", current);
        } else if let (Some(certificates), Some(half)) = (self.certificates.clone(), half) {
            let (presenter, keeper) = serving(
                &self.client,
                self.args.namespace(),
                self.args.external_address.as_deref(),
                certificates,
                self.metrics.clone(),
                Arc::clone(&self.health),
            );
            let presenter = presenter.trusted_by(self.serving_ca.clone());
            self.parts.keep("serving certificate", presenter.run());
            let run = keeper.run(half.client.clone(), self.shutdown.clone());
            self.act("serving CA", &half, run);
        }
    }

    /// Returns how a half acts: under its lease if leaders are elected, else at once. In either
    /// case not before the rights of this process are limited.
    fn half(&mut self, component: Component) -> Half {
        let limited = self.limited.clone();
        if !self.args.leader_elect {
            let term = Term::unlimited();
            self.terms.push(term.clone());
            let client = bounded(self.client.clone(), term);
            return Half {
                client,
                turn: limited,
            };
        }
        let term = Term::pending();
        self.terms.push(term.clone());
        let name = self.args.lease(component);
        let candidacy = Candidacy {
            namespace: name.namespace,
            name: name.name.clone(),
            identity: lease::identity(),
            manager: match component {
                Component::Catalogs => keys::manager::CATALOGD,
                Component::Extensions | Component::Gate => keys::manager::OPERATOR_CONTROLLER,
            },
        };
        let (leading, mut led) = watch::channel(false);
        let metrics = self.metrics.clone();
        let elector = Elector::new(self.client.clone(), candidacy, term.clone(), metrics);
        let mut release = self.release.subscribe();
        self.watchdog.watch_lease(&name.name, term.clone());
        let election = format!("election of {}", name.name);
        self.elections
            .spawn(self.watchdog.watch(&election, async move {
                // It fails when the sender is gone, and with it everything else.
                let stop = async move { drop(release.wait_for(|stop| *stop).await) };
                let mut stop = std::pin::pin!(stop);
                tokio::select! {
                    () = limited => {}
                    () = &mut stop => return Ok(()),
                }
                let ended = elector.run(leading, stop).await;
                ended.map_err(|loss| (name.name, loss))
            }));
        let turn = async move {
            // Without a sender there is nobody left who could lead.
            if led.wait_for(|leads| *leads).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        Half {
            client: bounded(self.client.clone(), term),
            turn: turn.boxed().shared(),
        }
    }

    /// Starts what writes, in its turn; it never starts when the process is to stop before.
    fn act(
        &mut self,
        name: &'static str,
        half: &Half,
        part: impl Future<Output = ()> + Send + 'static,
    ) {
        let (turn, shutdown) = (half.turn.clone(), self.shutdown.clone());
        self.parts.act(name, async move {
            tokio::select! {
                biased;
                () = shutdown => {}
                () = turn => part.await,
            }
        });
    }

    fn start_catalogs(&mut self) -> anyhow::Result<(Arc<Store>, Half)> {
        let store = Store::open(&self.args.cache_dir, self.room.clone())
            .with_context(|| format!("opening --cache-dir {}", self.args.cache_dir.display()))?;
        let store = Arc::new(store);
        let Listen::At(address) = self.args.catalogs_server_addr else {
            bail!("--catalogs-server-addr must be an address: catalogs are served there");
        };
        let listener = self.bind("catalogs", address)?;
        let bound = listener.local_addr()?;
        let routes = server::catalogs::routes(server::catalogs::Catalogs {
            store: Arc::clone(&store),
            metrics: self.metrics.clone(),
            metas: self.settings.is_on(FeatureGate::ApiV1MetasHandler),
        });
        let listener = Limited::new(listener, Limits::CATALOGS, self.metrics.clone())?;
        self.serve(
            "catalog server",
            listener,
            self.certificates.clone(),
            routes,
        );
        let half = self.half(Component::Catalogs);
        let ctx = Arc::new(catalog::Context::new(
            half.client.clone(),
            Arc::clone(&store),
            Arc::clone(&self.credentials),
            self.base(bound),
            self.metrics.clone(),
        ));
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
        let ctx = catalog::Context::new(
            self.client.clone(),
            Arc::clone(store),
            Arc::clone(&self.credentials),
            self.base(bound),
            self.metrics.clone(),
        );
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
            catalog::follow(Arc::new(ctx), replica, interval, complete, end).await;
            // Who leads has nobody to copy from.
            leading.set_ready(CONTENT, true);
        });
        Ok(following.map(drop).boxed().shared())
    }

    /// Returns the address under which clients reach the catalog server.
    fn base(&self, bound: SocketAddr) -> String {
        let scheme = if self.certificates.is_some() {
            "https"
        } else {
            "http"
        };
        let host = match &self.args.external_address {
            Some(address) => address.clone(),
            None if bound.ip().is_loopback() => bound.to_string(),
            None => format!(
                "{}.{}.svc",
                keys::name::SERVICE_CATALOGD,
                self.args.namespace()
            ),
        };
        format!("{scheme}://{host}")
    }

    /// Starts what works on extensions, and returns what it sees.
    fn start_extensions(&mut self, half: &Half, store: Option<Arc<Store>>) -> anyhow::Result<Seen> {
        let bundles = self.cache("bundles")?;
        let settled = self.cache("settled")?;
        let (mut notify, content_changed) = extension::content_changes();
        let catalogs = match store {
            Some(store) => Catalogs::own(store),
            None => self.remote_catalogs()?,
        };
        // A full channel has a wake-up in it already.
        tokio::spawn(catalogs.clone().tell(move || drop(notify.try_send(()))));
        let client = half.client.clone();
        let (namespace, classic) = (self.args.namespace(), self.settings.counts_classic());
        let (discovery, changes) =
            extension::DiscoveryCache::new(client.clone(), namespace, classic);
        let (issuer, touched) = Issuer::new(client.clone(), self.args.namespace());
        let (ended, pulled) = extension::ended();
        let (revisions, feed, touched_revisions) =
            KnownRevisions::new(client.clone(), self.args.namespace());
        let (seen, writers, touched_extensions) = Seen::new();
        let (refusals, passable) = extension::Refusals::new();
        let guard = self.start_guard();
        let (rbac, rights, revision_rights) = RbacWatch::new();
        let ctx = extension::Context {
            guard: Arc::clone(&guard),
            reviews: Reviews::new(client.clone()),
            rbac: Arc::clone(&rbac),
            discovery,
            published: extension::PublishedNotices::default(),
            orphaning: extension::OrphaningSeen::default(),
            refusals,
            reconciler: Reconciler::new(
                CONTROLLER_EXTENSION,
                keys::manager::OPERATOR_CONTROLLER,
                client.clone(),
                self.metrics.clone(),
                FIRST_DELAY_EXTENSION,
            ),
            settings: self.extension_settings(),
            issuer,
            revisions,
            seen: seen.clone(),
            catalogs,
            credentials: Arc::clone(&self.credentials),
            pull_state: extension::PullState::default(),
            bundles,
            digests: extension::Pulls::new(ended.clone()),
            images: extension::Pulls::new(ended),
            metrics: self.metrics.clone(),
            rendered: extension::Rendered::default(),
            platform: self.platform.clone(),
            before: extension::Before::default(),
            client: client.clone(),
        };
        let triggers = extension::Triggers {
            content_changed,
            discovery: changes,
            certificates: touched,
            pulled,
            rights,
            revisions: touched_revisions,
            passable,
            seen: writers,
        };
        let run = extension::run(Arc::new(ctx), triggers, self.shutdown.clone());
        self.act("ClusterExtension controller", half, run);
        let (ctx, woken) = objectset::Context::new(
            client.clone(),
            self.object_set_settings(guard, settled),
            (&feed, seen.clone()),
            Arc::clone(&rbac),
            self.metrics.clone(),
        );
        let woken = objectset::Woken {
            feed,
            extensions: touched_extensions,
            revisions: Box::pin(futures::stream::select(woken, revision_rights)),
        };
        let run = objectset::run(Arc::new(ctx), woken, self.shutdown.clone());
        self.act("ClusterObjectSet controller", half, run);
        self.start_chores(half, rbac);
        Ok(seen)
    }

    /// Starts what both reconcilers of extensions count on.
    fn start_chores(&mut self, half: &Half, rbac: Arc<RbacWatch>) {
        let (client, end) = (half.client.clone(), self.shutdown.clone());
        let run = async move { rbac.run(client, end).await };
        self.act("watch of rights", half, run);
        let run = collect_secrets(
            half.client.clone(),
            self.args.namespace(),
            self.shutdown.clone(),
        );
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

    fn extension_settings(&self) -> extension::Settings {
        let args = &self.args;
        extension::Settings {
            system_namespace: args.namespace(),
            accounts: self.settings.accounts(),
            resolution: self.settings.resolution(),
            features: self.settings.features(),
            certificates: self.settings.certificates(),
            rbac_preflight: args.rbac_preflight,
            uninstall: args.default_uninstall_policy,
            keep_helm_releases: args.keep_helm_releases,
            crd_rules: self.settings.crd_rules(),
            defer_optional_kinds: args.missing_optional_kinds == MissingOptionalKinds::Defer,
            concurrency: args.max_concurrent_reconciles,
        }
    }

    /// Starts watching the policies on who may name an account.
    fn start_guard(&mut self) -> Arc<Guard> {
        let args = &self.args;
        let reserved = Reserved {
            patterns: match &args.forbidden_service_accounts {
                Some(given) => given.0.clone(),
                None => vec![
                    AccountPattern::all_of("kube-system"),
                    AccountPattern::all_of(args.namespace()),
                ],
            },
            default: args.default_service_account.clone(),
        };
        let guard = Guard::new(
            self.client.clone(),
            reserved,
            args.account_policy,
            &self.metrics,
        );
        let guard = Arc::new(guard);
        let watched = Arc::clone(&guard);
        // Passes that end ask it to the last.
        self.parts.keep("account policies", async move {
            watched.run(std::future::pending()).await;
        });
        guard
    }

    /// Opens a folder below `--cache-path`.
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

    fn start_gate(&mut self, half: &Half, seen: Option<Seen>) {
        let elsewhere = match self.args.platform_version {
            Some(release) => gate::Elsewhere::Given(release),
            None if self.args.infer_platform_version => gate::Elsewhere::Inferred,
            None => gate::Elsewhere::None,
        };
        let gate = gate::Gate {
            client: half.client.clone(),
            payload: std::env::var(PAYLOAD_VERSION).ok(),
            manage: self.args.manage_clusteroperator,
            elsewhere,
            platform: self.platform.clone(),
            extensions: seen.map(|seen| seen.extensions),
            metrics: self.metrics.clone(),
        };
        let run = gate.run(self.shutdown.clone());
        self.act("gate", half, run);
    }

    /// Waits for the signal, then for passes, leases and servers to end.
    async fn wait(mut self) -> anyhow::Result<()> {
        tokio::select! {
            // A part that ends because of the signal has not failed.
            biased;
            () = self.shutdown.clone() => {}
            ended = self.parts.ended() => match ended {
                Ok(name) => bail!("{name} ended"),
                Err(error) => bail!("a part of the controller failed: {error}"),
            },
            Some(ended) = self.elections.join_next() => return lost(ended),
        }
        tracing::info!("stopping");
        self.health.set_ready("started", false);
        let again = termination()?;
        tokio::select! {
            ended = self.stop() => ended,
            () = again => bail!("stopped by a second signal"),
        }
    }

    async fn stop(&mut self) -> anyhow::Result<()> {
        let started = Instant::now();
        let idle = tokio::select! {
            idle = self.parts.stop_acting(&self.terms) => idle,
            Some(ended) = self.elections.join_next() => return lost(ended),
        };
        if idle {
            self.release.send_replace(true);
            while let Some(ended) = self.elections.join_next().await {
                lost(ended)?;
            }
        } else {
            tracing::warn!("leases are left to expire, because a write is still under way");
        }
        self.parts.stop_serving(started).await;
        Ok(())
    }
}

/// Turns the end of an election into that of the process.
fn lost(ended: Result<Result<(), (String, Loss)>, tokio::task::JoinError>) -> anyhow::Result<()> {
    match ended {
        Ok(Ok(())) => Ok(()),
        Ok(Err((name, loss))) => bail!("lease {name} is lost: {loss}"),
        Err(error) => bail!("an election failed: {error}"),
    }
}

/// Returns a future that resolves at SIGTERM or SIGINT.
fn termination() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Returns a client with the controller's own rights.
async fn client(args: &Args, metrics: Metrics) -> anyhow::Result<Client> {
    let config = match &args.kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path)
                .with_context(|| format!("reading --kubeconfig {}", path.display()))?;
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .with_context(|| format!("using --kubeconfig {}", path.display()))?
        }
        None => kube::Config::infer()
            .await
            .context("no cluster: set KUBECONFIG, pass --kubeconfig, or run in a pod")?,
    };
    let client = connect(config)?;
    Ok(bounded(counted(client, metrics), Term::unlimited()))
}

/// Removes Secrets of revisions that were never made, at start and every hour, until `shutdown`.
async fn collect_secrets(client: Client, namespace: String, shutdown: Signal) {
    loop {
        match revision::collect_orphaned_secrets(&client, &namespace, Timestamp::now()).await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "orphaned Secrets removed"),
            Err(error) => tracing::warn!(error = %Chain(&error), "orphaned Secrets not removed"),
        }
        tokio::select! {
            () = shutdown.clone() => return,
            () = tokio::time::sleep(ORPHAN_INTERVAL) => {}
        }
    }
}
