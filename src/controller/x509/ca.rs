//! A CA: making it, reading it back, issuing certificates of it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    NameConstraints, SanType,
};
use rustls::pki_types::CertificateDer;

use super::{Validity, certificate, is_accepted, issued, later, validity};

/// The common settings of the CAs for one purpose.
#[derive(Debug)]
pub(crate) struct Profile {
    /// The name of every CA; key identifiers tell them apart.
    pub(crate) common_name: &'static str,
    /// A name that only the test of a CA is issued for; its constraints have to permit it.
    pub(crate) probe: &'static str,
    pub(crate) ca_lifetime: SignedDuration,
    /// The time before the end of a CA at which it is replaced.
    pub(crate) overlap: SignedDuration,
    pub(crate) leaf_lifetime: SignedDuration,
    /// The time by which the start of validity is in the past.
    pub(crate) backdate: SignedDuration,
    pub(crate) layout: Layout,
}

/// The keys of a Secret with CAs: of their certificates, and of the keys of these.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The only CA, or one of two.
    pub(crate) first: (&'static str, &'static str),
    /// The other of two.
    pub(crate) second: (&'static str, &'static str),
    /// The first of two is the newest, which has to be usable; else the second is, and either may be
    /// missing.
    pub(crate) newest_first: bool,
    /// CAs without a key.
    pub(crate) trusted: Option<&'static str>,
    /// All that callers are to trust.
    pub(crate) bundle: Option<&'static str>,
}

/// A CA that can sign.
pub(crate) struct Ca {
    pub(crate) pem: String,
    pub(crate) der: CertificateDer<'static>,
    pub(crate) validity: Validity,
    key: KeyPair,
    pub(super) profile: &'static Profile,
}

/// A certificate with its key and the CA behind it, as PEM.
pub(crate) struct Issued {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) ca: String,
    pub(crate) validity: Validity,
}

impl Ca {
    /// Makes a CA with a new key. Callers accept its certificates for `permitted` names and
    /// addresses and, of DNS names, for those below them; for any name if there are none.
    pub(crate) fn generate(
        profile: &'static Profile,
        permitted: &[String],
        now: Timestamp,
    ) -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let wanted = issued(now, profile.backdate, profile.ca_lifetime, None);
        let mut params = ca_params(profile, wanted);
        if !permitted.is_empty() {
            params.name_constraints = Some(constraints(permitted)?);
        }
        let made = params.self_signed(&key)?;
        let der = made.der().clone();
        let validity = validity(&der).ok_or(rcgen::Error::CouldNotParseCertificate)?;
        Ok(Self { pem: made.pem(), der, validity, key, profile })
    }

    /// Reads a CA; `Err` says why it cannot be used.
    pub(crate) fn parse(
        profile: &'static Profile,
        pem: &[u8],
        key: &[u8],
        now: Timestamp,
    ) -> Result<Self, &'static str> {
        let text = std::str::from_utf8(pem).map_err(|_| "its certificate is not PEM")?;
        let der = certificate(pem).ok_or("its certificate cannot be read")?;
        let validity = validity(&der).ok_or("its certificate cannot be read")?;
        let key = std::str::from_utf8(key).ok().and_then(|key| KeyPair::from_pem(key).ok());
        let ca = Self {
            pem: text.to_owned(),
            der,
            validity,
            key: key.ok_or("its key cannot be read")?,
            profile,
        };
        if ca.validity.not_after <= now {
            return Err("it has expired");
        }
        if ca.signs_for(&[profile.probe.to_owned()], now) {
            Ok(ca)
        } else {
            Err("its certificates are not accepted")
        }
    }

    /// Returns when it is followed by another.
    pub(crate) fn due(&self) -> Timestamp {
        later(self.validity.not_after, -self.profile.overlap)
    }

    /// Returns whether callers accept its certificates under each of these names.
    pub(crate) fn signs_for(&self, names: &[String], now: Timestamp) -> bool {
        let probe = self.issue(names, self.profile.probe, now);
        let probe = probe.ok().and_then(|made| certificate(made.certificate.as_bytes()));
        probe.is_some_and(|probe| self.signed(&probe, names, now))
    }

    pub(crate) fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// Returns whether a server's certificate for these names is of this CA and valid.
    pub(crate) fn signed(
        &self,
        leaf: &CertificateDer<'static>,
        names: &[String],
        now: Timestamp,
    ) -> bool {
        is_accepted(std::slice::from_ref(&self.der), leaf, names, now)
    }

    /// Issues a server's certificate with a new key.
    pub(crate) fn issue(
        &self,
        names: &[String],
        common_name: &str,
        now: Timestamp,
    ) -> Result<Issued, rcgen::Error> {
        let validity = issued(
            now,
            self.profile.backdate,
            self.profile.leaf_lifetime,
            Some(self.validity.not_after),
        );
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = distinguished_name(common_name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        params.is_ca = IsCa::ExplicitNoCa;
        set_validity(&mut params, validity);
        let key = KeyPair::generate()?;
        let issuer = Issuer::new(ca_params(self.profile, self.validity), &self.key);
        let made = params.signed_by(&key, &issuer)?;
        Ok(Issued {
            certificate: made.pem(),
            key: key.serialize_pem(),
            ca: self.pem.clone(),
            validity,
        })
    }
}

fn ca_params(profile: &Profile, validity: Validity) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = distinguished_name(profile.common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, validity);
    params
}

fn constraints(permitted: &[String]) -> Result<NameConstraints, rcgen::Error> {
    let names = CertificateParams::new(permitted)?.subject_alt_names;
    let subtree = |name| match name {
        SanType::DnsName(name) => Some(GeneralSubtree::DnsName(name.to_string())),
        SanType::IpAddress(address) => {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            let only = CidrSubnet::from_addr_prefix(address, bits);
            Some(GeneralSubtree::IpAddress(only))
        }
        _ => None,
    };
    Ok(NameConstraints {
        permitted_subtrees: names.into_iter().filter_map(subtree).collect(),
        excluded_subtrees: Vec::new(),
    })
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
