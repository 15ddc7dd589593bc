//! Listeners of this process: bound before anything starts, served to the very end.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use axum::Router;

use super::Manager;
use crate::args::{Args, Listen, ServingCertificates};
use crate::server;
use crate::server::tls::{CertificateFiles, Certificates};
use crate::server::{Limited, Limits};
use crate::tls::CurrentProfile;

/// With leader election, answers are given for so long after the signal: news of the end of a pod
/// travels.
const LINGER: Duration = Duration::from_secs(5);

impl Manager {
    pub(super) fn start_probes(&mut self) -> anyhow::Result<()> {
        if let Listen::At(address) = self.args.health_probe_bind_address {
            let routes = server::health::routes(Arc::clone(&self.health));
            self.serve("health endpoints", address, Limits::HEALTH, None, routes)?;
        }
        Ok(())
    }

    pub(super) fn start_metrics(&mut self, catalogs: bool) -> anyhow::Result<()> {
        let default = if catalogs { 7443 } else { 8443 };
        let metrics = match (self.args.metrics_bind_address, &self.certificates) {
            (Some(Listen::At(_)), None) => {
                bail!(
                    "--metrics-bind-address needs --tls-cert and --tls-key, or \
                     --serving-certificates=self-signed"
                )
            }
            (Some(listen), _) => listen,
            (None, Some(_)) => Listen::At(SocketAddr::from((Ipv6Addr::UNSPECIFIED, default))),
            (None, None) => Listen::Off,
        };
        if let Listen::At(address) = metrics {
            let reviewer = server::Reviewer::new(self.client.clone(), self.metrics.clone());
            let routes = server::health::metrics_routes(self.metrics.clone(), reviewer);
            let certificates = self.certificates.clone();
            self.serve("metrics endpoint", address, Limits::METRICS, certificates, routes)?;
        }
        Ok(())
    }

    /// Binds an address, notes it for `--listen-info` and returns it; serves there until the end, and
    /// goes on for a moment after it where replicas take over.
    pub(super) fn serve(
        &mut self,
        part: &'static str,
        address: SocketAddr,
        limits: Limits,
        certificates: Option<Certificates>,
        routes: Router,
    ) -> anyhow::Result<SocketAddr> {
        let name = limits.listener;
        let listener =
            server::bind(address).with_context(|| format!("listening on {address} for {name}"))?;
        let bound = listener.local_addr()?;
        self.listening.insert(name, bound);
        let listener = Limited::new(listener, limits, self.metrics.clone())?;
        let shutdown = self.shutdown.clone();
        let linger = if self.args.leader_elect { LINGER } else { Duration::ZERO };
        let closing = async move {
            shutdown.await;
            tokio::time::sleep(linger).await;
        };
        self.parts.serve(part, async move {
            let certificates = certificates.as_ref();
            let served = server::serve(listener, certificates, routes, closing).await;
            if let Err(error) = served {
                tracing::error!(name = part, %error, "server failed");
            }
        });
        Ok(bound)
    }
}

/// Returns the certificate of listeners, and its files if it is read from files.
pub(super) fn certificates(
    args: &Args,
    profile: &CurrentProfile,
) -> anyhow::Result<(Option<Certificates>, Option<CertificateFiles>)> {
    match args.serving_certificates() {
        ServingCertificates::None => Ok((None, None)),
        ServingCertificates::SelfSigned => Ok((Some(Certificates::pending(profile.clone())), None)),
        ServingCertificates::Files => {
            let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) else {
                bail!("--serving-certificates=files needs --tls-cert and --tls-key");
            };
            let files = CertificateFiles::load(certificate, key, profile.clone())?;
            Ok((Some(files.certificates()), Some(files)))
        }
    }
}
