//! What the answer would be to a slightly different request: every change that is offered was
//! tried.

use olm_api::CatalogFilter;

use crate::resolve::{Catalog, Installed, Offer, Query, Request, Resolution, resolve};

/// The most steps that an update is followed.
const MAX_STEPS: usize = 200;

/// The original request, to be resolved again with changes.
pub(super) struct WhatIf<'a, 'q> {
    pub(super) query: &'q Query<'a>,
    pub(super) catalogs: &'a [Catalog<'a>],
    pub(super) resolution: &'q Resolution<'q>,
}

impl<'a> WhatIf<'a, '_> {
    /// Resolves again with another filter.
    pub(super) fn ask(&self, change: impl FnOnce(&mut CatalogFilter)) -> Option<Offer<'a>> {
        let mut request = self.query.request.clone();
        change(&mut request.filter);
        self.answer(&request)
    }

    fn answer(&self, request: &Request) -> Option<Offer<'a>> {
        let (environment, options) = (self.query.environment(), self.query.options);
        resolve(request, self.catalogs, environment, options).result.ok().map(Offer::from)
    }

    /// Resolves again without some of the catalogs, and names what is chosen.
    pub(super) fn ask_without(&self, names: &[&str]) -> Option<String> {
        let mut catalogs = self.catalogs.to_vec();
        catalogs.retain(|catalog| !names.contains(&catalog.name));
        let Query { request, options, .. } = self.query;
        let environment = self.query.environment();
        let selected = resolve(request, &catalogs, environment, options).result.ok()?;
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
