//! OCI images: from a reference to unpacked files.

mod archive;
pub mod auth;
pub mod digest;
pub mod files;
pub mod layer;
pub mod limits;
pub mod policy;
pub mod reference;
pub mod registries;
mod shown;
mod tree;
pub mod unpack;
