//! Starts the parts in order, and stops them in order.
//!
//! Addresses are bound and folders opened before any controller starts, so that what is wrong with
//! the configuration is said at once; probes are answered before that. What serves runs at once; what acts begins in its turn: when
//! the rights of this process are limited and, with leader election, its lease is held. A part that
//! ends by itself, or a lease that is lost, ends the process; so does an API server whose etcd was
//! restored: the process that follows reads everything anew.

mod catalogs;
mod endpoints;
mod extensions;
mod half;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use kube::Client;
use kube::config::KubeConfigOptions;
use olm_cluster::connection;
use olm_core::rbac::Permissions;
use olm_core::rights::on_secret;
use olm_core::settings::{ControllerSettings, NamedServiceAccount};
use olm_image::trust::CertificateDirs;
use olm_image::{Proxies, PullConfig, Puller, Room};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::args::{Args, Component, TlsProfile};
use crate::catalog::Published;
use crate::cluster::{bounded, connect, counted, noticing};
use crate::credentials::RegistryCredentials;
use crate::lease::Loss;
use crate::parts::Parts;
use crate::server::health::Health;
use crate::server::tls::{CertificateFiles, Certificates};
use crate::serving::{Identity, serving};
use crate::telemetry::Metrics;
use crate::term::Term;
use crate::tls::CurrentProfile;
use crate::watchdog::Watchdog;
use crate::{excess, gate, rights, server, settings, telemetry, tls};
use half::{Half, lost};

/// Something that happens once and is waited for by many.
type Signal = Shared<BoxFuture<'static, ()>>;

/// The parts that run in this process, and what they share.
struct Manager {
    args: Args,
    settings: ControllerSettings,
    /// The controller's own rights, for what is done without leading.
    client: Client,
    metrics: Metrics,
    health: Arc<Health>,
    /// The TLS profile of listeners and of the client for catalogs.
    profile: CurrentProfile,
    /// The certificate of listeners.
    certificates: Option<Certificates>,
    /// Its files, if it is read from files.
    files: Option<CertificateFiles>,
    /// The CA of our own listeners, where the program issues their certificates.
    serving_ca: Published,
    credentials: Arc<RegistryCredentials>,
    /// The limit of the caches on disk.
    room: Room,
    /// The exchange between the gate and the extensions.
    platform: gate::Platform,
    shutdown: Signal,
    /// Resolves when the API server went back to an earlier state.
    gone_back: Signal,
    /// Resolves when the rights of this process are limited.
    limited: Signal,
    watchdog: Watchdog,
    parts: Parts,
    /// The leases that are held or waited for.
    elections: JoinSet<Result<(), (String, Loss)>>,
    /// Set when leases are to be given up.
    release: watch::Sender<bool>,
    terms: Vec<Term>,
    listening: BTreeMap<&'static str, SocketAddr>,
}

/// Runs everything the flags ask for until a signal ends it.
pub async fn run(args: Args, program: &str) -> anyhow::Result<()> {
    for warning in args.warnings() {
        tracing::warn!("{warning}");
    }
    if let Some(text) = args.contradiction() {
        bail!("{text}");
    }
    let components: Vec<Component> = [Component::Catalogs, Component::Extensions, Component::Gate]
        .into_iter()
        .filter(|component| args.runs(*component, program))
        .collect();
    let mut manager = Manager::new(args)?;
    manager.start(&components)?;
    manager.wait().await
}

impl Manager {
    fn new(args: Args) -> anyhow::Result<Self> {
        let profile = CurrentProfile::from(args.tls().context("--tls-custom-curves")?.profile);
        let metrics = Metrics::default();
        let watchdog = Watchdog::default();
        let (client, gone_back) = noticing(client(&args, metrics.clone())?);
        let (certificates, files) = endpoints::certificates(&args, &profile)?;
        let config = PullConfig::from_env();
        let policy = &config.policy;
        if !policy.required && !policy.file.exists() {
            let file = policy.file.display();
            tracing::warn!(%file, "no signature policy: image signatures are not verified");
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
            excess::gone(client.clone(), metrics.clone()).boxed().shared()
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
            gone_back: gone_back.boxed().shared(),
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
            settings: settings::of(&args, |name| std::env::var(name).ok()),
            args,
        })
    }

    fn start(&mut self, components: &[Component]) -> anyhow::Result<()> {
        let runs = |component| components.contains(&component);
        // What is stored is verified as it is opened, which may take minutes.
        self.start_probes()?;
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
            let known = if runs(Component::Extensions) {
                Some(self.start_extensions(&extensions, store)?)
            } else {
                None
            };
            if runs(Component::Gate) {
                self.start_gate(&extensions, known);
            }
            half.get_or_insert(extensions);
        }
        if runs(Component::Catalogs) || runs(Component::Extensions) {
            let credentials = Arc::clone(&self.credentials);
            let run = async move { credentials.run().await };
            self.parts.keep("registry credentials", run);
        }
        self.start_metrics(runs(Component::Catalogs))?;
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
        let limit = self.args.cache_limit;
        let measured = telemetry::measure_caches(self.metrics.clone(), caches, limit);
        self.parts.keep("measuring of caches", measured);
        if let Some(path) = &self.args.listen_info {
            server::write_listen_info(path, &self.listening)
                .with_context(|| format!("writing {}", path.display()))?;
        }
        self.health.set_ready("started", true);
        tracing::info!(?components, listening = ?self.listening, "started");
        Ok(())
    }

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
                Identity::new(self.args.namespace(), self.args.external_address.as_deref()),
                certificates,
                self.serving_ca.clone(),
                self.metrics.clone(),
                Arc::clone(&self.health),
            );
            self.parts.keep("serving certificate", presenter.run());
            let run = keeper.run(half.client.clone(), self.shutdown.clone());
            self.act("serving CA", &half, run);
        }
    }

    /// Waits for the signal, then for reconciles, leases and servers to end.
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
            () = self.gone_back.clone() => bail!("{}", Loss::WentBack),
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
            tracing::warn!(
                "leases are not released but expire, because a write is still in progress"
            );
        }
        self.parts.stop_serving(started).await;
        Ok(())
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
fn client(args: &Args, metrics: Metrics) -> anyhow::Result<Client> {
    let file = args.kubeconfig.as_deref();
    let config = connection(file, KubeConfigOptions::default(), Proxies::for_server)
        .context("no cluster")?;
    let client = connect(config)?;
    Ok(bounded(counted(client, metrics)))
}
