//! Texts of the `Installed` and `Progressing` conditions that no other module defines.
//!
//! Rows are those of api.md 4.4. The text of a failure is the `Display` of its error.

use olm_api::keys::policy;

/// `Installed` is false.
pub const NOTHING_INSTALLED: &str = "No bundle installed";

/// `Installed` is unknown: another installer may have installed it, and its status does not tell.
pub const NOT_TAKEN_OVER: &str =
    "unknown until the installation of the previous controller has been taken over";

/// `Progressing` while reading the installed revision fails (row 8).
pub const READING_INSTALLED: &str = "retrying to get installed bundle";

/// `Paused`, and why a newer version is not installed (applying.md 10).
pub fn paused() -> String {
    format!("nothing is applied until annotation {} is removed", policy::PAUSED)
}

/// Why a newer version is not installed after a rollback (applying.md 10).
pub fn rolled_back() -> String {
    format!("updates wait until annotation {} is removed", policy::ROLLBACK_TO)
}

/// How to take over objects without a controlling owner (applying.md 2.4).
pub fn adoptable() -> String {
    format!(
        "objects without an owner, restored from a backup or created manually, are taken over with \
         annotation {}: all, and belong to the extension from then on",
        policy::ADOPT
    )
}

/// What happens to objects that an archived revision still owns.
pub fn still_removed(name: &str) -> String {
    format!(
        "ClusterObjectSet {name} is archived and still removes objects that this bundle also contains: \
         they are created again once they are gone"
    )
}

/// What to do about objects that have another owner. `revision` collides; another one is named as its
/// extension, unless that has the same name: then it is not, or no longer, a revision of this one.
pub fn owned_by(revision: &str, kind: &str, name: &str) -> String {
    let extension = |name| str::rsplit_once(name, '-').map(|(extension, _)| extension);
    let owner = match extension(name).filter(|_| kind == "ClusterObjectSet") {
        found @ Some(_) if found == extension(revision) => {
            return format!(
                "ClusterObjectSet {name} owns objects that this bundle also contains, and does not \
                 count as a revision of this extension: kubectl delete clusterobjectset {name} \
                 --cascade=orphan releases them, and annotation {}: all then has them taken over",
                policy::ADOPT
            );
        }
        Some(extension) => format!("ClusterExtension {extension}"),
        None => format!("{kind} {name}"),
    };
    format!(
        "{owner} owns objects that this bundle also contains, and an object can have only one \
         owner: remove this extension, or the owner of the objects"
    )
}

/// `Installed` is true.
pub fn installed(image: &str) -> String {
    format!("Installed bundle {image} successfully")
}
