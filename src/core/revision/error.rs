//! What can be wrong with a revision.

use std::collections::BTreeMap;

use olm_api::MAX_REVISION;
use olm_api::conditions::Reason;

use crate::error::{Classify, Disposition, quote};
use crate::selector::SelectorError;

use super::{MAX_OBJECT_BYTES, MAX_SECRET_BYTES};

/// The most bytes that keys and values of an object's annotations may have together.
const MAX_ANNOTATION_BYTES: usize = 256 << 10;

/// Fails if the API server would refuse the annotations of a revision.
pub fn check_annotations(annotations: &BTreeMap<String, String>) -> Result<(), RevisionError> {
    let bytes = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > MAX_ANNOTATION_BYTES { Err(RevisionError::Annotations(bytes)) } else { Ok(()) }
}

/// Why a revision cannot be built, stored or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RevisionError {
    /// The objects need more phases than the API allows; the number needed.
    #[error("revision needs {0} phases, at most 20 are allowed")]
    TooManyPhases(usize),
    /// The same object appears twice: the object, and the phases that hold it.
    #[error("{0}: duplicate object found in phases: {1}")]
    Duplicate(String, String),
    /// An object does not fit into a Secret.
    /// `bytes` is its size when compressed.
    #[error(
        "object in phase {phase} index {index} exceeds maximum Secret data size \
         ({bytes} bytes > {MAX_SECRET_BYTES} bytes) even after compression"
    )]
    ObjectTooLarge { phase: usize, index: usize, bytes: usize },
    /// A stored object is larger than the reader accepts.
    /// `secret` is `<namespace>/<name>`.
    #[error(
        "decompressed data for key {} in Secret {secret} exceeds maximum size ({MAX_OBJECT_BYTES} bytes)",
        quote(.key)
    )]
    ContentTooLarge { key: String, secret: String },
    /// A stored object cannot be read.
    /// `secret` is `<namespace>/<name>`.
    #[error("reading key {} in Secret {secret}: {cause}", quote(.key))]
    InvalidContent { key: String, secret: String, cause: String },
    /// A probe has an invalid label selector, here as Go prints it.
    #[error("invalid label selector in progressionProbe ({selector}): {cause}")]
    InvalidProbe { selector: String, cause: SelectorError },
    /// Its annotations are more than the API server takes; their bytes.
    #[error(
        "the annotations of the revision have {0} bytes, at most {MAX_ANNOTATION_BYTES} are allowed: \
         the bundle declares too many properties"
    )]
    Annotations(usize),
    /// The name of the revision does not fit into a label value.
    #[error(
        "metadata.name is too long: revision name {} must be no more than 63 characters",
        quote(.0)
    )]
    NameTooLong(String),
    /// Every number after this one is greater than a revision may have.
    #[error("no revision can follow number {0}: the greatest is {MAX_REVISION}")]
    NoNumber(i64),
}

impl Classify for RevisionError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::TooManyPhases(_)
            | Self::ObjectTooLarge { .. }
            | Self::Annotations(_)
            | Self::NoNumber(_) => Disposition::Terminal(Reason::Blocked),
            Self::NameTooLong(_) => Disposition::Terminal(Reason::InvalidConfiguration),
            // A duplicate comes from rendering, whose errors are retried.
            Self::Duplicate(..)
            | Self::ContentTooLarge { .. }
            | Self::InvalidContent { .. }
            | Self::InvalidProbe { .. } => Disposition::Retry,
        }
    }
}
