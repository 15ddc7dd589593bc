//! What the catalog that counts says about deprecation.

use crate::catalog::{self, schema};
use crate::resolve::{Catalog, Resolution};
use crate::status::deprecation::Deprecations;

/// Returns what the catalog that counts says about deprecation of `package`, if it is clear which
/// one counts: the one that supplied the bundle, else the only one with the package, else the one
/// of the highest priority.
///
/// Source: api.md 4.5.
pub(super) fn deprecations(
    resolution: &Resolution<'_>,
    catalogs: &[Catalog<'_>],
    package: &str,
) -> Option<Deprecations> {
    if let Ok(selected) = &resolution.result {
        return Some(converted(selected.deprecations));
    }
    let mut holders: Vec<_> =
        resolution.catalogs.iter().filter(|report| report.bundles > 0).collect();
    holders.sort_by_key(|report| std::cmp::Reverse(report.priority));
    let top = match holders.as_slice() {
        [] => return None,
        [first, second, ..] if first.priority == second.priority => return None,
        [first, ..] => first,
    };
    let holder = catalogs.iter().find(|catalog| catalog.name == top.name)?;
    let package = holder.content?.package(package)?.ok()?;
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
