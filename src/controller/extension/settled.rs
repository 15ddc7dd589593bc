//! What is remembered of extensions whose newest revision is rolled out and is what they are to have.
//! A reconcile that would come to the same does not read and render the bundle again: any change of
//! any catalog brings a reconcile of every extension.

use std::hash::RandomState;
use std::sync::Arc;
use std::time::Instant;

use olm_core::render::{CertificateNeeds, CertificateProvider, CertificateRequest};

use super::content::PlacedBundle;
use crate::by_key::ByKey;

/// What is remembered, by the name of the extension.
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
    /// When to look at the certificates again although none of them was touched.
    pub(super) due: Option<Instant>,
    /// How often one was touched, and how often when they were looked at.
    pub(super) touched: u64,
    pub(super) looked_at: u64,
}

impl Remembered {
    /// Says whether the certificates are as they were when they were looked at.
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
