//! The content of the Secret with an extension's CA, and the renewal of CAs and certificates. Pure:
//! the time is an argument.
//!
//! Source: rendering.md 4.11.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use olm_core::render::CertificateRequest;
use serde_json::{Value, json};

use super::leaf::Leaf;
use crate::x509::{Authority, Data, Layout, Profile, later};

/// The CAs of extensions: ten years, followed a year before the end; certificates of one year.
pub(super) const PROFILE: Profile = Profile {
    common_name: "OLM webhook CA",
    probe: "probe.invalid",
    ca_lifetime: SignedDuration::from_hours(3650 * 24),
    overlap: SignedDuration::from_hours(365 * 24),
    leaf_lifetime: SignedDuration::from_hours(365 * 24),
    backdate: SKEW,
    layout: Layout {
        first: ("ca.crt", "ca.key"),
        second: ("previous.crt", "previous.key"),
        newest_first: true,
        trusted: Some("trusted.crt"),
        bundle: None,
    },
};
/// The time that servers may need to read a new certificate. Kubelet needs up to two minutes to
/// update a Secret in pods.
const SETTLE: SignedDuration = SignedDuration::from_hours(1);
/// The largest difference of the clocks of a cluster.
const SKEW: SignedDuration = SignedDuration::from_mins(5);
/// Key of the record of what was issued.
const ISSUED: &str = "issued.json";

/// The CAs of an extension and what they issued.
pub(super) struct State {
    pub(super) authority: Authority,
    /// Every certificate that was issued and not removed, recorded before it is issued.
    pub(super) issued: Vec<CertificateRequest>,
}

impl State {
    /// Makes a first CA. `trusted` are the CAs of certificates that servers show already.
    pub(super) fn new(trusted: Vec<String>, now: Timestamp) -> Result<Self, rcgen::Error> {
        let authority = Authority { trusted, ..Authority::new(&PROFILE, &[], now)? };
        Ok(Self { authority, issued: Vec::new() })
    }

    pub(super) fn parse(data: &Data, now: Timestamp) -> Result<Self, &'static str> {
        Ok(Self { authority: Authority::parse(&PROFILE, data, now)?, issued: issued(data) })
    }

    pub(super) fn data(&self) -> Data {
        let text = json!(self.issued).to_string();
        let mut data = self.authority.data();
        data.insert(ISSUED.to_owned(), ByteString(text.into_bytes()));
        data
    }

    /// Lets the CAs roll over; returns whether anything changed.
    pub(super) fn advance(
        &mut self,
        leaves: &[Option<&Leaf>],
        now: Timestamp,
    ) -> Result<bool, rcgen::Error> {
        let settled = self.settled(leaves);
        Ok(self.authority.advance(&[], settled, now)?.is_some())
    }

    pub(super) fn next(&self, leaves: &[Option<&Leaf>]) -> Timestamp {
        self.authority.next(self.settled(leaves))
    }

    /// Returns from when on no server shows a certificate of an older CA any more; `None` while
    /// there are none, or while a server's certificate is not of the newest.
    fn settled(&self, leaves: &[Option<&Leaf>]) -> Option<Timestamp> {
        let Authority { newest, previous, trusted } = &self.authority;
        if previous.is_none() && trusted.is_empty() {
            return None;
        }
        let replaced = leaves
            .iter()
            .map(|leaf| Some(leaf.filter(|leaf| leaf.ca == newest.pem)?.validity.not_before));
        let latest = replaced.collect::<Option<Vec<_>>>()?.into_iter().max()?;
        Some(later(latest, SKEW + SETTLE))
    }

    /// Records certificates that are about to be issued; returns whether any was not recorded yet.
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

pub(super) fn is_same_secret(one: &CertificateRequest, other: &CertificateRequest) -> bool {
    (&one.namespace, &one.secret) == (&other.namespace, &other.secret)
}

/// Reads what was recorded, also from a Secret that is unusable otherwise; what cannot be read is
/// left to the garbage collector.
pub(super) fn issued(data: &Data) -> Vec<CertificateRequest> {
    let list = data.get(ISSUED).and_then(|list| serde_json::from_slice(&list.0).ok());
    let list: Vec<Value> = list.unwrap_or_default();
    list.into_iter().filter_map(|entry| serde_json::from_value(entry).ok()).collect()
}
