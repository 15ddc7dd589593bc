//! The signature policy of the machine, `policy.json`.
//!
//! In: the file and a reference. Out: permission, whose signature the image needs, or the reason why
//! it may not be pulled. `sigstoreSigned` is verified (see [`mod@crate::sigstore`]); an image for which
//! the policy requires `signedBy` or `signedBaseLayer` is refused, because accepting it unverified
//! would be worse. With a file that cannot be read, or that containers/image would refuse (a member it
//! does not know, one that stands twice), every image is refused.
//!
//! Source: containers-policy.json(5), catalogs.md 5.5.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use olm_core::error::quote;
use olm_core::strict_json::Members;
use serde::Deserialize;

use crate::digest::Digest;
use crate::folder::FileError;
use crate::reference::ImageRef;
use crate::sigstore::{Attachment, Trust};

mod error;
mod rule;

pub use error::PolicyError;
use error::told;
use rule::Requirement;

/// The system's policy file.
pub const SYSTEM_FILE: &str = "/etc/containers/policy.json";

/// Path of the policy, which is read again for each pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyPath {
    pub file: PathBuf,
    /// Whether a missing file is an error; it is when a user named the file. Else everything is
    /// accepted without one.
    pub required: bool,
}

impl PolicyPath {
    /// Returns the system's path, or `file` if a user named one (the value of
    /// `CONTAINERS_POLICY_JSON`).
    pub fn new(file: Option<PathBuf>) -> Self {
        Self { required: file.is_some(), file: file.unwrap_or_else(|| SYSTEM_FILE.into()) }
    }

    /// Returns the directory beside it whose files say where signatures are looked for.
    pub fn registries(&self) -> PathBuf {
        self.file.with_file_name("registries.d")
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    default: Requirements,
    #[serde(default)]
    transports: Members<Members<Requirements>>,
}

type Requirements = Vec<Requirement>;

/// The requirements for the signatures of an image.
#[derive(Debug, Clone)]
pub(crate) struct Demand {
    image: ImageRef,
    scope: String,
    /// Each of them has to accept a signature.
    trusted: Vec<Trust>,
}

impl Policy {
    /// Reads the policy; `None` when there is none and need not be, which accepts everything.
    pub fn load(path: &PolicyPath) -> Result<Option<Self>, PolicyError> {
        match std::fs::read(&path.file) {
            Ok(bytes) => Self::parse(&path.file, &bytes).map(Some),
            Err(err) if err.kind() == io::ErrorKind::NotFound && !path.required => Ok(None),
            Err(error) => {
                Err(FileError::doing("reading signature policy", &path.file)(error).into())
            }
        }
    }

    /// Parses a policy; `path` is only named in errors.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, PolicyError> {
        let invalid = |message: String| {
            let file = quote(&path.display().to_string());
            PolicyError::Invalid(format!("invalid signature policy {file}: {message}"))
        };
        let policy: Self = serde_json::from_slice(bytes).map_err(|err| invalid(err.to_string()))?;
        let scopes = policy.transports.0.values().flat_map(|scopes| scopes.0.values());
        if scopes.chain([&policy.default]).any(Vec::is_empty) {
            return Err(invalid("a scope has no requirements".into()));
        }
        Ok(policy)
    }

    /// Checks `image` against the most specific scope; all its requirements must hold. Returns those
    /// that are about signatures, with their keys, which are read from files; `path` is only named in
    /// errors.
    pub(crate) fn check(
        &self,
        path: &Path,
        image: &ImageRef,
    ) -> Result<Option<Demand>, PolicyError> {
        let (scope, requirements) = self.requirements(image);
        let unsupported = |requirement: &str| {
            PolicyError::Rejected(format!(
                "the policy for docker://{image} requires {}, which is not verified here: sign it with \
                 cosign and set sigstoreSigned for {scope} in policy.json, or name another image",
                quote(requirement)
            ))
        };
        let mut trusted = Vec::new();
        for requirement in requirements {
            match requirement {
                Requirement::InsecureAcceptAnything {} => {}
                Requirement::Reject {} => {
                    let text = format!("Running image docker://{image} is rejected by policy.");
                    return Err(PolicyError::Rejected(text));
                }
                Requirement::SignedBy(_) => return Err(unsupported("signedBy")),
                Requirement::SignedBaseLayer(_) => return Err(unsupported("signedBaseLayer")),
                Requirement::SigstoreSigned(sigstore) => trusted.push(sigstore.load(path)?),
            }
        }
        let demand = Demand { image: image.clone(), scope, trusted };
        Ok((!demand.trusted.is_empty()).then_some(demand))
    }

    /// Returns the requirements for an image, and how their scope is called.
    fn requirements(&self, image: &ImageRef) -> (String, &Requirements) {
        let default = ("the default".to_owned(), &self.default);
        let Some(Members(docker)) = self.transports.0.get("docker") else { return default };
        let mut scopes = image.scopes().into_iter();
        let found = scopes.find_map(|scope| Some((quote(&scope), docker.get(&scope)?)));
        let all = docker.get("").map(|all| ("transport \"docker\"".to_owned(), all));
        found.or(all).unwrap_or(default)
    }
}

impl Demand {
    /// Returns the error where `registries.d` does not have signatures looked for in the repository
    /// `place`.
    pub(crate) fn not_looked_for(&self, place: &str, registries: &Path) -> PolicyError {
        let Self { image, scope, .. } = self;
        PolicyError::Unsigned(format!(
            "policy.json requires a signature of docker://{image} for {scope}, and no file of {} enables \
             signatures for {place}: set use-sigstore-attachments: true for it there",
            quote(&registries.display().to_string())
        ))
    }

    pub(crate) fn check(&self, found: &[Attachment], manifest: &[u8]) -> Result<(), PolicyError> {
        let Self { image, scope, .. } = self;
        if found.is_empty() {
            return Err(PolicyError::Unsigned(format!(
                "docker://{image} is not signed, and policy.json requires a signature for {scope}: sign it \
                 with cosign (an image for several platforms with --recursive, from cosign 3 on with \
                 --new-bundle-format=false --use-signing-config=false), or name another image"
            )));
        }
        let now = Timestamp::now();
        for trust in &self.trusted {
            let mut refused = Vec::new();
            let accepts = |signature: &Attachment| {
                let accepted = trust.accepts(signature, image, manifest, now);
                accepted.map_err(|why| refused.push(why)).is_ok()
            };
            if !found.iter().any(accepts) {
                return Err(PolicyError::Unsigned(format!(
                    "docker://{image} is signed, and policy.json accepts none of its signatures for \
                     {scope}: {}",
                    told(&refused)
                )));
            }
        }
        Ok(())
    }

    /// Returns a digest of what is demanded: equal ones accept the same signatures of a manifest.
    pub(crate) fn fingerprint(&self) -> String {
        Digest::sha256(format!("{self:?}").as_bytes()).hex().to_owned()
    }
}

#[cfg(test)]
mod table_tests;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;
    use crate::fixture::cases;

    const POLICY: &str = r#"{
        "default": [{"type": "reject"}],
        "transports": {
            "docker": {
                "quay.io/good": [{"type": "insecureAcceptAnything"}],
                "quay.io/good/bad": [{"type": "insecureAcceptAnything"}, {"type": "reject"}],
                "signed.io": [{"type": "sigstoreSigned", "keyPath": "/nowhere/k"}],
                "gpg.io": [{"type": "signedBy", "keyType": "GPGKeys", "keyPath": "/k"}],
                "base.io": [{"type": "signedBaseLayer", "baseLayerIdentity": {"type": "matchExact"}}],
                "*.example.com": [{"type": "insecureAcceptAnything"}]
            },
            "docker-daemon": {"": [{"type": "insecureAcceptAnything"}]}
        }
    }"#;

    // catalogs.md O15
    #[rstest]
    #[case("quay.io/good/a:1", None, "")]
    #[case("a.b.example.com:5000/x:1", None, "")]
    #[case("quay.io/good/bad:1", Some(""), "")]
    #[case("quay.io/other:1", Some(""), "")]
    #[case("gpg.io/a:1", Some("signedBy"), "gpg.io")]
    #[case("base.io/a:1", Some("signedBaseLayer"), "base.io")]
    fn decides(#[case] image: &str, #[case] refused: Option<&str>, #[case] scope: &str) {
        let policy = Policy::parse(Path::new("policy.json"), POLICY.as_bytes()).unwrap();
        let got = policy.check(Path::new("policy.json"), &image.parse().unwrap());
        assert!(got.as_ref().err().is_none_or(PolicyError::is_terminal));
        let want = refused.map(|requirement| match requirement {
            "" => format!("Running image docker://{image} is rejected by policy."),
            _ => format!(
                "the policy for docker://{image} requires \"{requirement}\", which is not verified here: \
                 sign it with cosign and set sigstoreSigned for \"{scope}\" in policy.json, or name \
                 another image"
            ),
        });
        let want = want.map(|text| format!("Source image rejected: {text}"));
        assert_eq!(got.err().map(|err| err.to_string()), want);
    }

    #[test]
    fn a_key_that_cannot_be_read_is_named_before_any_request() {
        let policy = Policy::parse(Path::new("policy.json"), POLICY.as_bytes()).unwrap();
        let image = "signed.io/a:1".parse().unwrap();
        let error = policy.check(Path::new("policy.json"), &image).unwrap_err();
        let want = r#"reading "/nowhere/k", which the signature policy names"#;
        assert_eq!((error.to_string().as_str(), error.is_terminal()), (want, false));
    }

    #[test]
    fn malformed_policy_is_an_error_naming_the_file() {
        for text in cases::<String>("malformed_policy_is_an_error_naming_the_file") {
            let err = Policy::parse(Path::new("policy.json"), text.as_bytes()).unwrap_err();
            assert!(err.to_string().contains("policy.json"), "{text}");
            assert!(!err.is_terminal(), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_policy_is_said_with_its_line() {
        let text = "{\"default\": [\n{\"type\": \"reject\", \"keyPath\": \"/k\"}]}";
        let error = Policy::parse(Path::new("p.json"), text.as_bytes()).unwrap_err().to_string();
        let want = r#"invalid signature policy "p.json": unknown field `keyPath`"#;
        assert!(error.starts_with(want) && error.contains(" at line 2 "), "{error}");
    }

    #[test]
    fn absent_file_accepts_and_unreadable_file_refuses() {
        let dir = tempfile::tempdir().unwrap();
        let load =
            |file: &Path, required| Policy::load(&PolicyPath { file: file.to_owned(), required });
        let none = dir.path().join("none");
        assert_eq!(load(&none, false).unwrap(), None);
        assert!(load(&none, true).unwrap_err().to_string().contains("none"));
        assert!(load(dir.path(), false).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Policy::parse(Path::new("p"), &bytes);
        }
    }
}
