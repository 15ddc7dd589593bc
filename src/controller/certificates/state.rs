//! What the Secret of an extension's CA holds, and how it goes on.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use olm_core::render::CertificateRequest;
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};

use super::leaf::Leaf;
use super::renewal::{PROFILE, ca_due, settled};
use crate::x509::{Ca, certificate, validity};

/// Keys of the Secret.
const CERTIFICATE: &str = "ca.crt";
const KEY: &str = "ca.key";
const PREVIOUS_CERTIFICATE: &str = "previous.crt";
const PREVIOUS_KEY: &str = "previous.key";
const TRUSTED: &str = "trusted.crt";
const ISSUED: &str = "issued.json";

/// The CAs of an extension and what they issued.
pub(super) struct Authority {
    /// The CA that signs once callers know it.
    pub(super) newest: Ca,
    /// The CA before it, which signs until then.
    pub(super) previous: Option<Ca>,
    /// Certificates of CAs without a key, as PEM, that are still shown by servers.
    pub(super) trusted: Vec<String>,
    /// Every certificate that was issued and not removed, recorded before it is issued.
    pub(super) issued: Vec<CertificateRequest>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority(..)")
    }
}

impl Authority {
    /// Makes a first CA. `trusted` are the CAs of certificates that servers show already.
    pub(super) fn new(trusted: Vec<String>, now: Timestamp) -> Result<Self, rcgen::Error> {
        Ok(Self {
            newest: Ca::generate(&PROFILE, &[], now)?,
            previous: None,
            trusted,
            issued: Vec::new(),
        })
    }

    /// Reads the Secret; `Err` says why it cannot be used. A previous CA that cannot be used any
    /// more is left out.
    pub(super) fn parse(
        data: &BTreeMap<String, ByteString>,
        now: Timestamp,
    ) -> Result<Self, &'static str> {
        let bytes = |key: &str| data.get(key).map(|value| value.0.as_slice()).unwrap_or_default();
        let previous = Ca::parse(&PROFILE, bytes(PREVIOUS_CERTIFICATE), bytes(PREVIOUS_KEY), now);
        Ok(Self {
            newest: Ca::parse(&PROFILE, bytes(CERTIFICATE), bytes(KEY), now)?,
            previous: previous.ok(),
            trusted: split(bytes(TRUSTED)),
            issued: issued(data),
        })
    }

    /// Returns what the Secret holds.
    pub(super) fn data(&self) -> BTreeMap<String, ByteString> {
        let mut data = BTreeMap::new();
        let mut put = |key: &str, value: String| {
            data.insert(key.to_owned(), ByteString(value.into_bytes()));
        };
        put(CERTIFICATE, self.newest.pem.clone());
        put(KEY, self.newest.key_pem());
        if let Some(previous) = &self.previous {
            put(PREVIOUS_CERTIFICATE, previous.pem.clone());
            put(PREVIOUS_KEY, previous.key_pem());
        }
        if !self.trusted.is_empty() {
            put(TRUSTED, self.trusted.concat());
        }
        let requests: Vec<Value> = self
            .issued
            .iter()
            .map(|request| {
                json!({
                    "namespace": request.namespace,
                    "secret": request.secret,
                    "dnsNames": request.dns_names,
                })
            })
            .collect();
        put(ISSUED, Value::from(requests).to_string());
        data
    }

    /// Returns the certificates that callers are to trust, as PEM, the newest first.
    pub(super) fn bundle(&self) -> String {
        let previous = self.previous.iter().map(|ca| &ca.pem);
        let all = std::iter::once(&self.newest.pem).chain(previous).chain(&self.trusted);
        all.map(|pem| pem.trim_end().to_owned() + "\n").collect()
    }

    /// Returns the certificates that callers are to trust.
    pub(super) fn roots(&self) -> Vec<CertificateDer<'static>> {
        let previous = self.previous.iter().map(|ca| ca.der.clone());
        let trusted = self.trusted.iter().filter_map(|pem| certificate(pem.as_bytes()));
        std::iter::once(self.newest.der.clone()).chain(previous).chain(trusted).collect()
    }

    /// Returns the CA that signs: the newest once callers trust it, else the one before.
    pub(super) fn signer(&self, published: bool) -> &Ca {
        match &self.previous {
            Some(previous) if !published => previous,
            Some(_) | None => &self.newest,
        }
    }

    /// Follows a CA up that nears its end, and drops those that nobody shows certificates of any
    /// more. Says whether anything changed.
    pub(super) fn advance(
        &mut self,
        leaves: &[Option<&Leaf>],
        now: Timestamp,
    ) -> Result<bool, rcgen::Error> {
        let mut changed = false;
        if ca_due(self.newest.validity) <= now {
            let followed = std::mem::replace(&mut self.newest, Ca::generate(&PROFILE, &[], now)?);
            let older = self.previous.replace(followed);
            self.trusted.extend(older.map(|ca| ca.pem));
            changed = true;
        }
        let before = self.trusted.len();
        self.trusted.retain(|pem| {
            let der = certificate(pem.as_bytes());
            let until = der.and_then(|der| validity(&der)).map(|validity| validity.not_after);
            until.is_some_and(|until| until > now)
        });
        changed |= self.trusted.len() != before;
        let over = self.settled(leaves).is_some_and(|settled| settled <= now);
        if over {
            self.previous = None;
            self.trusted.clear();
        }
        Ok(changed || over)
    }

    /// Returns when [`Authority::advance`] has something to do.
    pub(super) fn next(&self, leaves: &[Option<&Leaf>]) -> Timestamp {
        let due = ca_due(self.newest.validity);
        self.settled(leaves).map_or(due, |settled| due.min(settled))
    }

    /// Returns from when on older CAs are of no use; `None` while there are none, or while a
    /// server's certificate is not of the newest.
    fn settled(&self, leaves: &[Option<&Leaf>]) -> Option<Timestamp> {
        if self.previous.is_none() && self.trusted.is_empty() {
            return None;
        }
        let of_newest = |leaf: Option<&Leaf>| leaf.is_some_and(|leaf| leaf.ca == self.newest.pem);
        if !leaves.iter().copied().all(of_newest) {
            return None;
        }
        settled(leaves.iter().flatten().map(|leaf| leaf.validity))
    }

    /// Records certificates that are about to be issued; says whether they were not recorded yet.
    pub(super) fn record(&mut self, requests: &[CertificateRequest]) -> bool {
        let before = self.issued.clone();
        for request in requests {
            self.issued.retain(|known| !is_same_secret(known, request));
            self.issued.push(request.clone());
        }
        self.issued.sort();
        self.issued != before
    }
}

/// Says whether two requests are for one Secret.
pub(super) fn is_same_secret(one: &CertificateRequest, other: &CertificateRequest) -> bool {
    (&one.namespace, &one.secret) == (&other.namespace, &other.secret)
}

/// Reads what was recorded, also from a Secret that is unusable otherwise; what cannot be read is
/// left to the garbage collector.
pub(super) fn issued(data: &BTreeMap<String, ByteString>) -> Vec<CertificateRequest> {
    let value = data.get(ISSUED);
    let list: Value =
        value.and_then(|value| serde_json::from_slice(&value.0).ok()).unwrap_or_default();
    let entries = list.as_array().into_iter().flatten();
    entries
        .filter_map(|entry| {
            let text = |key| entry.get(key).and_then(Value::as_str).map(str::to_owned);
            let names = entry.get("dnsNames")?.as_array()?.iter();
            Some(CertificateRequest {
                namespace: text("namespace")?,
                secret: text("secret")?,
                dns_names: names.filter_map(|name| name.as_str().map(str::to_owned)).collect(),
            })
        })
        .collect()
}

/// Splits a text of several certificates.
fn split(pem: &[u8]) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----";
    let text = String::from_utf8_lossy(pem);
    text.split_inclusive(END)
        .map(|part| part.trim().to_owned() + "\n")
        .filter(|part| certificate(part.as_bytes()).is_some())
        .collect()
}
