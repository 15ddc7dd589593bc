//! The rotation of the CA, and the renewal of its certificates. Pure: the time is an argument.
//!
//! The next CA joins the bundle at once and signs an hour later, when everybody trusts it; the old
//! one leaves when its last certificate has expired. Every process reads the same Secret and comes to
//! the same answer, so that nothing but the two steps themselves has to be written.
//!
//! Source: deploying.md 2.4.

use jiff::{SignedDuration, Timestamp};
use olm_api::keys::name::CA_BUNDLE;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::x509::{
    Authority, Ca, Data, Layout, Profile, Step, Validity, certificate, later, leaf_due,
};

/// Our serving CAs: one year, followed at two thirds of it; certificates of one week. Until the next
/// one is alone it stands under keys of its own: who does not know of it signs with the other.
pub(super) const PROFILE: Profile = Profile {
    common_name: "OLM serving CA",
    probe: LOCALHOST,
    ca_lifetime: SignedDuration::from_hours(365 * 24),
    // A third, of a life that began an hour before it was made.
    overlap: SignedDuration::from_mins((365 * 24 + 1) * 60 / 3),
    leaf_lifetime: SignedDuration::from_hours(7 * 24),
    backdate: SignedDuration::from_hours(1),
    layout: Layout {
        first: ("tls.crt", "tls.key"),
        second: ("next.crt", "next.key"),
        newest_first: false,
        trusted: None,
        bundle: Some(CA_BUNDLE),
    },
};
/// Every certificate is also for this name.
pub(super) const LOCALHOST: &str = "localhost";
/// The time that clients may need to learn of a CA.
const LEARN: SignedDuration = SignedDuration::from_hours(1);
/// The largest difference between the clocks of the replicas, and between their views of the
/// Secret.
const LAG: SignedDuration = SignedDuration::from_hours(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing of it could be used.
    Replaced(&'static str),
    Rolled(Step),
    /// A part of it was not what it has to be.
    Repaired,
}

pub(super) struct Plan {
    pub(super) authority: Authority,
    /// Why the Secret has to be written, if it has.
    pub(super) change: Option<Change>,
    pub(super) next: Timestamp,
}

/// The certificate this process serves with.
pub(super) struct Leaf {
    pub(super) certificate: CertificateDer<'static>,
    pub(super) key: PrivateKeyDer<'static>,
    pub(super) validity: Validity,
    pub(super) due: Timestamp,
    ca: String,
    names: Vec<String>,
}

/// Plans the next state of the Secret. `names` are those that the CA must sign for.
pub(super) fn plan(data: &Data, names: &[String], now: Timestamp) -> Result<Plan, rcgen::Error> {
    let read = Authority::parse(&PROFILE, data, now).and_then(|authority| {
        // There is room for two.
        let vouches = authority.previous.is_none() || authority.newest.signs_for(names, now);
        vouches.then_some(authority).ok_or("it is not for the names of this server")
    });
    let (authority, change) = match read {
        Ok(mut authority) => {
            let settled = settled(&authority);
            let step = authority.advance(names, settled, now)?;
            (authority, step.map(Change::Rolled))
        }
        Err(why) => (Authority::new(&PROFILE, names, now)?, Some(Change::Replaced(why))),
    };
    let change = change.or_else(|| (authority.data() != *data).then_some(Change::Repaired));
    let next = authority.next(settled(&authority));
    Ok(Plan { authority, change, next })
}

/// Returns the CA that signs now: the next one earlier if the other one cannot vouch for these names.
pub(super) fn signer<'a>(authority: &'a Authority, names: &[String], now: Timestamp) -> &'a Ca {
    let vouches = |ca: &Ca| ca.signs_for(names, now);
    let known = signs_from(&authority.newest) <= now;
    authority.signer(known || !authority.previous.as_ref().is_some_and(vouches))
}

/// Returns when another CA signs, if that is still to come.
pub(super) fn turn(authority: &Authority, now: Timestamp) -> Option<Timestamp> {
    let turn = authority.previous.as_ref().map(|_| signs_from(&authority.newest));
    turn.filter(|turn| *turn > now)
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

    /// Returns whether it is equal to a certificate that `signer` would issue for these names, valid
    /// already, which it is not where the clock was ahead and has been set back, and not due.
    pub(super) fn is_current(&self, signer: &Ca, names: &[String], now: Timestamp) -> bool {
        let in_time = self.validity.not_before <= now && now < self.due;
        self.ca == signer.pem && self.names == names && in_time
    }
}

/// Returns from when on the newest CA signs, if it follows another.
fn signs_from(newest: &Ca) -> Timestamp {
    later(newest.validity.not_before, PROFILE.backdate + LEARN)
}

/// Returns from when on no certificate of the CA before the newest is valid, if there is one.
fn settled(authority: &Authority) -> Option<Timestamp> {
    let previous = authority.previous.as_ref();
    previous.map(|_| later(signs_from(&authority.newest), PROFILE.leaf_lifetime + LAG))
}
