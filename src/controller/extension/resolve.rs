//! Asking the catalogs what is to be installed, and telling what came of it.

use std::sync::Arc;
use std::time::Instant;

use kube::ResourceExt as _;
use olm_api::keys::{annotation, policy as keys};
use olm_api::{CatalogFilter, ClusterCatalog, ClusterExtension, ClusterObjectSet};
use olm_core::resolve::{
    self, Catalog, Decision, Dependencies, Environment, Options, Reason, Request, Resolution,
    Warning,
};
use olm_image::{ImageRef, Resolved};

use super::error::ExtensionError;
use super::explain::{content_changed, headline, offered};
use super::pass::{Asked, Goal, Pass};
use super::policy::Policy;
use super::report::deprecations;
use super::target::Target;
use super::{Context, observe};
use crate::fetch::Known;

/// What the catalogs are asked for.
pub(super) struct Question<'a> {
    pub(super) extension: &'a ClusterExtension,
    pub(super) filter: &'a CatalogFilter,
    pub(super) policy: &'a Policy,
    /// What is installed.
    pub(super) installed: Option<Target>,
    /// What is being rolled out, and stays so whatever the answer is.
    pub(super) rolling: Option<&'a Target>,
}

impl Pass {
    /// Asks the catalogs what is to be installed.
    pub(super) async fn resolve(
        &mut self,
        question: Question<'_>,
        ctx: &Context,
    ) -> Result<Goal, ExtensionError> {
        let package = &question.filter.package_name;
        let listed = Arc::new(observe::catalogs(&ctx.client).await?);
        forget_others(ctx, Arc::clone(&listed)).await;
        let known = ctx.catalogs.known(&listed, package).await;
        let catalogs: Vec<_> = known.iter().map(Known::as_catalog).collect();
        let request = Request {
            filter: question.filter.clone(),
            installed: question.installed.as_ref().map(Target::as_installed),
        };
        let options = Options {
            release_support: ctx.settings.release_support,
            unavailability: ctx.settings.unavailability,
            updates: question.policy.updates,
            dependencies: ctx.settings.dependencies,
        };
        let started = Instant::now();
        let (resolution, environment) = decide(&question, &request, &catalogs, options, ctx).await;
        count(&resolution, started, ctx);
        self.deprecations = deprecations(&resolution, &known).map_or(Asked::Unknown, Asked::Known);
        let headline = match question.rolling {
            // What would be chosen instead is of no interest.
            Some(_) => None,
            None => headline(&request, &catalogs, &environment, options, &resolution),
        };
        self.explain(&resolution, headline);
        self.offer(offered(
            &question,
            &request,
            &catalogs,
            options,
            &resolution,
        ));
        self.goal(question, &resolution, ctx)
    }

    /// Returns what the pass works towards after a resolution.
    fn goal(
        &mut self,
        question: Question<'_>,
        resolution: &Resolution<'_>,
        ctx: &Context,
    ) -> Result<Goal, ExtensionError> {
        let installed = question.installed;
        Ok(match resolution.decision() {
            Decision::Use(selected) => {
                let package = &question.filter.package_name;
                let target = Target::selected(selected, package, ctx.settings.release_support);
                let forced = selected.warnings.contains(&Warning::ForcedStep);
                match installed {
                    Some(installed) if installed.is_same_bundle(&target) => {
                        Goal::keep(self.same_bundle(question.extension, installed, target))
                    }
                    _ => Goal {
                        target,
                        held: None,
                        forced,
                    },
                }
            }
            Decision::Keep(error) => Goal {
                target: installed.ok_or(ExtensionError::NoContent)?,
                held: error.cloned().map(ExtensionError::from),
                forced: false,
            },
            Decision::Fail(error) => return Err(error.clone().into()),
        })
    }

    /// Keeps the installed image when the catalog offers the installed bundle with other content
    /// (decision 29), unless the administrator accepted that content.
    fn same_bundle(
        &mut self,
        extension: &ClusterExtension,
        installed: Target,
        offered: Target,
    ) -> Target {
        let digest = |image: &str| {
            let image = image.parse::<ImageRef>().ok()?;
            image.digest().map(ToString::to_string)
        };
        let (old, new) = (digest(&installed.image), digest(&offered.image));
        let (Some(old), Some(new)) = (old, new) else {
            return offered;
        };
        let accepted = extension.annotations().get(keys::ACCEPT_IMAGE);
        if old == new || accepted == Some(&new) {
            return offered;
        }
        self.note(content_changed(&old, &new));
        installed
    }

    /// Says whether the tag of a bundle now names other content than its revision was made of. That
    /// is not rolled out unless the administrator accepted it (decision 29).
    pub(super) fn changed_below(
        &mut self,
        extension: &ClusterExtension,
        revision: &ClusterObjectSet,
        resolved: &Resolved,
    ) -> bool {
        let offered = resolved.digest().to_string();
        let Some(recorded) = revision.annotations().get(annotation::BUNDLE_DIGEST) else {
            return false;
        };
        let accepted = extension.annotations().get(keys::ACCEPT_IMAGE);
        if *recorded == offered || accepted == Some(&offered) {
            return false;
        }
        self.note(content_changed(recorded, &offered));
        true
    }
}

/// Resolves with what has to be known of the cluster, and notes whether the answer depends on it.
async fn decide<'a>(
    question: &Question<'_>,
    request: &Request,
    catalogs: &'a [Catalog<'a>],
    options: Options,
    ctx: &Context,
) -> (Resolution<'a>, Environment) {
    let name = question.extension.name_any();
    if question.policy.ignore_constraints || options.dependencies == Dependencies::Refuse {
        ctx.surroundings.note(&name, false);
        let nothing = Environment::default();
        let resolution = answer(question, request, catalogs, &nothing, options);
        return (resolution, nothing);
    }
    let needs = Needs::of(catalogs, &request.filter.package_name);
    let environment = ctx.surroundings.told(&name, needs.installed).await;
    let resolution = answer(question, request, catalogs, &environment, options);
    // Whoever needs what an update replaces has a say in it.
    let replaces = !needs.installed && replaces(&resolution, request);
    ctx.surroundings
        .note(&name, replaces || needs.installed || needs.kubernetes);
    if !replaces {
        return (resolution, environment);
    }
    let environment = ctx.surroundings.told(&name, true).await;
    let resolution = answer(question, request, catalogs, &environment, options);
    (resolution, environment)
}

/// Resolves, and once more for the version that was approved if the update policy holds it.
fn answer<'a>(
    question: &Question<'_>,
    request: &Request,
    catalogs: &'a [Catalog<'a>],
    environment: &Environment,
    options: Options,
) -> Resolution<'a> {
    let resolution = resolve::resolve(request, catalogs, environment, &options);
    let Some(approved) = &question.policy.approved else {
        return resolution;
    };
    let held = resolution.held.iter().any(|held| {
        matches!(held.reason, Reason::Held(_)) && held.version.precedence(approved).is_eq()
    });
    if !held {
        return resolution;
    }
    let mut exactly = request.clone();
    exactly.filter.version = Some(approved.version.to_string());
    let released = resolve::resolve(&exactly, catalogs, environment, &options);
    match released.result {
        Ok(_) => released,
        Err(_) => resolution,
    }
}

/// What the bundles of a package need besides catalogs.
struct Needs {
    /// Something installed or served.
    installed: bool,
    /// A version of Kubernetes.
    kubernetes: bool,
}

impl Needs {
    fn of(catalogs: &[Catalog<'_>], package: &str) -> Self {
        let packages = catalogs
            .iter()
            .filter_map(|catalog| catalog.content?.package(package)?.ok());
        let mut needs = Self {
            installed: false,
            kubernetes: false,
        };
        for bundle in packages.flat_map(|package| &package.bundles) {
            needs.installed |= bundle.dependencies().next().is_some();
            needs.kubernetes |= bundle.min_kube_version.is_some();
        }
        needs
    }
}

/// Says whether another bundle than the installed one was chosen in its place.
fn replaces(resolution: &Resolution<'_>, request: &Request) -> bool {
    match (&resolution.result, &request.installed) {
        (Ok(selected), Some(installed)) => selected.bundle.name != installed.name,
        (Err(_), _) | (_, None) => false,
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
