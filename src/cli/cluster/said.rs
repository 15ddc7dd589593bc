//! The present decision of the controller about an extension, computed from the state that the
//! plugin can read.
//!
//! Source: plugin.md 5.

use olm_cluster::{copied_pull_secrets, operator_condition, proxies, requires_approval};
use olm_core::extension::{Answer, Goal, Question, ValidExtension, reverted};
use olm_core::operator_condition::{NotUpgradeable, held};
use olm_core::render::{Additions, ProxyVariables};
use olm_core::status::Note;

use super::{Cluster, ExtensionSnapshot};

use crate::output::{notice, one_line};
use crate::prelude::*;

impl Cluster {
    /// Decides about an extension as the controller does.
    pub(crate) async fn answer(
        &self,
        extension: &ClusterExtension,
        snapshot: &ExtensionSnapshot,
    ) -> anyhow::Result<Answer> {
        let (catalogs, options) = (snapshot.catalogs(), &snapshot.options);
        let question = &snapshot.question;
        let environment = question.environment(&catalogs, options, &snapshot.environment);
        let resolution = question.resolve(&catalogs, &environment, options);
        let mut answer = question.answer(&catalogs, &environment, options, &resolution);
        if let (Ok(goal), Some(valid)) = (answer.goal.clone(), ValidExtension::of(extension))
            && let Some(held) = self.operator(question, valid, &goal.target).await?
            && let (false, Some(present)) = (question.asks_for_one(), question.present())
        {
            answer.hold(goal, &held);
            answer.goal = Ok(Goal::keep(present.clone()));
        }
        Ok(answer)
    }

    /// Returns the note about a failed and reverted rollout, if `target` is not retried because of
    /// it.
    pub(crate) async fn taken_back(
        &self,
        extension: &ClusterExtension,
        question: &Question,
        target: &BundleRecord,
    ) -> anyhow::Result<Option<Note>> {
        let installed = question.installed.as_ref();
        let stays = installed.is_some_and(|installed| installed.is_same_bundle(target));
        if stays || !question.policy.reverts {
            return Ok(None);
        }
        let revisions = self.revisions(&extension.name_any()).await?;
        let back = reverted(&question.policy, extension, &revisions, target);
        Ok(back.map(|back| back.note()))
    }

    /// Returns whether each step of an extension has to be approved by its plan.
    pub(crate) async fn requires_approval(
        &self,
        extension: ValidExtension<'_>,
    ) -> anyhow::Result<bool> {
        let everywhere = self.state().await?.controller().require_approval;
        let name = &extension.spec.namespace;
        let requires = requires_approval(&self.client, everywhere, name).await;
        requires.with_context(|| format!("reading namespace {name}"))
    }

    /// Returns the proxies that an operator gets, if it is to have some.
    pub(crate) async fn proxies(&self, additions: &Additions) -> anyhow::Result<ProxyVariables> {
        if !additions.cluster_proxy {
            return Ok(ProxyVariables::default());
        }
        let found = proxies(&self.client).await.context("reading Proxy cluster")?;
        let proxy = found.as_ref().and_then(|found| found.pointer("/items/0"));
        let otherwise = &self.settings().await?.controller.operator_proxy;
        Ok(ProxyVariables::of_cluster(proxy, otherwise))
    }

    /// Returns which of these Secrets the controller copies for the pods of an operator; all of them where
    /// the caller may not know.
    pub(crate) async fn copied(&self, names: BTreeSet<String>) -> BTreeSet<String> {
        if names.is_empty() {
            return names;
        }
        let found = async {
            let namespace = self.system_namespace().await?;
            anyhow::Ok(copied_pull_secrets(&self.client, &namespace, &names).await?)
        };
        match found.await {
            Ok(found) => found,
            Err(error) => {
                notice(&format!(
                    "note: which pull secrets are copied for the operator is not known, the rights \
                     for all of them count: {}",
                    one_line(&error)
                ));
                names
            }
        }
    }

    /// Returns why the installed operator does not let another bundle take its place, if it does not.
    pub(crate) async fn operator(
        &self,
        question: &Question,
        extension: ValidExtension<'_>,
        target: &BundleRecord,
    ) -> anyhow::Result<Option<NotUpgradeable>> {
        let Some(installed) = question.heeds(target) else { return Ok(None) };
        let namespace = &extension.spec.namespace;
        let condition = operator_condition(&self.client, namespace, &installed.name).await;
        let condition =
            condition.with_context(|| format!("reading OperatorCondition {}", installed.name))?;
        Ok(condition.and_then(|condition| held(&condition, installed, target)))
    }
}
