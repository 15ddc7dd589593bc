//! The bundle a revision is made of, as its annotations record it.

use std::collections::BTreeMap;

use olm_api::ClusterObjectSet;
use olm_api::keys::annotation;

use super::provider::recorded_constraints;
use crate::resolve::{Installed, Selected};
use crate::version::VersionRelease;

/// A bundle a revision is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleRecord {
    /// Its name in the catalog.
    pub name: String,
    pub package: String,
    /// Its version as recorded.
    pub version: String,
    /// Its release; empty means explicitly none.
    pub release: Option<String>,
    /// Its image as the catalog writes it.
    pub image: String,
    /// Its constraints as its revision records them, if it has any.
    pub constraints: Option<String>,
}

#[cfg(test)]
impl BundleRecord {
    /// A bundle of package `p`, for unit tests.
    pub(crate) fn example(version: &str) -> Self {
        Self {
            name: format!("p.v{version}"),
            package: "p".to_owned(),
            version: version.to_owned(),
            release: None,
            image: format!("r/p@sha256:{version}"),
            constraints: None,
        }
    }
}

impl BundleRecord {
    /// Reads the bundle a revision was made of from its annotations.
    pub fn of(revision: &ClusterObjectSet) -> Self {
        let recorded = |key: &str| revision.annotation(key).map(str::to_owned);
        let text = |key: &str| recorded(key).unwrap_or_default();
        Self {
            name: text(annotation::BUNDLE_NAME),
            package: text(annotation::PACKAGE_NAME),
            version: text(annotation::BUNDLE_VERSION),
            release: recorded(annotation::BUNDLE_RELEASE),
            image: text(annotation::BUNDLE_REFERENCE),
            constraints: recorded(annotation::BUNDLE_CONSTRAINTS),
        }
    }

    /// Returns the bundle that resolution chose.
    pub fn selected(selected: &Selected<'_>, package: &str, release_support: bool) -> Self {
        // Without the gate the release is recorded where upstream looks for it: behind the version.
        let (version, release) = if release_support {
            let release = selected.version.release.as_ref();
            let version = selected.version.version.to_string();
            (version, Some(release.map(ToString::to_string).unwrap_or_default()))
        } else {
            (selected.version.recorded(), None)
        };
        Self {
            name: selected.bundle.name.clone(),
            package: package.to_owned(),
            version,
            release,
            image: selected.bundle.image.clone(),
            constraints: recorded_constraints(selected.bundle),
        }
    }

    /// Says whether both are the same bundle, whatever their images.
    pub fn is_same_bundle(&self, other: &Self) -> bool {
        (&self.name, &self.version, &self.release) == (&other.name, &other.version, &other.release)
    }

    /// Returns what resolution has to know of the bundle when it is installed.
    pub fn as_installed(&self) -> Installed {
        Installed {
            name: self.name.clone(),
            version: self.version.clone(),
            release: self.release.clone(),
        }
    }

    /// Returns the annotations that record the bundle on a revision.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let all = [
            (annotation::BUNDLE_NAME, Some(&self.name)),
            (annotation::PACKAGE_NAME, Some(&self.package)),
            (annotation::BUNDLE_VERSION, Some(&self.version)),
            (annotation::BUNDLE_REFERENCE, Some(&self.image)),
            (annotation::BUNDLE_RELEASE, self.release.as_ref()),
            (annotation::BUNDLE_CONSTRAINTS, self.constraints.as_ref()),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.clone()))).collect()
    }

    /// Returns the version and release, if they can be read: a release recorded apart selects the
    /// explicit rule.
    pub fn version_release(&self) -> Option<VersionRelease> {
        self.as_installed().parse().ok()
    }
}

/// Returns the generation of the extension that a revision was made for.
pub fn recorded_generation(revision: &ClusterObjectSet) -> Option<i64> {
    revision.annotation(annotation::EXTENSION_GENERATION)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use olm_api::ClusterObjectSetSpec;

    use super::*;

    #[test]
    fn the_recorded_bundle_survives_a_round_trip() {
        let record = BundleRecord {
            release: Some(String::new()),
            constraints: Some("[]".into()),
            ..BundleRecord::example("1.0.0")
        };
        let mut revision = ClusterObjectSet::new("e-1", ClusterObjectSetSpec::default());
        revision.metadata.annotations = Some(record.annotations());
        assert_eq!(BundleRecord::of(&revision), record);
    }
}
