//! What containers/image accepts and refuses, and what we do: `testdata/signatures.toml`, row by row.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, SanType, SigningKey as _, date_time_ymd,
};
use serde_json::{Value, json};

use super::*;

/// The second of January 2026, on which certificates are valid that last two days.
const DURING: i64 = 1_767_312_000;
const AFTER: i64 = DURING + 4 * 86_400;
const MANIFEST: &[u8] = b"{\"schemaVersion\": 2}";

#[derive(Deserialize)]
struct Table {
    file: Vec<FileRow>,
    signature: Vec<SignatureRow>,
}

#[derive(Deserialize)]
struct FileRow {
    what: String,
    text: String,
    theirs: String,
    ours: String,
}

#[derive(Deserialize)]
struct SignatureRow {
    what: String,
    rule: String,
    sign: Vec<Sign>,
    theirs: String,
    ours: String,
}

#[derive(Deserialize)]
struct Sign {
    by: String,
    name: String,
    log: Option<String>,
    #[serde(default)]
    change: String,
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

    /// Issues a certificate as Fulcio does.
    fn leaf(&self, change: &str) -> String {
        let mut params = named("leaf");
        (params.not_before, params.not_after) = match change {
            "lasting" => (date_time_ymd(2000, 1, 1), date_time_ymd(4000, 1, 1)),
            _ => (date_time_ymd(2026, 1, 1), date_time_ymd(2026, 1, 3)),
        };
        params.extended_key_usages = vec![match change {
            "server" => ExtendedKeyUsagePurpose::ServerAuth,
            _ => ExtendedKeyUsagePurpose::CodeSigning,
        }];
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
                "identity": {"docker-reference": sign.name},
            },
            "optional": null,
        });
        match change {
            "type" => payload["critical"]["type"] = json!("atomic container signature"),
            "member" => payload["critical"]["more"] = json!(1),
            _ => {}
        }
        let mut payload = payload.to_string().into_bytes();
        let key = &self.pairs[sign.by.as_str()];
        let signature = key.sign(&payload).unwrap();
        let mut annotations = BTreeMap::new();
        let mut annotate = |name: &str, value: String| annotations.insert(name.to_owned(), value);
        if change != "no-signature" {
            annotate("dev.cosignproject.cosign/signature", STANDARD.encode(&signature));
        }
        let mut signer = key.public_key_pem();
        if sign.by == "leaf" {
            signer = self.leaf(change);
            annotate("dev.sigstore.cosign/certificate", signer.clone());
            let chain = format!("{}{}", self.between.pem(), self.roots["root"].pem());
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
        let signature = if change == "entry-signature" { b"other".as_slice() } else { signature };
        let payload = if change == "entry-payload" { b"other".as_slice() } else { payload };
        let body = json!({
            "apiVersion": "0.0.1",
            "kind": "hashedrekord",
            "spec": {
                "data": {"hash": {"algorithm": "sha256", "value": Digest::sha256(payload).hex()}},
                "signature": {
                    "content": STANDARD.encode(signature),
                    "publicKey": {"content": STANDARD.encode(signer)},
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

fn assert_row(what: &str, theirs: &str, ours: &str, got: Result<(), PolicyError>) {
    assert_eq!(theirs == "accepts", ours == "accepts", "{what}: we differ");
    match got {
        Ok(()) => assert_eq!(ours, "accepts", "{what}"),
        Err(error) => {
            let text = error.to_string();
            assert_ne!(ours, "accepts", "{what}: {text}");
            assert!(text.contains(ours), "{what}: {text}");
            assert!(!error.is_terminal(), "{what}: {text}");
        }
    }
}

// catalogs.md 5.5
#[test]
fn files_are_refused_where_containers_image_refuses_them() {
    let table = table();
    assert!(table.file.len() > 20);
    for row in table.file {
        let parsed = Policy::parse(Path::new("policy.json"), row.text.as_bytes());
        assert_row(&row.what, &row.theirs, &row.ours, parsed.map(drop));
    }
}

// catalogs.md 5.5
#[test]
fn signatures_are_accepted_where_containers_image_accepts_them() {
    let (keys, dir) = (Keys::new(), tempfile::tempdir().unwrap());
    let texts = keys.texts();
    for (name, text) in &texts {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let table = table();
    assert!(table.signature.len() > 40);
    let image: ImageRef = "quay.io/team/pot:v1".parse().unwrap();
    for row in table.signature {
        let mut rule = row.rule.replace("$dir", dir.path().to_str().unwrap());
        for (name, text) in &texts {
            let (from, to) = (format!("\"${name}\""), format!("\"{}\"", STANDARD.encode(text)));
            rule = rule.replace(&from, &to);
        }
        let policy = format!(
            r#"{{"default": [{{"type": "reject"}}], "transports": {{"docker": {{
            "quay.io/team": [{{"type": "sigstoreSigned", {rule}}}]}}}}}}"#
        );
        let path = Path::new("policy.json");
        let policy = Policy::parse(path, policy.as_bytes()).unwrap();
        let found = Signatures::Found(row.sign.iter().map(|sign| keys.attachment(sign)).collect());
        let demand = policy.check(path, &image);
        let checked = demand.and_then(|demand| demand.unwrap().check(&found, MANIFEST));
        assert_row(&row.what, &row.theirs, &row.ours, checked);
    }
}

/// A signature that cosign made and Rekor's public log took in, from the tests of containers/image.
#[test]
fn a_signature_of_cosign_is_accepted() {
    let vector: Value = serde_json::from_str(include_str!("../testdata/cosign.json")).unwrap();
    let text = |name: &str| vector[name].as_str().unwrap();
    let bytes = |name: &str| STANDARD.decode(text(name)).unwrap();
    let image: ImageRef = format!("{}:latest", text("image")).parse().unwrap();
    let attachment = Attachment {
        payload: bytes("payload"),
        annotations: serde_json::from_value(vector["annotations"].clone()).unwrap(),
    };
    let found = Signatures::Found(vec![attachment]);
    for (identity, want) in [("matchRepository", true), ("matchExact", false)] {
        let policy = json!({"default": [{
            "type": "sigstoreSigned",
            "keyData": text("key"),
            "rekorPublicKeyData": text("log"),
            "signedIdentity": {"type": identity},
        }]});
        let path = Path::new("policy.json");
        let policy = Policy::parse(path, policy.to_string().as_bytes()).unwrap();
        let demand = policy.check(path, &image).unwrap().unwrap();
        let checked = demand.check(&found, &bytes("manifest"));
        assert_eq!(checked.is_ok(), want, "{checked:?}");
        assert!(demand.check(&found, b"another").is_err());
    }
}

#[test]
fn each_requirement_needs_a_signature() {
    let keys = Keys::new();
    let signed = |by: &str| {
        let name = "quay.io/team/pot:v1".to_owned();
        keys.attachment(&Sign { by: by.to_owned(), name, log: None, change: String::new() })
    };
    let rule = |by: &str| {
        let key = STANDARD.encode(keys.pairs[by].public_key_pem());
        json!({"type": "sigstoreSigned", "keyData": key})
    };
    let policy = json!({"default": [rule("right"), rule("other")]}).to_string();
    let path = Path::new("policy.json");
    let policy = Policy::parse(path, policy.as_bytes()).unwrap();
    let demand = policy.check(path, &"quay.io/team/pot:v1".parse().unwrap()).unwrap().unwrap();
    let check = |found: Vec<Attachment>| demand.check(&Signatures::Found(found), MANIFEST);
    assert!(check(vec![signed("other"), signed("right")]).is_ok());
    let error = check(vec![signed("right")]).unwrap_err().to_string();
    assert!(error.contains("for the default: it was made with another key"), "{error}");
    let elsewhere = Signatures::NotLooked {
        place: "mirror.io/pot".to_owned(),
        registries: "/etc/containers/registries.d".into(),
    };
    assert_eq!(
        demand.check(&elsewhere, MANIFEST).unwrap_err().to_string(),
        "Source image rejected: policy.json requires a signature of docker://quay.io/team/pot:v1 for \
         the default, and no file of \"/etc/containers/registries.d\" enables signatures for mirror.io/pot: \
          set use-sigstore-attachments: true for it there"
    );
}
