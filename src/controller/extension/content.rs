//! From a bundle's image to the phases of a revision.

use std::sync::Arc;

use olm_api::keys;
use olm_core::bundle::Bundle;
use olm_core::extension::Rendering;
use olm_core::object::Object;
use olm_core::render::{CertificateNeeds, CertificateRequest};
use olm_core::revision::{Phase, phases};
use olm_image::{Digest, Resolved};

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
    pub(super) phases: Vec<Phase>,
    /// The bundle's properties, as its annotation holds them.
    pub(super) properties: Option<String>,
    /// The certificates that the controller has to issue.
    pub(super) certificate_requests: Vec<CertificateRequest>,
    /// Warnings that stop nothing.
    pub(super) warnings: Vec<String>,
}

/// The digest of a bundle, and what its signatures have to satisfy: what was checked against another
/// demand is pulled again.
pub(super) type Checked = (Digest, Option<String>);

/// Returns which bundle was asked for, and what its signatures have to satisfy.
pub(super) fn checked(resolved: &Resolved) -> Checked {
    (resolved.digest().clone(), resolved.demanded())
}

/// Everything content depends on.
pub(super) type RenderRequest = (Checked, Rendering);

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
pub(super) type PlacedBundle = (Checked, String);

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

#[cfg(test)]
mod tests {
    use olm_image::policy::PolicyPath;
    use olm_image::{ImageRef, PullConfig, Puller};
    use serde_json::json;

    use super::*;

    const KEY: &str = "LS0tLS1CRUdJTiBQVUJMSUMgS0VZLS0tLS0KTUZrd0V3WUhLb1pJemowQ0FRWUlLb1pJemowREF\
        RY0RRZ0FFL0Y0bTY1dTk3Y3NBSkllSlpnTzFVcExOUm93KwpaQ0Y5bzdsbTBGRWZLYnBhNXFoUE\
        1FVGVucHJtUGNvcXowNVVpTnZ4eHd3VlFtTnZZKzMvcWUrd3JRPT0KLS0tLS1FTkQgUFVCTElDI\
        EtFWS0tLS0tCg==";

    #[tokio::test]
    async fn what_was_made_of_a_bundle_does_not_count_under_another_signature_policy() {
        let folder = tempfile::tempdir().unwrap();
        let policy = PolicyPath { file: folder.path().join("policy.json"), required: false };
        let file = policy.file.clone();
        let puller = Puller::new(PullConfig { policy, ..PullConfig::default() });
        let image: ImageRef = format!("r.io/b@{}", Digest::sha256(b"b")).parse().unwrap();
        let rendered = Rendered::default();
        let place = async || {
            let resolved = puller.resolve(&image).await.unwrap();
            (checked(&resolved), "ns".to_owned())
        };
        let needs = CertificateNeeds { requests: Vec::new(), brings_cert_manager: false };
        rendered.needs.put(place().await, Arc::new(needs), 0);
        assert!(rendered.needs.get(&place().await).is_some());
        let rule = json!({"type": "sigstoreSigned", "keyData": KEY});
        std::fs::write(file, json!({"default": [rule]}).to_string()).unwrap();
        assert!(rendered.needs.get(&place().await).is_none());
    }
}
