//! Installations of earlier upstream versions: releases of Helm, and revisions of v1.6 to v1.8.

use std::sync::OnceLock;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, ListParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use olm_api::conditions::Reason;
use olm_api::{ClusterExtension, GROUP};
use olm_core::error::{Classify, Disposition};
use olm_core::helm::{self, HelmError};
use tokio::sync::OnceCell;

use crate::by_key::ByKey;
use crate::cluster::{RequestError, code};
use crate::revision::WriteError;

/// Why a release cannot be taken over.
#[derive(Debug, thiserror::Error)]
pub enum TakeOverError {
    /// It cannot be read.
    #[error(transparent)]
    Release(#[from] HelmError),
    /// Its Secrets cannot be read, or the status of its revision not be written.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Its revision cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Revisions of upstream v1.6 to v1.8 hold the installed objects; nothing makes ours of them.
    #[error(
        "{kind} {} of an earlier release hold the installed objects and cannot be taken over; to \
         continue: {}",
        .names.join(", "), helm::adopt_earlier_revisions(.names), kind = EARLIER_KIND
    )]
    Earlier { names: Vec<String> },
}

/// Kind of the revisions of upstream v1.6 to v1.8.
const EARLIER_KIND: &str = "ClusterExtensionRevision";

impl Classify for TakeOverError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Earlier { .. } => Disposition::Terminal(Reason::Blocked),
            Self::Request(error) | Self::Write(WriteError::Request(error)) => error.disposition(),
            Self::Release(_) | Self::Write(_) => Disposition::Retry,
        }
    }
}

/// Installations of earlier upstream versions, as far as they were read.
#[derive(Debug, Default)]
pub struct Before {
    pub(super) helm: HelmReleases,
    pub(super) earlier: EarlierRevisions,
}

/// Set once this process has found no revisions of upstream v1.6 to v1.8. Nobody makes new ones while it
/// leads.
#[derive(Debug, Default)]
pub(super) struct EarlierRevisions(OnceLock<()>);

impl EarlierRevisions {
    /// Returns those that an extension owns.
    pub(super) async fn of(
        &self,
        client: &Client,
        extension: &ClusterExtension,
    ) -> Result<Vec<ObjectMeta>, RequestError> {
        if self.0.get().is_some() {
            return Ok(Vec::new());
        }
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1", EARLIER_KIND));
        let earlier = Api::<DynamicObject>::all_with(client.clone(), &kind);
        let found = match earlier.list_metadata(&ListParams::default()).await {
            Ok(list) => list.items,
            // The kind is not there.
            Err(error) if code(&error) == 404 => Vec::new(),
            // The right is warned of at start and must not stop an install. That there are none is not
            // known: an API server that has just started refuses everything for a moment.
            Err(error) if code(&error) == 403 => return Ok(Vec::new()),
            Err(error) => {
                return Err(RequestError::doing("listing revisions of an earlier release")(error));
            }
        };
        if found.is_empty() {
            self.0.get_or_init(|| ());
        }
        let uid = extension.uid().unwrap_or_default();
        let mut owned: Vec<_> = found.into_iter().map(|one| one.metadata).collect();
        owned.retain(|one| one.owner_references.iter().flatten().any(|owner| owner.uid == uid));
        Ok(owned)
    }
}

/// Selects the Secrets that are the indexes of a release.
pub(super) fn of_release(name: &str) -> ListParams {
    ListParams::default().labels(&format!("{},{}={name}", helm::INDEX_SELECTOR, helm::NAME))
}

/// The names of the releases on the cluster. They are listed once: but for those of what OLM Classic
/// installed, nobody makes new ones while this process leads.
#[derive(Debug, Default)]
pub(super) struct HelmReleases(OnceCell<ByKey<()>>);

impl HelmReleases {
    /// Returns whether there is a release; with `asks`, also one that was created since.
    pub(super) async fn has(
        &self,
        secrets: &Api<Secret>,
        name: &str,
        asks: bool,
    ) -> Result<bool, RequestError> {
        let listed = self.0.get_or_try_init(|| async {
            let params = ListParams::default().labels(helm::INDEX_SELECTOR);
            let found = secrets.list_metadata(&params).await;
            let found = found.map_err(RequestError::doing("listing Helm releases"))?;
            let listed = ByKey::default();
            for name in found.items.iter().filter_map(|secret| secret.labels().get(helm::NAME)) {
                listed.put(name, Some(()));
            }
            Ok(listed)
        });
        let listed = listed.await?;
        let is_listed = listed.get(name).is_some();
        if is_listed || !asks {
            return Ok(is_listed);
        }
        let found = self.is_there(secrets, name).await?;
        listed.put(name, found.then_some(()));
        Ok(found)
    }

    /// Reads whether there is a release of an extension now.
    pub(super) async fn is_there(
        &self,
        secrets: &Api<Secret>,
        name: &str,
    ) -> Result<bool, RequestError> {
        let found = secrets.list_metadata(&of_release(name)).await;
        let found = found.map_err(RequestError::doing("listing a Helm release"))?;
        Ok(!found.items.is_empty())
    }

    pub(super) fn forget(&self, name: &str) {
        if let Some(listed) = self.0.get() {
            listed.put(name, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use olm_api::ClusterExtensionSpec;
    use serde_json::json;

    use super::*;
    use crate::cluster::answering::{answering, refusal};

    // applying.md 2.3: an API server that has just started refuses everything for a moment
    #[tokio::test]
    async fn a_refusal_does_not_say_that_there_are_no_earlier_revisions() {
        let asked = AtomicUsize::new(0);
        let client = answering(move |_| {
            let one = json!({"metadata": {"name": "e-1", "ownerReferences": [
                {"apiVersion": "v1", "kind": "ClusterExtension", "name": "e", "uid": "x"}]}});
            match asked.fetch_add(1, Ordering::Relaxed) {
                0 => refusal(403),
                1 => (200, json!({"metadata": {}, "items": [one]})),
                2 => refusal(404),
                _ => panic!("that there are none is remembered"),
            }
        });
        let mut extension = ClusterExtension::new("e", ClusterExtensionSpec::default());
        extension.metadata.uid = Some("x".to_owned());
        let earlier = EarlierRevisions::default();
        for want in [0, 1, 0, 0] {
            assert_eq!(earlier.of(&client, &extension).await.unwrap().len(), want);
        }
    }
}
