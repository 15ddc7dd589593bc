//! What the Secret of the CA holds, how it goes on, and when a certificate of it is renewed. Pure:
//! the time is an argument.
//!
//! A CA is followed up at two thirds of its life: `next` joins the bundle at once and signs an hour
//! later, when everybody trusts it; the old one leaves when its last certificate has expired. Every
//! process reads the same Secret and comes to the same answer, so that nothing but the two steps
//! themselves has to be written.
//!
//! Source: deploying.md 2.4.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use olm_api::keys::name::CA_BUNDLE;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::x509::{Ca, Profile, Validity, certificate, later};

/// Keys of the Secret.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const NEXT_CERTIFICATE: &str = "next.crt";
const NEXT_KEY: &str = "next.key";

/// Our serving CAs: one year, certificates of one week.
pub(super) const PROFILE: Profile = Profile {
    common_name: "OLM serving CA",
    probe: LOCALHOST,
    ca_lifetime: SignedDuration::from_hours(365 * 24),
    leaf_lifetime: SignedDuration::from_hours(7 * 24),
    backdate: SignedDuration::from_hours(1),
};
/// Every certificate is also for this name.
pub(super) const LOCALHOST: &str = "localhost";
/// How long clients may take to learn of a CA.
const LEARN: SignedDuration = SignedDuration::from_hours(1);
/// How far the clocks of the replicas may be apart, and their views of the Secret.
const LAG: SignedDuration = SignedDuration::from_hours(1);

/// Content of the Secret.
pub(super) type Data = BTreeMap<String, ByteString>;

/// The CAs of the Secret.
pub(super) struct Authority {
    /// Signs, until the next one does.
    pub(super) current: Ca,
    /// Takes its place.
    pub(super) next: Option<Ca>,
}

/// What the leader changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing of it could be used.
    Replaced(&'static str),
    /// The next CA joins.
    FollowedUp,
    /// The old CA leaves.
    Settled,
    /// A part of it was not what it has to be.
    Repaired,
}

/// What the leader finds to do.
pub(super) struct Plan {
    /// The CAs as they should be.
    pub(super) authority: Authority,
    /// Why the Secret has to be written, if it has.
    pub(super) change: Option<Change>,
    /// When there is something to do next.
    pub(super) next: Timestamp,
}

/// The certificate this process serves with.
pub(super) struct Leaf {
    pub(super) certificate: CertificateDer<'static>,
    pub(super) key: PrivateKeyDer<'static>,
    pub(super) validity: Validity,
    /// When another one takes its place.
    pub(super) due: Timestamp,
    ca: String,
    names: Vec<String>,
}

/// Says how the Secret goes on. `names` are those the CA has to vouch for.
pub(super) fn plan(data: &Data, names: &[String], now: Timestamp) -> Result<Plan, rcgen::Error> {
    let (authority, change) = match Authority::parse(data, now) {
        Ok(authority) => authority.advance(names, now)?,
        Err(why) => (Authority::new(names, now)?, Some(Change::Replaced(why))),
    };
    let change = change.or_else(|| (authority.data() != *data).then_some(Change::Repaired));
    let next = match &authority.next {
        Some(next) => settles(next),
        None => ca_due(&authority.current),
    };
    Ok(Plan { authority, change, next })
}

impl Authority {
    /// Makes a first CA.
    pub(super) fn new(names: &[String], now: Timestamp) -> Result<Self, rcgen::Error> {
        Ok(Self { current: Ca::generate(&PROFILE, names, now)?, next: None })
    }

    /// Reads the Secret; `Err` says why it cannot be used. Of two CAs one that cannot be used is
    /// left out.
    pub(super) fn parse(data: &Data, now: Timestamp) -> Result<Self, &'static str> {
        let ca = |certificate, key| {
            let bytes = |key: &str| data.get(key).map_or(&[][..], |value| &value.0);
            Ca::parse(&PROFILE, bytes(certificate), bytes(key), now)
        };
        let next = ca(NEXT_CERTIFICATE, NEXT_KEY).ok();
        match (ca(CERTIFICATE, KEY), next) {
            (Ok(current), next) => Ok(Self { current, next }),
            (Err(_), Some(current)) => Ok(Self { current, next: None }),
            (Err(why), None) => Err(why),
        }
    }

    /// Returns what the Secret holds.
    pub(super) fn data(&self) -> Data {
        let mut texts = vec![
            (CERTIFICATE, self.current.pem.clone()),
            (KEY, self.current.key_pem()),
            (CA_BUNDLE, self.bundle()),
        ];
        if let Some(next) = &self.next {
            texts.extend([(NEXT_CERTIFICATE, next.pem.clone()), (NEXT_KEY, next.key_pem())]);
        }
        let bytes = |(key, text): (&str, String)| (key.to_owned(), ByteString(text.into_bytes()));
        texts.into_iter().map(bytes).collect()
    }

    /// Returns the certificates that clients are to trust, as PEM, the newest first.
    pub(super) fn bundle(&self) -> String {
        let all = self.next.iter().chain([&self.current]);
        all.map(|ca| ca.pem.trim_end().to_owned() + "\n").collect()
    }

    /// Returns the CA that signs now. The next one signs earlier if the other one cannot vouch for
    /// these names.
    pub(super) fn signer(&self, names: &[String], now: Timestamp) -> &Ca {
        match &self.next {
            Some(next) if signs_from(next) <= now || !self.current.signs_for(names, now) => next,
            Some(_) | None => &self.current,
        }
    }

    /// Returns when another CA signs, if that is still to come.
    pub(super) fn turn(&self, now: Timestamp) -> Option<Timestamp> {
        let turn = self.next.as_ref().map(signs_from);
        turn.filter(|turn| *turn > now)
    }

    fn advance(
        self,
        names: &[String],
        now: Timestamp,
    ) -> Result<(Self, Option<Change>), rcgen::Error> {
        let Self { current, next } = self;
        Ok(match next {
            Some(next) if !next.signs_for(names, now) => {
                let why = "it is not for the names of this server";
                (Self::new(names, now)?, Some(Change::Replaced(why)))
            }
            Some(current) if settles(&current) <= now => {
                let next = None;
                (Self { current, next }, Some(Change::Settled))
            }
            Some(next) => {
                let next = Some(next);
                (Self { current, next }, None)
            }
            None if ca_due(&current) <= now || !current.signs_for(names, now) => {
                let next = Some(Ca::generate(&PROFILE, names, now)?);
                (Self { current, next }, Some(Change::FollowedUp))
            }
            None => {
                let next = None;
                (Self { current, next }, None)
            }
        })
    }
}

impl Leaf {
    /// Issues a certificate with a new key for those of `names` that the CA may vouch for. `early`,
    /// from 0 to 1, spreads the renewals of several replicas.
    pub(super) fn issue(
        ca: &Ca,
        names: &[String],
        early: f64,
        now: Timestamp,
    ) -> Result<Self, rcgen::Error> {
        let mut possible = names.to_vec();
        if !ca.signs_for(names, now) {
            possible.retain(|name| ca.signs_for(std::slice::from_ref(name), now));
        }
        let made = ca.issue(&possible, LOCALHOST, now)?;
        let key = PrivateKeyDer::from_pem_slice(made.key.as_bytes());
        Ok(Self {
            certificate: certificate(made.certificate.as_bytes())
                .ok_or(rcgen::Error::CouldNotParseCertificate)?,
            key: key.map_err(|_| rcgen::Error::CouldNotParseKeyPair)?,
            due: leaf_due(made.validity, early),
            validity: made.validity,
            ca: made.ca,
            names: names.to_vec(),
        })
    }

    /// Says whether it is what `signer` would issue for these names, and not due.
    pub(super) fn is_current(&self, signer: &Ca, names: &[String], now: Timestamp) -> bool {
        self.ca == signer.pem && self.names == names && now < self.due
    }
}

/// Returns when a server's certificate is replaced: at two thirds of its life, less up to a tenth.
fn leaf_due(validity: Validity, early: f64) -> Timestamp {
    let life = life(validity);
    let early = (life / 10).mul_f64(early.clamp(0.0, 1.0));
    later(validity.not_after, -(life / 3) - early)
}

/// Returns when a CA is followed up: at two thirds of its life.
fn ca_due(ca: &Ca) -> Timestamp {
    later(ca.validity.not_after, -(life(ca.validity) / 3))
}

/// Returns from when on a CA signs that was made to follow another.
fn signs_from(next: &Ca) -> Timestamp {
    later(created(next), LEARN)
}

/// Returns from when on no certificate of the CA before `next` is valid.
fn settles(next: &Ca) -> Timestamp {
    later(signs_from(next), PROFILE.leaf_lifetime + LAG)
}

fn created(ca: &Ca) -> Timestamp {
    later(ca.validity.not_before, PROFILE.backdate)
}

fn life(validity: Validity) -> SignedDuration {
    validity.not_after.duration_since(validity.not_before)
}
