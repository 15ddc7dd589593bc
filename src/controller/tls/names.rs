//! Names of suites and curves: Go's, which are IANA's, and OpenSSL's, which OpenShift writes.

use rustls::{CipherSuite, NamedGroup};

/// The meaning of the name of a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Suite {
    Tls12(CipherSuite),
    /// One of TLS 1.3, which are always there.
    Tls13,
    /// One that Go has and rustls has not.
    Lacking,
}

/// Suites of TLS 1.2 with the names that OpenSSL has for them; Go has those of rustls.
pub(super) const TLS12: [(CipherSuite, &str); 6] = [
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "ECDHE-ECDSA-AES128-GCM-SHA256"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "ECDHE-RSA-AES128-GCM-SHA256"),
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, "ECDHE-ECDSA-AES256-GCM-SHA384"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, "ECDHE-RSA-AES256-GCM-SHA384"),
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-ECDSA-CHACHA20-POLY1305"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-RSA-CHACHA20-POLY1305"),
];

/// Suites of TLS 1.3, as both name them.
const TLS13: [&str; 3] =
    ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];

/// The other suites of Go 1.26.
pub(super) const LACKING: [&str; 16] = [
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
];

/// Curves of Go, in any case of letters, as OpenShift spells some otherwise. Nothing stands for
/// those that rustls has not.
const GROUPS: [(&str, Option<NamedGroup>); 8] = [
    ("X25519MLKEM768", Some(NamedGroup::X25519MLKEM768)),
    ("SecP256r1MLKEM768", Some(NamedGroup::secp256r1MLKEM768)),
    ("X25519", Some(NamedGroup::X25519)),
    ("prime256v1", Some(NamedGroup::secp256r1)),
    ("secp256r1", Some(NamedGroup::secp256r1)),
    ("secp384r1", Some(NamedGroup::secp384r1)),
    ("secp521r1", None),
    ("SecP384r1MLKEM1024", None),
];

/// Takes the name of a suite that Go has, or nothing.
pub fn cipher(name: &str) -> Result<String, String> {
    let known = name.is_empty() || suite(name).is_some_and(|_| name.starts_with("TLS_"));
    known.then(|| name.to_owned()).ok_or_else(|| format!("unknown cipher {name:?}"))
}

/// Takes the name of a curve that Go has, or nothing.
pub fn curve(name: &str) -> Result<String, String> {
    let known = name.is_empty() || GROUPS.iter().any(|(one, _)| *one == name);
    let known = known.then(|| name.to_owned());
    known.ok_or_else(|| {
        let names = GROUPS.map(|(one, _)| one).join(", ");
        format!("unknown curve {name:?}; known are {names}")
    })
}

pub(super) fn suite(name: &str) -> Option<Suite> {
    let is_named =
        |(suite, openssl): &&(CipherSuite, &str)| *openssl == name || suite.as_str() == Some(name);
    if let Some((suite, _)) = TLS12.iter().find(is_named) {
        return Some(Suite::Tls12(*suite));
    }
    let lacking = LACKING.contains(&name).then_some(Suite::Lacking);
    TLS13.contains(&name).then_some(Suite::Tls13).or(lacking)
}

pub(super) fn group(name: &str) -> Option<NamedGroup> {
    GROUPS.iter().find(|(one, _)| one.eq_ignore_ascii_case(name)).and_then(|(_, group)| *group)
}
