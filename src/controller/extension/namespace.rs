//! The install namespace: made where an annotation asks for it, and what its label requires.
//!
//! Source: applying.md 10.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, Patch, PatchParams};
use olm_api::keys::manager;
use olm_cluster::requires_approval;
use olm_core::error::quote;
use olm_core::extension::Policy;
use serde_json::json;

use super::Attempt;
use super::error::{ContentError, ExtensionError};
use crate::cluster::RequestError;

impl Attempt<'_> {
    /// Returns whether each step needs an approval of its plan. The namespace is read, not watched,
    /// because the next write must not depend on an outdated label.
    pub(super) async fn requires_approval(&self) -> Result<bool, ContentError> {
        let (client, everywhere) = (&self.ctx.client, self.ctx.settings.require_approval);
        let requires = requires_approval(client, everywhere, &self.extension.spec.namespace).await;
        Ok(requires.map_err(RequestError::doing("reading the install namespace"))?)
    }

    /// Makes the install namespace as the account, if it is missing and may be made. Nobody removes
    /// it: others may have put something there.
    pub(super) async fn create_namespace(&self, policy: &Policy) -> Result<(), ExtensionError> {
        if !policy.additions.create_namespace {
            return Ok(());
        }
        let name = &self.extension.spec.namespace;
        let creating = RequestError::doing(format!("creating namespace {}", quote(name)));
        let failed = |cause| ExtensionError::Repairable(creating(cause));
        let namespaces = Api::<Namespace>::all(self.ctx.client.clone());
        if namespaces.get_metadata_opt(name).await.map_err(failed)?.is_some() {
            return Ok(());
        }
        let client = self.as_account()?;
        // An apply, because the right to create can be bound to a name only then.
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let (namespaces, params) =
            (Api::<Namespace>::all(client), PatchParams::apply(manager::OBJECTS));
        namespaces.patch(name, &params, &Patch::Apply(namespace)).await.map_err(failed)?;
        tracing::info!(namespace = name, "install namespace created");
        Ok(())
    }
}
