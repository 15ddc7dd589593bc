//! Texts about a `ClusterExtension` that more than one module uses, and its condition `Paused`.

use olm_api::conditions::{Reason, types};

use super::Statement;

pub mod text;

/// `Paused` is true: the annotation is set.
pub fn paused() -> Statement {
    Statement::yes(types::PAUSED, Reason::Paused, text::paused())
}
