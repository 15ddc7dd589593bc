//! A catalog as large as the public ones, generated from numbers only.
//!
//! In: the number of bundles and the size of each in bytes. Out: packages, one file of JSON lines
//! each. The same input gives the same bytes on every machine. Sizes of packages differ as in
//! public catalogs: each has a twentieth of the bundles that are left.

use std::iter;

use serde_json::{Value, json};

use crate::text;

/// Number of bundles of the catalog the benchmarks run on.
pub const BUNDLES: usize = 7_000;
/// Size of one bundle's blob in bytes; with [`BUNDLES`] they make a catalog of 130 MB.
pub const BUNDLE_BYTES: usize = 18_500;

/// Number of bundles that share a minor version.
const PATCHES: usize = 8;
/// Number of minor versions that share a major one.
const MINORS: usize = 12;

/// A package of the generated catalog.
#[derive(Debug, Clone)]
pub struct Package {
    /// Name of the package.
    pub name: String,
    /// Versions of its bundles, the oldest first.
    pub versions: Vec<String>,
    /// Size of each bundle's blob in bytes.
    pub bundle_bytes: usize,
}

/// Returns the packages of a catalog with this many bundles, the largest package first.
pub fn packages(bundles: usize, bundle_bytes: usize) -> impl Iterator<Item = Package> {
    let mut left = bundles;
    let sizes = iter::from_fn(move || {
        let size = (left / 20).max(1).min(left);
        left -= size;
        (size > 0).then_some(size)
    });
    sizes.enumerate().map(move |(number, size)| Package {
        name: format!("generated-operator-{number:03}"),
        versions: (0..size).map(version).collect(),
        bundle_bytes,
    })
}

fn version(number: usize) -> String {
    let minor = number / PATCHES;
    format!("{}.{}.{}", 1 + minor / MINORS, minor % MINORS, number % PATCHES)
}

impl Package {
    /// Returns the blobs as JSON lines: the package, its channels, its bundles, its deprecations.
    pub fn lines(&self) -> Vec<String> {
        let head = json!({
            "schema": "olm.package", "name": self.name, "defaultChannel": "stable",
            "description": text(&self.name, 400),
        });
        let bundles = (0..self.versions.len()).map(|number| self.bundle(number));
        iter::once(head)
            .chain(self.channels())
            .chain(bundles)
            .chain(self.deprecations())
            .map(|blob| blob.to_string())
            .collect()
    }

    /// Returns path and content of the package's file in a catalog image.
    pub fn file(&self) -> (String, String) {
        let content = self.lines().join("\n") + "\n";
        (format!("configs/{}/catalog.json", self.name), content)
    }

    fn bundle_name(&self, number: usize) -> String {
        format!("{}.v{}", self.name, self.versions[number])
    }

    /// One channel with all bundles, and one for each minor version.
    fn channels(&self) -> Vec<Value> {
        let all: Vec<usize> = (0..self.versions.len()).collect();
        let stable = self.channel("stable", &all);
        let minors = all.chunks(PATCHES).map(|numbers| {
            let newest = &self.versions[numbers[0]];
            let (minor, _) = newest.rsplit_once('.').expect("a version has dots");
            self.channel(&format!("stable-v{minor}"), numbers)
        });
        iter::once(stable).chain(minors).collect()
    }

    fn channel(&self, name: &str, numbers: &[usize]) -> Value {
        let entries = numbers.iter().enumerate().map(|(position, &number)| {
            let mut entry = json!({"name": self.bundle_name(number)});
            if position > 0 {
                entry["replaces"] = json!(self.bundle_name(numbers[position - 1]));
            }
            if position > 2 && number % PATCHES == PATCHES - 1 {
                let skipped = [numbers[position - 2], numbers[position - 3]];
                entry["skips"] = json!(skipped.map(|number| self.bundle_name(number)));
            }
            if number % PATCHES == 0 && number > 0 {
                let oldest = &self.versions[number - PATCHES];
                entry["skipRange"] = json!(format!(">={oldest} <{}", self.versions[number]));
            }
            entry
        });
        json!({
            "schema": "olm.channel", "package": self.name, "name": name,
            "entries": entries.collect::<Vec<_>>(),
        })
    }

    fn bundle(&self, number: usize) -> Value {
        let (name, version) = (self.bundle_name(number), &self.versions[number]);
        let kinds = (0..4).map(|kind| {
            json!({"type": "olm.gvk", "value": {
                "group": format!("{}.example.com", self.name), "kind": format!("Kind{kind}"),
                "version": "v1",
            }})
        });
        let package = json!({"type": "olm.package", "value": {
            "packageName": self.name, "version": version,
        }});
        let mut properties: Vec<Value> = iter::once(package).chain(kinds).collect();
        let image = format!("registry.example.com/{}/bundle:v{version}", self.name);
        let metadata = |filler: usize| {
            json!({"type": "olm.csv.metadata", "value": {
                "annotations": {
                    "alm-examples": text(&format!("{{\"apiVersion\": \"{name}\"}}\n"), filler / 3),
                    "capabilities": "Deep Insights",
                },
                "description": text(&format!("## About \"{name}\"\n\tMany words. "), filler * 3 / 5),
                "displayName": format!("Operator <{name}> & friends"),
                "installModes": [{"type": "AllNamespaces", "supported": true}],
                "keywords": ["generated", "benchmark"],
                "minKubeVersion": "1.25.0",
                "provider": {"name": "Nobody"},
            }})
        };
        let blob = |properties: &[Value]| {
            json!({
                "schema": "olm.bundle", "package": self.name, "name": name, "image": image,
                "properties": properties,
                "relatedImages": [{"name": "operator", "image": image}],
            })
        };
        properties.push(metadata(0));
        let bare = blob(&properties).to_string().len();
        properties.pop();
        properties.push(metadata(self.bundle_bytes.saturating_sub(bare)));
        blob(&properties)
    }

    /// Deprecates the oldest tenth of the bundles, if that is at least one.
    fn deprecations(&self) -> Option<Value> {
        let old = self.versions.len() / 10;
        let entries = (0..old).map(|number| {
            json!({
                "reference": {"schema": "olm.bundle", "name": self.bundle_name(number)},
                "message": format!("{} is too old", self.bundle_name(number)),
            })
        });
        (old > 0).then(|| {
            json!({
                "schema": "olm.deprecations", "package": self.name,
                "entries": entries.collect::<Vec<_>>(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_as_many_bundles_as_asked_for() {
        for bundles in [0, 1, 19, 20, 1000] {
            let all: usize = packages(bundles, 0).map(|one| one.versions.len()).sum();
            assert_eq!(all, bundles);
        }
    }

    #[test]
    fn the_catalog_of_the_benchmarks_takes_130_megabytes() {
        let sample: Vec<_> = packages(BUNDLES, BUNDLE_BYTES).collect();
        assert_eq!(sample[0].versions.len(), 350);
        let (_, file) = sample[100].file();
        let per_bundle = file.len() / sample[100].versions.len();
        let all = per_bundle * BUNDLES / 1_000_000;
        assert!((125..140).contains(&all), "{all} MB");
    }

    #[test]
    fn it_is_always_the_same() {
        let lines = |_| packages(50, 2_000).flat_map(|one| one.lines()).collect::<Vec<_>>();
        assert_eq!(lines(0), lines(1));
    }
}
