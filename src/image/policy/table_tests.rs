//! Compares our results with those of containers/image: `testdata/signatures.toml`, row by row.
//! `make test-signatures` runs containers/image itself.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, SanType, SigningKey as _, date_time_ymd,
};
use serde_json::{Value, json};

use super::*;
use crate::attachments::Attachments;

/// The second of January 2026, on which certificates are valid that last two days.
const DURING: i64 = 1_767_312_000;
const AFTER: i64 = DURING + 4 * 86_400;
const MANIFEST: &[u8] = b"{\"schemaVersion\": 2}";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    file: Vec<Row>,
    registries: Vec<Row>,
    signature: Vec<Row>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Row {
    what: String,
    text: String,
    files: Vec<String>,
    rule: String,
    digest: bool,
    sign: Vec<Sign>,
    theirs: String,
    ours: String,
    stricter: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sign {
    by: String,
    name: String,
    log: Option<String>,
    #[serde(default)]
    change: String,
}

impl Row {
    /// Compares our answer with that of the table. Returns the row for `make test-signatures`.
    fn check(&self, mut row: Value, got: Result<(), String>) -> Value {
        let what = &self.what;
        let [they_accept, we_accept] = [&self.theirs, &self.ours].map(|it| it == "accepts");
        assert!(they_accept || !we_accept, "{what}: they refuse it");
        assert_eq!(they_accept && !we_accept, self.stricter, "{what}: we differ");
        assert_eq!(got.is_ok(), we_accept, "{what}: {got:?}");
        let refused = got.err().unwrap_or_default();
        assert!(we_accept || refused.contains(&self.ours), "{what}: {refused}");
        row["what"] = json!(what);
        row["ours"] = json!(refused);
        row["stricter"] = json!(self.stricter);
        row
    }
}

/// Keys and CAs by the names that the table has for them.
struct Keys {
    pairs: BTreeMap<&'static str, KeyPair>,
    roots: BTreeMap<&'static str, CertifiedIssuer<'static, KeyPair>>,
    between: CertifiedIssuer<'static, KeyPair>,
}

fn key() -> KeyPair {
    KeyPair::generate().unwrap()
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn authority(name: &str) -> CertificateParams {
    let mut params = named(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

impl Keys {
    fn new() -> Self {
        let ed25519 = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let root = |name| CertifiedIssuer::self_signed(authority(name), key()).unwrap();
        let trusted = root("root");
        let between = CertifiedIssuer::signed_by(authority("between"), key(), &trusted).unwrap();
        Self {
            pairs: BTreeMap::from([
                ("right", key()),
                ("other", key()),
                ("leaf", key()),
                ("log", key()),
                ("otherlog", key()),
                ("ed25519", ed25519),
            ]),
            roots: BTreeMap::from([("root", trusted), ("otherroot", root("other"))]),
            between,
        }
    }

    fn texts(&self) -> BTreeMap<&'static str, String> {
        let keys = self.pairs.iter().map(|(name, key)| (*name, key.public_key_pem()));
        keys.chain(self.roots.iter().map(|(name, root)| (*name, root.pem()))).collect()
    }

    fn signed(&self, by: &str) -> Attachment {
        let name = "quay.io/team/pot:v1".to_owned();
        self.attachment(&Sign { by: by.to_owned(), name, log: None, change: String::new() })
    }

    /// Issues a certificate as Fulcio does.
    fn leaf(&self, change: &str) -> String {
        let mut params = named("leaf");
        let years = if change.starts_with("lasting") { (2000, 4000) } else { (2026, 2026) };
        params.not_before = date_time_ymd(years.0, 1, 1);
        params.not_after = date_time_ymd(years.1, 1, 3);
        params.extended_key_usages = vec![match change {
            "server" => ExtendedKeyUsagePurpose::ServerAuth,
            "lasting-any" => ExtendedKeyUsagePurpose::Any,
            _ => ExtendedKeyUsagePurpose::CodeSigning,
        }];
        if change == "lasting-ca" {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        params.subject_alt_names = vec![
            SanType::Rfc822Name("dev@acme.io".try_into().unwrap()),
            SanType::DnsName("build.acme.io".try_into().unwrap()),
        ];
        let first = b"https://login.acme.io".as_slice();
        let second = if change == "issuer" { b"https://login.io".as_slice() } else { first };
        let length = u8::try_from(second.len()).unwrap();
        let element = [[0x0c, length].as_slice(), second].concat();
        let extension = |last, content: &[u8]| {
            CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 57264, 1, last], content.to_vec())
        };
        params.custom_extensions = vec![extension(1, first), extension(8, &element)];
        params.signed_by(&self.pairs["leaf"], &self.between).unwrap().pem()
    }

    fn attachment(&self, sign: &Sign) -> Attachment {
        let change = sign.change.as_str();
        let about = if change == "digest" { b"another".as_slice() } else { MANIFEST };
        let mut payload = json!({
            "critical": {
                "type": "cosign container image signature",
                "image": {"docker-manifest-digest": Digest::sha256(about).to_string()},
                "identity": {"docker-reference": with_digest(&sign.name)},
            },
            "optional": null,
        });
        match change {
            "type" => payload["critical"]["type"] = json!("atomic container signature"),
            "member" => payload["critical"]["more"] = json!(1),
            "null" => payload["optional"] = json!({"creator": null, "timestamp": null}),
            "time" => payload["optional"] = json!({"timestamp": 1e30}),
            _ => {}
        }
        let mut payload = payload.to_string().into_bytes();
        let key = &self.pairs[sign.by.as_str()];
        let signature = key.sign(&payload).unwrap();
        let mut annotations = BTreeMap::new();
        let mut annotate = |name: &str, value: String| annotations.insert(name.to_owned(), value);
        if change != "no-signature" {
            let mut text = STANDARD.encode(&signature);
            if change == "bits" {
                // Of Ed25519: the last byte leaves four bits of the last digit.
                text.truncate(text.len() - 2);
                let digit = text.pop().unwrap();
                text.push(char::from(u8::try_from(digit).unwrap() + 1));
                text.push_str("==");
            }
            annotate("dev.cosignproject.cosign/signature", text);
        }
        let mut signer = key.public_key_pem();
        if sign.by == "leaf" {
            signer = self.leaf(change);
            let text = if change == "lasting-text" { "text\n" } else { "" };
            annotate("dev.sigstore.cosign/certificate", format!("{signer}{text}"));
            let first = if change == "lasting-key" { key.public_key_pem() } else { String::new() };
            let chain = format!("{first}{}{}", self.between.pem(), self.roots["root"].pem());
            annotate("dev.sigstore.cosign/chain", chain);
        }
        if let Some(log) = &sign.log {
            let entry = self.entry(log, &signer, &signature, &payload, change);
            annotate("dev.sigstore.cosign/bundle", entry.to_string());
        }
        if change == "payload" {
            payload.push(b' ');
        }
        Attachment { payload, annotations }
    }

    /// Writes an entry as Rekor does.
    fn entry(
        &self,
        log: &str,
        signer: &str,
        signature: &[u8],
        payload: &[u8],
        change: &str,
    ) -> Value {
        let other = self.pairs["other"].public_key_pem();
        let signer = if change == "entry-key" { other.as_str() } else { signer };
        let text = if change == "entry-text" { "text\n" } else { "" };
        let signature = if change == "entry-signature" { b"other".as_slice() } else { signature };
        let payload = if change == "entry-payload" { b"other".as_slice() } else { payload };
        let body = json!({
            "apiVersion": "0.0.1",
            "kind": "hashedrekord",
            "spec": {
                "data": {"hash": {"algorithm": "sha256", "value": Digest::sha256(payload).hex()}},
                "signature": {
                    "content": STANDARD.encode(signature),
                    "publicKey": {"content": STANDARD.encode(format!("{signer}{text}"))},
                },
            },
        });
        let body = STANDARD.encode(body.to_string());
        let time = if change == "late" { AFTER } else { DURING };
        let canonical =
            format!(r#"{{"body":"{body}","integratedTime":{time},"logID":"c0d2","logIndex":7}}"#);
        let by = self.pairs[log].sign(canonical.as_bytes()).unwrap();
        let mut payload: Value = serde_json::from_str(&canonical).unwrap();
        if change == "entry-member" {
            payload["more"] = json!(1);
        }
        json!({"SignedEntryTimestamp": STANDARD.encode(by), "Payload": payload})
    }
}

fn table() -> Table {
    toml::from_str(include_str!("../testdata/signatures.toml")).unwrap()
}

fn with_digest(name: &str) -> String {
    name.replace("$digest", &Digest::sha256(MANIFEST).to_string())
}

fn policy(rule: &str) -> String {
    format!(
        r#"{{"default": [{{"type": "reject"}}], "transports": {{"docker": {{
        "quay.io/team": [{{"type": "sigstoreSigned", {rule}}}]}}}}}}"#
    )
}

/// Returns an image as `make test-signatures` serves it.
fn image(policy: &str, image: &ImageRef, manifest: &[u8], attached: &[Attachment]) -> Value {
    let signature = |it: &Attachment| {
        let payload = STANDARD.encode(&it.payload);
        json!({"payload": payload, "annotations": it.annotations})
    };
    json!({
        "policy": policy,
        "image": image.to_string(),
        "manifest": STANDARD.encode(manifest),
        "registries": ["default-docker: {use-sigstore-attachments: true}"],
        "signatures": attached.iter().map(signature).collect::<Vec<_>>(),
    })
}

fn retried(error: &PolicyError) -> String {
    assert!(!error.is_terminal(), "{error}");
    error.to_string()
}

/// Where `make test-signatures` looks for the rows, if it runs this.
fn folder() -> Option<PathBuf> {
    std::env::var_os("OLM_SIGNATURE_ROWS").map(PathBuf::from)
}

fn write(file: &str, rows: &[Value]) {
    if let Some(folder) = folder() {
        std::fs::write(folder.join(file), serde_json::to_vec(rows).unwrap()).unwrap();
    }
}

// catalogs.md 5.5
#[test]
fn files_are_refused_where_containers_image_refuses_them() {
    let rows: Vec<_> = table()
        .file
        .iter()
        .map(|row| {
            let parsed = Policy::parse(Path::new("policy.json"), row.text.as_bytes());
            let parsed = parsed.map(drop).map_err(|error| retried(&error));
            row.check(json!({"policy": row.text}), parsed)
        })
        .collect();
    assert!(rows.len() >= 30);
    write("files.json", &rows);
}

// catalogs.md 5.5
#[test]
fn signatures_are_looked_for_where_containers_image_looks_for_them() {
    let keys = Keys::new();
    let signed = keys.signed("right");
    let key = STANDARD.encode(keys.pairs["right"].public_key_pem());
    let policy = policy(&format!(r#""keyData": "{key}""#));
    let pot: ImageRef = "quay.io/team/pot:v1".parse().unwrap();
    let mut rows = Vec::new();
    for row in table().registries {
        let directory = tempfile::tempdir().unwrap();
        for (index, text) in row.files.iter().enumerate() {
            std::fs::write(directory.path().join(format!("{index}.yaml")), text).unwrap();
        }
        std::fs::write(directory.path().join("not-read.yml"), "{").unwrap();
        let looked = match Attachments::load(directory.path()) {
            Ok(attachments) if attachments.are_used(&pot) => Ok(()),
            Ok(_) => Err("not looked for".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let mut asked = image(&policy, &pot, MANIFEST, std::slice::from_ref(&signed));
        asked["registries"] = json!(row.files);
        rows.push(row.check(asked, looked));
    }
    assert!(rows.len() > 15);
    write("registries.json", &rows);
}

// catalogs.md 5.5
#[test]
fn signatures_are_accepted_where_containers_image_accepts_them() {
    let (keys, temporary) = (Keys::new(), tempfile::tempdir().unwrap());
    let directory = folder().unwrap_or_else(|| temporary.path().to_owned());
    let texts = keys.texts();
    for (name, text) in &texts {
        std::fs::write(directory.join(name), text).unwrap();
    }
    let mut rows = Vec::new();
    for row in table().signature {
        let mut rule = row.rule.replace("$dir", directory.to_str().unwrap());
        for (name, text) in &texts {
            let (from, to) = (format!("\"${name}\""), format!("\"{}\"", STANDARD.encode(text)));
            rule = rule.replace(&from, &to);
        }
        let text = policy(&rule);
        let path = Path::new("policy.json");
        let policy = Policy::parse(path, text.as_bytes()).unwrap();
        let version = if row.digest { "@$digest" } else { ":v1" };
        let pot: ImageRef = with_digest(&format!("quay.io/team/pot{version}")).parse().unwrap();
        let signed: Vec<_> = row.sign.iter().map(|sign| keys.attachment(sign)).collect();
        let asked = image(&text, &pot, MANIFEST, &signed);
        let demand = policy.check(path, &pot);
        let checked = demand.and_then(|demand| demand.unwrap().check(&signed, MANIFEST));
        rows.push(row.check(asked, checked.map_err(|error| retried(&error))));
    }
    assert!(rows.len() > 50);
    write("signatures.json", &rows);
}

/// A signature that cosign made and Rekor's public log took in, from the tests of containers/image.
#[test]
fn a_signature_of_cosign_is_accepted() {
    let vector: Value = serde_json::from_str(include_str!("../testdata/cosign.json")).unwrap();
    let text = |name: &str| vector[name].as_str().unwrap();
    let bytes = |name: &str| STANDARD.decode(text(name)).unwrap();
    let named: ImageRef = format!("{}:latest", text("image")).parse().unwrap();
    let attached = [Attachment {
        payload: bytes("payload"),
        annotations: serde_json::from_value(vector["annotations"].clone()).unwrap(),
    }];
    let (manifest, mut rows) = (bytes("manifest"), Vec::new());
    for (identity, want) in [("matchRepository", true), ("matchExact", false)] {
        let policy = json!({"default": [{
            "type": "sigstoreSigned",
            "keyData": text("key"),
            "rekorPublicKeyData": text("log"),
            "signedIdentity": {"type": identity},
        }]});
        let (path, text) = (Path::new("policy.json"), policy.to_string());
        let policy = Policy::parse(path, text.as_bytes()).unwrap();
        let mut row = image(&text, &named, &manifest, &attached);
        let demand = policy.check(path, &named).unwrap().unwrap();
        let checked = demand.check(&attached, &manifest);
        assert_eq!(checked.is_ok(), want, "{checked:?}");
        row["what"] = json!(format!("a signature of cosign, {identity}"));
        row["ours"] = json!(checked.err().map(|error| error.to_string()).unwrap_or_default());
        rows.push(row);
        assert!(demand.check(&attached, b"another").is_err());
    }
    write("cosign.json", &rows);
}

#[test]
fn each_requirement_needs_a_signature() {
    let keys = Keys::new();
    let rule = |by: &str| {
        let key = STANDARD.encode(keys.pairs[by].public_key_pem());
        json!({"type": "sigstoreSigned", "keyData": key})
    };
    let policy = json!({"default": [rule("right"), rule("other")]}).to_string();
    let path = Path::new("policy.json");
    let policy = Policy::parse(path, policy.as_bytes()).unwrap();
    let demand = policy.check(path, &"quay.io/team/pot:v1".parse().unwrap()).unwrap().unwrap();
    let check = |found: Vec<Attachment>| demand.check(&found, MANIFEST);
    assert!(check(vec![keys.signed("other"), keys.signed("right")]).is_ok());
    let error = check(vec![keys.signed("right")]).unwrap_err().to_string();
    assert!(error.contains("for the default: cryptographic signature verification failed: invalid signature: it was made with another key"), "{error}");
    let registries = Path::new("/etc/containers/registries.d");
    assert_eq!(
        demand.not_looked_for("mirror.io/pot", registries).to_string(),
        "Source image rejected: policy.json requires a signature of docker://quay.io/team/pot:v1 for \
         the default, and no file of \"/etc/containers/registries.d\" enables signatures for mirror.io/pot: \
          set use-sigstore-attachments: true for it there"
    );
}
