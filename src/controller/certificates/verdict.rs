//! The decision about a certificate.

use jiff::Timestamp;

use super::leaf::{Leaf, RenewReason};
use crate::x509::{Authority, certificate, is_accepted, leaf_due};

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
