//! Releases as upstream's Helm applier stores them, for tests of taking over.
//!
//! Source: applying.md 2.2.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use olm_api::keys::label;
use serde_json::{Value, json};

use crate::cluster::ControlPlane;

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz123456";

/// A release of an extension.
pub struct Release<'a> {
    /// Name of the ClusterExtension.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
    /// Number of the release.
    pub version: u32,
    /// `deployed`, `superseded`, `failed`.
    pub status: &'a str,
    /// What the release says of its bundle.
    pub labels: Value,
    /// Annotations of the chart: those of the CSV.
    pub annotations: Value,
    /// What was installed.
    pub objects: &'a [Value],
}

impl Release<'_> {
    /// Returns the Secrets that hold it, in chunks of at most `bytes`, the index first.
    pub fn secrets(&self, namespace: &str, bytes: usize) -> Vec<Value> {
        let Self { name, version, status, .. } = self;
        let mut manifest = String::new();
        for object in self.objects {
            manifest += "---\n# Source: a template\n";
            manifest += &object.to_string();
            manifest.push('\n');
        }
        let release = json!({
            "name": name, "version": version, "namespace": namespace, "manifest": manifest,
            "labels": self.labels, "info": {"status": status},
            "chart": {"metadata": {"name": name, "annotations": self.annotations}},
        });
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(release.to_string().as_bytes()).expect("memory takes it");
        let packed = gzip.finish().expect("memory takes it");
        let key = format!("sh.helm.release.v1.{name}.v{version}");
        let mut chunks = packed.chunks(bytes);
        let first = chunks.next().unwrap_or_default();
        let mut secrets = Vec::new();
        let mut others = Vec::new();
        for chunk in chunks {
            let other = format!("{key}-{}", suffix(chunk));
            secrets.push(json!({
                "apiVersion": "v1", "kind": "Secret", "immutable": true,
                "type": "operatorframework.io/chunk.v1",
                "metadata": {"name": other, "namespace": namespace, "labels": {
                    "owner": "operator-controller", "key": key, "type": "chunk"}},
                "data": {"chunk": STANDARD.encode(chunk)},
            }));
            others.push(other);
        }
        let names = serde_json::to_string(&others).expect("names are text");
        let index = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "operatorframework.io/index.v1",
            "metadata": {"name": key, "namespace": namespace,
                "labels": {"name": name, "owner": "operator-controller", "status": status,
                    "version": version.to_string(), "key": key, "type": "index",
                    "createdAt": "1700000000"},
                "ownerReferences": [owner(name, self.uid)]},
            "data": {"chunk": STANDARD.encode(first), "extraChunks": STANDARD.encode(names)},
        });
        secrets.insert(0, index);
        secrets
    }
}

/// Creates objects as Helm does, for an extension; returns them as its release holds them.
pub fn create(
    plane: &ControlPlane,
    extension: &str,
    owners: &Value,
    mut objects: Vec<Value>,
) -> Vec<Value> {
    for object in &mut objects {
        let metadata = &mut object["metadata"];
        for part in ["labels", "annotations"] {
            if metadata[part].is_null() {
                metadata[part] = json!({});
            }
        }
        metadata["labels"][label::OWNER_KIND] = json!(label::OWNER_KIND_EXTENSION);
        metadata["labels"][label::OWNER_NAME] = json!(extension);
        let mut sent = object.clone();
        sent["metadata"]["ownerReferences"] = owners.clone();
        // As v1.0 and v1.1 are called, and later releases.
        let by = if object["kind"] == "ConfigMap" { "manager" } else { "operator-controller" };
        let args = ["create", &format!("--field-manager={by}"), "-f", "-"];
        plane.kubectl_with_input(&args, &sent.to_string());
    }
    objects
}

/// The reference that Helm's objects and Secrets carry.
pub fn owner(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": name,
        "uid": uid, "controller": true, "blockOwnerDeletion": true})
}

/// The end of a chunk's name: base32 of FNV-1a over it.
fn suffix(chunk: &[u8]) -> String {
    let hash = chunk.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let bits = u128::from(hash) << 1;
    let digit =
        |index: u32| ALPHABET[usize::try_from((bits >> (60 - 5 * index)) & 31).unwrap_or(0)];
    (0..13).map(|index| char::from(digit(index))).collect()
}
