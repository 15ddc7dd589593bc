//! Public keys, and what they signed.

use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P521_SHA256_ASN1, ED25519,
    ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, VerificationAlgorithm,
};
use rustls_pki_types::pem::{PemObject as _, SectionKind};

/// With which a key may sign: whatever the curve, of the SHA-256 of the content.
const ECDSA: [&dyn VerificationAlgorithm; 3] =
    [&ECDSA_P256_SHA256_ASN1, &ECDSA_P384_SHA256_ASN1, &ECDSA_P521_SHA256_ASN1];
const OTHERS: [&dyn VerificationAlgorithm; 2] = [&RSA_PKCS1_2048_8192_SHA256, &ED25519];

#[derive(Debug, Clone)]
pub(crate) struct PublicKey {
    key: ParsedPublicKey,
    der: Vec<u8>,
    is_ecdsa: bool,
}

impl PublicKey {
    /// Reads the public key with which a PEM text begins.
    pub(crate) fn from_pem(pem: &[u8]) -> Result<Self, &'static str> {
        match <(SectionKind, Vec<u8>)>::from_pem_slice(pem) {
            Ok((SectionKind::PublicKey, info)) => {
                Self::from_der(&info).ok_or("its key is not an ECDSA, RSA or Ed25519 key")
            }
            _ => Err("it does not begin with a PUBLIC KEY in PEM"),
        }
    }

    pub(crate) fn from_der(info: &[u8]) -> Option<Self> {
        let read = |algorithm: &&'static dyn VerificationAlgorithm| {
            ParsedPublicKey::new(*algorithm, info).ok()
        };
        let ecdsa = ECDSA.iter().find_map(read);
        let is_ecdsa = ecdsa.is_some();
        let key = ecdsa.or_else(|| OTHERS.iter().find_map(read))?;
        let der: PublicKeyX509Der<'_> = key.as_der().ok()?;
        let der = der.as_ref().to_vec();
        Some(Self { key, der, is_ecdsa })
    }

    /// Returns whether it is one of an elliptic curve other than Edwards'.
    pub(crate) fn is_ecdsa(&self) -> bool {
        self.is_ecdsa
    }

    pub(crate) fn der(&self) -> &[u8] {
        &self.der
    }

    /// Returns whether it signed this content.
    pub(crate) fn signed(&self, content: &[u8], signature: &[u8]) -> bool {
        self.key.verify_sig(content, signature).is_ok()
    }
}

/// Reads the sections of a PEM text; `None` if one cannot be read, or if text follows the last one.
pub(super) fn sections(pem: &[u8]) -> Option<Vec<(SectionKind, Vec<u8>)>> {
    let text = pem.trim_ascii_end();
    if !(text.is_empty() || text.ends_with(b"-----")) {
        return None;
    }
    <(SectionKind, Vec<u8>)>::pem_slice_iter(pem).collect::<Result<_, _>>().ok()
}
