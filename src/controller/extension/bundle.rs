//! From what the catalog calls a bundle to the content of a revision: its image resolved, pulled,
//! read and rendered, or found where it was rendered before.

use std::io;
use std::sync::Arc;

use kube::ResourceExt as _;
use olm_api::LifecycleState;
use olm_api::keys::annotation;
use olm_core::bundle::Bundle;
use olm_core::extension::Rendering;
use olm_core::render::{CertificateProvider, certificate_needs};
use olm_core::revision::BundleRecord;
use olm_image::{Digest, ImageRef, PullError, Puller, Resolved, pull_bundle};

use super::Attempt;
use super::certificates::Certificates;
use super::content::{BundleContent, PlacedBundle, RenderRequest, checked};
use super::error::ContentError;
use super::turns::Turn;

/// Content, and the turn at reading its bundle unless it was rendered before.
#[derive(Debug)]
pub(super) struct HeldContent {
    pub(super) content: Arc<BundleContent>,
    _turn: Turn,
}

impl Attempt<'_> {
    /// Resolves the image of a bundle to its digest.
    pub(super) async fn resolved(&self, target: &BundleRecord) -> Result<Resolved, ContentError> {
        let image: ImageRef = target.image.parse().map_err(PullError::from)?;
        let puller = self.puller(target).await?;
        let registry = image.registry().to_owned();
        let metrics = self.ctx.metrics.clone();
        let work = async move {
            let answer = puller.resolve(&image).await;
            metrics.pulled(&answer);
            answer
        };
        let name = self.extension.object.name_any();
        let asked = self.ctx.kept.digests.wait(&name, &target.image, &registry, work);
        let answer = asked.await.ok_or_else(|| ContentError::Pulling(target.image.clone()))?;
        // After a success the bundle is pulled, with what this began with.
        if answer.is_err() {
            self.ctx.kept.pull_state.end(&name, true);
        }
        Ok(answer?)
    }

    /// Returns the puller for a bundle: with the Secret of its catalog, if there is one.
    async fn puller(&self, target: &BundleRecord) -> Result<Arc<Puller>, ContentError> {
        let ctx = self.ctx;
        let name = self.extension.object.name_any();
        ctx.kept.pull_state.begin(&name, ctx.credentials.version());
        let secret = ctx.kept.pull_state.secret(&name, &target.image);
        let puller = ctx.credentials.puller(secret.as_deref()).await;
        if puller.is_err() {
            ctx.kept.pull_state.end(&name, true);
        }
        Ok(puller?)
    }

    /// Returns the content of a bundle, and where the certificates of its webhooks come from. Who
    /// holds the content of one bundle must not ask for another.
    pub(super) async fn content(
        &self,
        target: &BundleRecord,
        resolved: &Resolved,
    ) -> Result<(HeldContent, Certificates), ContentError> {
        let rendered = &self.ctx.rendered;
        let place = self.place(resolved);
        let mut loaded = None;
        let needs = if let Some(needs) = rendered.needs.get(&place) {
            needs
        } else {
            let (bundle, turn) = self.bundle(target, resolved).await?;
            let needs = Arc::new(certificate_needs(&bundle, &place.1));
            rendered.needs.put(place, Arc::clone(&needs), 0);
            loaded = Some((bundle, turn));
            needs
        };
        let certificates = self.choose_certificates(&needs).await?;
        let request = self.request(target, resolved, certificates.provider());
        if let Some(content) = rendered.contents.get(&request) {
            return Ok((HeldContent { content, _turn: None }, certificates));
        }
        let (bundle, turn) = match loaded {
            Some(loaded) => loaded,
            None => self.bundle(target, resolved).await?,
        };
        let (content, request) = tokio::task::spawn_blocking(move || {
            let content = BundleContent::render(&bundle, &request.1);
            (content, request)
        })
        .await
        .map_err(|error| PullError::Store(io::Error::other(error)))?;
        let content = Arc::new(content?);
        for warning in &content.warnings {
            tracing::warn!(warning, "bundle is unusual");
        }
        rendered.put(request, Arc::clone(&content));
        Ok((HeldContent { content, _turn: turn }, certificates))
    }

    /// Returns the request of a rendering, with the source of certificates.
    pub(super) fn request(
        &self,
        target: &BundleRecord,
        resolved: &Resolved,
        provider: Option<CertificateProvider>,
    ) -> RenderRequest {
        let features = self.ctx.settings.features();
        let rendering = Rendering::of(self.extension, target, features, (provider, self.extras));
        (checked(resolved), rendering)
    }

    /// Returns which bundle is to be installed where.
    pub(super) fn place(&self, resolved: &Resolved) -> PlacedBundle {
        let namespace = &self.extension.spec.namespace;
        (checked(resolved), namespace.clone())
    }

    /// Pulls and reads a bundle, in place of those that no revision in use was made of.
    async fn bundle(
        &self,
        target: &BundleRecord,
        resolved: &Resolved,
    ) -> Result<(Bundle, Turn), ContentError> {
        let ctx = self.ctx;
        let (name, image) = (self.extension.object.name_any(), resolved.image().clone());
        let (text, registry) = (image.to_string(), image.registry().to_owned());
        let puller = self.puller(target).await?;
        let (cache, owner) = (ctx.bundles.clone(), name.clone());
        let metrics = ctx.metrics.clone();
        let work = async move {
            let answer = pull_bundle(&puller, &image, Some((&cache, &owner))).await;
            metrics.pulled(&answer);
            // Whoever has its turn reads it from the disk: nobody holds what nobody reads.
            answer.map(drop)
        };
        let answer = ctx.kept.images.wait(&name, &text, &registry, Box::pin(work)).await;
        let answer = answer.ok_or(ContentError::Pulling(text))?;
        ctx.kept.pull_state.end(&name, answer.is_err());
        answer?;
        let (cache, digest) = (ctx.bundles.clone(), resolved.digest().clone());
        let (bundles, owner, used) = (cache.clone(), name.clone(), self.in_use(resolved));
        let retained = tokio::task::spawn_blocking(move || bundles.retain(&owner, &used));
        if let Ok(Err(error)) = retained.await {
            tracing::warn!(%error, "superseded bundles stay on disk");
        }
        let turn = ctx.turns.wait(cache.bytes(&name, &digest)).await;
        let read = tokio::task::spawn_blocking(move || {
            let files = cache.load(&name, &digest).map_err(PullError::Store)?;
            let gone = || PullError::Store(io::ErrorKind::NotFound.into());
            Ok::<_, ContentError>(Bundle::from_files(&files.ok_or_else(gone)?)?)
        });
        Ok((read.await.map_err(|error| PullError::Store(io::Error::other(error)))??, turn))
    }

    /// Returns the digests of the bundles that may be asked for again: this one, and those of
    /// revisions in use, whose content may have to be made anew.
    fn in_use(&self, resolved: &Resolved) -> Vec<Digest> {
        let active =
            self.revisions.iter().filter(|set| set.spec.lifecycle_state == LifecycleState::Active);
        let recorded = active.filter_map(|set| set.annotation(annotation::BUNDLE_DIGEST));
        let recorded = recorded.filter_map(|digest| digest.parse().ok());
        recorded.chain([resolved.digest().clone()]).collect()
    }
}
