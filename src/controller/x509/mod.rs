//! CAs and server certificates of our own: made, read, judged, rolled over. `certificates` (webhooks
//! of bundles) and `serving` (our own listeners) keep them, each with a [`Profile`].

mod authority;
mod ca;

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;

pub(crate) use authority::{Authority, Data, Step};
pub(crate) use ca::{Ca, Issued, Layout, Profile};
pub(crate) use olm_core::x509::{Validity, validity};

/// Returns the validity of a certificate that is issued now: a little into the past, because clocks
/// differ, and never longer than its CA.
pub(crate) fn issued(
    now: Timestamp,
    backdate: SignedDuration,
    lifetime: SignedDuration,
    limit: Option<Timestamp>,
) -> Validity {
    let not_after = later(now, lifetime);
    Validity {
        not_before: later(now, -backdate),
        not_after: limit.map_or(not_after, |limit| not_after.min(limit)),
    }
}

/// Returns when a server's certificate is replaced: at two thirds of its life, less a part of a tenth,
/// which spreads the renewals of several replicas.
pub(crate) fn leaf_due(validity: Validity, early: f64) -> Timestamp {
    let life = validity.not_after.duration_since(validity.not_before);
    let early = (life / 10).mul_f64(early.clamp(0.0, 1.0));
    later(validity.not_after, -(life / 3) - early)
}

/// Adds, or takes away; at the ends of time nothing changes any more.
pub(crate) fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.saturating_add(by).unwrap_or(time)
}

/// Reads the first certificate of a PEM text.
pub(crate) fn certificate(pem: &[u8]) -> Option<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem).ok()
}

/// Returns whether a key in PEM belongs to a certificate.
pub(crate) fn is_pair(certificate: &CertificateDer<'static>, key: &[u8]) -> bool {
    let Ok(key) = PrivateKeyDer::from_pem_slice(key) else { return false };
    let provider = aws_lc_rs::default_provider();
    CertifiedKey::from_der(vec![certificate.clone()], key, &provider).is_ok()
}

/// Returns whether a caller that trusts `roots` and nothing else accepts a server's certificate
/// under each of these names at a time; there has to be one. What no caller takes for a name does not
/// count: a namespace of digits alone makes the short name of a Service look like an address.
pub(crate) fn is_accepted(
    roots: &[CertificateDer<'static>],
    certificate: &CertificateDer<'static>,
    names: &[String],
    at: Timestamp,
) -> bool {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(roots.iter().cloned());
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider).build();
    let (Ok(verifier), Ok(seconds)) = (verifier, u64::try_from(at.as_second())) else {
        return false;
    };
    let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let servers = names.iter().filter_map(|name| ServerName::try_from(name.as_str()).ok());
    let mut servers = servers.peekable();
    servers.peek().is_some()
        && servers.all(|name| verifier.verify_server_cert(certificate, &[], &name, &[], at).is_ok())
}
