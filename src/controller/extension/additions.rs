//! What annotations add to an extension: its namespace, the cluster proxies, an operator that says when
//! it may be updated; and what the label of its namespace requires.
//!
//! Source: applying.md 10.

use std::sync::Arc;

use futures::{Stream, StreamExt as _, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, NotUsed, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind, Object};
use olm_api::keys::manager;
use olm_cluster::{operator_condition, proxies, requires_approval};
use olm_core::error::quote;
use olm_core::extension::{Extras, Goal, Policy, Question};
use olm_core::operator_condition::held;
use olm_core::render::ProxyVariables;
use olm_core::rights::OPENSHIFT;
use serde_json::{Value, json};

use super::error::{ContentError, ExtensionError, OPERATOR};
use super::outcome::Outcome;
use super::{Attempt, Context};
use crate::backoff::jittered;
use crate::cluster::{RequestError, named};

impl Context {
    /// Returns the additions to the bundle of an extension, with the data that they depend on.
    pub(super) async fn extras(&self, policy: &Policy) -> Result<Extras, ExtensionError> {
        let mut extras =
            Extras { additions: policy.additions.clone(), proxy: ProxyVariables::default() };
        if policy.additions.cluster_proxy {
            let found = proxies(&self.client).await;
            let found = found.map_err(RequestError::doing("reading Proxy cluster"))?;
            if found.is_some() {
                self.platform.proxies.notify_one();
            }
            let proxy = found.as_ref().and_then(|found| found.pointer("/items/0"));
            extras.proxy = ProxyVariables::of_cluster(proxy, &self.settings.operator_proxy);
        }
        Ok(extras)
    }
}

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

    /// Keeps the bundle that is installed or rolled out if its operator does not let itself be updated: that is reported as an
    /// update that is held, or as a failure where exactly another version is asked for.
    pub(super) async fn heed_operator(
        &self,
        question: &Question,
        goal: Goal,
        outcome: &mut Outcome,
    ) -> Result<(Goal, Option<ExtensionError>), ExtensionError> {
        let Some(installed) = question.heeds(&goal.target) else { return Ok((goal, None)) };
        let Some(condition) = self.operator_condition(&installed.name).await? else {
            return Ok((goal, None));
        };
        let Some(held) = held(&condition, installed, &goal.target) else { return Ok((goal, None)) };
        outcome.enacted.look_again_within(Some(jittered(OPERATOR)));
        let kept = Goal::keep(question.present().unwrap_or(installed).clone());
        if question.asks_for_one() {
            return Ok((kept, Some(ExtensionError::Operator(held))));
        }
        if let Some(answer) = &mut outcome.answer {
            answer.hold(goal, &held);
        }
        Ok((kept, None))
    }

    /// Reads the OperatorCondition of the installed operator as the account; there may be none.
    async fn operator_condition(&self, name: &str) -> Result<Option<Value>, ExtensionError> {
        let client = self.as_account()?;
        let namespace = &self.extension.spec.namespace;
        let found = operator_condition(&client, namespace, name).await;
        let doing = format!("reading OperatorCondition {}", quote(name));
        found.map_err(RequestError::doing(doing)).map_err(ExtensionError::Repairable)
    }
}

/// Signals changes of the proxies, once an extension uses them. They are read in each reconcile of such
/// an extension; this only wakes.
pub(super) fn changes_of_proxies(ctx: &Arc<Context>) -> impl Stream<Item = ()> + Send + use<> {
    let ctx = Arc::clone(ctx);
    let wanted = async move {
        ctx.platform.proxies.notified().await;
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(OPENSHIFT, "v1", "Proxy"));
        let proxies = Api::<Object<NotUsed, Value>>::all_with(ctx.client.clone(), &kind);
        named(proxies, "cluster").map(drop)
    };
    stream::once(wanted).flatten()
}
