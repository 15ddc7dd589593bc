//! From a bundle's image to the phases of a revision.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use olm_api::keys;
use olm_core::bundle::Bundle;
use olm_core::extension::Rendering;
use olm_core::object::Object;
use olm_core::render::{CertificateNeeds, CertificateRequest};
use olm_core::revision::{Phase, phases};
use olm_image::Digest;

use super::error::ContentError;

/// Contents, or what bundles need certificates for, kept in memory, so that the reconciles of one
/// rollout render once.
const KEPT: usize = 8;
/// Most memory that contents may take, in bytes: 64 MiB. One that takes more is rendered again.
const MAX_BYTES: usize = 64 << 20;

/// What a bundle becomes in one extension.
#[derive(Debug)]
pub(super) struct BundleContent {
    /// The objects, in phases.
    pub(super) phases: Vec<Phase>,
    /// The bundle's properties, as its annotation holds them.
    pub(super) properties: Option<String>,
    /// The certificates that the controller has to issue.
    pub(super) certificate_requests: Vec<CertificateRequest>,
    /// What a person should know although it stops nothing.
    pub(super) warnings: Vec<String>,
}

/// Everything content depends on.
pub(super) type RenderRequest = (Digest, Rendering);

impl BundleContent {
    /// Renders a bundle.
    pub(super) fn render(bundle: &Bundle, rendering: &Rendering) -> Result<Self, ContentError> {
        let rendered = rendering.render(bundle)?;
        Ok(Self {
            phases: phases(rendered.objects)?,
            properties: bundle.csv.annotations.get(keys::annotation::PROPERTIES).cloned(),
            certificate_requests: rendered.certificate_requests,
            warnings: rendered.warnings,
        })
    }
}

/// A bundle in a namespace.
pub(super) type PlacedBundle = (Digest, String);

/// The contents rendered last, what their bundles need certificates for, and who is settled with
/// them.
#[derive(Debug, Default)]
pub struct Rendered {
    contents: Recent<RenderRequest, Arc<BundleContent>>,
    needs: Recent<PlacedBundle, Arc<CertificateNeeds>>,
}

impl Rendered {
    /// Returns what was rendered for this very request.
    pub(super) fn get(&self, request: &RenderRequest) -> Option<Arc<BundleContent>> {
        self.contents.get(request)
    }

    /// Keeps a content, in place of the oldest.
    pub(super) fn put(&self, request: RenderRequest, content: Arc<BundleContent>) {
        let objects = content.phases.iter().flat_map(|phase| &phase.objects);
        let bytes = objects.map(Object::bytes).sum();
        self.contents.put(request, content, bytes);
    }

    /// Forgets what was rendered for an extension, whose reconciles will be rare from now on.
    pub(super) fn forget(&self, extension: &str) {
        self.contents.retain(|(_, rendering)| rendering.extension() != extension);
    }

    /// Returns what a bundle needs certificates for in a namespace.
    pub(super) fn needs(&self, place: &PlacedBundle) -> Option<Arc<CertificateNeeds>> {
        self.needs.get(place)
    }

    /// Keeps what a bundle needs certificates for, in place of the oldest.
    pub(super) fn put_needs(&self, place: PlacedBundle, needs: Arc<CertificateNeeds>) {
        self.needs.put(place, needs, 0);
    }
}

/// The values put in last, each with the memory it takes.
#[derive(Debug)]
struct Recent<K, V>(Mutex<VecDeque<(K, V, usize)>>);

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: PartialEq, V: Clone> Recent<K, V> {
    fn get(&self, key: &K) -> Option<V> {
        let kept = self.lock();
        kept.iter().find(|(other, ..)| other == key).map(|(_, value, _)| value.clone())
    }

    fn put(&self, key: K, value: V, bytes: usize) {
        self.retain(|other| *other != key);
        if bytes > MAX_BYTES {
            return;
        }
        let mut kept = self.lock();
        kept.push_back((key, value, bytes));
        let too_much = |kept: &VecDeque<(K, V, usize)>| {
            kept.iter().map(|(.., bytes)| bytes).sum::<usize>() > MAX_BYTES
        };
        while kept.len() > KEPT || too_much(&kept) {
            kept.pop_front();
        }
    }

    fn retain(&self, keep: impl Fn(&K) -> bool) {
        self.lock().retain(|(key, ..)| keep(key));
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(K, V, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
