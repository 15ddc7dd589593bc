//! Why a resolution ended as it did, as data and in words.
//!
//! In: the same request, catalogs and options as for [`resolve`]. Out: every bundle of the
//! package with a verdict and every reason that applies, every catalog with its outcome, and what
//! can be done. The filters, the order and the choice are those of the resolution: the report runs
//! them again without stopping at the first result. An ordinary resolution does none of this work.
//!
//! Source: resolution.md section 6.

mod catalogs;
mod evaluation;
mod finding;
mod headline;
mod hint;
mod model;
mod path;
mod report;
mod target;
mod what_if;

#[cfg(test)]
mod tests;

pub use finding::{CatalogReason, Finding, Reason, Stage};
pub use hint::{Hint, Suggestion};
pub use model::{
    Asked, BundleReport, BundleVerdict, CatalogState, CatalogSummary, Chosen, Deprecated,
    EdgeAccount,
};
pub use report::{Headline, Report};

pub use target::{SpecChange, Target, TargetBundle};

use std::cell::Cell;

use self::catalogs::CatalogEvaluation;
use self::what_if::WhatIf;
use crate::error::Chain;
use crate::resolve::{
    Catalog, ClassicStep, Environment, Options, Query, Request, Resolution, Selected, Warning,
    classic, resolve,
};
use crate::selector::Selector;
use crate::version::VersionRelease;

/// Explains the result of [`resolve`] for the same input; with a version, or the name of a bundle, also
/// how to get there.
///
/// Equal input gives an equal report; the order of catalogs, blobs, channels and entries never
/// matters.
pub fn explain<'a>(
    request: &'a Request,
    catalogs: &'a [Catalog<'a>],
    environment: &'a Environment,
    options: &'a Options,
    version: Option<&'a str>,
) -> Report<'a> {
    let resolution = resolve(request, catalogs, environment, options);
    let mut report = Report::new(request, &resolution);
    if let Ok((query, selector)) = Query::new(request, environment, options) {
        report.selected = resolution.result.as_ref().ok().map(|it| query.chosen(it));
        let what_if =
            WhatIf { query: &query, catalogs, resolution: &resolution, work: Cell::default() };
        report.describe(&what_if, &selector, version);
    }
    report
}

impl<'a> Report<'a> {
    /// Words what can be done for catalogs that a command line names.
    pub fn of_command_line(&mut self) {
        self.hints.iter_mut().for_each(Hint::of_command_line);
    }

    fn new(request: &'a Request, resolution: &Resolution<'_>) -> Self {
        let error = resolution.result.as_ref().err();
        let refusal = error.and_then(Finding::refusal);
        Self {
            assumed: Vec::new(),
            controller: None,
            holds: Vec::new(),
            request: Asked::from(request),
            result: resolution.ending(),
            message: error.map(|error| Chain(error).to_string()),
            refused: refusal.map(|(bundle, finding)| Headline {
                code: finding.code(),
                text: format!("{bundle} {finding}"),
            }),
            selected: None,
            catalogs: Vec::new(),
            bundles: Vec::new(),
            constraints: Vec::new(),
            hints: Vec::new(),
            target: None,
            classic: Vec::new(),
        }
    }

    /// Adds the catalogs, their bundles and the hints.
    fn describe(
        &mut self,
        what_if: &WhatIf<'a, '_>,
        selector: &Selector,
        version: Option<&'a str>,
    ) {
        let WhatIf { query, catalogs, resolution, .. } = *what_if;
        let mut sorted: Vec<_> = catalogs.iter().collect();
        sorted.sort_by(|a, b| a.name.cmp(b.name));
        let look = |catalog| CatalogEvaluation::new(query, selector, catalog, resolution);
        let mut all: Vec<_> = sorted.into_iter().map(look).collect();
        catalogs::compare(&mut all, resolution);
        for looked in all.iter().filter(|looked| looked.account.consulted) {
            let survey = looked.survey.iter();
            let reasons = looked.account.reasons.as_slice();
            self.bundles.extend(survey.flat_map(|it| it.accounts(resolution, reasons)));
        }
        let selected = resolution.result.as_ref().ok();
        let constraints = selected.map(|it| query.constraints_of(it.bundle));
        self.constraints = constraints.unwrap_or_default();
        // What is asked about comes first: both share what may be tried.
        self.target = version.map(|version| target::target(what_if, &all, version));
        self.hints = hint::hints(what_if, &all);
        self.classic = classic_steps(&all, resolution, query.request);
        self.catalogs = all.into_iter().map(|looked| looked.account).collect();
    }
}

impl<'a> From<&'a Request> for Asked<'a> {
    fn from(request: &'a Request) -> Self {
        let filter = &request.filter;
        Self {
            extension: None,
            package: &filter.package_name,
            version: filter.version.as_deref().filter(|text| !text.is_empty()),
            channels: &filter.channels,
            selector: filter.selector.as_ref(),
            policy: filter.upgrade_constraint_policy.unwrap_or_default(),
            installed: request.installed.as_ref(),
        }
    }
}

/// Says what OLM Classic would do in the decisive catalog: the winner's, else the one of the
/// highest priority that has the package.
fn classic_steps<'a>(
    all: &[CatalogEvaluation<'a, '_>],
    resolution: &Resolution<'_>,
    request: &Request,
) -> Vec<ClassicStep<'a>> {
    let winner = resolution.result.as_ref().ok().map(|it| it.catalog);
    let decides = |looked: &&CatalogEvaluation<'a, '_>| {
        let account = &looked.account;
        account.consulted && winner.is_none_or(|winner| winner == account.name)
    };
    let surveys = all.iter().filter(decides).filter_map(|it| it.survey.as_ref());
    // Of equal priorities the first by name counts.
    let survey = surveys.rev().max_by_key(|survey| survey.catalog.priority);
    survey.map(|survey| classic(survey.package, request, resolution)).unwrap_or_default()
}

impl Query<'_> {
    /// Describes the winner.
    fn chosen<'a>(&self, selected: &Selected<'a>) -> Chosen<'a> {
        let installed = self.installed_version();
        let from = || installed.map(VersionRelease::recorded).unwrap_or_default();
        let to = || selected.version.recorded();
        let warning = |warning: &Warning| match warning {
            Warning::SuccessorIsLowerVersion => {
                Finding::SuccessorIsLowerVersion { from: from(), to: to() }
            }
            Warning::ForcedStep => Finding::ForcedStep { from: from(), to: to() },
            Warning::BreaksInstalled(breakage) => {
                Finding::StepBreaksInstalled { broken: breakage.clone() }
            }
        };
        let release = selected.version.release.as_ref();
        let warnings = selected.warnings.iter().map(warning);
        Chosen {
            catalog: selected.catalog,
            bundle: &selected.bundle.name,
            version: selected.version.version.to_string(),
            release: release.map(ToString::to_string),
            image: &selected.bundle.image,
            warnings: warnings.map(Reason::from).collect(),
        }
    }
}
