//! Texts of the `Installed` and `Progressing` conditions that no other module owns.
//!
//! Rows are those of api.md 4.4. Texts of resolution, rendering, pulling and the CRD check stand
//! with the errors of those modules.

use olm_api::keys::policy;

use crate::error::quote;

/// `Installed` is false (rows 13 to 37).
pub const NOTHING_INSTALLED: &str = "No bundle installed";

/// `Progressing` while it cannot be read what is installed (row 8).
pub const READING_INSTALLED: &str = "retrying to get installed bundle";

/// `Paused`, and why a newer version is not taken (applying.md 10).
pub fn paused() -> String {
    format!(
        "nothing is applied until annotation {} is removed",
        policy::PAUSED
    )
}

/// `Ready`, where the extension asks for the check of CRDs.
pub const CRD_UPGRADE_SAFETY_UNCHECKED: &str = "spec.install.preflight.crdUpgradeSafety.enforcement is Strict, but this version does not \
     check upgrades of CRDs: compare them before you upgrade, or pin spec.source.catalog.version";

/// The object has no spec (row 2).
pub const SPEC_REQUIRED: &str = "spec is required";

/// No account is named, and there is no default one (row 4). Goes into [`validation`].
pub const NO_SERVICE_ACCOUNT: &str = "spec.serviceAccount.name is not set and no default service \
    account is configured: set spec.serviceAccount.name, or start the controller with \
    --default-service-account=<namespace>/<name>";

/// `Installed` is true.
pub fn installed(image: &str) -> String {
    format!("Installed bundle {image} successfully")
}

/// Puts what validation found, joined by newlines, behind its prefix (rows 4, 6 and 7).
pub fn validation(errors: &[String]) -> String {
    format!(
        "operation cannot proceed due to the following validation error(s): {}",
        errors.join("\n")
    )
}

/// The account that is named does not exist (row 6); nor does its namespace (row 7). Goes into
/// [`validation`].
pub fn account_not_found(name: &str, namespace: &str, namespace_exists: bool) -> String {
    let text = format!(
        "service account {} not found in namespace {}",
        quote(name),
        quote(namespace)
    );
    if namespace_exists {
        return text;
    }
    format!("{text}: namespace {} does not exist", quote(namespace))
}

/// The account could not be looked up. Goes into [`validation`].
pub fn account_error(error: &str) -> String {
    format!("error getting service account: {error}")
}

/// A finalizer could not be worked off (row 3).
pub fn finalizer_failed(name: &str, error: &str) -> String {
    format!("finalizer {} failed: {error}", quote(name))
}

/// A Helm release could not be taken over (row 9).
pub fn migration_failed(error: &str) -> String {
    format!("migrating storage: {error}")
}

/// The name of the extension leaves no room for revision names (row 10).
pub fn name_too_long(revision: &str) -> String {
    format!(
        "metadata.name is too long: revision name {} must be no more than 63 characters",
        quote(revision)
    )
}

/// The catalog selector cannot be used (row 11).
pub fn invalid_selector(error: &str) -> String {
    format!("desired catalog selector is invalid: {error}")
}

/// The version passes the schema but is no range (row 12).
pub fn invalid_range(version: &str, error: &str) -> String {
    format!(
        "desired version range {} is invalid: {error}",
        quote(version)
    )
}

/// An error after a bundle was chosen (rows 23 to 30).
pub fn resolved_bundle(name: &str, version: &str, error: &str) -> String {
    format!(
        "error for resolved bundle {} with version {}: {error}",
        quote(name),
        quote(version)
    )
}

/// The content cannot be had and there is no revision to keep (applying.md 1.3).
pub const NO_CONTENT: &str = "catalog content unavailable and no revision installed";
