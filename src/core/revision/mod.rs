//! Revisions: what a ClusterObjectSet holds, when another is needed, what may be done to an object
//! on the cluster, and what its state means.
//!
//! In: rendered objects, ClusterObjectSets and live objects. Out: phases, content Secrets,
//! decisions and conditions. Nothing here reads or writes a cluster.

mod adopt;
mod error;
mod fixed;
mod identity;
mod leftover;
mod managed;
mod managed_fields;
pub mod number;
mod observed;
mod optional;
mod origin;
mod owner;
mod pack;
mod phase;
mod plan;
mod probe;
mod provider;
mod record;
mod report;
#[cfg(test)]
mod tests;
mod typed;
mod workload;

pub use adopt::{
    Adoption, Claim, Decision, Removal, RevisionOwner, Sibling, belongs_to, controller, has_owner,
    is_retained_for, removal,
};
pub use error::{RevisionError, check_annotations};
pub use fixed::Fixed;
pub use identity::{
    Account, AccountRule, IdentityError, NotNamespaced, namespaced, recorded_account,
};
pub use leftover::{RefusedField, take_leftovers};
pub use managed::{
    desired_object, fingerprint, forbidden_metadata, is_applied, is_unchanged, orphaned, released,
    retained, with_owner,
};
pub use managed_fields::{in_one_version, take_applied_fields, upgrade_managed_fields};
pub use observed::changed;
pub use optional::{OPTIONAL_GROUPS, is_optional_group};
pub use origin::{Origin, changed_by};
pub use owner::{
    Extension, Kin, extension_of, extension_reference, has_finalizer, has_orphan_finalizer,
    is_made_for, is_marked_orphaned, is_orphaned, is_revision, keep_makers, mislabelled,
    orphan_mark, owner_name,
};
pub use pack::{
    ContentRef, ContentSecret, Packed, digest, digest_packed, is_secret_name, pack, unpack,
};
pub use phase::{
    MAX_OBJECTS, MAX_PHASES, Phase, archive_groups, defined_kinds, phase_of, phases,
    reject_duplicates, removal_groups, removal_kinds,
};
pub use plan::{
    Change, Desired, RETENTION, States, build, by_extension, compare, fits_label, has_succeeded,
    is_of_classic, is_rolled_out, namespace_of, needs_patch, next_number, number_after, outdated,
    passed_over, rebuild, referenced_secrets, revision_name, sort, states,
};
pub use probe::{Readiness, built_in, check_probes, evaluate};
pub use provider::{
    CSVS_PATH, asked_uninstall_policies, csv_properties, csv_provider, installed, provider,
    recorded_constraints, recorded_properties, served_kinds,
};
pub use record::{BundleRecord, recorded_generation};
pub(crate) use report::began;
pub use report::{Deadline, Outcome, bundle_version, deadline, is_late, judged_from, statements};
pub use typed::{put_back, without_refused};
pub use workload::{
    MAX_PODS, hindrance, is_unpulled, missing_pods, pod_fault, pod_selector, pods_hint, stalled,
    unmet,
};

/// Most bytes of content in one Secret, and most bytes of one stored object: 900 KiB.
pub const MAX_SECRET_BYTES: usize = 921_600;
/// Most bytes of one object after decompression: 10 MiB.
pub const MAX_OBJECT_BYTES: usize = 10 * 1024 * 1024;

/// Returns the digest of bytes as images and plans have it.
pub fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    format!("sha256:{}", hex(&sha2::Sha256::digest(bytes)))
}

/// Returns `bytes` as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
