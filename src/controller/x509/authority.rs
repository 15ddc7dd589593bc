//! The CAs for one purpose, as a Secret holds them, and how one rolls over into the next. Pure: the
//! time is an argument.
//!
//! A CA that is due is followed by another, which callers learn at once and which signs once they
//! know it; the old one leaves when nobody shows a certificate of it. Both moments come from the
//! users of this module.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use rustls::pki_types::CertificateDer;

use super::ca::{Ca, Profile};
use super::{certificate, validity};

/// Content of a Secret.
pub(crate) type Data = BTreeMap<String, ByteString>;

/// The CAs for one purpose.
pub(crate) struct Authority {
    /// Signs once callers know it.
    pub(crate) newest: Ca,
    /// The one before it, which signs until then.
    pub(crate) previous: Option<Ca>,
    /// CAs without a key, as PEM, of certificates that servers still show.
    pub(crate) trusted: Vec<String>,
}

/// A step of a roll-over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Another CA joined.
    FollowedUp,
    /// An older CA left.
    Settled,
}

impl Authority {
    /// Makes a first CA, for `names` as [`Ca::generate`] does.
    pub(crate) fn new(
        profile: &'static Profile,
        names: &[String],
        now: Timestamp,
    ) -> Result<Self, rcgen::Error> {
        let newest = Ca::generate(profile, names, now)?;
        Ok(Self { newest, previous: None, trusted: Vec::new() })
    }

    /// Reads a Secret; `Err` says why it cannot be used. A CA that cannot be used is left out if the
    /// layout allows to do without it.
    pub(crate) fn parse(
        profile: &'static Profile,
        data: &Data,
        now: Timestamp,
    ) -> Result<Self, &'static str> {
        let layout = &profile.layout;
        let bytes = |key: &str| data.get(key).map_or(&[][..], |value| &value.0);
        let ca = |(pem, key)| Ca::parse(profile, bytes(pem), bytes(key), now);
        let first = ca(layout.first);
        let (newest, previous) = match ca(layout.second).ok() {
            Some(second) if !layout.newest_first => (second, first.ok()),
            second => (first?, second),
        };
        let trusted = layout.trusted.map(|key| split(bytes(key))).unwrap_or_default();
        Ok(Self { newest, previous, trusted })
    }

    pub(crate) fn data(&self) -> Data {
        let layout = &self.newest.profile.layout;
        let (first, second) = match &self.previous {
            Some(previous) if !layout.newest_first => (previous, Some(&self.newest)),
            previous => (&self.newest, previous.as_ref()),
        };
        let mut texts = Vec::new();
        let second = second.map(|ca| (layout.second, ca));
        for ((pem, key), ca) in [(layout.first, first)].into_iter().chain(second) {
            texts.extend([(pem, ca.pem.clone()), (key, ca.key_pem())]);
        }
        let trusted = layout.trusted.filter(|_| !self.trusted.is_empty());
        texts.extend(trusted.map(|key| (key, self.trusted.concat())));
        texts.extend(layout.bundle.map(|key| (key, self.bundle())));
        let bytes = |(key, text): (&str, String)| (key.to_owned(), ByteString(text.into_bytes()));
        texts.into_iter().map(bytes).collect()
    }

    /// Returns the certificates that callers are to trust, as PEM, the newest first.
    pub(crate) fn bundle(&self) -> String {
        let cas = self.cas().map(|ca| &ca.pem);
        cas.chain(&self.trusted).map(|pem| pem.trim_end().to_owned() + "\n").collect()
    }

    pub(crate) fn roots(&self) -> Vec<CertificateDer<'static>> {
        let trusted = self.trusted.iter().filter_map(|pem| certificate(pem.as_bytes()));
        self.cas().map(|ca| ca.der.clone()).chain(trusted).collect()
    }

    fn cas(&self) -> impl Iterator<Item = &Ca> {
        std::iter::once(&self.newest).chain(&self.previous)
    }

    /// Returns the CA that signs, given whether callers know the newest.
    pub(crate) fn signer(&self, known: bool) -> &Ca {
        match &self.previous {
            Some(previous) if !known => previous,
            Some(_) | None => &self.newest,
        }
    }

    /// Drops older CAs from `settled` on, when nobody shows a certificate of them, and follows the
    /// newest up when it is due or cannot vouch for `names`.
    pub(crate) fn advance(
        &mut self,
        names: &[String],
        settled: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Option<Step>, rcgen::Error> {
        let mut step = None;
        if settled.is_some_and(|settled| settled <= now) {
            self.previous = None;
            self.trusted.clear();
            step = Some(Step::Settled);
        }
        let vouches = names.is_empty() || self.newest.signs_for(names, now);
        if self.newest.due() <= now || !vouches {
            let next = Ca::generate(self.newest.profile, names, now)?;
            let newest = std::mem::replace(&mut self.newest, next);
            self.trusted.extend(self.previous.replace(newest).map(|ca| ca.pem));
            step = Some(Step::FollowedUp);
        }
        let before = self.trusted.len();
        self.trusted.retain(|pem| {
            let der = certificate(pem.as_bytes());
            der.and_then(|der| validity(&der)).is_some_and(|validity| validity.not_after > now)
        });
        Ok(step.or((self.trusted.len() != before).then_some(Step::Settled)))
    }

    /// Returns when [`Authority::advance`] has something to do.
    pub(crate) fn next(&self, settled: Option<Timestamp>) -> Timestamp {
        let due = self.newest.due();
        settled.map_or(due, |settled| due.min(settled))
    }
}

/// Splits a text of several certificates.
fn split(pem: &[u8]) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----";
    String::from_utf8_lossy(pem)
        .split_inclusive(END)
        .map(|part| part.trim().to_owned() + "\n")
        .filter(|part| certificate(part.as_bytes()).is_some())
        .collect()
}
