//! The certificate of one webhook server: reading what is there, and judging it.

use std::fmt;

use jiff::Timestamp;
use olm_core::classic::takeover::CERTIFICATE_CA;
use rustls::pki_types::CertificateDer;

use crate::x509::{
    Authority, Data, Validity, certificate, is_accepted, is_pair, leaf_due, validity,
};

/// Keys of the Secret, as Kubernetes and controller-runtime name them.
pub(super) const CERTIFICATE: &str = "tls.crt";
pub(super) const KEY: &str = "tls.key";
pub(super) const CA: &str = "ca.crt";

/// A server's certificate whose key goes with it.
pub(super) struct Leaf {
    /// The CA it says it is of, as PEM.
    pub(super) ca: String,
    pub(super) validity: Validity,
    pub(super) der: CertificateDer<'static>,
}

/// Why a certificate is issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RenewReason {
    Missing,
    Unusable(&'static str),
    Due,
    Superseded,
}

impl fmt::Display for RenewReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there was none"),
            Self::Unusable(why) => write!(f, "the old one could not be used: {why}"),
            Self::Due => f.write_str("two thirds of the lifetime of the old one had passed"),
            Self::Superseded => f.write_str("the CA of the old one was replaced"),
        }
    }
}

impl Leaf {
    /// Reads the content of a Secret; `Err` says why it cannot be used.
    pub(super) fn parse(data: &Data) -> Result<Self, &'static str> {
        let bytes = |key: &str| data.get(key).map(|value| value.0.as_slice());
        let pem = bytes(CERTIFICATE).ok_or("it holds no certificate")?;
        let der = certificate(pem).ok_or("its certificate cannot be read")?;
        let validity = validity(&der).ok_or("its certificate cannot be read")?;
        let key = bytes(KEY).ok_or("it holds no key")?;
        if !is_pair(&der, key) {
            return Err("its key does not match its certificate");
        }
        let ca = bytes(CA).or_else(|| bytes(CERTIFICATE_CA));
        let ca = ca.and_then(|ca| String::from_utf8(ca.to_vec()).ok());
        Ok(Self { ca: ca.unwrap_or_default(), validity, der })
    }

    /// Returns the CA, as PEM, if the certificate is of the one it says it is of.
    pub(super) fn trusted_ca(&self, names: &[String], now: Timestamp) -> Option<String> {
        let root = certificate(self.ca.as_bytes())?;
        is_accepted(&[root], &self.der, names, now).then(|| self.ca.trim().to_owned() + "\n")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Keep(Timestamp),
    Issue(RenewReason),
}

/// Decides about the certificate for `names`, given whether callers trust the newest CA.
pub(super) fn judge(
    leaf: &Result<Leaf, RenewReason>,
    authority: &Authority,
    names: &[String],
    published: bool,
    now: Timestamp,
) -> Verdict {
    let leaf = match leaf {
        Ok(leaf) => leaf,
        Err(why) => return Verdict::Issue(*why),
    };
    let due = leaf_due(leaf.validity, 0.0);
    if !is_accepted(&authority.roots(), &leaf.der, names, now) {
        return Verdict::Issue(if leaf.validity.not_after <= now {
            RenewReason::Due
        } else {
            RenewReason::Unusable("it was not issued by our CA for the names of the Service")
        });
    }
    let root = certificate(leaf.ca.as_bytes());
    if !root.is_some_and(|root| authority.roots().contains(&root)) {
        return Verdict::Issue(RenewReason::Unusable("it contains a CA that did not issue it"));
    }
    if due <= now {
        return Verdict::Issue(RenewReason::Due);
    }
    if published && !authority.newest.signed(&leaf.der, names, now) {
        return Verdict::Issue(RenewReason::Superseded);
    }
    Verdict::Keep(due)
}
