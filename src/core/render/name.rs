//! Names of generated objects, equal to upstream's byte by byte.
//!
//! Source: rendering.md 4.2.

use sha2::{Digest as _, Sha224};

use crate::bundle::Permission;
use crate::go_json;

/// Longest name whose first part was cut, in bytes.
const MAX_NAME_BYTES: usize = 63;

/// Joins two parts with a dash, cutting the first one if they are longer than 63 bytes together.
///
/// A cut part keeps whatever character it then ends with. When both lengths add up to exactly 63
/// nothing is cut and the result has 64 bytes, as upstream; only names that RBAC accepts at that
/// length may be made with it.
///
/// Example: `("foo.v1.0.0-my-sa", "1lu1q")` gives `foo.v1.0.0-my-sa-1lu1q`.
pub fn unique(base: &str, suffix: &str) -> String {
    joined(base, suffix, MAX_NAME_BYTES)
}

/// Returns the name of the Service in front of the webhooks of a deployment: at most 63 bytes, the
/// limit for names of Services (rendering.md R4).
pub(crate) fn service_name(deployment: &str) -> String {
    joined(&deployment.replace('.', "-"), "service", MAX_NAME_BYTES - 1)
}

/// Returns the name of a webhook Service's certificate and of the Secret that holds it.
pub(crate) fn certificate_name(service: &str) -> String {
    unique(service, "cert")
}

/// Returns the name of the cert-manager Issuer of a certificate.
pub(super) fn issuer_name(certificate: &str) -> String {
    unique(certificate, "selfsigned-issuer")
}

/// Joins two parts, cutting the first if they have more than `uncut` bytes together.
fn joined(base: &str, suffix: &str, uncut: usize) -> String {
    let end = if base.len() + suffix.len() > uncut {
        MAX_NAME_BYTES.saturating_sub(suffix.len() + 1)
    } else {
        base.len()
    };
    // Go cuts bytes; this cuts at the start of a character, which only differs where upstream's
    // name would not be valid UTF-8.
    let end = (0..=end.min(base.len())).rev().find(|&end| base.is_char_boundary(end)).unwrap_or(0);
    format!("{}-{suffix}", &base[..end])
}

/// Hashes a JSON text: SHA-224 over it and a newline, as a number in base 36.
///
/// Example: `null` gives `2im0kl1kwvzn46sr4cdtkvmdzrlurvj51xdzhwdht8l0`.
pub fn hash(json: &str) -> String {
    let mut hasher = Sha224::new();
    hasher.update(json.as_bytes());
    hasher.update(b"\n");
    base36(&hasher.finalize())
}

/// Returns the name of the role and binding of a permission.
pub(super) fn role_name(csv_name: &str, permission: &Permission) -> String {
    let base = format!("{csv_name}-{}", permission.service_account());
    unique(&base, &hash(&permission_json(permission)))
}

/// Writes a permission as Go does.
fn permission_json(permission: &Permission) -> String {
    #[expect(clippy::expect_used, reason = "lists of texts are JSON")]
    let json = serde_json::to_string(permission).expect("JSON");
    let mut out = String::new();
    go_json::push_compact(&mut out, &json);
    out
}

/// Writes a big-endian number in base 36 without leading zeros.
fn base36(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut number = bytes.to_vec();
    let mut digits = Vec::new();
    while number.iter().any(|&byte| byte != 0) {
        let mut remainder = 0_u32;
        for byte in &mut number {
            let value = remainder * 256 + u32::from(*byte);
            // A remainder below 36 leaves a quotient below 256.
            *byte = u8::try_from(value / 36).unwrap_or(u8::MAX);
            remainder = value % 36;
        }
        digits.push(DIGITS[remainder as usize]);
    }
    if digits.is_empty() {
        return "0".to_owned();
    }
    digits.iter().rev().map(|&digit| char::from(digit)).collect()
}
