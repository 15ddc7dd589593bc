//! The entry of a Rekor log beside a signature: that the log has it, and since when.
//!
//! The log signs the entry as canonical JSON (RFC 8785). Our own writing of it is canonical for the
//! members an entry may have; an entry with others is refused.
//!
//! Source: `containers/image` (`rekor_set.go`), RFC 8785.

use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::key::{PublicKey, sections};
use crate::digest::Digest;

/// As Go reads it: bits behind the last byte may be set.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Above it, numbers of canonical JSON are rounded.
const MAX_NUMBER: u64 = 1 << 53;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct Bundle {
    signed_entry_timestamp: String,
    payload: Entry,
}

/// Its members stand in the order of canonical JSON.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    body: String,
    #[serde(rename = "integratedTime")]
    time: i64,
    #[serde(rename = "logID")]
    log: String,
    #[serde(rename = "logIndex")]
    index: i64,
}

pub(crate) struct Subject<'a> {
    /// The DER of the signer's key or certificate.
    pub(crate) signer: &'a [u8],
    pub(crate) signature: &'a [u8],
    pub(crate) payload: &'a [u8],
}

/// Returns when the log took a signature in, in seconds since 1970, if one of its keys says so.
pub(crate) fn entered(
    keys: &[PublicKey],
    bundle: &str,
    subject: &Subject<'_>,
) -> Result<i64, &'static str> {
    let invalid = "its entry of a Rekor log is not of the form that cosign writes";
    let bundle: Bundle = serde_json::from_str(bundle).map_err(|_| invalid)?;
    let entry = bundle.payload;
    if [entry.time, entry.index].iter().any(|it| it.unsigned_abs() > MAX_NUMBER) {
        return Err(invalid);
    }
    let canonical = serde_json::to_vec(&entry).map_err(|_| invalid)?;
    let by = decoded(&bundle.signed_entry_timestamp).ok_or(invalid)?;
    if !keys.iter().any(|key| key.signed(&canonical, &by)) {
        return Err("its entry of a Rekor log is not signed by a Rekor key of policy.json");
    }
    let body = decoded(&entry.body).ok_or(invalid)?;
    let record: Value = serde_json::from_slice(&body).map_err(|_| invalid)?;
    let text = |at: &str| record.pointer(at).and_then(Value::as_str).ok_or(invalid);
    let (kind, version) = (text("/kind")?, text("/apiVersion")?);
    let (algorithm, hash) = (text("/spec/data/hash/algorithm")?, text("/spec/data/hash/value")?);
    let signature = text("/spec/signature/content")?;
    let signer = text("/spec/signature/publicKey/content")?;
    if kind != "hashedrekord" || version != "0.0.1" {
        return Err("its entry of a Rekor log is not a hashedrekord of version 0.0.1");
    }
    let signer = decoded(signer).ok_or(invalid)?;
    if only_section(&signer).is_none_or(|signer| signer != subject.signer) {
        return Err("its entry of a Rekor log is of another key or certificate");
    }
    if decoded(signature).is_none_or(|it| it != subject.signature) {
        return Err("its entry of a Rekor log is of another signature");
    }
    let payload = Digest::sha256(subject.payload);
    if algorithm != "sha256" || !hash.eq_ignore_ascii_case(payload.hex()) {
        return Err("its entry of a Rekor log is of another payload");
    }
    Ok(entry.time)
}

/// Decodes base64, with or without line breaks, as Go does.
pub(crate) fn decoded(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text.replace(['\r', '\n'], "")).ok()
}

/// Returns the content of a PEM text of one section.
fn only_section(pem: &[u8]) -> Option<Vec<u8>> {
    let mut found = sections(pem)?;
    let (_, der) = found.pop()?;
    found.is_empty().then_some(der)
}
