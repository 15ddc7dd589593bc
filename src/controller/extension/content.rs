//! From a bundle's image to the phases of a revision.

use std::sync::Arc;

use olm_api::keys;
use olm_core::bundle::Bundle;
use olm_core::extension::Rendering;
use olm_core::object::Object;
use olm_core::render::{CertificateNeeds, CertificateRequest};
use olm_core::revision::{Phase, phases};
use olm_image::Digest;

use super::error::ContentError;
use crate::recent::Recent;

/// Contents, or what bundles need certificates for, kept in memory, so that the reconciles of one
/// rollout render once.
const KEPT: usize = 8;
/// Most memory that contents may take, in bytes: 64 MiB. One that takes more is rendered again.
const MAX_BYTES: usize = 64 << 20;

/// The rendered content of a bundle in one extension.
#[derive(Debug)]
pub(super) struct BundleContent {
    /// The objects, in phases.
    pub(super) phases: Vec<Phase>,
    /// The bundle's properties, as its annotation holds them.
    pub(super) properties: Option<String>,
    /// The certificates that the controller has to issue.
    pub(super) certificate_requests: Vec<CertificateRequest>,
    /// Warnings that stop nothing.
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
    pub(super) contents: Recent<RenderRequest, Arc<BundleContent>, KEPT, MAX_BYTES>,
    pub(super) needs: Recent<PlacedBundle, Arc<CertificateNeeds>, KEPT, MAX_BYTES>,
}

impl Rendered {
    /// Keeps a content, in place of the oldest.
    pub(super) fn put(&self, request: RenderRequest, content: Arc<BundleContent>) {
        let bytes = content.phases.iter().flat_map(|phase| &phase.objects).map(Object::bytes).sum();
        self.contents.put(request, content, bytes);
    }

    /// Forgets what was rendered for an extension, whose reconciles will be rare from now on.
    pub(super) fn forget(&self, extension: &str) {
        self.contents.retain(|(_, rendering)| rendering.extension() != extension);
    }
}
