//! The signature policy of the machine, `policy.json`.
//!
//! In: the file and a reference. Out: permission, or the reason why there is none. Only
//! `insecureAcceptAnything` and `reject` are supported; an image for which the policy requires a
//! signature is refused, because accepting it unverified would be worse. With a file that cannot be
//! read, or that containers/image would refuse (a member it does not know, one that stands twice),
//! every image is refused.
//!
//! Source: containers-policy.json(5), catalogs.md 5.5.

use std::io;
use std::path::{Path, PathBuf};

use olm_core::error::quote;
use olm_core::strict_json::{Json, Members};
use serde::Deserialize;

use crate::reference::ImageRef;

/// The system's policy file.
pub const SYSTEM_FILE: &str = "/etc/containers/policy.json";

/// Path of the policy, which is read again for each pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyPath {
    /// Path of the file.
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
}

/// Why an image may not be pulled.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The file exists and cannot be read; every image is refused until it can.
    #[error("reading signature policy {}", quote(&path.display().to_string()))]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The file is not a valid policy; every image is refused until it is.
    #[error("invalid signature policy {}: {message}", quote(&path.display().to_string()))]
    Invalid {
        /// Path of the file.
        path: PathBuf,
        /// Position and reason.
        message: String,
    },
    /// The policy says `reject`; holds the image.
    #[error("Source image rejected: Running image docker://{0} is rejected by policy.")]
    Rejected(String),
    /// The policy requires a signature of a kind that is not verified here.
    #[error(
        "Source image rejected: the policy for docker://{image} requires {}, and signatures are not \
         verified here: set \"insecureAcceptAnything\" for its repository in policy.json, or name \
         another image",
        quote(requirement)
    )]
    Unsupported {
        /// Reference of the image.
        image: String,
        /// Type of the requirement, for example `sigstoreSigned`.
        requirement: String,
    },
}

impl PolicyError {
    /// Says whether only a change of the policy or of the reference can help.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Rejected(_) | Self::Unsupported { .. } => true,
            Self::Read { .. } | Self::Invalid { .. } => false,
        }
    }
}

/// A parsed policy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    default: Requirements,
    #[serde(default)]
    transports: Members<Members<Requirements>>,
}

type Requirements = Vec<Requirement>;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Members<Json>")]
struct Requirement {
    kind: String,
}

/// What containers/image knows of each type of requirement beside the type itself. Anything else is a
/// mistake, and with it the whole file.
const MEMBERS: [(&str, &[&str]); 5] = [
    ("insecureAcceptAnything", &[]),
    ("reject", &[]),
    ("signedBy", &["keyType", "keyPath", "keyPaths", "keyData", "signedIdentity"]),
    ("signedBaseLayer", &["baseLayerIdentity"]),
    (
        "sigstoreSigned",
        &[
            "keyPath",
            "keyPaths",
            "keyData",
            "keyDatas",
            "fulcio",
            "pki",
            "rekorPublicKeyPath",
            "rekorPublicKeyPaths",
            "rekorPublicKeyData",
            "rekorPublicKeyDatas",
            "signedIdentity",
        ],
    ),
];

impl TryFrom<Members<Json>> for Requirement {
    type Error = String;

    fn try_from(Members(members): Members<Json>) -> Result<Self, String> {
        let kind = match members.get("type") {
            Some(Json::Text(kind)) => kind,
            Some(Json::Other) => return Err("the type of a requirement is not a string".to_owned()),
            None => return Err("a requirement has no type".to_owned()),
        };
        let known = MEMBERS.iter().find(|(name, _)| name == kind);
        let Some((_, known)) = known else {
            return Err(format!("there is no type {} of requirements", quote(kind)));
        };
        let mut names = members.keys().map(String::as_str);
        match names.find(|name| *name != "type" && !known.contains(name)) {
            Some(name) => Err(format!("a requirement {} has no {}", quote(kind), quote(name))),
            None => Ok(Self { kind: kind.clone() }),
        }
    }
}

impl Policy {
    /// Reads the policy; `None` when there is none and need not be, which accepts everything.
    pub fn load(path: &PolicyPath) -> Result<Option<Self>, PolicyError> {
        match std::fs::read(&path.file) {
            Ok(bytes) => Self::parse(&path.file, &bytes).map(Some),
            Err(err) if err.kind() == io::ErrorKind::NotFound && !path.required => Ok(None),
            Err(source) => Err(PolicyError::Read { path: path.file.clone(), source }),
        }
    }

    /// Parses a policy; `path` is only named in errors.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, PolicyError> {
        let invalid = |message: String| PolicyError::Invalid { path: path.to_owned(), message };
        let policy: Self = serde_json::from_slice(bytes).map_err(|err| invalid(err.to_string()))?;
        let scopes = policy.transports.0.values().flat_map(|scopes| scopes.0.values());
        if scopes.chain([&policy.default]).any(Vec::is_empty) {
            return Err(invalid("a scope has no requirements".into()));
        }
        Ok(policy)
    }

    /// Checks `image` against the most specific scope; all its requirements must hold.
    pub fn check(&self, image: &ImageRef) -> Result<(), PolicyError> {
        for requirement in self.requirements(image) {
            match requirement.kind.as_str() {
                "insecureAcceptAnything" => {}
                "reject" => return Err(PolicyError::Rejected(image.to_string())),
                other => {
                    return Err(PolicyError::Unsupported {
                        image: image.to_string(),
                        requirement: other.to_owned(),
                    });
                }
            }
        }
        Ok(())
    }

    fn requirements(&self, image: &ImageRef) -> &Requirements {
        let Some(Members(docker)) = self.transports.0.get("docker") else {
            return &self.default;
        };
        scopes(image).iter().find_map(|scope| docker.get(scope)).unwrap_or(&self.default)
    }
}

/// Returns the scopes of `image`, the most specific first: the reference, the repository, its
/// namespaces, the host, wildcards of its domains, and the transport's own default.
fn scopes(image: &ImageRef) -> Vec<String> {
    let mut scopes = vec![image.to_string()];
    let name = image.name();
    let mut prefix = name.as_str();
    scopes.push(prefix.to_owned());
    while let Some(slash) = prefix.rfind('/') {
        prefix = &prefix[..slash];
        scopes.push(prefix.to_owned());
    }
    let host = image.registry().split(':').next().unwrap_or_default();
    let mut domain = host;
    while let Some(dot) = domain.find('.') {
        scopes.push(format!("*{}", &domain[dot..]));
        domain = &domain[dot + 1..];
    }
    scopes.push(String::new());
    scopes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    const POLICY: &str = r#"{
        "default": [{"type": "reject"}],
        "transports": {
            "docker": {
                "quay.io/good": [{"type": "insecureAcceptAnything"}],
                "quay.io/good/bad": [{"type": "insecureAcceptAnything"}, {"type": "reject"}],
                "signed.io": [{"type": "sigstoreSigned", "keyPath": "/k"}],
                "gpg.io": [{"type": "signedBy"}],
                "*.example.com": [{"type": "insecureAcceptAnything"}]
            },
            "docker-daemon": {"": [{"type": "insecureAcceptAnything"}]}
        }
    }"#;

    // catalogs.md O15
    #[rstest]
    #[case("quay.io/good/a:1", None)]
    #[case("a.b.example.com:5000/x:1", None)]
    #[case(
        "quay.io/good/bad:1",
        Some(
            "Source image rejected: Running image docker://quay.io/good/bad:1 is rejected by policy."
        )
    )]
    #[case(
        "quay.io/other:1",
        Some(
            "Source image rejected: Running image docker://quay.io/other:1 is rejected by policy."
        )
    )]
    #[case("signed.io/a:1", Some(r#"Source image rejected: the policy for docker://signed.io/a:1 requires "sigstoreSigned", and signatures are not verified here: set "insecureAcceptAnything" for its repository in policy.json, or name another image"#))]
    #[case("gpg.io/a:1", Some(r#"Source image rejected: the policy for docker://gpg.io/a:1 requires "signedBy", and signatures are not verified here: set "insecureAcceptAnything" for its repository in policy.json, or name another image"#))]
    fn decides(#[case] image: &str, #[case] want: Option<&str>) {
        let policy = Policy::parse(Path::new("policy.json"), POLICY.as_bytes()).unwrap();
        let got = policy.check(&image.parse().unwrap());
        assert!(got.as_ref().err().is_none_or(PolicyError::is_terminal));
        assert_eq!(got.err().map(|err| err.to_string()).as_deref(), want);
    }

    #[rstest]
    #[case("{")]
    #[case("{}")]
    #[case(r#"{"default": []}"#)]
    #[case(r#"{"default": [{"type": "reject"}], "transports": {"docker": {"": []}}}"#)]
    #[case(r#"{"default": [{"type": "reject"}], "transport": {}}"#)]
    #[case(r#"{"default": [{"type": "reject"}], "default": [{"type": "reject"}]}"#)]
    #[case(r#"{"default": [{"type": "insecureAcceptAnything", "keyPath": "/k"}]}"#)]
    #[case(r#"{"default": [{"type": "reject", "type": "insecureAcceptAnything"}]}"#)]
    #[case(r#"{"default": [{"type": "signedBy", "keyPath": "/k", "signedidentity": {}}]}"#)]
    #[case(r#"{"default": [{"type": "accept"}]}"#)]
    #[case(r#"{"default": [{"keyPath": "/k"}]}"#)]
    #[case(
        r#"{"default": [{"type": "reject"}], "transports": {"docker": {
        "a.io": [{"type": "reject"}], "a.io": [{"type": "insecureAcceptAnything"}]}}}"#
    )]
    #[case(r#"{"default": [{"type": "reject"}], "transports": {"docker": {}, "docker": {}}}"#)]
    fn malformed_policy_is_an_error_naming_the_file(#[case] text: &str) {
        let err = Policy::parse(Path::new("policy.json"), text.as_bytes()).unwrap_err();
        assert!(err.to_string().contains("policy.json"));
        assert!(!err.is_terminal());
    }

    #[test]
    fn what_is_wrong_with_a_policy_is_said_with_its_line() {
        let text = "{\"default\": [\n{\"type\": \"reject\", \"keyPath\": \"/k\"}]}";
        let error = Policy::parse(Path::new("p.json"), text.as_bytes()).unwrap_err().to_string();
        let want = r#"invalid signature policy "p.json": a requirement "reject" has no "keyPath""#;
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
