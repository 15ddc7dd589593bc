//! How large the packages of a catalog are: an extension reads all of one.

use std::collections::HashMap;

use memchr::memchr_iter;

use super::super::model::schema;
use super::Meta;
use crate::error::quote;

/// Most bytes of all blobs of a package: 64 MiB. The largest packages of public catalogs have a few.
const MAX_BYTES: usize = 64 << 20;
/// Most values of all blobs of a package; the largest packages of public catalogs have 50,000. A short
/// one takes a hundred times its length in memory.
const MAX_VALUES: usize = 1_000_000;

/// Why a package is refused, and with it its catalog (catalogs.md 5.8).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackageTooLarge {
    /// Its blobs are longer than `MAX_BYTES`.
    #[error(
        "with this blob package {} is {bytes} bytes long, more than {MAX_BYTES} ({} MiB)",
        quote(package),
        MAX_BYTES >> 20
    )]
    Bytes { package: String, bytes: usize },
    /// Its blobs have more values than `MAX_VALUES`.
    #[error(
        "with this blob package {} has {values} values, more than {MAX_VALUES}",
        quote(package)
    )]
    Values { package: String, values: usize },
}

/// The bytes and values of packages, as their blobs come.
#[derive(Debug, Default)]
pub struct PackageSizes(HashMap<String, (usize, usize)>);

impl PackageSizes {
    /// Adds a blob to the packages that it belongs to. An error is the first blob of a package that is
    /// too much; those behind it are not.
    pub fn add(&mut self, meta: &Meta) -> Result<(), PackageTooLarge> {
        let head = if meta.schema == schema::PACKAGE { meta.name.as_str() } else { "" };
        let owners = [meta.package.as_str(), head].into_iter().filter(|name| !name.is_empty());
        for package in owners {
            let size = self.0.entry(package.to_owned()).or_default();
            let was_within = size.0 <= MAX_BYTES && size.1 <= MAX_VALUES;
            size.0 += meta.json.len();
            // Those of a list or an object stand between commas; a comma in a text counts, too.
            size.1 += 1 + memchr_iter(b',', meta.json.as_bytes()).count();
            let ((bytes, values), package) = (*size, package.to_owned());
            if was_within && bytes > MAX_BYTES {
                return Err(PackageTooLarge::Bytes { package, bytes });
            }
            if was_within && values > MAX_VALUES {
                return Err(PackageTooLarge::Values { package, values });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // catalogs.md 5.8: an extension reads all of its package
    #[test]
    fn a_package_has_a_limited_size() {
        for (json, blobs, want) in [
            (
                format!("{{\"description\":\"{}\"}}", "~".repeat(16 << 20)),
                4,
                "with this blob package \"p\" is 67108936 bytes long, more than 67108864 (64 MiB)",
            ),
            (
                format!("{{\"entries\":[{}{{}}]}}", "{},".repeat(333_333)),
                3,
                "with this blob package \"p\" has 1000002 values, more than 1000000",
            ),
        ] {
            let mut sizes = PackageSizes::default();
            let mut add = |schema: &str, package: &str, name: &str| {
                let [schema, package, name] = [schema, package, name].map(str::to_owned);
                sizes.add(&Meta { schema, package, name, json: json.clone() })
            };
            for _ in 1..blobs {
                add("olm.bundle", "p", "b").unwrap();
            }
            // Its head counts, and other packages do not.
            add("olm.bundle", "q", "p").unwrap();
            add("olm.bundle", "", "p").unwrap();
            assert_eq!(add("olm.package", "", "p").unwrap_err().to_string(), want);
            add("olm.bundle", "p", "told of once").unwrap();
        }
    }
}
