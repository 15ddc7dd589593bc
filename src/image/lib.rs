//! OCI images: from a reference to unpacked files.
//!
//! [`mod@reference`] and [`digest`] identify images; [`registries`], [`auth`], [`policy`] and
//! [`trust`] read the machine's configuration, and [`stamp`] says whether it has changed;
//! [`sigstore`] verifies signatures, which [`attachments`] says where to look for;
//! [`keyring`] chooses a credential; [`registry`] talks to one registry; [`pull`] combines them;
//! [`unpack`] turns layers into files inside a virtual tree, within [`limits`]; [`room`] limits what
//! is kept on disk. The rest of the program calls [`catalog::pull_catalog`] and
//! [`bundle::pull_bundle`]. `push`, behind a feature, is for tests and the demo.
//!
//! The environment is read only for the places of configuration and credentials, and for proxies.
//! Nothing from an image is ever created on the machine under a name the image chose. A redirect leaves
//! the host of a registry only for blobs, for manifests that are asked for by digest, and for the
//! question whether an image exists. The program must install a TLS provider before the first pull.

mod archive;
pub mod attachments;
pub mod auth;
pub mod auth_file;
#[cfg(any(test, feature = "push"))]
pub mod built;
pub mod bundle;
pub mod catalog;
mod challenge;
pub mod digest;
pub mod files;
#[cfg(test)]
mod fixture;
mod folder;
pub mod keyring;
pub mod layer;
#[cfg(any(test, feature = "push"))]
pub mod layout;
pub mod limits;
pub mod manifest;
pub mod policy;
pub mod proxies;
pub mod pull;
#[cfg(any(test, feature = "push"))]
pub mod push;
pub mod reference;
pub mod registries;
pub mod registry;
pub mod room;
mod shown;
pub mod sigstore;
pub mod stamp;
mod tree;
pub mod trust;
pub mod unpack;

pub use auth::Credentials;
pub use bundle::{BundleCache, BundleFiles, BundleImage, pull_bundle};
pub use catalog::{CatalogImage, pull_catalog};
pub use digest::Digest;
pub use files::Files;
pub use folder::present;
pub use keyring::{Keyring, Source};
pub use manifest::Platform;
pub use proxies::Proxies;
pub use pull::{PullConfig, PullError, Puller, Resolved};
pub use reference::{ImageRef, ReferenceError};
pub use registries::RegistriesPaths;
pub use room::Room;
pub use stamp::Stamp;
