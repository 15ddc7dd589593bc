//! The releases of upstream's Helm applier, read as the caller.

use k8s_openapi::api::core::v1::Secret;
use olm_core::helm::{self, HelmError, Index, Release};

use super::facts::{Refusal, refusal};
use crate::commands::prelude::*;

/// The index Secrets of all releases.
pub(super) struct Releases(Vec<Secret>);

/// Remains of Helm's objects for an extension.
pub(super) enum Left {
    Nothing,
    /// No release was rolled out.
    Failed,
    Release(Box<Release>),
}

impl Releases {
    pub(super) async fn list(client: &Client) -> Result<Self, Refusal> {
        let params = ListParams::default().labels(helm::INDEX_SELECTOR);
        let listed = Api::<Secret>::all(client.clone()).list(&params).await;
        Ok(Self(listed.map_err(refusal)?.items))
    }

    /// Reads the release of an extension that counts.
    pub(super) async fn of(&self, client: &Client, name: &str) -> Result<Left, String> {
        let wrong = |error: HelmError| error.to_string();
        let of = |secret: &&Secret| secret.labels().get(helm::NAME).is_some_and(|it| it == name);
        let mut namespace = String::new();
        let mut indexes = Vec::new();
        for secret in self.0.iter().filter(of) {
            namespace = secret.namespace().unwrap_or_default();
            let index = Index::read(&secret.name_any(), secret.labels(), &helm::data(secret));
            indexes.push(index.map_err(wrong)?);
        }
        if indexes.is_empty() {
            return Ok(Left::Nothing);
        }
        let Some(index) = helm::current(indexes) else { return Ok(Left::Failed) };
        let api = Api::<Secret>::namespaced(client.clone(), &namespace);
        let mut others = Vec::with_capacity(index.others.len());
        for other in &index.others {
            let found = api.get(other).await;
            let found = found.map_err(|error| format!("Secret {other}: {}", failure(&error)))?;
            others.push(helm::chunk(other, &helm::data(&found)).map_err(wrong)?);
        }
        let release = index.release(&others).map_err(wrong)?;
        Ok(Left::Release(Box::new(release)))
    }
}
