//! A reconcile that changes nothing, because the newest revision is what the extension is to have.

use std::hash::BuildHasher as _;
use std::time::Instant;

use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use olm_api::ClusterObjectSet;
use olm_core::render::{CertificateProvider, CertificateRequest};
use olm_core::revision::{BundleRecord, is_rolled_out};
use olm_image::Resolved;

use super::Attempt;
use super::content::RenderRequest;
use super::enact::Enacted;
use super::error::ContentError;
use super::settled::Remembered;

impl Attempt<'_> {
    /// Does what is left to do for an extension that is as it was when nothing was to be changed.
    /// Returns nothing if it is not.
    pub(super) async fn keep_settled(
        &self,
        newest: &ClusterObjectSet,
        target: &BundleRecord,
        resolved: &Resolved,
    ) -> Result<Option<Enacted>, ContentError> {
        let name = self.extension.object.name_any();
        let remembered = self.ctx.kept.settled.known.get(&name);
        let place = self.place(resolved);
        let Some(remembered) = remembered.filter(|remembered| remembered.place == place) else {
            return Ok(None);
        };
        if !is_rolled_out(self.revisions) || !self.ctx.revisions.has_content(newest).await {
            return Ok(None);
        }
        let request = self.request(target, resolved, remembered.provider.clone());
        if self.inputs(newest, target, &request) != remembered.inputs {
            return Ok(None);
        }
        let mut enacted = Enacted { copies_kept: true, ..Enacted::default() };
        if remembered.has_certificates() {
            let left = |due: Instant| due.saturating_duration_since(Instant::now());
            enacted.look_again = remembered.due.map(left);
            enacted.certificates_kept = true;
        } else if !self.look_after_certificates(&remembered, &mut enacted).await? {
            return Ok(None);
        }
        enacted.look_again_within(Box::pin(self.restore_content()).await);
        Ok(Some(enacted))
    }

    /// Looks after the certificates and the copies of pull secrets of what is settled. Says whether they
    /// are still issued as they were, and of the same Secrets.
    async fn look_after_certificates(
        &self,
        remembered: &Remembered,
        enacted: &mut Enacted,
    ) -> Result<bool, ContentError> {
        let offered = self.offered_pull_secrets().await?;
        if !self.records(&offered) {
            return Ok(false);
        }
        let copied = self.copy_pull_secrets(&offered, true).await?;
        let certificates = self.choose_certificates(&remembered.needs).await?;
        let provider = certificates.provider();
        if provider != remembered.provider {
            return Ok(false);
        }
        let ours = certificates.are_ours();
        let issued = self.issue_certificates(certificates, true).await?;
        let look_again = issued.into_iter().chain(copied).min();
        let retired = self.retire_unneeded(provider.as_ref(), &remembered.requests, true);
        enacted.certificates_kept = retired.await? || ours;
        enacted.look_again = look_again;
        let name = self.extension.object.name_any();
        if let Some(kept) = self.ctx.kept.settled.known.lock().get_mut(&name) {
            // What was touched meanwhile counts again.
            kept.looked_at = remembered.touched;
            kept.due = look_again.map(|delay| Instant::now() + delay);
        }
        Ok(true)
    }

    /// Notes that nothing was to be changed, if that is so because the newest revision is rolled out.
    pub(super) fn note_settled(
        &self,
        newest: &ClusterObjectSet,
        target: &BundleRecord,
        resolved: &Resolved,
        provider: Option<CertificateProvider>,
        requests: Vec<CertificateRequest>,
    ) {
        let place = self.place(resolved);
        let Some(needs) = self.ctx.rendered.needs.get(&place) else { return };
        if !is_rolled_out(self.revisions) {
            return;
        }
        let request = self.request(target, resolved, provider.clone());
        let remembered = Remembered {
            place,
            inputs: self.inputs(newest, target, &request),
            needs,
            requests,
            provider,
            due: None,
            // What was touched during this reconcile is not known.
            touched: 1,
            looked_at: 0,
        };
        let name = self.extension.object.name_any();
        self.ctx.kept.settled.known.put(&name, Some(remembered));
    }

    /// Sums up what a revision is made of and what it was compared with: two sums are equal if all
    /// of that is.
    fn inputs(
        &self,
        newest: &ClusterObjectSet,
        target: &BundleRecord,
        request: &RenderRequest,
    ) -> u64 {
        let metadata = |of: &ObjectMeta| {
            let (uid, generation) = (of.uid.clone(), of.generation);
            (uid, generation, of.labels.clone(), of.annotations.clone())
        };
        self.ctx.kept.settled.hasher.hash_one((
            format!("{request:?} {target:?}"),
            // They may hold credentials, which the text leaves out.
            request.1.proxy(),
            self.account,
            metadata(&self.extension.object.metadata),
            metadata(&newest.metadata),
        ))
    }
}
