//! When certificates are renewed. Pure: the time is an argument.
//!
//! Source: rendering.md 4.11.

use jiff::{SignedDuration, Timestamp};

use crate::x509::{Profile, Validity, later};

/// The CAs of extensions: ten years, certificates of one.
pub(super) const PROFILE: Profile = Profile {
    common_name: "OLM webhook CA",
    probe: "probe.invalid",
    ca_lifetime: SignedDuration::from_hours(3650 * 24),
    leaf_lifetime: SignedDuration::from_hours(365 * 24),
    backdate: SKEW,
};
/// How long before its end a CA is followed by another.
const CA_OVERLAP: SignedDuration = SignedDuration::from_hours(365 * 24);
/// How long servers may take to read a new certificate. Kubelet needs up to two minutes to carry a
/// Secret into pods.
const SETTLE: SignedDuration = SignedDuration::from_hours(1);
/// How far the clocks of a cluster may be apart.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// Returns when a server's certificate is replaced: at two thirds of its life.
pub(super) fn leaf_due(validity: Validity) -> Timestamp {
    let life = validity.not_after.duration_since(validity.not_before);
    later(validity.not_after, -(life / 3))
}

/// Returns when a CA is followed by another: a year before its end.
pub(super) fn ca_due(validity: Validity) -> Timestamp {
    later(validity.not_after, -CA_OVERLAP)
}

/// Returns from when on nobody shows a certificate of an older CA any more, given the certificates
/// of the newest one that took the place of theirs.
pub(super) fn settled(replacements: impl IntoIterator<Item = Validity>) -> Option<Timestamp> {
    let latest = replacements.into_iter().map(|validity| validity.not_before).max();
    latest.map(|latest| later(latest, SKEW + SETTLE))
}
