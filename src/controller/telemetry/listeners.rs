//! Listeners: their certificates and connections.

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::registered::Registered;
use super::{Metrics, whole};

/// A certificate of our listeners, in the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateKind {
    /// The CA that signs, where it is ours.
    Ca,
    /// The one that is served.
    Leaf,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ListenerLabels {
    listener: &'static str,
}

/// The metrics of listeners.
#[derive(Debug, Clone)]
pub(super) struct Listeners {
    certificate_reads: Counter,
    certificate_errors: Counter,
    certificate_expiry: Family<KindLabels, Gauge>,
    connections: Family<ListenerLabels, Gauge>,
    refused_connections: Family<ListenerLabels, Counter>,
}

impl Listeners {
    pub(super) fn new(registered: &mut Registered) -> Self {
        Self {
            certificate_reads: registered.register(
                "certwatcher_read_certificate",
                "Reads of the serving certificate",
                Counter::default(),
            ),
            certificate_errors: registered.register(
                "certwatcher_read_certificate_errors",
                "Reads of the serving certificate that gave no usable pair",
                Counter::default(),
            ),
            certificate_expiry: registered.register(
                "olm_serving_certificate_expiry_timestamp_seconds",
                "When the serving certificate, and the CA that signed it, expire",
                Family::default(),
            ),
            connections: registered.register(
                "olm_http_connections",
                "Connections of a listener",
                Family::default(),
            ),
            refused_connections: registered.register(
                "olm_http_connections_refused",
                "Connections that were closed at once because there were too many",
                Family::default(),
            ),
        }
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
        let labels = ListenerLabels { listener };
        if refused {
            self.listeners.refused_connections.get_or_create(&labels).inc();
        }
        self.listeners.connections.get_or_create(&labels).set(whole(connections));
    }

    /// Notes when a certificate of our listeners expires.
    pub fn serving_certificate_expires(&self, kind: CertificateKind, at: Timestamp) {
        let kind = match kind {
            CertificateKind::Ca => "ca",
            CertificateKind::Leaf => "leaf",
        };
        self.listeners.certificate_expiry.get_or_create(&KindLabels { kind }).set(at.as_second());
    }
}
