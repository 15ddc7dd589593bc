//! Why the signature policy lets an image not be pulled.

use crate::folder::FileError;
use crate::sigstore::SignatureError;

/// Most signatures whose refusal is told.
const TOLD: usize = 4;

#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The policy exists and cannot be read, or a file that it names: every image is refused until it
    /// can.
    #[error(transparent)]
    Read(#[from] FileError),
    /// The policy, or a key or certificate that it names, cannot be used.
    #[error("{0}")]
    Invalid(String),
    /// Only a change of the policy or of the reference can help.
    #[error("Source image rejected: {0}")]
    Rejected(String),
    /// No signature counts. One may be added to an image at any time.
    #[error("Source image rejected: {0}")]
    Unsigned(String),
}

impl PolicyError {
    /// Returns whether only a change of the policy or of the reference can help.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Rejected(_))
    }
}

/// Tells why none of several signatures counts.
pub(super) fn told(refused: &[SignatureError]) -> String {
    let numbered = refused.iter().enumerate().take(TOLD);
    let mut told: Vec<String> = match refused {
        [only] => vec![only.to_string()],
        _ => numbered.map(|(index, why)| format!("signature {}: {why}", index + 1)).collect(),
    };
    if refused.len() > TOLD {
        told.push(format!("and {} more", refused.len() - TOLD));
    }
    told.extend(refused.first().map(|first| first.remedy.to_owned()));
    told.join("; ")
}
