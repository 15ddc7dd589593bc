//! What several say of a `ClusterExtension`.

use olm_api::conditions::{Reason, types};

use super::Statement;

pub mod text;

/// `Paused` is true: the annotation is set.
pub fn paused() -> Statement {
    Statement::yes(types::PAUSED, Reason::Paused, text::paused())
}
