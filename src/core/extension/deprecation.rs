//! Which catalog counts for a package, and what it says about deprecation.

use crate::catalog::{PackageIndex, schema};
use crate::resolve::{Catalog, Resolution};
use crate::status::deprecation::Deprecations;

/// Returns what the catalog that counts says of `package`, if it is clear which one counts: the one
/// that supplied the bundle, else the only one with the package, else the one of the highest
/// priority.
///
/// Source: api.md 4.5.
pub(super) fn counting<'a>(
    resolution: &Resolution<'_>,
    catalogs: &'a [Catalog<'a>],
    package: &str,
) -> Option<&'a PackageIndex> {
    let holder = if let Ok(selected) = &resolution.result {
        selected.catalog
    } else {
        let mut holders: Vec<_> =
            resolution.catalogs.iter().filter(|report| report.bundles > 0).collect();
        holders.sort_by_key(|report| std::cmp::Reverse(report.priority));
        match holders.as_slice() {
            [] => return None,
            [first, second, ..] if first.priority == second.priority => return None,
            [first, ..] => first.name,
        }
    };
    let holder = catalogs.iter().find(|catalog| catalog.name == holder)?;
    holder.content?.package(package)?.ok()
}

/// Returns what a package says about deprecation.
pub(super) fn deprecations(package: &PackageIndex) -> Deprecations {
    let mut converted = Deprecations::default();
    for entry in package.deprecations.iter().flat_map(|found| &found.entries) {
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
