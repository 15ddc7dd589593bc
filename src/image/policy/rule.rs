//! The requirements of `policy.json`, read as strictly as containers/image reads them.
//!
//! Source: containers-policy.json(5), `containers/image` (`policy_config.go`,
//! `policy_config_sigstore.go`).

use std::path::{Path, PathBuf};

use olm_core::error::quote;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::error::PolicyError;
use crate::folder::FileError;
use crate::sigstore::{Authorities, Identity, PublicKey, Signers, Trust, decoded};

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum Requirement {
    InsecureAcceptAnything {},
    Reject {},
    /// A signature with GnuPG, which is not verified, so that nothing is read of it.
    SignedBy(IgnoredAny),
    /// Not verified either.
    SignedBaseLayer(IgnoredAny),
    SigstoreSigned(Box<Sigstore>),
}

/// A signature as cosign makes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "RawSigstore")]
pub(super) struct Sigstore {
    signers: Signer,
    logs: Option<Source>,
    identity: Identity,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Signer {
    Keys(Source),
    Fulcio(Fulcio),
    Pki(Pki),
}

/// The source of keys or certificates: files or inline data.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Files(Vec<PathBuf>),
    Here(Vec<Vec<u8>>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawSigstore {
    key_path: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key_paths: Option<Vec<String>>,
    key_data: Option<Data>,
    #[serde(default, deserialize_with = "present")]
    key_datas: Option<Vec<Data>>,
    #[serde(default, deserialize_with = "present")]
    fulcio: Option<Fulcio>,
    #[serde(default, deserialize_with = "present")]
    pki: Option<Pki>,
    rekor_public_key_path: Option<String>,
    #[serde(default, deserialize_with = "present")]
    rekor_public_key_paths: Option<Vec<String>>,
    rekor_public_key_data: Option<Data>,
    #[serde(default, deserialize_with = "present")]
    rekor_public_key_datas: Option<Vec<Data>>,
    #[serde(default, deserialize_with = "present")]
    signed_identity: Option<Identity>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "RawFulcio")]
struct Fulcio {
    authority: Source,
    issuer: String,
    email: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawFulcio {
    ca_path: Option<String>,
    ca_data: Option<Data>,
    #[serde(default)]
    oidc_issuer: String,
    #[serde(default)]
    subject_email: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "RawPki")]
struct Pki {
    roots: Source,
    intermediates: Option<Source>,
    email: Option<String>,
    host: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawPki {
    ca_roots_path: Option<String>,
    ca_roots_data: Option<Data>,
    ca_intermediates_path: Option<String>,
    ca_intermediates_data: Option<Data>,
    subject_email: Option<String>,
    subject_hostname: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct Data(Vec<u8>);

impl TryFrom<String> for Data {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        decoded(&text).map(Self).ok_or("data of a key or certificate is not base64")
    }
}

impl TryFrom<RawSigstore> for Sigstore {
    type Error = &'static str;

    fn try_from(raw: RawSigstore) -> Result<Self, &'static str> {
        let keys = sources(raw.key_path, raw.key_paths, raw.key_data, raw.key_datas)?;
        let mut signers: Vec<_> = keys.into_iter().map(Signer::Keys).collect();
        signers.extend(raw.fulcio.map(Signer::Fulcio));
        signers.extend(raw.pki.map(Signer::Pki));
        let (Some(signers), true) = (signers.pop(), signers.is_empty()) else {
            return Err(
                "sigstoreSigned needs exactly one of keyPath, keyPaths, keyData, keyDatas, \
                        fulcio, pki",
            );
        };
        let mut logs = sources(
            raw.rekor_public_key_path,
            raw.rekor_public_key_paths,
            raw.rekor_public_key_data,
            raw.rekor_public_key_datas,
        )?;
        let logs = match (logs.pop(), logs.is_empty()) {
            (_, false) => {
                return Err("sigstoreSigned may have only one of rekorPublicKeyPath, \
                            rekorPublicKeyPaths, rekorPublicKeyData, rekorPublicKeyDatas");
            }
            (logs, true) => logs,
        };
        match (&signers, &logs) {
            (Signer::Fulcio(_), None) => Err("fulcio needs a rekorPublicKeyPath, \
                rekorPublicKeyPaths, rekorPublicKeyData or rekorPublicKeyDatas"),
            (Signer::Pki(_), Some(_)) => Err("pki may not have keys of Rekor"),
            _ => Ok(Self { signers, logs, identity: raw.signed_identity.unwrap_or_default() }),
        }
    }
}

impl TryFrom<RawFulcio> for Fulcio {
    type Error = &'static str;

    fn try_from(raw: RawFulcio) -> Result<Self, &'static str> {
        let authority = source(raw.ca_path, raw.ca_data)?;
        let authority = authority.ok_or("fulcio needs one of caPath, caData")?;
        if raw.oidc_issuer.is_empty() || raw.subject_email.is_empty() {
            return Err("fulcio needs oidcIssuer and subjectEmail");
        }
        Ok(Self { authority, issuer: raw.oidc_issuer, email: raw.subject_email })
    }
}

impl TryFrom<RawPki> for Pki {
    type Error = &'static str;

    fn try_from(raw: RawPki) -> Result<Self, &'static str> {
        let roots = source(raw.ca_roots_path, raw.ca_roots_data)?;
        let roots = roots.ok_or("pki needs one of caRootsPath, caRootsData")?;
        let intermediates = source(raw.ca_intermediates_path, raw.ca_intermediates_data)?;
        let email = raw.subject_email.filter(|it| !it.is_empty());
        let host = raw.subject_hostname.filter(|it| !it.is_empty());
        if email.is_none() && host.is_none() {
            return Err("pki needs subjectEmail or subjectHostname");
        }
        Ok(Self { roots, intermediates, email, host })
    }
}

fn source(path: Option<String>, data: Option<Data>) -> Result<Option<Source>, &'static str> {
    let mut found = sources(path, None, data, None)?;
    let last = found.pop();
    if found.is_empty() { Ok(last) } else { Err("certificates are given as a path and as data") }
}

fn sources(
    path: Option<String>,
    paths: Option<Vec<String>>,
    data: Option<Data>,
    datas: Option<Vec<Data>>,
) -> Result<Vec<Source>, &'static str> {
    // An empty path is as good as none.
    let path = path.filter(|path| !path.is_empty());
    if paths.as_ref().is_some_and(Vec::is_empty) || datas.as_ref().is_some_and(Vec::is_empty) {
        return Err("a list of keys is empty");
    }
    let files = |paths: Vec<String>| Source::Files(paths.into_iter().map(PathBuf::from).collect());
    let here = |datas: Vec<Data>| Source::Here(datas.into_iter().map(|Data(it)| it).collect());
    let mut found = Vec::new();
    found.extend(path.map(|path| files(vec![path])));
    found.extend(paths.map(files));
    found.extend(data.map(|data| here(vec![data])));
    found.extend(datas.map(here));
    Ok(found)
}

/// Reads a member that may be absent and may not be null.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl Sigstore {
    /// Reads the keys and certificates; `policy` is only named in errors.
    pub(super) fn load(&self, policy: &Path) -> Result<Trust, PolicyError> {
        let signers = match &self.signers {
            Signer::Keys(keys) => Signers::Keys(keys.read(policy, PublicKey::from_pem)?),
            Signer::Fulcio(Fulcio { authority, issuer, email }) => Signers::Fulcio {
                authorities: Pki::load(authority, None, policy)?,
                issuer: issuer.clone(),
                email: email.clone(),
            },
            Signer::Pki(Pki { roots, intermediates, email, host }) => Signers::Pki {
                authorities: Pki::load(roots, intermediates.as_ref(), policy)?,
                email: email.clone(),
                host: host.clone(),
            },
        };
        let log = |pem: &[u8]| {
            let key = PublicKey::from_pem(pem)?;
            if key.is_ecdsa() { Ok(key) } else { Err("a key of Rekor has to be an ECDSA key") }
        };
        let logs = self.logs.as_ref().map(|logs| logs.read(policy, log)).transpose()?;
        let logs = logs.unwrap_or_default();
        Ok(Trust { signers, logs, identity: self.identity.clone() })
    }
}

impl Pki {
    fn load(
        roots: &Source,
        intermediates: Option<&Source>,
        policy: &Path,
    ) -> Result<Authorities, PolicyError> {
        let whole = |pem: &[u8]| Ok(pem.to_vec());
        let between = intermediates.map(|source| source.read(policy, whole)).transpose()?;
        let between = between.map(|list| list.concat());
        let read = |pem: &[u8]| Authorities::read(pem, between.as_deref());
        let mut found = roots.read(policy, read)?;
        #[expect(clippy::expect_used, reason = "a source of certificates has one text")]
        Ok(found.pop().expect("one text"))
    }
}

impl Source {
    fn read<T>(
        &self,
        policy: &Path,
        parse: impl Fn(&[u8]) -> Result<T, &'static str>,
    ) -> Result<Vec<T>, PolicyError> {
        let file = |path: &Path| quote(&path.display().to_string());
        let parsed = |path: &Path, pem: &[u8]| {
            let what = "a key or certificate of the signature policy is invalid";
            parse(pem).map_err(|why| PolicyError::Invalid(format!("{what}, {}: {why}", file(path))))
        };
        match self {
            Self::Here(texts) => texts.iter().map(|text| parsed(policy, text)).collect(),
            Self::Files(paths) => paths
                .iter()
                .map(|path| {
                    let unread = |source| {
                        let file = file(path);
                        let doing = format!("reading {file}, which the signature policy names");
                        FileError { doing, source }
                    };
                    parsed(path, &std::fs::read(path).map_err(unread)?)
                })
                .collect(),
        }
    }
}
