//! What the answer would be to a slightly different request: every change that is offered was
//! tried.

use std::cell::Cell;

use olm_api::CatalogFilter;

use crate::resolve::{Catalog, Installed, Offer, Query, Request, Resolution, Selected, resolve};

/// The most steps that an update is followed.
const MAX_STEPS: usize = 200;
/// What all changes that are tried may cost together, as [`Resolution::work`] counts it. A hundred
/// bundles in each of five catalogs cost 5000.
const MAX_WORK: u64 = 50_000_000;

/// The original request, to be resolved again with changes. What would cost too much is not tried.
pub(super) struct WhatIf<'a, 'q> {
    pub(super) query: &'q Query<'a>,
    pub(super) catalogs: &'a [Catalog<'a>],
    pub(super) resolution: &'q Resolution<'q>,
    /// What the changes tried so far cost.
    pub(super) work: Cell<u64>,
}

impl<'a> WhatIf<'a, '_> {
    /// Resolves again with another filter.
    pub(super) fn ask(&self, change: impl FnOnce(&mut CatalogFilter)) -> Option<Offer<'a>> {
        let mut request = self.query.request.clone();
        change(&mut request.filter);
        self.answer(&request)
    }

    fn answer(&self, request: &Request) -> Option<Offer<'a>> {
        self.resolve(request, self.catalogs).map(Offer::from)
    }

    fn resolve<'c>(&self, request: &Request, catalogs: &'c [Catalog<'c>]) -> Option<Selected<'c>> {
        if self.work.get() > MAX_WORK {
            return None;
        }
        let (environment, options) = (self.query.environment(), self.query.options);
        let resolution = resolve(request, catalogs, environment, options);
        self.work.set(self.work.get().saturating_add(resolution.work));
        resolution.result.ok()
    }

    /// Resolves again without some of the catalogs, and names what is chosen.
    pub(super) fn ask_without(&self, names: &[&str]) -> Option<String> {
        let mut catalogs = self.catalogs.to_vec();
        catalogs.retain(|catalog| !names.contains(&catalog.name));
        let selected = self.resolve(self.query.request, &catalogs)?;
        Some(format!("{} from catalog {}", selected.version.recorded(), selected.catalog))
    }

    /// Returns how many updates lead to a bundle under a version range and another change; `None`
    /// if they do not.
    pub(super) fn steps_to(
        &self,
        range: &str,
        bundle: &str,
        change: impl FnOnce(&mut CatalogFilter),
    ) -> Option<usize> {
        let mut request = self.query.request.clone();
        request.filter.version = Some(range.to_owned());
        change(&mut request.filter);
        for step in 1..=MAX_STEPS {
            let next = self.answer(&request)?;
            if next.bundle == bundle {
                return Some(step);
            }
            let installed = Some(installed(&next));
            if request.installed == installed {
                return None;
            }
            request.installed = installed;
        }
        None
    }
}

/// Returns a bundle as it is recorded after its installation.
fn installed(answer: &Offer<'_>) -> Installed {
    let release = answer.version.release.as_ref();
    Installed {
        name: answer.bundle.to_owned(),
        version: answer.version.version.to_string(),
        release: Some(release.map(ToString::to_string).unwrap_or_default()),
    }
}
