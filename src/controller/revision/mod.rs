//! Revisions as objects on the cluster: listed, written with their content, read back, deleted.
//!
//! ClusterObjectSets and the Secrets with their content are our own; everything here is done with
//! the controller's client. What a revision installs is written by [`crate::apply`].

mod content;
mod crds;
mod delete;
mod error;
mod garbage;
mod kept;
mod known;
mod list;
mod write;

pub use content::{mutable, salvage};
pub use crds::controlled_crds;
pub(crate) use delete::delete_revision;
pub use delete::{Teardown, teardown_extension};
pub use error::WriteError;
pub use garbage::{collect_orphaned_secrets, remove_unowned_content};
pub use kept::KeptContents;
pub use known::{Feed, KnownRevisions};
pub use list::{known_siblings, known_strangers, labelled_in, list_siblings};
pub use write::{mark_orphaned, newest};
