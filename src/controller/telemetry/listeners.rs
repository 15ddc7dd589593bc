//! Listeners: their certificates and connections.

use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use strum::IntoStaticStr;

use super::registered::{Registered, metrics};
use super::{Label, Metrics, whole};

/// A certificate of our listeners, in the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum CertificateKind {
    /// The CA that signs, where it is ours.
    Ca,
    /// The one that is served.
    Leaf,
}

metrics! {
    Listeners {
        certificate_reads: Counter =
            "certwatcher_read_certificate", "Reads of the serving certificate";
        certificate_errors: Counter =
            "certwatcher_read_certificate_errors", "Reads of the serving certificate that failed";
        certificate_expiry: Family<Label, Gauge> =
            "olm_serving_certificate_expiry_timestamp_seconds",
            "When the serving certificate, and the CA that signed it, expire";
        connections: Family<Label, Gauge> = "olm_http_connections", "Connections of a listener";
        refused_connections: Family<Label, Counter> = "olm_http_connections_refused",
            "Connections that were refused because there were too many";
    }
}

impl Metrics {
    /// Counts a read of the serving certificate and whether it gave a usable pair.
    pub fn read_certificate(&self, usable: bool) {
        self.listeners.certificate_reads.inc();
        if !usable {
            self.listeners.certificate_errors.inc();
        }
    }

    /// Notes how many connections a listener has, and whether another one was refused.
    pub fn connected(&self, listener: &'static str, connections: usize, refused: bool) {
        let labels = [("listener", listener)];
        if refused {
            self.listeners.refused_connections.get_or_create(&labels).inc();
        }
        self.listeners.connections.get_or_create(&labels).set(whole(connections));
    }

    pub fn serving_certificate_expires(&self, kind: CertificateKind, at: Timestamp) {
        self.listeners
            .certificate_expiry
            .get_or_create(&[("kind", kind.into())])
            .set(at.as_second());
    }
}
