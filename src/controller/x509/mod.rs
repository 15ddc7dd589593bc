//! CAs and server certificates of our own, as they are: made, read, judged. Who keeps them where, and
//! when they are renewed, is said by `certificates` (webhooks of bundles) and `serving` (our own
//! listeners).

mod ca;

use std::sync::Arc;
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;

pub(crate) use ca::{Ca, Issued, Profile};

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// When a certificate is valid, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
}

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

/// Adds, or takes away; at the ends of time nothing changes any more.
pub(crate) fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.saturating_add(by).unwrap_or(time)
}

/// Reads the first certificate of a PEM text.
pub(crate) fn certificate(pem: &[u8]) -> Option<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem).ok()
}

/// Says whether a key in PEM belongs to a certificate.
pub(crate) fn is_pair(certificate: &CertificateDer<'static>, key: &[u8]) -> bool {
    let Ok(key) = PrivateKeyDer::from_pem_slice(key) else {
        return false;
    };
    let provider = aws_lc_rs::default_provider();
    CertifiedKey::from_der(vec![certificate.clone()], key, &provider).is_ok()
}

/// Says whether a caller that trusts `roots` and nothing else accepts a server's certificate under
/// each of these names at a time.
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
    names.iter().all(|name| {
        ServerName::try_from(name.as_str())
            .is_ok_and(|name| verifier.verify_server_cert(certificate, &[], &name, &[], at).is_ok())
    })
}

/// Reads when a certificate is valid; `None` for what is not a certificate.
pub(crate) fn validity(certificate: &CertificateDer<'_>) -> Option<Validity> {
    let (whole, _) = element(certificate, SEQUENCE)?;
    let (mut fields, _) = element(whole, SEQUENCE)?;
    if let Some((_, rest)) = element(fields, VERSION) {
        fields = rest;
    }
    // Serial number, signature algorithm, issuer.
    for _ in 0..3 {
        let (_, _, rest) = any_element(fields)?;
        fields = rest;
    }
    let (times, _) = element(fields, SEQUENCE)?;
    let (tag, not_before, rest) = any_element(times)?;
    let not_before = time(tag, not_before)?;
    let (tag, not_after, _) = any_element(rest)?;
    Some(Validity { not_before, not_after: time(tag, not_after)? })
}

/// Splits an element of a wanted tag off: its content and what follows.
fn element(input: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = any_element(input)?;
    (tag == wanted).then_some((content, rest))
}

/// Splits an element off: its tag, its content, and what follows.
fn any_element(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = input.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        // Four bytes of length are more than any certificate has.
        let count = usize::from(first & 0x7f);
        if !(1..=4).contains(&count) {
            return None;
        }
        let (bytes, rest) = rest.split_at_checked(count)?;
        let length = bytes.iter().fold(0, |length, byte| length * 256 + usize::from(*byte));
        (length, rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// Reads `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`, the only forms RFC 5280 allows.
fn time(tag: u8, text: &[u8]) -> Option<Timestamp> {
    let digits = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year: i16 = digits[..2].parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, &digits[2..])
        }
        (GENERALIZED_TIME, 14) => (digits[..4].parse().ok()?, &digits[4..]),
        _ => return None,
    };
    let part = |index: usize| rest[index * 2..index * 2 + 2].parse::<i8>().ok();
    let at = DateTime::new(year, part(0)?, part(1)?, part(2)?, part(3)?, part(4)?, 0).ok()?;
    Some(at.to_zoned(TimeZone::UTC).ok()?.timestamp())
}
