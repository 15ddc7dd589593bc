//! The memory of an extension's pulls: the Secrets they use, and failures.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use olm_api::ClusterCatalog;
use olm_api::keys::policy;
use olm_core::extension::KnownCatalog;
use olm_core::resolve::Resolution;

use crate::by_key::ByKey;

/// The name of a Secret by the image it is for.
type Secrets = BTreeMap<String, String>;

/// The memory of pulls, by extension.
#[derive(Debug, Default)]
pub(super) struct PullState {
    secrets: ByKey<Secrets>,
    /// Version of credentials and files that the pull under way began with.
    begun: ByKey<u64>,
    /// Version of credentials and files that the last pull failed with.
    failed: ByKey<u64>,
}

impl PullState {
    /// Remembers which Secrets the catalogs name for the bundles they offer.
    pub(super) fn note_secrets(&self, extension: &str, secrets: Secrets) {
        self.secrets.put(extension, (!secrets.is_empty()).then_some(secrets));
    }

    /// Returns the Secret that the catalog of a bundle names.
    pub(super) fn secret(&self, extension: &str, image: &str) -> Option<String> {
        self.secrets.lock().get(extension)?.get(image).cloned()
    }

    /// Remembers that a pull began with this version of credentials and files, unless one is under
    /// way.
    pub(super) fn begin(&self, extension: &str, version: u64) {
        self.begun.lock().entry(extension.to_owned()).or_insert(version);
    }

    /// Remembers how the pull ended that had begun.
    pub(super) fn end(&self, extension: &str, failed: bool) {
        self.failed.put(extension, self.begun.put(extension, None).filter(|_| failed));
    }

    /// Returns those of the `wanted` extensions whose pull failed with another version of credentials and
    /// files, each once: what fails again has to fail with a pull of its own.
    pub(super) fn mended(&self, version: u64, wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let mut failed = self.failed.lock();
        let mended = failed.extract_if(|name, with| wanted(name) && *with != version);
        mended.map(|(name, _)| name).collect()
    }

    /// Drops what is remembered of an extension that is gone.
    pub(super) fn forget(&self, extension: &str) {
        let Self { secrets, begun, failed } = self;
        secrets.put(extension, None);
        begun.put(extension, None);
        failed.put(extension, None);
    }
}

/// Returns the Secret for each bundle image that a catalog with a pull secret offers: the catalog
/// that was chosen decides about the chosen bundle, else the first by name.
pub(super) fn secrets(
    (listed, known): (&[ClusterCatalog], &[KnownCatalog]),
    package: &str,
    resolution: &Resolution<'_>,
) -> Secrets {
    let named = |catalog: &str| {
        let mut listed = listed.iter().filter(|it| it.name_any() == catalog);
        listed.next()?.annotations().get(policy::PULL_SECRET).cloned()
    };
    let mut secrets = Secrets::new();
    let asked = |name: &str| resolution.catalogs.iter().any(|it| it.name == name);
    for catalog in known.iter().filter(|catalog| asked(catalog.name())) {
        let (Some(secret), Some(package)) = (named(catalog.name()), catalog.package(package))
        else {
            continue;
        };
        for bundle in &package.bundles {
            secrets.entry(bundle.image.clone()).or_insert_with(|| secret.clone());
        }
    }
    if let Ok(chosen) = &resolution.result {
        let image = &chosen.bundle.image;
        match named(chosen.catalog) {
            Some(secret) => drop(secrets.insert(image.clone(), secret)),
            None => drop(secrets.remove(image)),
        }
    }
    secrets
}

#[cfg(test)]
mod tests {
    use super::*;

    // deploying.md 3.2
    #[test]
    fn only_pulls_that_failed_with_something_else_are_mended() {
        let state = PullState::default();
        let pull = |extension, version, failed| {
            state.begin(extension, version);
            state.end(extension, failed);
        };
        pull("failed", 1, true);
        pull("went", 1, true);
        pull("went", 1, false);
        let mended = |version| state.mended(version, |_| true);
        assert_eq!(mended(1), [""; 0]);
        assert_eq!(mended(2), ["failed"]);
        assert_eq!(mended(2), [""; 0]);
        // A pull goes on with what it began with, however often it is looked at.
        state.begin("failed", 2);
        state.begin("failed", 3);
        state.end("failed", true);
        assert_eq!(mended(2), [""; 0]);
        pull("other", 2, true);
        // Whoever asks for one leaves the others.
        assert_eq!(state.mended(3, |name| name == "other"), ["other"]);
        assert_eq!(mended(3), ["failed"]);
        pull("failed", 3, true);
        state.forget("failed");
        assert_eq!(mended(4), [""; 0]);
    }

    #[test]
    fn a_secret_is_for_one_image_of_one_extension() {
        let state = PullState::default();
        let secrets = Secrets::from([("h.io/a".to_owned(), "s".to_owned())]);
        state.note_secrets("e", secrets);
        assert_eq!(state.secret("e", "h.io/a").as_deref(), Some("s"));
        assert_eq!(state.secret("e", "h.io/b"), None);
        assert_eq!(state.secret("f", "h.io/a"), None);
        state.note_secrets("e", Secrets::new());
        assert_eq!(state.secret("e", "h.io/a"), None);
    }
}
