//! Releases that upstream's Helm applier left in Secrets: what they look like there, and the revision
//! that one becomes. What OLM Classic installed is handed over in the same form ([`secrets`]).
//!
//! A release is gzipped JSON in chunks: the first in an index Secret that names the others. All of it
//! may have been edited, so every part is bounded and checked.
//!
//! Source: applying.md 2.2, 2.3.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use itertools::Itertools as _;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use olm_api::CollisionProtection;
use olm_api::keys::{annotation, label, policy};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{first_of, quote};
use crate::extension::ValidExtension;
use crate::object::Object;
use crate::render::handover::prepare_for_revision;
use crate::revision::{Account, BundleRecord, Desired, Extension, RevisionError, built_in, phases};
use crate::uninstall::{BLOCKED, MAX_NAMED};

/// Returns how to continue with revisions of upstream v1.6 to v1.8, which cannot be converted.
pub fn adopt_earlier_revisions(names: &[impl AsRef<str>]) -> String {
    format!(
        "{}, and annotate the extension with {}=all, which takes over what they leave",
        release_earlier_revisions(names),
        policy::ADOPT
    )
}

/// Returns the commands that delete such revisions and keep what they own. They have a finalizer that
/// only upstream removes, and it would remove that as well. The one in its place has the garbage
/// collector keep everything, also where the extension goes before the second command.
fn release_earlier_revisions(names: &[impl AsRef<str>]) -> String {
    let names = names.iter().map(AsRef::as_ref).join(" ");
    format!(
        "kubectl patch clusterextensionrevisions {names} --type=merge -p \
         '{{\"metadata\":{{\"finalizers\":[\"orphan\"]}}}}', then kubectl delete \
         clusterextensionrevisions {names} --cascade=orphan"
    )
}

/// Returns why an extension does not go that Helm installed, or these revisions of an `earlier` upstream
/// release, and the ways out: no revision of ours has taken these CRDs over and released them, so that the
/// garbage collector would take them with all their objects.
pub fn not_taken_over(extension: &str, earlier: &[String], crds: &[String]) -> String {
    let named = first_of(crds, MAX_NAMED);
    let key = policy::UNINSTALL;
    let delete = format!("kubectl annotate --overwrite clusterextension {extension} {key}=Delete");
    if earlier.is_empty() {
        return format!(
            "{BLOCKED}Helm installed its CRDs, and they would go with all their objects: {named}; \
             {delete} removes them, kubectl delete clusterextension {extension} --cascade=orphan keeps \
             everything"
        );
    }
    format!(
        "{BLOCKED}ClusterExtensionRevision {} of an earlier release hold its CRDs, and they would go \
         with all their objects: {named}; to keep everything: {}, or {delete} removes them once these \
         revisions have no finalizers",
        earlier.join(", "),
        release_earlier_revisions(earlier)
    )
}

/// Type of an index Secret.
pub const INDEX_TYPE: &str = "operatorframework.io/index.v1";
/// Selects the index Secrets of every release.
pub const INDEX_SELECTOR: &str = "owner=operator-controller,type=index";
/// Label of an index Secret: name of the release, which is that of the ClusterExtension.
pub const NAME: &str = "name";
/// Selects every Secret of the release of an extension.
pub fn selector(extension: &str) -> String {
    format!("owner=operator-controller,{NAME}={extension}")
}

/// Key of a chunk in the data of both kinds of Secret.
const CHUNK: &str = "chunk";
/// Type of a Secret with another chunk.
const CHUNK_TYPE: &str = "operatorframework.io/chunk.v1";
const EXTRA_CHUNKS: &str = "extraChunks";
const STATUS: &str = "status";
const VERSION: &str = "version";
const DEPLOYED: &str = "deployed";
/// Most bytes of a chunk that is read: what upstream wrote before v1.9.
const MAX_CHUNK_BYTES: usize = 1 << 20;
/// Most bytes of a chunk that is written, so that the whole Secret fits.
const WRITTEN_CHUNK_BYTES: usize = 1_040_384;
/// Most chunks of a release.
const MAX_CHUNKS: usize = 11;
/// Most bytes of a release after decompression: rendered bundles take a few.
const MAX_RELEASE_BYTES: u64 = 64 << 20;
/// The annotations of the release about its bundle, under the keys of a revision.
#[rustfmt::skip]
const RECORDED: [&str; 5] = [
    annotation::BUNDLE_NAME, annotation::PACKAGE_NAME, annotation::BUNDLE_VERSION,
    annotation::BUNDLE_REFERENCE, annotation::BUNDLE_RELEASE,
];

/// Why a release cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum HelmError {
    /// A Secret is not what its type says, or the chunks together are not a release.
    #[error("{0}")]
    Unreadable(String),
    /// Its objects make no revision.
    #[error("Helm release in Secret {secret}")]
    Revision { secret: String, source: RevisionError },
}

/// A release as its index Secret has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// Name of the Secret.
    pub secret: String,
    /// Names of the Secrets with the other chunks, in order.
    pub others: Vec<String>,
    first: Vec<u8>,
    version: u64,
    deployed: bool,
}

impl Index {
    /// Reads an index Secret.
    pub fn read(secret: &Secret) -> Result<Self, HelmError> {
        let wrong =
            |what: String| HelmError::Unreadable(format!("Secret {}: {what}", name(secret)));
        let label = |key: &str| secret.metadata.labels.as_ref()?.get(key);
        let version = label(VERSION).and_then(|text| text.parse().ok());
        let version =
            version.ok_or_else(|| wrong(format!("label {} is not a number", quote(VERSION))))?;
        let others: Vec<String> = match data(secret, EXTRA_CHUNKS) {
            None | Some([]) => Vec::new(),
            Some(list) => serde_json::from_slice(list).map_err(|error| {
                wrong(format!("{EXTRA_CHUNKS} is not a list of names: {error}"))
            })?,
        };
        if others.len() >= MAX_CHUNKS {
            let count = others.len() + 1;
            return Err(wrong(format!("{count} chunks, {MAX_CHUNKS} at most")));
        }
        Ok(Self {
            secret: name(secret),
            others,
            first: chunk(secret)?,
            version,
            deployed: label(STATUS).is_some_and(|status| status == DEPLOYED),
        })
    }

    /// Returns the release, given the other chunks in order.
    pub fn release(&self, others: &[Vec<u8>]) -> Result<Release, HelmError> {
        let secret = &self.secret;
        let wrong =
            |what| HelmError::Unreadable(format!("Helm release in Secret {secret}: {what}"));
        let mut packed = self.first.clone();
        packed.extend(others.iter().flatten());
        let mut json = Vec::new();
        let limited = GzDecoder::new(packed.as_slice()).take(MAX_RELEASE_BYTES + 1);
        let read = { limited }.read_to_end(&mut json);
        read.map_err(|error| wrong(format!("not gzip: {error}")))?;
        if json.len() as u64 > MAX_RELEASE_BYTES {
            return Err(wrong(format!("more than {MAX_RELEASE_BYTES} bytes")));
        }
        let stored: Stored = serde_json::from_slice(&json)
            .map_err(|error| wrong(format!("not a release: {error}")))?;
        let mut objects = Vec::new();
        for (number, line) in (1..).zip(stored.manifest.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') || line == "---" {
                continue;
            }
            let value: Value = serde_json::from_str(line)
                .map_err(|error| wrong(format!("manifest, line {number}: {error}")))?;
            let object = Object::from_value(value);
            let object =
                object.ok_or_else(|| wrong(format!("manifest, line {number}: not an object")))?;
            objects.push(object);
        }
        let chart = stored.chart.and_then(|chart| chart.metadata);
        let annotations = chart.and_then(|metadata| metadata.annotations);
        let properties = annotations.unwrap_or_default().remove(annotation::PROPERTIES);
        Ok(Release {
            secret: self.secret.clone(),
            labels: stored.labels.unwrap_or_default(),
            properties,
            objects,
        })
    }
}

fn name(secret: &Secret) -> String {
    secret.metadata.name.clone().unwrap_or_default()
}

fn data<'a>(secret: &'a Secret, key: &str) -> Option<&'a [u8]> {
    Some(&secret.data.as_ref()?.get(key)?.0)
}

/// Returns the bytes of a chunk.
pub fn chunk(secret: &Secret) -> Result<Vec<u8>, HelmError> {
    let wrong = |what: String| HelmError::Unreadable(format!("Secret {}: {what}", name(secret)));
    let bytes = data(secret, CHUNK).ok_or_else(|| wrong(format!("no key {}", quote(CHUNK))))?;
    if bytes.len() > MAX_CHUNK_BYTES {
        let count = bytes.len();
        return Err(wrong(format!("a chunk of {count} bytes, {MAX_CHUNK_BYTES} at most")));
    }
    Ok(bytes.to_owned())
}

/// Returns the release that counts: the newest, or if that was not rolled out the newest that was.
pub fn current(mut releases: Vec<Index>) -> Option<Index> {
    releases.sort_by_key(|release| release.version);
    releases.into_iter().rfind(|release| release.deployed)
}

/// What Helm installed.
#[derive(Debug, Clone, PartialEq)]
pub struct Release {
    /// Name of its index Secret.
    pub secret: String,
    labels: BTreeMap<String, String>,
    properties: Option<String>,
    objects: Vec<Object>,
}

impl Release {
    /// Returns the version of the bundle that was installed; empty where it is not recorded.
    pub fn version(&self) -> &str {
        self.labels.get(annotation::BUNDLE_VERSION).map(String::as_str).unwrap_or_default()
    }

    /// Returns the revision that holds what the release installed. It may take every object: they
    /// are the extension's.
    pub fn desired(
        self,
        extension: ValidExtension<'_>,
        account: &Account,
    ) -> Result<Desired, HelmError> {
        let owner = Extension::of(extension.object);
        let of_classic = self.labels.contains_key(label::MIGRATED_FROM_CLASSIC);
        let mut annotations: BTreeMap<String, String> =
            self.labels.into_iter().filter(|(key, _)| RECORDED.contains(&key.as_str())).collect();
        let recorded = |key: &str| annotations.get(key).cloned().unwrap_or_default();
        let (package, version) =
            (recorded(annotation::PACKAGE_NAME), recorded(annotation::BUNDLE_VERSION));
        let objects = prepare_for_revision(self.objects, &owner.name, &package, &version);
        let generation = extension.object.metadata.generation.unwrap_or_default();
        let ours = [
            (annotation::SERVICE_ACCOUNT_NAME, account.name.clone()),
            (annotation::SERVICE_ACCOUNT_NAMESPACE, account.namespace.clone()),
            (annotation::EXTENSION_GENERATION, generation.to_string()),
        ];
        annotations.extend(ours.map(|(key, value)| (key.to_owned(), value)));
        let properties = self.properties.map(|it| (annotation::PROPERTIES.to_owned(), it));
        annotations.extend(properties);
        let secret = self.secret;
        Ok(Desired {
            extension: owner,
            phases: phases(objects).map_err(|source| HelmError::Revision { secret, source })?,
            annotations,
            probes: built_in(),
            deadline_minutes: extension.spec.progress_deadline_minutes,
            // What Classic installed is nobody's when it is handed over.
            collision_protection: if of_classic {
                CollisionProtection::IfNoController
            } else {
                CollisionProtection::None
            },
            migrated_from: Some(if of_classic {
                label::MIGRATED_FROM_CLASSIC
            } else {
                label::MIGRATED_FROM_HELM
            }),
        })
    }
}

/// Returns the Secrets of a release that holds what OLM Classic installed for an extension, in the
/// order in which they are written: the index last. Nothing if it is too large.
pub fn secrets(
    extension: &str,
    namespace: &str,
    bundle: &BundleRecord,
    properties: Option<&str>,
    objects: &[Object],
) -> Option<Vec<Secret>> {
    let mut labels = bundle.annotations();
    labels.insert(label::MIGRATED_FROM_CLASSIC.to_owned(), "true".to_owned());
    let manifest = objects.iter().map(|object| Value::Object(object.0.clone())).join("\n");
    let properties = properties.map(|text| json!({annotation::PROPERTIES: text}));
    let release = json!({
        "name": extension, "version": 1, "labels": labels, "manifest": manifest,
        "chart": {"metadata": {"annotations": properties}},
    });
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(release.to_string().as_bytes()).ok()?;
    let packed = gzip.finish().ok()?;
    let chunks: Vec<&[u8]> = packed.chunks(WRITTEN_CHUNK_BYTES).collect();
    if chunks.len() > MAX_CHUNKS {
        return None;
    }
    let name = |number: usize| match number {
        0 => format!("{extension}-classic"),
        number => format!("{extension}-classic-{number}"),
    };
    let others: Vec<String> = (1..chunks.len()).map(name).collect();
    let secret = |number: usize, chunk: &[u8]| {
        let shared = [(NAME, extension), ("owner", "operator-controller"), (VERSION, "1")];
        let of_index = [(STATUS, DEPLOYED), ("type", "index")].into_iter().filter(|_| number == 0);
        let labels = shared.into_iter().chain(of_index);
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let mut data = BTreeMap::from([(CHUNK.to_owned(), ByteString(chunk.to_vec()))]);
        if number == 0 {
            let others = ByteString(json!(others).to_string().into_bytes());
            data.insert(EXTRA_CHUNKS.to_owned(), others);
        }
        Secret {
            metadata: ObjectMeta {
                name: Some(name(number)),
                namespace: Some(namespace.to_owned()),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            type_: Some(if number == 0 { INDEX_TYPE } else { CHUNK_TYPE }.to_owned()),
            data: Some(data),
            ..Secret::default()
        }
    };
    let numbered = chunks.into_iter().enumerate();
    let mut secrets: Vec<_> = numbered.map(|(number, chunk)| secret(number, chunk)).collect();
    secrets.reverse();
    Some(secrets)
}

/// The parts of a release that are read.
#[derive(Deserialize)]
struct Stored {
    /// Go writes maps without entries as null.
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    manifest: String,
    chart: Option<Chart>,
}

#[derive(Deserialize)]
struct Chart {
    metadata: Option<ChartMetadata>,
}

#[derive(Deserialize)]
struct ChartMetadata {
    annotations: Option<BTreeMap<String, String>>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{cases, extension};

    const CASES: &str = include_str!("testdata/cases.yaml");

    fn packed(release: &Value) -> Vec<u8> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(release.to_string().as_bytes()).unwrap();
        gzip.finish().unwrap()
    }

    /// Reads an index Secret with this version and status, this first chunk and the names of the others.
    fn read(of: (&str, &str), first: &[u8], others: &str) -> Result<Index, HelmError> {
        let labels = [(VERSION, of.0), (STATUS, of.1)];
        let data = [(CHUNK, first), (EXTRA_CHUNKS, others.as_bytes())];
        Index::read(&Secret {
            metadata: ObjectMeta {
                name: Some("s".to_owned()),
                labels: Some(labels.map(|(key, text)| (key.to_owned(), text.to_owned())).into()),
                ..ObjectMeta::default()
            },
            data: Some(data.map(|(key, it)| (key.to_owned(), ByteString(it.to_vec()))).into()),
            ..Secret::default()
        })
    }

    fn desired(release: Release) -> Desired {
        let extension = extension(&json!({"metadata": {"uid": "u", "generation": 7}}));
        let account = "ns/sa".parse().unwrap();
        release.desired(ValidExtension::of(&extension).unwrap(), &account).unwrap()
    }

    // applying.md b2
    #[test]
    fn the_release_that_counts() {
        for (all, want) in
            cases::<(Vec<(&str, &str)>, Option<u64>)>(CASES, "the_release_that_counts")
        {
            let all = all.into_iter().map(|of| read(of, b"x", "[]").unwrap());
            assert_eq!(current(all.collect()).map(|index| index.version), want);
        }
    }

    // applying.md b1, b5
    #[test]
    fn a_release_in_chunks_is_read() {
        let object = |name: &str| {
            json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "ns"}})
        };
        let manifest = format!("---\n# Source: x\n{}\n\n{}\n", object("a"), object("b"));
        let release = json!({
            "name": "e", "version": 1, "manifest": manifest,
            "labels": {"olm.operatorframework.io/bundle-version": "1.0.0",
                "olm.operatorframework.io/bundle-release": "", "owner": "x"},
            "chart": {"metadata": {"annotations": {"olm.properties": "[]"}}},
        });
        let bytes = packed(&release);
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        let index = read(("1", DEPLOYED), first, r#"["other"]"#).unwrap();
        assert_eq!(index.others, ["other"]);
        let release = index.release(&[rest.to_vec()]).unwrap();
        assert_eq!(release.version(), "1.0.0");
        let desired = desired(release);
        let objects = desired.phases.iter().map(|phase| phase.objects.len());
        assert_eq!(objects.sum::<usize>(), 2);
        let recorded = |key: &str| desired.annotations.get(key).map(String::as_str);
        assert_eq!(recorded(annotation::BUNDLE_VERSION), Some("1.0.0"));
        assert_eq!(recorded(annotation::BUNDLE_RELEASE), Some(""));
        assert_eq!(recorded(annotation::PROPERTIES), Some("[]"));
        assert_eq!(recorded("owner"), None);
        assert_eq!(desired.collision_protection, CollisionProtection::None);
    }

    // applying.md 2.3
    #[test]
    fn what_no_revision_has_taken_over_names_who_holds_it_and_the_ways_out() {
        let crds = ["foos.example.com".to_owned()];
        let helm = not_taken_over("quay", &[], &crds);
        assert!(helm.starts_with("uninstall blocked: Helm installed its CRDs"), "{helm}");
        let earlier = not_taken_over("quay", &["quay-1".to_owned(), "quay-2".to_owned()], &crds);
        let parts = [
            "uninstall blocked: ClusterExtensionRevision quay-1, quay-2 of an earlier release hold",
            ": foos.example.com; ",
            r#"patch clusterextensionrevisions quay-1 quay-2 --type=merge -p '{"metadata":{"finalizers":["orphan"]}}'"#,
            "kubectl delete clusterextensionrevisions quay-1 quay-2 --cascade=orphan, ",
        ];
        assert!(parts.iter().all(|part| earlier.contains(part)), "{earlier}");
    }

    #[test]
    fn what_classic_installed_is_handed_over_as_a_release() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "ns"}, "data": {"text": "a\nb"}});
        let object = Object::from_value(object).unwrap();
        let bundle = BundleRecord::example("1.0.0");
        let objects = std::slice::from_ref(&object);
        let written = secrets("e", "olm", &bundle, Some("[]"), objects).unwrap();
        let [only] = written.as_slice() else { panic!("{} Secrets", written.len()) };
        let index = Index::read(only).unwrap();
        assert_eq!(current(vec![index.clone()]), Some(index.clone()));
        let desired = desired(index.release(&[]).unwrap());
        assert_eq!(desired.migrated_from, Some(label::MIGRATED_FROM_CLASSIC));
        assert_eq!(desired.collision_protection, CollisionProtection::IfNoController);
        assert_eq!(desired.annotations[annotation::BUNDLE_NAME], "p.v1.0.0");
        assert_eq!(desired.annotations[annotation::PROPERTIES], "[]");
        let held: Vec<_> = desired.phases.iter().flat_map(|phase| &phase.objects).collect();
        assert_eq!(held.len(), 1);
        assert_eq!(held[0].pointer("/data"), object.pointer("/data"));
    }

    #[test]
    fn what_is_no_release_is_named() {
        for (bytes, want) in [
            (b"x".to_vec(), "not gzip: "),
            (packed(&json!("x")), "not a release: "),
            (packed(&json!({"manifest": "\n[]"})), "manifest, line 2: not an object"),
        ] {
            let index = read(("1", DEPLOYED), &bytes, "").unwrap();
            let error = index.release(&[]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("Helm release in Secret s: {want}")), "{error}");
        }
    }

    #[test]
    fn what_is_no_index_is_named() {
        let why = |version: &str, others: &str| {
            read((version, DEPLOYED), b"x", others).unwrap_err().to_string()
        };
        assert_eq!(why("one", ""), "Secret s: label \"version\" is not a number");
        assert!(why("1", "x").starts_with("Secret s: extraChunks is not a list of names: "));
        let many = serde_json::to_string(&["x"; 11]).unwrap();
        assert_eq!(why("1", &many), "Secret s: 12 chunks, 11 at most");
    }
}
