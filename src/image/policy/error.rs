//! Why the signature policy lets an image not be pulled.

use std::io;
use std::path::PathBuf;

use olm_core::error::quote;

use crate::sigstore::SignatureError;

/// Most signatures whose refusal is told.
const TOLD: usize = 4;

/// Why an image may not be pulled.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The file exists and cannot be read; every image is refused until it can.
    #[error("reading signature policy {}", quote(&path.display().to_string()))]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The file is not a valid policy; every image is refused until it is.
    #[error("invalid signature policy {}: {message}", quote(&path.display().to_string()))]
    Invalid {
        /// Path of the file.
        path: PathBuf,
        /// Position and reason.
        message: String,
    },
    /// A file that the policy names cannot be read.
    #[error("reading {}, which the signature policy names", quote(&path.display().to_string()))]
    ReadKey {
        /// Path of the file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A key or certificate cannot be used.
    #[error("a key or certificate of the signature policy is invalid, {}: {reason}", quote(&path.display().to_string()))]
    Key {
        /// Path of the file with the key, or of the policy.
        path: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
    /// The policy says `reject`; holds the image.
    #[error("Source image rejected: Running image docker://{0} is rejected by policy.")]
    Rejected(String),
    /// The policy requires a signature of a kind that is not verified here.
    #[error(
        "Source image rejected: the policy for docker://{image} requires {}, which is not verified \
         here: sign it with cosign and set sigstoreSigned for {scope} in policy.json, or name another \
         image",
        quote(requirement)
    )]
    Unsupported {
        /// Reference of the image.
        image: String,
        /// Scope of the policy.
        scope: String,
        /// Type of the requirement, for example `signedBy`.
        requirement: &'static str,
    },
    /// The image is not signed.
    #[error(
        "Source image rejected: docker://{image} is not signed, and policy.json requires a signature \
         for {scope}: sign it with cosign (an image for several platforms with --recursive), or name \
         another image"
    )]
    Unsigned {
        /// Reference of the image.
        image: String,
        /// Scope of the policy.
        scope: String,
    },
    /// No signature was looked for.
    #[error(
        "Source image rejected: policy.json requires a signature of docker://{image} for {scope}, and \
         no file of {} enables signatures for {place}: set use-sigstore-attachments: true for it there",
        quote(&registries.display().to_string())
    )]
    NotLooked {
        /// Reference of the image.
        image: String,
        /// Scope of the policy.
        scope: String,
        /// Repository that was asked.
        place: String,
        /// Path of `registries.d`.
        registries: PathBuf,
    },
    /// The image is signed, and no signature counts.
    #[error(
        "Source image rejected: docker://{image} is signed, and policy.json accepts none of its \
         signatures for {scope}: {}",
        told(refused)
    )]
    Untrusted {
        /// Reference of the image.
        image: String,
        /// Scope of the policy.
        scope: String,
        /// Why, for each signature.
        refused: Vec<SignatureError>,
    },
}

impl PolicyError {
    /// Says whether only a change of the policy or of the reference can help. A signature may be
    /// added to an image at any time.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Rejected(_) | Self::Unsupported { .. } => true,
            Self::Read { .. }
            | Self::Invalid { .. }
            | Self::ReadKey { .. }
            | Self::Key { .. }
            | Self::Unsigned { .. }
            | Self::NotLooked { .. }
            | Self::Untrusted { .. } => false,
        }
    }
}

fn told(refused: &[SignatureError]) -> String {
    let numbered = refused.iter().enumerate().take(TOLD);
    let mut told: Vec<String> = match refused {
        [only] => vec![only.to_string()],
        _ => numbered.map(|(index, why)| format!("signature {}: {why}", index + 1)).collect(),
    };
    if refused.len() > TOLD {
        told.push(format!("and {} more", refused.len() - TOLD));
    }
    let mut text = told.join("; ");
    if let Some(first) = refused.first() {
        text = format!("{text}; {}", first.remedy());
    }
    text
}
