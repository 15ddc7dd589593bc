//! What the controller last said of an extension, beside what is decided of it now.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// What the controller says of an extension.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Said {
    /// Reason of condition `Ready`.
    pub reason: String,
    /// Its text, as it stands.
    pub message: String,
    /// What is decided now, where that is something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub differs: Option<Differs>,
}

/// Two decisions about the same extension.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Differs {
    /// When the controller last wrote the status.
    pub at: String,
    /// What it says.
    pub last: String,
    /// What is decided now.
    pub now: String,
}

impl fmt::Display for Differs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, last, now } = self;
        write!(f, "the controller last said ({at}): {last}; now it would be: {now}")
    }
}
