//! The CA of one extension: making it, keeping it, following it up.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;

use super::renewal::{CA_LIFETIME, LEAF_LIFETIME, ca_due, issued};
use super::x509::{Validity, certificate, is_accepted, validity};

/// The name of every CA of ours; key identifiers tell them apart.
const COMMON_NAME: &str = "OLM webhook CA";

/// A name that only the test of a CA is issued for.
const PROBE: &str = "probe.invalid";

/// A CA that can sign.
pub(super) struct Ca {
    /// The certificate as PEM.
    pub(super) pem: String,
    /// The certificate.
    pub(super) der: CertificateDer<'static>,
    /// When it is valid.
    pub(super) validity: Validity,
    key: KeyPair,
}

/// A certificate with its key and the CA behind it, as PEM.
pub(super) struct Issued {
    pub(super) certificate: String,
    pub(super) key: String,
    pub(super) ca: String,
    pub(super) validity: Validity,
}

impl Ca {
    /// Makes a CA with a new key.
    pub(super) fn generate(now: Timestamp) -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let made = ca_params(issued(now, CA_LIFETIME, None)).self_signed(&key)?;
        let der = made.der().clone();
        let validity = validity(&der).ok_or(rcgen::Error::CouldNotParseCertificate)?;
        Ok(Self {
            pem: made.pem(),
            der,
            validity,
            key,
        })
    }

    /// Reads a CA; `Err` says why it cannot be used.
    pub(super) fn parse(pem: &[u8], key: &[u8], now: Timestamp) -> Result<Self, &'static str> {
        let text = std::str::from_utf8(pem).map_err(|_| "its certificate is no text")?;
        let der = certificate(pem).ok_or("its certificate cannot be read")?;
        let validity = validity(&der).ok_or("its certificate cannot be read")?;
        let key = std::str::from_utf8(key).ok();
        let key = key.and_then(|key| KeyPair::from_pem(key).ok());
        let ca = Self {
            pem: text.to_owned(),
            der,
            validity,
            key: key.ok_or("its key cannot be read")?,
        };
        if ca.validity.not_after <= now {
            return Err("it has expired");
        }
        let probe = ca.issue(&[PROBE.to_owned()], PROBE, now);
        let probe = probe
            .ok()
            .and_then(|made| certificate(made.certificate.as_bytes()));
        let works = probe.is_some_and(|probe| ca.signed(&probe, &[PROBE.to_owned()], now));
        if works {
            Ok(ca)
        } else {
            Err("its certificates are not accepted")
        }
    }

    /// Returns the key as PEM.
    pub(super) fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// Says whether another CA should follow.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        ca_due(self.validity) <= now
    }

    /// Says whether a server's certificate for these names is of this CA and valid.
    pub(super) fn signed(
        &self,
        leaf: &CertificateDer<'static>,
        names: &[String],
        now: Timestamp,
    ) -> bool {
        is_accepted(std::slice::from_ref(&self.der), leaf, names, now)
    }

    /// Issues a server's certificate with a new key.
    pub(super) fn issue(
        &self,
        names: &[String],
        common_name: &str,
        now: Timestamp,
    ) -> Result<Issued, rcgen::Error> {
        let validity = issued(now, LEAF_LIFETIME, Some(self.validity.not_after));
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = distinguished_name(common_name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        params.is_ca = IsCa::ExplicitNoCa;
        set_validity(&mut params, validity);
        let key = KeyPair::generate()?;
        let issuer = Issuer::new(ca_params(self.validity), &self.key);
        let made = params.signed_by(&key, &issuer)?;
        Ok(Issued {
            certificate: made.pem(),
            key: key.serialize_pem(),
            ca: self.pem.clone(),
            validity,
        })
    }
}

fn ca_params(validity: Validity) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = distinguished_name(COMMON_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, validity);
    params
}

fn distinguished_name(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

fn set_validity(params: &mut CertificateParams, validity: Validity) {
    let at = |time: Timestamp| {
        let seconds = u64::try_from(time.as_second()).unwrap_or_default();
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
    };
    params.not_before = at(validity.not_before);
    params.not_after = at(validity.not_after);
}
