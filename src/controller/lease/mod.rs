//! Leader election: of all processes that could act on a cluster, the holder of a Lease does.
//!
//! In: one Lease. Out: a [`Term`], which the client of everything that acts asks before each write,
//! and a signal that it has begun. A lost lease ends the process. Kubernetes has no fencing, so
//! writes stay guarded by resource versions as well.
//!
//! [`election`] decides, the [`Elector`] carries it out: it reads and writes the Lease, and lets a
//! watch and a timer tell when to look again. What is decided on was always read or written by a
//! request of its own; the watch only hints. Source: deploying.md 4.1.

mod election;

#[cfg(test)]
mod tests;

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::ObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use olm_core::error::Chain;
use tokio::sync::watch;

use crate::cluster::{self, ApiError, Failure};
use crate::telemetry::Metrics;
use crate::term::{self, Term};
use election::{Election, Step};

pub use election::Loss;

/// Longest a request about the Lease may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// The interval of reads of the clock, because timers stop while the machine sleeps.
const TICK: Duration = Duration::from_secs(1);
/// The most attempts of a release that conflicts with other changes.
const RELEASES: usize = 3;

/// Which Lease, and as whom.
#[derive(Debug, Clone)]
pub struct Candidacy {
    pub namespace: String,
    pub name: String,
    /// Name of this process, different from that of any other.
    pub identity: String,
    pub manager: &'static str,
}

/// Takes and keeps one Lease.
pub struct Elector {
    candidacy: Candidacy,
    api: Api<Lease>,
    election: Election,
    /// The Lease as it was last read or written, if it is there.
    known: Option<Lease>,
    /// The newest resource version it ever had.
    newest: u64,
    /// Whether the API server answered with an older one since.
    went_back: bool,
    term: Term,
    metrics: Metrics,
    /// The holder that was last written into the log.
    named: Option<String>,
}

impl Elector {
    /// Returns a candidate. While it leads, `term` allows writes.
    ///
    /// `client` is not bound to the term: it writes the Lease itself.
    pub fn new(client: Client, candidacy: Candidacy, term: Term, metrics: Metrics) -> Self {
        Self {
            api: Api::namespaced(client, &candidacy.namespace),
            election: Election::new(candidacy.identity.clone(), fastrand::f64()),
            candidacy,
            known: None,
            newest: 0,
            went_back: false,
            term,
            metrics,
            named: None,
        }
    }

    /// Runs until the lease is lost, or until `stop` resolves, which gives it up if it is held;
    /// whatever acts must have ended by then. Says through `leading` when it is held.
    pub async fn run(
        mut self,
        leading: watch::Sender<bool>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), Loss> {
        let mut stop = std::pin::pin!(stop);
        let mut events = self.events();
        self.metrics.leads(&self.candidacy.name, false);
        loop {
            if self.went_back {
                return Err(self.lose(Loss::WentBack));
            }
            let now = term::uptime();
            match self.election.step(now) {
                Step::Look => self.look().await,
                Step::Write => {
                    self.write().await;
                    if self.election.end().is_some() {
                        leading.send_replace(true);
                    }
                }
                Step::Lost(loss) => return Err(self.lose(loss)),
                Step::Wait(until) => tokio::select! {
                    () = &mut stop => break,
                    event = events.next() => self.hear(event),
                    () = tokio::time::sleep(until.saturating_sub(now).min(TICK)) => {}
                },
            }
        }
        self.release().await;
        Ok(())
    }

    fn lose(&self, loss: Loss) -> Loss {
        self.term.end();
        self.metrics.leads(&self.candidacy.name, false);
        loss
    }

    /// Keeps the Lease as it was read or written just now. Resource versions only grow, and none of
    /// these answers comes from a cache: an older one is that of a backup.
    fn know(&mut self, lease: Option<Lease>) {
        let version = lease.as_ref().and_then(|lease| lease.metadata.resource_version.as_ref());
        if let Some(version) = version.and_then(|version| version.parse::<u64>().ok()) {
            self.went_back |= version < self.newest;
            self.newest = version.max(self.newest);
        }
        self.known = lease;
    }

    fn events(&self) -> BoxStream<'static, Event<Lease>> {
        let only = format!("metadata.name={}", self.candidacy.name);
        let config = watcher::Config::default().fields(&only);
        cluster::changes(self.api.clone(), config)
            .filter_map(|event| std::future::ready(event.ok()))
            .boxed()
    }

    /// Takes a hint of the watch: what it shows may be older than what is known.
    fn hear(&mut self, event: Option<Event<Lease>>) {
        let told = match event {
            Some(Event::Apply(lease) | Event::InitApply(lease)) => Some(lease),
            Some(Event::Delete(_)) => None,
            // That there is nothing is found by the regular look.
            Some(Event::Init | Event::InitDone) | None => return,
        };
        let version = |lease: &Option<Lease>| {
            let lease = lease.as_ref();
            lease.and_then(|lease| lease.metadata.resource_version.clone())
        };
        if version(&told) != version(&self.known) {
            self.election.suspect();
        }
    }

    async fn look(&mut self) {
        let answer = self.within(self.api.get_opt(&self.candidacy.name)).await;
        let now = term::uptime();
        match answer {
            Ok(found) => {
                let spec = found.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
                self.know(found);
                self.election.look(spec, now);
                self.tell();
            }
            Err(error) => self.failed("read", &error, now),
        }
    }

    async fn write(&mut self) {
        let sent = term::uptime();
        let spec = self.election.record(Timestamp::now());
        let answer = self.put(spec).await;
        let now = term::uptime();
        match answer {
            Ok(lease) => {
                let first = self.election.end().is_none();
                let spec = lease.spec.clone().unwrap_or_default();
                self.election.written(spec, sent, now);
                self.know(Some(lease));
                self.term.extend(sent + election::DEADLINE);
                self.metrics.renewed(&self.candidacy.name);
                if first {
                    self.metrics.leads(&self.candidacy.name, true);
                    tracing::info!(lease = self.candidacy.name, "leading");
                }
            }
            // Somebody was faster, or the Lease is gone; a namespace that is missing is a failure.
            Err(Failure::Api(ApiError(kube::Error::Api(status))))
                if status.code == 409 || (status.code == 404 && self.known.is_some()) =>
            {
                self.election.refused(now);
            }
            Err(error) => self.failed("written", &error, now),
        }
    }

    /// Creates the Lease, or replaces the version that is known.
    async fn put(&self, spec: LeaseSpec) -> Result<Lease, Failure> {
        let params = cluster::as_manager(self.candidacy.manager);
        let name = &self.candidacy.name;
        if let Some(known) = &self.known {
            let mut lease = known.clone();
            lease.spec = Some(spec);
            return self.within(self.api.replace(name, &params, &lease)).await;
        }
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let lease = Lease { metadata, spec: Some(spec) };
        self.within(self.api.create(&params, &lease)).await
    }

    /// Limits a request, further still when the term ends before.
    async fn within<T>(
        &self,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Failure> {
        let left =
            self.election.end().map(|end| end.saturating_sub(term::uptime()).min(REQUEST_LIMIT));
        let limit = left.unwrap_or(REQUEST_LIMIT);
        cluster::ended_after(limit, request).await
    }

    fn failed(&mut self, what: &'static str, error: &Failure, now: Duration) {
        let lease = &self.candidacy.name;
        tracing::warn!(lease, error = %Chain(error), "the lease could not be {what}");
        self.election.failed(now);
    }

    /// Logs the holder that this process waits for, once for each holder.
    fn tell(&mut self) {
        let holder = self.election.holder().map(str::to_owned);
        if self.election.end().is_none() && holder != self.named {
            if let Some(holder) = &holder {
                let lease = &self.candidacy.name;
                tracing::info!(lease, holder, "the lease is held, waiting for it");
            }
            self.named = holder;
        }
    }

    /// Gives the Lease up, so that the next one need not wait until it expires.
    async fn release(mut self) {
        self.term.end();
        self.metrics.leads(&self.candidacy.name, false);
        for _ in 0..RELEASES {
            let Some(spec) = self.election.released(Timestamp::now()) else { return };
            match self.put(spec).await {
                Ok(_) => {
                    tracing::info!(lease = self.candidacy.name, "the lease is released");
                    return;
                }
                Err(Failure::Api(ApiError(kube::Error::Api(status)))) if status.code == 409 => {
                    self.look().await;
                }
                Err(error) => {
                    let lease = &self.candidacy.name;
                    tracing::warn!(lease, error = %Chain(&error), "the lease is not released");
                    return;
                }
            }
        }
    }
}

/// Returns a name for this process as client-go makes it: the pod, and something random.
pub fn identity() -> String {
    let variables = ["POD_NAME", "HOSTNAME"].into_iter().filter_map(|it| std::env::var(it).ok());
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let mut hosts = variables.chain([kernel.trim().to_owned()]).filter(|name| !name.is_empty());
    let host = hosts.next().unwrap_or_else(|| "olm-controller".to_owned());
    format!("{host}_{}", random_uuid())
}

/// Returns a random UUID (RFC 9562, version 4).
fn random_uuid() -> String {
    // The keys of the hasher are random in each process.
    let half = || RandomState::new().hash_one(());
    let (first, second) = (half() & !0xf000 | 0x4000, half() >> 2 | 1 << 63);
    let hex = format!("{first:016x}{second:016x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
