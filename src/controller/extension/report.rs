//! What a pass means for the status.

use jiff::Timestamp;
use olm_api::conditions::types;
use olm_api::{BundleMetadata, ClusterExtension, ClusterExtensionStatus, ClusterObjectSet};
use olm_core::catalog::{self, schema};
use olm_core::error::{Chain, Classify, Disposition};
use olm_core::resolve::Resolution;
use olm_core::revision::{bundle_version, states};
use olm_core::status::deprecation::Deprecations;
use olm_core::status::extension::{
    self, Catalogs, Installed, Outcome, Revision, Revisions, paused,
};
use olm_core::status::{remove_condition, sanitize};

use super::error::ExtensionError;
use super::pass::{Asked, Offered, Pass};
use super::target::Target;
use crate::fetch::Known;

/// Returns the status after a pass that ended with `error`, or well.
pub(super) fn status(
    extension: &ClusterExtension,
    pass: &Pass,
    error: Option<&ExtensionError>,
    now: Timestamp,
) -> ClusterExtensionStatus {
    let targets: Vec<Target> = pass.revisions.iter().flatten().map(Target::of).collect();
    let channels = extension
        .spec
        .as_ref()
        .and_then(|spec| spec.source.catalog.as_ref())
        .map(|catalog| catalog.channels.as_slice())
        .unwrap_or_default();
    let mut status = extension::summarize(
        extension.status.as_ref(),
        &extension::Pass {
            generation: extension.metadata.generation,
            revisions: match (&pass.revisions, error) {
                (Some(found), _) => Ok(revisions(found, &targets)),
                (None, Some(ExtensionError::Revisions(cause))) => Err(sanitize(&cause.to_string())),
                (None, _) => Err(String::new()),
            },
            outcome: outcome(error),
            catalogs: match &pass.deprecations {
                Asked::Not => Catalogs::NotAsked,
                Asked::Unknown => Catalogs::Unknown,
                Asked::Known(data) => Catalogs::Known(data),
            },
            channels,
            notes: &pass.notes,
        },
        now,
    );
    match &pass.update {
        Offered::NotAsked => {}
        Offered::Nothing => status.update = None,
        Offered::Update(update) => status.update = Some(update.clone()),
    }
    if pass.paused {
        paused().put(&mut status.conditions, extension.metadata.generation, now);
    } else {
        remove_condition(&mut status.conditions, types::PAUSED);
    }
    status
}

fn outcome(error: Option<&ExtensionError>) -> Outcome {
    let Some(error) = error else {
        return Outcome::Settled;
    };
    let text = Chain(error).to_string();
    match error.disposition() {
        Disposition::Terminal(reason) => Outcome::Terminal(reason, text),
        Disposition::Retry | Disposition::RetryWithin(_) | Disposition::Wait(_) => {
            Outcome::Retry(text)
        }
    }
}

fn revisions<'a>(found: &'a [ClusterObjectSet], targets: &'a [Target]) -> Revisions<'a> {
    let states = states(found);
    let target = |wanted: &ClusterObjectSet| {
        let mut both = found.iter().zip(targets);
        both.find(|(revision, _)| revision.spec.revision == wanted.spec.revision)
            .map(|(_, target)| target)
    };
    let installed = states.installed.and_then(|revision| {
        let target = target(revision)?;
        Some(Installed {
            revision: of(revision),
            bundle: BundleMetadata {
                name: target.name.clone(),
                version: target.version.clone(),
                release: target.release.clone(),
            },
            image: &target.image,
        })
    });
    Revisions {
        installed,
        rolling: states.rolling.into_iter().map(of).collect(),
    }
}

fn of(revision: &ClusterObjectSet) -> Revision<'_> {
    Revision {
        name: revision.metadata.name.as_deref().unwrap_or_default(),
        version: bundle_version(revision),
        conditions: revision
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default(),
    }
}

/// Returns what the catalog that counts says about deprecation, if it is clear which one counts:
/// the one that supplied the bundle, else the only one with the package, else the one of the
/// highest priority.
///
/// Source: api.md 4.5.
pub(super) fn deprecations(resolution: &Resolution<'_>, known: &[Known]) -> Option<Deprecations> {
    if let Ok(selected) = &resolution.result {
        return Some(converted(selected.deprecations));
    }
    let mut holders: Vec<_> = resolution
        .catalogs
        .iter()
        .filter(|report| report.bundles > 0)
        .collect();
    holders.sort_by_key(|report| std::cmp::Reverse(report.priority));
    let top = match holders.as_slice() {
        [] => return None,
        [first, second, ..] if first.priority == second.priority => return None,
        [first, ..] => first,
    };
    let holder = known.iter().find(|catalog| catalog.name() == top.name)?;
    let package = holder.package()?;
    Some(converted(package.deprecations.as_ref()))
}

fn converted(found: Option<&catalog::Deprecations>) -> Deprecations {
    let mut converted = Deprecations::default();
    for entry in found.iter().flat_map(|found| &found.entries) {
        let message = entry.message.clone();
        match entry.schema.as_str() {
            schema::PACKAGE => converted.package = Some(message),
            schema::CHANNEL => converted.channels.push((entry.name.clone(), message)),
            schema::BUNDLE => converted.bundles.push((entry.name.clone(), message)),
            _ => {}
        }
    }
    converted
}
