//! Content Secrets: packing the objects of a revision into Secrets, and reading them back.
//!
//! Secrets are immutable and named after their content, so writing one twice is harmless.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::object::Object;

use super::phase::Phase;
use super::{MAX_OBJECT_BYTES, MAX_SECRET_BYTES, RevisionError, hex, number, sha256};
use crate::go_json;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// A Secret with content of a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentSecret {
    /// `<revision name>-<16 hex digits of the content's hash>`.
    pub name: String,
    /// Stored bytes by their key, the hash of the bytes.
    pub data: BTreeMap<String, Vec<u8>>,
}

/// Where one object of a revision is stored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContentRef {
    /// Name of the Secret with the object.
    pub secret: String,
    /// Key in the data of the Secret.
    pub key: String,
}

/// The content of a revision, packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// The Secrets to create, in the order their first object appears.
    pub secrets: Vec<ContentSecret>,
    /// Per phase its name and one reference per object, in object order.
    pub phases: Vec<(String, Vec<ContentRef>)>,
}

/// Packs the objects of `phases` into Secrets for the revision named `revision`.
///
/// Identical objects share a key within one Secret. An object over [`MAX_SECRET_BYTES`] is
/// compressed.
///
/// # Errors
/// Fails when an object is too large even compressed.
///
/// Source: operator-controller `internal/operator-controller/applier/secretpacker.go`.
pub fn pack(revision: &str, phases: &[Phase]) -> Result<Packed, RevisionError> {
    let mut bins: Vec<BTreeMap<String, Vec<u8>>> = Vec::new();
    let mut current = BTreeMap::new();
    let mut size = 0;
    let mut placed: Vec<(String, Vec<(usize, String)>)> = Vec::new();
    for (phase_index, phase) in phases.iter().enumerate() {
        let mut refs = Vec::with_capacity(phase.objects.len());
        for (index, object) in phase.objects.iter().enumerate() {
            let stored = store(object).map_err(|bytes| RevisionError::ObjectTooLarge {
                phase: phase_index,
                index,
                bytes,
            })?;
            let key = URL_SAFE_NO_PAD.encode(Sha256::digest(&stored));
            if !current.contains_key(&key) {
                if size + stored.len() > MAX_SECRET_BYTES && !current.is_empty() {
                    bins.push(std::mem::take(&mut current));
                    size = 0;
                }
                size += stored.len();
                current.insert(key.clone(), stored);
            }
            refs.push((bins.len(), key));
        }
        placed.push((phase.name.clone(), refs));
    }
    if !current.is_empty() {
        bins.push(current);
    }
    let secrets: Vec<ContentSecret> = bins
        .into_iter()
        .map(|data| ContentSecret { name: secret_name(revision, &data), data })
        .collect();
    let reference =
        |(bin, key): (usize, String)| ContentRef { secret: secrets[bin].name.clone(), key };
    let phases = placed
        .into_iter()
        .map(|(name, refs)| (name, refs.into_iter().map(reference).collect()))
        .collect();
    Ok(Packed { secrets, phases })
}

/// Reads an object back from what a Secret holds at `key`.
///
/// `secret` is `<namespace>/<name>` and only appears in messages.
///
/// # Errors
/// Fails on broken compression, on more than [`MAX_OBJECT_BYTES`] and on text that is not a JSON
/// object.
pub fn unpack(secret: &str, key: &str, stored: &[u8]) -> Result<Object, RevisionError> {
    let invalid = |cause: String| RevisionError::InvalidContent {
        key: key.to_owned(),
        secret: secret.to_owned(),
        cause,
    };
    let mut text = Vec::new();
    let bytes = if stored.starts_with(&GZIP_MAGIC) {
        let limit = MAX_OBJECT_BYTES as u64 + 1;
        GzDecoder::new(stored)
            .take(limit)
            .read_to_end(&mut text)
            .map_err(|err| invalid(err.to_string()))?;
        text.as_slice()
    } else {
        stored
    };
    if bytes.len() > MAX_OBJECT_BYTES {
        return Err(RevisionError::ContentTooLarge {
            key: key.to_owned(),
            secret: secret.to_owned(),
        });
    }
    let value: Value = serde_json::from_slice(bytes).map_err(|err| invalid(err.to_string()))?;
    Object::from_value(value).ok_or_else(|| invalid("not a JSON object".to_owned()))
}

/// Returns the digest of a phase whose objects come from content Secrets or will be stored there.
///
/// Source: applying.md 3.5.
pub fn digest_packed(phase: &Phase) -> String {
    digest(
        &phase.name,
        phase.objects.iter().map(|object| number::through_float(&Value::Object(object.0.clone()))),
    )
}

/// Returns the digest of a phase: `sha256:` and the hash of `{"name":...,"objects":[...]}` as Go
/// writes it.
///
/// Objects that were read from a Secret must have passed [`number::through_float`], inline objects
/// must not, or the digest differs from the one upstream stored.
pub fn digest(phase: &str, objects: impl IntoIterator<Item = Value>) -> String {
    let objects: Vec<String> =
        objects.into_iter().map(|object| go_json::to_string(&object)).collect();
    let text = format!(
        "{{\"name\":{},\"objects\":[{}]}}",
        go_json::to_string(&Value::from(phase)),
        objects.join(",")
    );
    sha256(text.as_bytes())
}

/// Returns the bytes to store for an object, or their number when there are too many.
fn store(object: &Object) -> Result<Vec<u8>, usize> {
    let text = go_json::to_string(&Value::Object(object.0.clone())).into_bytes();
    if text.len() <= MAX_SECRET_BYTES {
        return Ok(text);
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing into memory does not fail; if it did, the object would be refused as too large.
    let written = encoder.write_all(&text).and_then(|()| encoder.finish());
    let compressed = written.map_err(|_| text.len())?;
    if compressed.len() > MAX_SECRET_BYTES {
        return Err(compressed.len());
    }
    Ok(compressed)
}

/// Digits of the hash in the name of a Secret.
const HASH: usize = 16;

fn secret_name(revision: &str, data: &BTreeMap<String, Vec<u8>>) -> String {
    let mut hash = Sha256::new();
    for (key, value) in data {
        hash.update(key.as_bytes());
        hash.update(value);
    }
    format!("{revision}-{}", &hex(&hash.finalize())[..HASH])
}

/// Returns whether content of a revision may have this name.
pub fn is_secret_name(name: &str, revision: &str) -> bool {
    let hash = name.strip_prefix(revision).and_then(|rest| rest.strip_prefix('-'));
    hash.is_some_and(|it| it.len() == HASH && it.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
