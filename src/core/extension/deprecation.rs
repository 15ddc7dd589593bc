//! Which catalog counts for a package.

use crate::catalog::PackageIndex;
use crate::resolve::{Catalog, Resolution};

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
