//! Asking the catalogs what is to be installed.

use std::sync::Arc;
use std::time::Instant;

use kube::ResourceExt as _;
use olm_api::ClusterCatalog;
use olm_core::extension::{Answer, KnownCatalog, Question};
use olm_core::resolve::{Catalog, Environment, Options, Resolution};
use olm_core::selector::Selector;

use super::before::TakeOverError;
use super::error::ExtensionError;
use super::pull_state::secrets;
use super::{Attempt, Context, observe};
use crate::cluster::RequestError;
use crate::resources::compute;

impl Attempt<'_> {
    /// Finds out which version ran before everything lost its owner, where that matters.
    pub(super) async fn recall(&self, question: &mut Question) -> Result<(), ExtensionError> {
        if question.asks_what_ran(self.revisions) {
            let (name, package) = (self.extension.object.name_any(), &question.filter.package_name);
            let left = self.ctx.revisions.left_version(&name, package).await;
            let failed = RequestError::doing("looking for objects that have lost their owner");
            question.resume(left.map_err(|error| TakeOverError::from(failed(error)))?);
        }
        Ok(())
    }

    /// Asks the catalogs, with what has to be known of the cluster.
    pub(super) async fn ask(&self, question: &Question) -> Result<Answer, ExtensionError> {
        let ctx = self.ctx;
        let listed = Arc::new(observe::catalogs(ctx).await?);
        forget_others(ctx, Arc::clone(&listed)).await;
        let package = &question.filter.package_name;
        // One that is invalid selects nothing.
        let selector = Selector::new(question.filter.selector.as_ref()).ok();
        let known = ctx.catalogs.known(&listed, package, selector.as_ref()).await;
        let catalogs: Vec<_> = known.iter().map(KnownCatalog::as_catalog).collect();
        let options = question.options(ctx.settings.resolution());
        let started = Instant::now();
        let (resolution, environment) = self.resolve(question, &catalogs, &options).await;
        count(&resolution, started, ctx);
        let secrets = secrets((&listed, &known), package, &resolution);
        let name = self.extension.object.name_any();
        ctx.kept.pull_state.note_secrets(&name, secrets);
        let target = self.held_release();
        Ok(compute(|| {
            let mut answer = question.answer(&catalogs, &environment, &options, &resolution);
            let lift = |target| question.lift(&catalogs, &environment, options, target);
            answer.lift = target.map(lift);
            answer
        }))
    }

    /// Resolves, and notes whether the answer depends on the cluster. Large packages take long.
    async fn resolve<'a>(
        &self,
        question: &Question,
        catalogs: &'a [Catalog<'a>],
        options: &Options,
    ) -> (Resolution<'a>, Environment) {
        let (name, discovery) = (self.extension.object.name_any(), &self.ctx.discovery);
        let depends = |on: bool| self.ctx.kept.dependents.put(&name, on.then_some(()));
        let needs = question.needs(catalogs, options);
        if !needs.cluster {
            depends(false);
            let nothing = Environment::default();
            let resolution = compute(|| question.resolve(catalogs, &nothing, options));
            return (resolution, nothing);
        }
        let mut environment = discovery.snapshot(&name).await;
        let (own, kinds) = ((name.as_str(), self.revisions), question.asks_for_kinds(catalogs));
        if needs.installed {
            environment.providers = discovery.installed(own, kinds).await;
        }
        let resolution = compute(|| question.resolve(catalogs, &environment, options));
        // Whoever needs what an update replaces has a say in it.
        let replaces = !needs.installed && question.replaces(&resolution);
        depends(replaces || needs.installed || needs.kubernetes);
        if !replaces {
            return (resolution, environment);
        }
        environment.providers = discovery.installed(own, kinds).await;
        let resolution = compute(|| question.resolve(catalogs, &environment, options));
        (resolution, environment)
    }
}

/// Counts a resolution.
fn count(resolution: &Resolution<'_>, started: Instant, ctx: &Context) {
    ctx.metrics.resolved(resolution.ending(), started.elapsed());
    for catalog in &resolution.catalogs {
        ctx.metrics.usable_catalog(catalog.name, catalog.used);
    }
}

/// Drops what is kept of catalogs that no longer exist.
async fn forget_others(ctx: &Context, live: Arc<Vec<ClusterCatalog>>) {
    let catalogs = ctx.catalogs.clone();
    let done = tokio::task::spawn_blocking(move || catalogs.retain(&live)).await;
    if let Err(error) = done {
        tracing::warn!(%error, "copies of deleted catalogs not removed");
    }
}
