//! Follows the Secret of the CA and serves with a certificate of it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use olm_api::keys::name;
use tokio::sync::watch;

use super::keep::create;
use super::plan::{Leaf, PROFILE, signer, turn};
use super::{CHECK, Identity, MAKING, RETRY, pause, tell_replaced, until};
use crate::catalog::Published;
use crate::cluster::{Repeated, RequestError, code, named};
use crate::server::health::Health;
use crate::server::tls::Certificates;
use crate::telemetry::{CertificateKind, Metrics};
use crate::x509::Authority;

/// The interval of log messages while the Secret cannot be read.
const PATIENCE: Duration = Duration::from_secs(30);

/// Provides listeners with a certificate and renews it.
pub struct Presenter {
    pub(super) client: Client,
    pub(super) identity: Identity,
    pub(super) certificates: Certificates,
    pub(super) metrics: Metrics,
    pub(super) health: Arc<Health>,
    /// The Secret as it was last seen, for the keeper.
    pub(super) seen: watch::Sender<Option<Secret>>,
    pub(super) leaf: Option<Leaf>,
    /// Whoever trusts this CA: who copies from another replica.
    pub(super) trusted: Published,
}

impl Presenter {
    /// Serves with a certificate as it has to be at any time. Never returns.
    ///
    /// It needs no lease: where there is no CA, the first one who sees that makes one.
    pub async fn run(mut self) {
        let mut secrets = pin!(named(self.secrets(), name::SERVING_CA));
        let mut failure = Repeated::default();
        let mut secret = loop {
            match tokio::time::timeout(PATIENCE, secrets.next()).await {
                Ok(Some(secret)) => break secret,
                Ok(None) => return,
                Err(_) => {
                    let (namespace, name) = (&self.identity.namespace, name::SERVING_CA);
                    tracing::warn!(namespace, name, "waiting for the Secret of the serving CA");
                }
            }
        };
        loop {
            let done = self.follow(&mut secret).await;
            let pause = pause(done, &mut failure, "no serving certificate can be issued");
            tokio::select! {
                Some(now) = secrets.next() => secret = now,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.identity.namespace)
    }

    /// Serves with a certificate of the CA in the Secret, which is made if there is none, and
    /// returns when to look again.
    async fn follow(&mut self, secret: &mut Option<Secret>) -> anyhow::Result<Duration> {
        if secret.is_none() {
            *secret = self.make().await?;
        }
        let Some(found) = secret else {
            // Somebody else's was gone before it was read.
            return Ok(RETRY);
        };
        if self.seen.borrow().as_ref() != Some(found) {
            self.seen.send_replace(Some(found.clone()));
        }
        let now = Timestamp::now();
        let data = found.data.clone().unwrap_or_default();
        if let Some(bundle) = data.get(name::CA_BUNDLE) {
            self.trusted.take(String::from_utf8_lossy(&bundle.0).into_owned());
        }
        match Authority::parse(&PROFILE, &data, now) {
            Ok(authority) => self.serve(&authority, now),
            Err(why) => {
                tracing::warn!(why, "the serving CA cannot be used, the leader replaces it");
                Ok(super::LONGEST)
            }
        }
    }

    /// Makes a first CA, unless somebody else was faster, and reads what there is.
    async fn make(&self) -> anyhow::Result<Option<Secret>> {
        let api = self.secrets();
        let authority = Authority::new(&PROFILE, &self.identity.names, Timestamp::now());
        let authority = authority.context(MAKING)?;
        match create(&api, &authority).await {
            Ok(secret) => {
                if self.seen.borrow().is_some() {
                    tell_replaced(&self.client, &secret, "its Secret was deleted").await;
                } else {
                    tracing::info!("serving CA created");
                }
                Ok(Some(secret))
            }
            Err(error) if code(&error) == 409 => {
                let found = api.get_opt(name::SERVING_CA).await;
                Ok(found.map_err(RequestError::doing("getting the serving CA"))?)
            }
            Err(error) => Err(RequestError::doing("making the serving CA")(error).into()),
        }
    }

    fn serve(&mut self, authority: &Authority, now: Timestamp) -> anyhow::Result<Duration> {
        let names = &self.identity.names;
        let signer = signer(authority, names, now);
        let leaf = match self.leaf.take() {
            Some(leaf) if leaf.is_current(signer, names, now) => leaf,
            Some(_) | None => {
                let leaf = Leaf::issue(signer, names, fastrand::f64(), now).context(MAKING)?;
                let chain = vec![leaf.certificate.clone()];
                self.certificates.present(chain, leaf.key.clone_key())?;
                tracing::info!(until = %leaf.validity.not_after, "serving certificate issued");
                leaf
            }
        };
        let expires = [
            (CertificateKind::Ca, signer.validity.not_after),
            (CertificateKind::Leaf, leaf.validity.not_after),
        ];
        for (kind, at) in expires {
            self.metrics.serving_certificate_expires(kind, at);
        }
        self.health.set_ready(CHECK, true);
        let next = turn(authority, now).map_or(leaf.due, |turn| turn.min(leaf.due));
        self.leaf = Some(leaf);
        Ok(until(next, now).max(RETRY))
    }
}
