//! Content digests: hashes that identify content.
//!
//! In: text such as `sha256:<64 hex>`, or bytes. Out: a [`Digest`] that is known to be well formed.
//! Only SHA-256 and SHA-512 are supported, as in the image specification; a reference with another
//! algorithm is refused.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest;
use olm_core::revision::hex;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    Sha256,
    Sha512,
}

impl Algorithm {
    /// Returns the name as written before the colon.
    fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    fn hex_len(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }
}

/// A content digest, for example `sha256:e3b0c442...`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest {
    algorithm: Algorithm,
    hex: String,
}

/// Why text is not a digest.
///
/// Source: go-digest v1.0 `algorithm.go`, `digest.go` (the texts upstream shows).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// It does not have the form `algorithm:hex`.
    #[error("invalid checksum digest format")]
    Format,
    #[error("unsupported digest algorithm")]
    Algorithm,
    #[error("invalid checksum digest length")]
    Length,
}

impl Digest {
    pub fn sha256(bytes: &[u8]) -> Self {
        Self::of(Algorithm::Sha256, bytes)
    }

    pub fn of(algorithm: Algorithm, bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new(algorithm);
        hasher.update(bytes);
        hasher.finish()
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the lower-case hexadecimal part.
    pub fn hex(&self) -> &str {
        &self.hex
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let (name, hex) = text.split_once(':').ok_or(DigestError::Format)?;
        let algorithm = match name {
            "sha256" => Algorithm::Sha256,
            "sha512" => Algorithm::Sha512,
            _ => return Err(DigestError::Algorithm),
        };
        if hex.len() != algorithm.hex_len() {
            return Err(DigestError::Length);
        }
        // Upper-case digits are refused as go-digest does: one digest, one spelling.
        if !hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(DigestError::Format);
        }
        Ok(Self { algorithm, hex: hex.to_owned() })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name(), self.hex)
    }
}

/// Hashes bytes while they are streamed.
#[derive(Clone)]
pub struct Hasher {
    algorithm: Algorithm,
    context: digest::Context,
}

impl Hasher {
    pub fn new(algorithm: Algorithm) -> Self {
        let context = digest::Context::new(match algorithm {
            Algorithm::Sha256 => &digest::SHA256,
            Algorithm::Sha512 => &digest::SHA512,
        });
        Self { algorithm, context }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.context.update(bytes);
    }

    pub fn finish(self) -> Digest {
        Digest { algorithm: self.algorithm, hex: hex(self.context.finish().as_ref()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cases;

    #[test]
    fn empty_content_has_the_well_known_digest() {
        assert_eq!(
            Digest::sha256(b"").to_string(),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[test]
    fn malformed_digests_are_refused() {
        for (text, want) in cases::<(String, String)>("malformed_digests_are_refused") {
            assert_eq!(text.parse::<Digest>().unwrap_err().to_string(), want, "{text}");
        }
    }

    #[test]
    fn sha512_round_trips() {
        let digest = Digest::of(Algorithm::Sha512, b"x");
        assert_eq!(digest.to_string().parse(), Ok(digest));
    }
}
