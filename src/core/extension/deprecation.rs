//! Which catalog counts for a package, and what it says about deprecation.

use crate::catalog::{PackageIndex, schema};
use crate::resolve::{Catalog, Resolution};
use crate::status::deprecation::Deprecations;

/// Returns what the catalog that counts says of `package`, if it is clear which one counts: the one
/// that supplied the bundle, else the only one with the package, else the one of the highest
/// priority; of several, the one that the installed bundle came from.
///
/// Source: api.md 4.5.
pub(super) fn counting<'a>(
    resolution: &Resolution<'_>,
    catalogs: &'a [Catalog<'a>],
    (package, home): (&str, Option<&str>),
) -> Option<&'a PackageIndex> {
    let holder = if let Ok(selected) = &resolution.result {
        selected.catalog
    } else {
        let holders = || resolution.catalogs.iter().filter(|report| report.bundles > 0);
        let highest = holders().map(|report| report.priority).max()?;
        let first = holders().filter(|report| report.priority == highest);
        let first: Vec<_> = first.map(|report| report.name).collect();
        match first[..] {
            [only] => only,
            _ => first.into_iter().find(|name| Some(*name) == home)?,
        }
    };
    catalogs.iter().find(|catalog| catalog.name == holder)?.package(package)
}

/// Returns what a package says about deprecation.
pub(super) fn deprecations(package: &PackageIndex) -> Deprecations {
    let mut converted = Deprecations::default();
    for entry in package.deprecations.iter().flat_map(|found| &found.entries) {
        let message = entry.message.clone();
        match entry.schema.as_str() {
            schema::PACKAGE => converted.package.push(message),
            schema::CHANNEL => converted.channels.push((entry.name.clone(), message)),
            schema::BUNDLE => converted.bundles.push((entry.name.clone(), message)),
            _ => {}
        }
    }
    converted
}
