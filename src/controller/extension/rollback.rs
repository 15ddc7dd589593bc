//! Going back to the content of an earlier revision: neither catalogs nor registries are asked, what
//! is written is what its Secrets hold.
//!
//! Source: applying.md 10 (F10, F23).

use olm_api::ClusterObjectSet;
use olm_api::keys::annotation;
use olm_cluster::content;
use olm_core::extension::{Policy, Return, RevisionSource, desired, issued_again, recorded_issuer};
use olm_core::object::Object;
use olm_core::render::{CertificateRequest, CertificateSource, trust};
use olm_core::revision::{BundleRecord, Phase, recorded_generation};

use super::Attempt;
use super::certificates::Certificates;
use super::enact::{Enacted, RevisionPlan};
use super::error::{ContentError, ExtensionError};

impl Attempt<'_> {
    /// Makes the revision that goes back, if it is not there.
    pub(super) async fn go_back(
        &self,
        back: &Return<'_>,
        policy: &Policy,
    ) -> Result<Enacted, ExtensionError> {
        let target = BundleRecord::of(back.source);
        let failed = ExtensionError::of_bundle(&target);
        let told = |mut enacted: Enacted| {
            if back.is_done() {
                enacted.notes.push(back.note());
            } else {
                enacted.pending = Some(back.note());
            }
            enacted
        };
        let generation = self.extension.object.metadata.generation;
        let source = recorded_issuer(std::slice::from_ref(back.source));
        // Whoever trusts a CA of ours follows it; nothing else of what was made changes.
        let follows = source == Some(CertificateSource::SelfSigned);
        let stays = back.is_made && recorded_generation(back.source) == generation;
        let lost = if stays { Box::pin(self.restore_content()).await } else { None };
        if stays && (!follows || lost.is_some()) {
            return Ok(told(Enacted { look_again: lost, ..Enacted::default() }));
        }
        let mut phases = self.stored(back.source).await.map_err(failed)?;
        let objects: Vec<Object> = phases.iter().flat_map(|it| it.objects.clone()).collect();
        let requests = issued_again(back.source, &objects);
        let certificates = self.certificates_of(source, &requests).await;
        let certificates = certificates.map_err(|error| failed(error.into()))?;
        renew_trust(&mut phases, &requests, &certificates);
        let recorded = |key: &str| back.source.annotation(key);
        let source = RevisionSource {
            bundle: &target,
            digest: recorded(annotation::BUNDLE_DIGEST).unwrap_or_default(),
            properties: recorded(annotation::PROPERTIES),
            phases: &phases,
        };
        let plan = RevisionPlan {
            policy,
            target: &target,
            // The earlier version may have more rights than the installed one.
            present: self.rights_before(&target, policy).await.map_err(failed)?,
            origin: back.origin(),
            desired: desired(self.extension, self.account, source),
            requests: &requests,
            certificates,
        };
        let made = self.write(plan).await.map_err(failed)?;
        Ok(told(Box::pin(self.made(made)).await))
    }

    /// Reads what a revision holds.
    pub(super) async fn stored(&self, set: &ClusterObjectSet) -> Result<Vec<Phase>, ContentError> {
        let (client, namespace) = (&self.ctx.client, &self.ctx.system_namespace);
        Ok(content(client, set, namespace).await?)
    }
}

/// Has callers of our servers trust the present CA, where it is ours.
fn renew_trust(phases: &mut [Phase], servers: &[CertificateRequest], certificates: &Certificates) {
    let Certificates::Ours(prepared) = certificates else { return };
    let bundle = prepared.bundle();
    for object in phases.iter_mut().flat_map(|phase| &mut phase.objects) {
        trust(object, servers, &bundle);
    }
}
