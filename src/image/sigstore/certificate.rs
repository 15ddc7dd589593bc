//! Certificates of signers: that a CA of `policy.json` vouches for one, and for whom.
//!
//! `rustls-webpki` judges the chain. It looks at no email address, at no extension of Fulcio and at no
//! validity of a root; these are read with `olm_core::x509`.
//!
//! Source: `containers/image` (`fulcio_cert.go`, `pki_cert.go`), Fulcio's `oid-info.md`.

use std::time::Duration;

use jiff::Timestamp;
use olm_core::x509::{self, Element, elements};
use rustls_pki_types::pem::{PemObject as _, SectionKind};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use webpki::{EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeId, KeyPurposeIdIter};

use super::key::{PublicKey, sections};
use super::refusal::SignatureError;

/// 1.3.6.1.5.5.7.3.3
const CODE_SIGNING: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 3];
/// 2.5.29.37.0
const ANY_PURPOSE: &[u8] = &[0x55, 0x1d, 0x25, 0];
/// 2.5.29.17
const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];
/// 1.3.6.1.4.1.57264.1.1 and .8
const ISSUER: &[u8] = &[0x2b, 6, 1, 4, 1, 0x83, 0xbf, 0x30, 1, 1];
const ISSUER_V2: &[u8] = &[0x2b, 6, 1, 4, 1, 0x83, 0xbf, 0x30, 1, 8];
/// `UTF8String`, `PrintableString`, `IA5String`.
const STRINGS: [u8; 3] = [0x0c, 0x13, 0x16];
/// `rfc822Name` of a `GeneralName`.
const EMAIL: u8 = 0x81;

#[derive(Debug, Clone)]
pub(crate) struct Authorities {
    roots: Vec<CertificateDer<'static>>,
    intermediates: Vec<CertificateDer<'static>>,
}

/// A certificate that a CA vouches for.
pub(crate) struct Leaf {
    der: CertificateDer<'static>,
    pub(crate) key: PublicKey,
}

/// Certificates have to be for signing code, or for any purpose, or name none.
struct Signing;

impl ExtendedKeyUsageValidator for Signing {
    fn validate(&self, purposes: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        let purposes = purposes.collect::<Result<Vec<_>, _>>()?;
        let fits = |purpose| [CODE_SIGNING, ANY_PURPOSE].map(KeyPurposeId::new).contains(purpose);
        if purposes.is_empty() || purposes.iter().any(fits) {
            return Ok(());
        }
        Err(webpki::Error::UnknownIssuer)
    }
}

impl Authorities {
    /// Reads roots, and intermediate certificates if there are any.
    pub(crate) fn read(roots: &[u8], intermediates: Option<&[u8]>) -> Result<Self, &'static str> {
        // What is not a certificate is passed over, as by containers/image.
        let roots: Vec<_> = CertificateDer::pem_slice_iter(roots)
            .flatten()
            .filter(|der| webpki::anchor_from_trusted_cert(der).is_ok())
            .collect();
        if roots.is_empty() {
            return Err("it holds no certificate of a CA");
        }
        let intermediates = certificates(intermediates.unwrap_or_default());
        Ok(Self { roots, intermediates: intermediates.ok_or("it holds invalid certificates")? })
    }

    /// Checks a certificate, with the chain beside it, at a time in seconds since 1970.
    pub(crate) fn check(
        &self,
        leaf: &[u8],
        chain: Option<&str>,
        seconds: i64,
    ) -> Result<Leaf, SignatureError> {
        let at = Timestamp::from_second(seconds).map_err(|_| unreadable())?;
        let since = u64::try_from(seconds).map_err(|_| unreadable())?;
        let mut intermediates = self.intermediates.clone();
        let mut given =
            certificates(chain.unwrap_or_default().as_bytes()).ok_or_else(unreadable)?;
        // The last one is the root, which has to be one of policy.json.
        given.pop();
        intermediates.append(&mut given);
        // A verifier of TLS trusts a root for ever.
        let valid = |der: &&CertificateDer<'static>| {
            x509::validity(der).is_some_and(|validity| validity.includes(at))
        };
        let anchors = self.roots.iter().filter(valid);
        let anchors: Vec<_> =
            anchors.filter_map(|der| webpki::anchor_from_trusted_cert(der).ok()).collect();
        let der = CertificateDer::from(leaf.to_vec());
        let certificate = EndEntityCert::try_from(&der).map_err(|_| unreadable())?;
        let checked = certificate.verify_for_usage(
            webpki::ALL_VERIFICATION_ALGS,
            &anchors,
            &intermediates,
            UnixTime::since_unix_epoch(Duration::from_secs(since)),
            Signing,
            None,
            None,
        );
        match checked.map(drop) {
            Ok(()) => {}
            Err(webpki::Error::CertExpired { .. } | webpki::Error::CertNotValidYet { .. }) => {
                return Err(SignatureError::expired());
            }
            Err(_) => {
                return Err(SignatureError::signer(
                    "its certificate was not issued for signing by a CA that policy.json names",
                ));
            }
        }
        let key = PublicKey::from_der(&certificate.subject_public_key_info());
        let key = key.ok_or_else(unreadable)?;
        Ok(Leaf { der, key })
    }
}

impl Leaf {
    pub(crate) fn emails(&self) -> Vec<&str> {
        let list = self.extension(SUBJECT_ALTERNATIVE_NAME).and_then(elements);
        let names = list.as_deref().and_then(|list| elements(list.first()?.content));
        let emails = names.unwrap_or_default().into_iter().filter(|name| name.tag == EMAIL);
        emails.filter_map(|name| std::str::from_utf8(name.content).ok()).collect()
    }

    /// Returns the identity provider that Fulcio noted; `None` if there is none, or two.
    pub(crate) fn issuer(&self) -> Option<&str> {
        let first = self.extension(ISSUER).map(std::str::from_utf8).transpose().ok()?;
        let second = match self.extension(ISSUER_V2) {
            Some(value) => Some(text(elements(value)?.as_slice())?),
            None => None,
        };
        match (first, second) {
            (Some(first), Some(second)) if first != second => None,
            (first, second) => first.or(second),
        }
    }

    pub(crate) fn is_of_host(&self, host: &str) -> bool {
        let (Ok(host), Ok(certificate)) =
            (ServerName::try_from(host), EndEntityCert::try_from(&self.der))
        else {
            return false;
        };
        certificate.verify_is_valid_for_subject_name(&host).is_ok()
    }

    fn extension(&self, name: &[u8]) -> Option<&[u8]> {
        x509::extensions(&self.der)?.get(name).copied()
    }
}

/// It is not a certificate, or holds what is not understood.
pub(super) fn unreadable() -> SignatureError {
    SignatureError::form("its certificate cannot be read")
}

/// Reads the only element of a list as text.
fn text<'a>(list: &[Element<'a>]) -> Option<&'a str> {
    match list {
        [only] if STRINGS.contains(&only.tag) => std::str::from_utf8(only.content).ok(),
        _ => None,
    }
}

/// Reads the certificates of a PEM text; `None` if one of them cannot be read, or is something else.
pub(crate) fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let found = sections(pem)?.into_iter();
    found.map(|(kind, der)| (kind == SectionKind::Certificate).then(|| der.into())).collect()
}
