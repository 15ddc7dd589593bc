//! Content Secrets whose revision never came to be.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt as _};
use olm_api::ClusterObjectSet;
use olm_api::keys::{label, name};
use olm_core::revision::fits_label;

use crate::cluster::delete_as_read;

/// A younger Secret may belong to a revision that is being written.
const MIN_AGE: SignedDuration = SignedDuration::from_mins(10);

/// Deletes content Secrets that are older than ten minutes and whose ClusterObjectSet does not
/// exist. Returns how many. To be called at start and every hour.
///
/// Source: applying.md 3.3.
pub async fn collect_orphaned_secrets(
    client: &Client,
    system_namespace: &str,
    now: Timestamp,
) -> Result<usize, kube::Error> {
    let secrets = Api::<Secret>::namespaced(client.clone(), system_namespace);
    let sets = Api::<ClusterObjectSet>::all(client.clone());
    let wanted = ListParams::default()
        .labels(label::REVISION_NAME)
        .fields(&format!("type={}", name::OBJECT_DATA_SECRET_TYPE));
    let stored = secrets.list_metadata(&wanted).await?.items;
    // Read after the Secrets, and at once: what they cost does not grow with the revisions.
    let sets = sets.list_metadata(&ListParams::default()).await?.items;
    let names: BTreeSet<String> = sets.iter().map(kube::ResourceExt::name_any).collect();
    let mut collected = 0;
    for secret in stored {
        let created = secret.metadata.creation_timestamp.as_ref();
        let old = created.is_some_and(|created| now.duration_since(created.0) >= MIN_AGE);
        let revision = secret.labels().get(label::REVISION_NAME);
        if !old || revision.is_none_or(|revision| names.contains(revision)) {
            continue;
        }
        // One that has changed since may have come into use.
        collected +=
            usize::from(delete_as_read(&secrets, &secret, DeleteParams::background(), true).await?);
    }
    Ok(collected)
}

/// Deletes the content Secrets with this value of this label that nobody owns. To be called when no
/// revision needs them: where what was installed is to stay, Kubernetes takes the reference to the
/// revision off its content as well, and a revision that is deleted at once may never own its own.
pub async fn remove_unowned_content(
    client: &Client,
    system_namespace: &str,
    (key, value): (&str, &str),
) -> Result<(), kube::Error> {
    if !fits_label(value) {
        return Ok(());
    }
    let secrets = Api::<Secret>::namespaced(client.clone(), system_namespace);
    let wanted = ListParams::default()
        .labels(&format!("{key}={value}"))
        .fields(&format!("type={}", name::OBJECT_DATA_SECRET_TYPE));
    for secret in secrets.list_metadata(&wanted).await?.items {
        if secret.owner_references().is_empty() {
            delete_as_read(&secrets, &secret, DeleteParams::background(), true).await?;
        }
    }
    Ok(())
}
