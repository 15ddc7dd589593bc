//! Starts the parts in order, and stops them in order.
//!
//! Addresses are bound and folders opened before any controller starts, so that what is wrong with
//! the configuration is said at once. A part that ends by itself ends the process.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use axum::Router;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use jiff::Timestamp;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::events::{Recorder, Reporter};
use olm_core::config::Features;
use olm_core::error::Chain;
use olm_core::guard::{AccountPattern, AccountPolicy, Reserved};
use olm_core::render::CertificateSource;
use olm_core::resolve::{Dependencies, Unavailability, UpdatePolicy};
use olm_core::revision::Account;
use olm_image::trust::CertificateDirs;
use olm_image::{BundleCache, PullConfig, Puller, RegistriesPaths};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::account::Guard;
use crate::args::{
    AccountAuth, AccountPolicyChoice, Args, CatalogPolicy, Component, Listen,
    ManageClusterOperator, MissingKinds, NamedAccount, UninstallFallback, UpgradePolicy,
    WebhookCertificates,
};
use crate::backoff::{Backoff, FIRST_DELAY_EXTENSION, MAX_DELAY};
use crate::catalog::store::{Compression, Store};
use crate::certificates::Issuer;
use crate::client::bounded;
use crate::fetch::Catalogs;
use crate::server::health::Health;
use crate::server::tls::Certificates;
use crate::telemetry::Metrics;
use crate::{catalog, extension, gate, objectset, server};

/// How often Secrets of revisions that were never made are looked for.
const ORPHAN_INTERVAL: Duration = Duration::from_hours(1);
/// How often the process says that it still works.
const TICK: Duration = Duration::from_secs(30);
/// Environment variable that names the registries configuration.
const REGISTRIES_CONF: &str = "CONTAINERS_REGISTRIES_CONF";
/// Environment variable with the version of the OpenShift release this program is part of.
const PAYLOAD_VERSION: &str = "OPERATOR_IMAGE_VERSION";

type Shutdown = Shared<BoxFuture<'static, ()>>;

/// The parts that run in this process, and what they share.
struct Manager {
    args: Args,
    client: Client,
    metrics: Metrics,
    health: Arc<Health>,
    certificates: Option<Certificates>,
    puller: Arc<Puller>,
    shutdown: Shutdown,
    parts: JoinSet<&'static str>,
    listening: BTreeMap<&'static str, SocketAddr>,
}

/// Runs everything the flags ask for until a signal ends it.
pub async fn run(args: Args, program: &str) -> anyhow::Result<()> {
    if args.service_account_auth == AccountAuth::Token {
        bail!("--service-account-auth=token is not built yet; use impersonate");
    }
    if args.leader_elect {
        tracing::warn!(
            "--leader-elect is accepted, but leaders are not elected yet: run one replica"
        );
    }
    if args.pprof_bind_address.is_some() {
        tracing::warn!("--pprof-bind-address is accepted and ignored");
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
        let client = client(&args).await?;
        let certificates = match (&args.tls_cert, &args.tls_key) {
            (Some(certificate), Some(key)) => Some(Certificates::load(certificate, key)?),
            _ => None,
        };
        let registries = std::env::var_os(REGISTRIES_CONF).map(PathBuf::from);
        let puller = Puller::new(PullConfig {
            registries: RegistriesPaths::new(registries),
            certificates: CertificateDirs {
                only: args.pull_cas_dir.clone(),
                ..CertificateDirs::default()
            },
            ..PullConfig::default()
        });
        Ok(Self {
            client,
            certificates,
            puller: Arc::new(puller),
            metrics: Metrics::default(),
            health: Arc::new(Health::new(&["started"])),
            shutdown: termination()?.boxed().shared(),
            parts: JoinSet::new(),
            listening: BTreeMap::new(),
            args,
        })
    }

    fn start(&mut self, components: &[Component]) -> anyhow::Result<()> {
        let runs = |component| components.contains(&component);
        let store = if runs(Component::Catalogs) {
            Some(self.start_catalogs()?)
        } else {
            None
        };
        if runs(Component::Extensions) {
            self.start_extensions(store)?;
        }
        if runs(Component::Gate) {
            self.start_gate();
        }
        self.start_endpoints(runs(Component::Catalogs))?;
        if let Some(certificates) = self.certificates.clone() {
            let metrics = self.metrics.clone();
            self.spawn("certificate reload", certificates.keep_current(metrics));
        }
        let health = Arc::clone(&self.health);
        self.spawn("heartbeat", async move {
            loop {
                health.tick();
                tokio::time::sleep(TICK).await;
            }
        });
        if let Some(path) = &self.args.listen_info {
            server::write_listen_info(path, &self.listening)
                .with_context(|| format!("writing {}", path.display()))?;
        }
        self.health.set_ready("started", true);
        tracing::info!(?components, listening = ?self.listening, "started");
        Ok(())
    }

    fn start_catalogs(&mut self) -> anyhow::Result<Arc<Store>> {
        let store = Store::open(&self.args.cache_dir, Compression::Made)
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
            metas: true,
        });
        self.serve(
            "catalog server",
            listener,
            self.certificates.clone(),
            routes,
        );
        let ctx = Arc::new(catalog::Context::new(
            self.client.clone(),
            Arc::clone(&store),
            Arc::clone(&self.puller),
            self.base(bound),
            self.metrics.clone(),
        ));
        let run = catalog::run(ctx, self.args.gc_interval, self.shutdown.clone());
        self.spawn("ClusterCatalog controller", run);
        Ok(store)
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
            None => format!("catalogd-service.{}.svc", self.args.namespace()),
        };
        format!("{scheme}://{host}")
    }

    fn start_extensions(&mut self, store: Option<Arc<Store>>) -> anyhow::Result<()> {
        let bundles = BundleCache::open(self.args.cache_path.join("bundles"))
            .with_context(|| format!("opening --cache-path {}", self.args.cache_path.display()))?;
        let (mut refilled, refills) = extension::refills();
        let catalogs = match store {
            Some(store) => Catalogs::own(store),
            None => Catalogs::remote(
                &self.args.cache_path,
                self.args.catalogd_cas_dir.as_deref(),
                self.metrics.clone(),
            )?,
        };
        // A full channel already says all there is to say.
        tokio::spawn(catalogs.clone().tell(move || drop(refilled.try_send(()))));
        let client = self.client.clone();
        let reporter = Reporter::from("olm-controller");
        let (surroundings, changes) = extension::Surroundings::new(
            client.clone(),
            self.args.namespace(),
            self.args.counts_classic(),
        );
        let (issuer, touched) = Issuer::new(client.clone(), self.args.namespace());
        let guard = self.start_guard();
        let ctx = extension::Context {
            guard: Arc::clone(&guard),
            surroundings,
            told: extension::Told::default(),
            settings: self.extension_settings(),
            issuer,
            catalogs,
            puller: Arc::clone(&self.puller),
            bundles,
            recorder: Recorder::new(client.clone(), reporter),
            metrics: Arc::new(self.metrics.clone()),
            rendered: extension::Rendered::default(),
            backoff: Backoff::new(FIRST_DELAY_EXTENSION, MAX_DELAY),
            client: client.clone(),
        };
        let news = extension::News {
            refilled: refills,
            surroundings: changes,
            certificates: touched,
        };
        let run = extension::run(Arc::new(ctx), news, self.shutdown.clone());
        self.spawn("ClusterExtension controller", run);
        let (ctx, woken) = objectset::Context::new(
            client.clone(),
            self.object_set_settings(guard),
            Arc::new(self.metrics.clone()),
        );
        let run = objectset::run(Arc::new(ctx), woken, self.shutdown.clone());
        self.spawn("ClusterObjectSet controller", run);
        self.spawn(
            "clean-up of Secrets",
            collect_secrets(client, self.args.namespace()),
        );
        Ok(())
    }

    fn extension_settings(&self) -> extension::Settings {
        let args = &self.args;
        extension::Settings {
            system_namespace: args.namespace(),
            default_account: self.default_account(),
            named_accounts: args.named_service_account == NamedAccount::Use,
            updates: match args.default_upgrade_policy {
                UpgradePolicy::MinorOnly => UpdatePolicy::MinorOnly,
                UpgradePolicy::Any => UpdatePolicy::Any,
            },
            unavailability: match args.catalog_unavailability_policy {
                CatalogPolicy::Strict => Unavailability::Strict,
                CatalogPolicy::Provable => Unavailability::Provable,
                CatalogPolicy::BestEffort => Unavailability::BestEffort,
            },
            dependencies: if args.gate("ConstraintChecking", true) {
                Dependencies::Check
            } else {
                Dependencies::Refuse
            },
            release_support: args.gate("BundleReleaseSupport", false),
            features: Features {
                single_own_namespace: args.gate("SingleOwnNamespaceInstallSupport", true),
                deployment_config: args.gate("DeploymentConfig", true),
                webhooks: args.certificates().is_some(),
            },
            certificates: match args.certificates() {
                None | Some(WebhookCertificates::Auto) => None,
                Some(WebhookCertificates::CertManager) => Some(CertificateSource::CertManager),
                Some(WebhookCertificates::ServiceCa) => Some(CertificateSource::ServiceCa),
                Some(WebhookCertificates::SelfSigned) => Some(CertificateSource::SelfSigned),
            },
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
            default: self.default_account(),
        };
        let decided = match args.account_policy {
            AccountPolicyChoice::Require => AccountPolicy::Require,
            AccountPolicyChoice::Warn => AccountPolicy::Warn,
            AccountPolicyChoice::Off => AccountPolicy::Off,
        };
        let guard = Guard::new(self.client.clone(), reserved, decided, &self.metrics);
        let guard = Arc::new(guard);
        let (watched, shutdown) = (Arc::clone(&guard), self.shutdown.clone());
        self.spawn("account policies", async move {
            watched.run(shutdown).await;
        });
        guard
    }

    fn object_set_settings(&self, guard: Arc<Guard>) -> objectset::Settings {
        let args = &self.args;
        objectset::Settings {
            guard,
            system_namespace: args.namespace(),
            default_account: self.default_account(),
            ignore_named_account: args.named_service_account == NamedAccount::Ignore,
            managed_resync: args.managed_resync_interval,
            crd_timeout: args.uninstall_crd_timeout,
            fall_back_to_gc: args.uninstall_fallback == UninstallFallback::Gc,
            defer_optional_kinds: args.missing_optional_kinds == MissingKinds::Defer,
            concurrency: args.max_concurrent_reconciles,
        }
    }

    fn default_account(&self) -> Option<Account> {
        let account = self.args.default_service_account.as_ref()?;
        Some(Account {
            namespace: account.namespace.clone(),
            name: account.name.clone(),
        })
    }

    fn start_gate(&mut self) {
        let gate = gate::Gate {
            client: self.client.clone(),
            payload: std::env::var(PAYLOAD_VERSION).ok(),
            manage: match self.args.manage_clusteroperator {
                ManageClusterOperator::Auto => gate::Manage::Auto,
                ManageClusterOperator::Always => gate::Manage::Always,
                ManageClusterOperator::Never => gate::Manage::Never,
            },
        };
        let run = gate.run(self.shutdown.clone());
        self.spawn("gate", run);
    }

    fn start_endpoints(&mut self, catalogs: bool) -> anyhow::Result<()> {
        if let Listen::At(address) = self.args.health_probe_bind_address {
            let listener = self.bind("health", address)?;
            let routes = server::health::routes(Arc::clone(&self.health));
            self.serve("health endpoints", listener, None, routes);
        }
        let default = if catalogs { 7443 } else { 8443 };
        let metrics = match (self.args.metrics_bind_address, &self.certificates) {
            (Some(Listen::At(_)), None) => {
                bail!("--metrics-bind-address needs --tls-cert and --tls-key")
            }
            (Some(listen), _) => listen,
            (None, Some(_)) => Listen::At(SocketAddr::from(([0, 0, 0, 0], default))),
            (None, None) => Listen::Off,
        };
        if let Listen::At(address) = metrics {
            let listener = self.bind("metrics", address)?;
            let routes = server::health::metrics_routes(self.metrics.clone());
            self.serve(
                "metrics endpoint",
                listener,
                self.certificates.clone(),
                routes,
            );
        }
        Ok(())
    }

    fn bind(&mut self, name: &'static str, address: SocketAddr) -> anyhow::Result<TcpListener> {
        let listener =
            server::bind(address).with_context(|| format!("listening on {address} for {name}"))?;
        self.listening.insert(name, listener.local_addr()?);
        Ok(listener)
    }

    fn serve(
        &mut self,
        name: &'static str,
        listener: TcpListener,
        certificates: Option<Certificates>,
        routes: Router,
    ) {
        let shutdown = self.shutdown.clone();
        self.spawn(name, async move {
            let served = server::serve(listener, certificates.as_ref(), routes, shutdown).await;
            if let Err(error) = served {
                tracing::error!(name, %error, "server failed");
            }
        });
    }

    fn spawn(&mut self, name: &'static str, part: impl Future<Output = ()> + Send + 'static) {
        self.parts.spawn(async move {
            part.await;
            name
        });
    }

    /// Waits for the signal, then for controllers and servers to end.
    async fn wait(mut self) -> anyhow::Result<()> {
        let ended = tokio::select! {
            () = self.shutdown.clone() => None,
            ended = self.parts.join_next() => ended,
        };
        match ended {
            None => {
                tracing::info!("stopping");
                self.drain().await;
                Ok(())
            }
            Some(Ok(name)) => bail!("{name} ended"),
            Some(Err(error)) => bail!("a part of the controller failed: {error}"),
        }
    }

    /// Lets passes under way end; what never ends by itself is dropped.
    async fn drain(&mut self) {
        let endless = ["certificate reload", "heartbeat", "clean-up of Secrets"];
        while self.parts.len() > endless.len() {
            let limit = Duration::from_secs(30);
            match tokio::time::timeout(limit, self.parts.join_next()).await {
                Ok(Some(Ok(name))) => tracing::debug!(name, "ended"),
                Ok(Some(Err(error))) => tracing::warn!(%error, "a part failed while stopping"),
                Ok(None) | Err(_) => break,
            }
        }
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

/// Returns a client with the controller's own rights. It does not retry by itself: failures belong
/// into a status.
async fn client(args: &Args) -> anyhow::Result<Client> {
    let mut config = match &args.kubeconfig {
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
    config.default_retry = false;
    let client = Client::try_from(config).context("making a client")?;
    Ok(bounded(client))
}

/// Removes Secrets of revisions that were never made, at start and every hour. Never returns.
async fn collect_secrets(client: Client, namespace: String) {
    loop {
        match objectset::collect_orphaned_secrets(&client, &namespace, Timestamp::now()).await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "orphaned Secrets removed"),
            Err(error) => tracing::warn!(error = %Chain(&error), "orphaned Secrets not removed"),
        }
        tokio::time::sleep(ORPHAN_INTERVAL).await;
    }
}
