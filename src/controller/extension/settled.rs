//! The memory of extensions whose newest revision is rolled out and is the desired one. A reconcile
//! with the same result does not read and render the bundle again, because any change of any
//! catalog causes a reconcile of every extension.

use std::hash::RandomState;
use std::sync::Arc;
use std::time::Instant;

use olm_core::render::{CertificateNeeds, CertificateProvider, CertificateRequest};

use super::content::PlacedBundle;
use crate::by_key::ByKey;

/// The memory, by the name of the extension.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// Keyed anew in each process: what is hashed comes from catalogs.
    pub(super) hasher: RandomState,
    pub(super) known: ByKey<Remembered>,
}

/// A reconcile that changed nothing.
#[derive(Debug, Clone)]
pub(super) struct Remembered {
    pub(super) place: PlacedBundle,
    /// Everything the revision was compared with.
    pub(super) inputs: u64,
    pub(super) needs: Arc<CertificateNeeds>,
    pub(super) requests: Vec<CertificateRequest>,
    pub(super) provider: Option<CertificateProvider>,
    /// The time of the next check of certificates without a change.
    pub(super) due: Option<Instant>,
    /// The number of changes, now and at the last check.
    pub(super) touched: u64,
    pub(super) looked_at: u64,
}

impl Remembered {
    /// Returns whether the certificates are unchanged since the last check.
    pub(super) fn has_certificates(&self) -> bool {
        self.touched == self.looked_at && self.due.is_none_or(|due| Instant::now() < due)
    }
}

impl Settled {
    /// Notes that a certificate of an extension, or its CA, was touched.
    pub(super) fn touch(&self, extension: &str) {
        if let Some(remembered) = self.known.lock().get_mut(extension) {
            remembered.touched += 1;
        }
    }

    /// Forgets an extension.
    pub(super) fn forget(&self, extension: &str) {
        self.known.put(extension, None);
    }
}
