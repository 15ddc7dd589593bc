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

    /// Returns the extensions whose pull failed with another version of credentials and files, each
    /// once: what fails again has to fail with a pull of its own.
    pub(super) fn mended(&self, version: u64) -> Vec<String> {
        self.failed.lock().extract_if(|_, with| *with != version).map(|(name, _)| name).collect()
    }

    /// The same for one extension.
    pub(super) fn is_mended(&self, extension: &str, version: u64) -> bool {
        let mut failed = self.failed.lock();
        let is_mended = failed.get(extension).is_some_and(|with| *with != version);
        if is_mended {
            failed.remove(extension);
        }
        is_mended
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
        assert_eq!(state.mended(1), [""; 0]);
        assert_eq!(state.mended(2), ["failed"]);
        assert_eq!(state.mended(2), [""; 0]);
        // A pull goes on with what it began with, however often it is looked at.
        state.begin("failed", 2);
        state.begin("failed", 3);
        state.end("failed", true);
        assert_eq!(state.mended(2), [""; 0]);
        assert!(!state.is_mended("failed", 2));
        pull("other", 2, true);
        // Whoever asks for one leaves the others.
        assert!(state.is_mended("other", 3));
        assert!(!state.is_mended("other", 3));
        assert_eq!(state.mended(3), ["failed"]);
        state.forget("failed");
        assert_eq!(state.mended(2), [""; 0]);
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
