//! Texts of the `Installed` and `Progressing` conditions that no other module defines.
//!
//! Rows are those of api.md 4.4. The text of a failure is the `Display` of its error.

use olm_api::keys::policy;

/// `Installed` is false.
pub const NOTHING_INSTALLED: &str = "No bundle installed";

/// `Progressing` while reading what is installed fails (row 8).
pub const READING_INSTALLED: &str = "retrying to get installed bundle";

/// `Paused`, and why a newer version is not taken (applying.md 10).
pub fn paused() -> String {
    format!("nothing is applied until annotation {} is removed", policy::PAUSED)
}

/// Why a newer version is not taken after a rollback (applying.md 10).
pub fn rolled_back() -> String {
    format!("updates wait until annotation {} is removed", policy::ROLLBACK_TO)
}

/// What can be done about objects that nobody controls (applying.md 2.4).
pub fn adoptable() -> String {
    format!(
        "what has no owner, because it was restored from a backup or made by hand, is taken over with \
         annotation {}: all, and belongs to the extension from then on",
        policy::ADOPT
    )
}

/// What can be done about objects of somebody else; a revision is named as its extension.
pub fn owned_by(kind: &str, name: &str) -> String {
    let owner = match name.rsplit_once('-') {
        Some((extension, _)) if kind == "ClusterObjectSet" => {
            format!("ClusterExtension {extension}")
        }
        _ => format!("{kind} {name}"),
    };
    format!(
        "{owner} has objects that this bundle has as well, and an object has one owner: remove this          extension, or what owns the objects"
    )
}

/// `Installed` is true.
pub fn installed(image: &str) -> String {
    format!("Installed bundle {image} successfully")
}
