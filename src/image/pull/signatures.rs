//! The signatures of an image, as cosign attaches them: a manifest in the same repository, under a
//! tag that is made of the digest, with a layer for each signature.
//!
//! Source: `containers/image` (`docker_image_src.go`), catalogs.md 5.5.

use super::{CopyError, PullConfig};
use crate::attachments::Attachments;
use crate::digest::Digest;
use crate::manifest;
use crate::policy::Demand;
use crate::reference::ImageRef;
use crate::registry::{RawManifest, Session};
use crate::sigstore::{Attachment, SIGNATURE_MEDIA_TYPE};

/// Checks the signatures of an image, which `place` served.
pub(super) async fn check(
    demand: &Demand,
    config: &PullConfig,
    session: &Session,
    place: &ImageRef,
    image: &RawManifest,
) -> Result<(), CopyError> {
    let registries = config.policy.registries();
    if !Attachments::load(&registries)?.are_used(place) {
        return Err(demand.not_looked_for(&place.name(), &registries).into());
    }
    let tag = format!("sha256-{}.sig", Digest::sha256(&image.bytes).hex());
    Ok(demand.check(&fetch(session, &tag).await?, &image.bytes)?)
}

async fn fetch(session: &Session, tag: &str) -> Result<Vec<Attachment>, CopyError> {
    let failed = CopyError::reading(format!("signatures {tag}"));
    let raw = match session.manifest(tag, None).await {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        raw => raw.map_err(&failed)?,
    };
    let listed = manifest::attached(&raw.bytes, raw.content_type.as_deref(), SIGNATURE_MEDIA_TYPE)?;
    let mut found = Vec::with_capacity(listed.len());
    for (blob, annotations) in listed {
        let payload = session.small_blob(&blob).await.map_err(&failed)?;
        found.push(Attachment { payload, annotations });
    }
    Ok(found)
}
