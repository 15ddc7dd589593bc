//! Reads a cluster, for the controller and the plugin: both decide by what they read alike.
//!
//! In goes a client, whose rights decide what may be read; out comes what the API server has, in the
//! form that `olm_core` decides by. Nothing is written, and nothing is kept. [`connection()`] finds how the
//! cluster is reached.

mod connection;
mod content;
mod crds;
mod discovery;
mod error;
mod platform;
mod readable;
mod request;
mod reviews;

pub use connection::{ConnectionError, connection, read_kubeconfig, without_secrets};
pub use content::{
    Content, RefCause, RefError, ResolvedObject, ResolvedPhase, Secrets, content, read_secrets,
    resolve, stored_object,
};
pub use crds::{Unread, crds, empty, judged, leaving};
pub use discovery::{built_in_kinds, classic_providers, installed, kinds, left_version};
pub use error::{ApiError, code, message};
pub use platform::{copied_pull_secrets, operator_condition, proxies, requires_approval};
pub use readable::{Readable, readable};
pub use request::{get, join_bounded, read};
pub use reviews::reviews;
