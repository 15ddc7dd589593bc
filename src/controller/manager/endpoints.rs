//! Listeners of this process: bound before anything starts, served to the very end.

use std::net::{Ipv6Addr, SocketAddr, TcpListener};
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
            let listener = self.bind("health", address)?;
            let routes = server::health::routes(Arc::clone(&self.health));
            let listener = Limited::new(listener, Limits::HEALTH, self.metrics.clone())?;
            self.serve("health endpoints", listener, None, routes);
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
            let listener = self.bind("metrics", address)?;
            let reviewer = server::Reviewer::new(self.client.clone(), self.metrics.clone());
            let routes = server::health::metrics_routes(self.metrics.clone(), reviewer);
            let listener = Limited::new(listener, Limits::METRICS, self.metrics.clone())?;
            self.serve("metrics endpoint", listener, self.certificates.clone(), routes);
        }
        Ok(())
    }

    /// Binds an address, and notes it for `--listen-info`.
    pub(super) fn bind(
        &mut self,
        name: &'static str,
        address: SocketAddr,
    ) -> anyhow::Result<TcpListener> {
        let listener =
            server::bind(address).with_context(|| format!("listening on {address} for {name}"))?;
        self.listening.insert(name, listener.local_addr()?);
        Ok(listener)
    }

    /// Serves until the end, and goes on for a moment after it where replicas take over.
    pub(super) fn serve(
        &mut self,
        name: &'static str,
        listener: Limited,
        certificates: Option<Certificates>,
        routes: Router,
    ) {
        let shutdown = self.shutdown.clone();
        let linger = if self.args.leader_elect { LINGER } else { Duration::ZERO };
        let closing = async move {
            shutdown.await;
            tokio::time::sleep(linger).await;
        };
        self.parts.serve(name, async move {
            let certificates = certificates.as_ref();
            let served = server::serve_within(listener, certificates, routes, closing).await;
            if let Err(error) = served {
                tracing::error!(name, %error, "server failed");
            }
        });
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
