//! The credentials of a Secret for a keyring. Pure.

use std::fmt;
use std::str::FromStr;

use k8s_openapi::api::core::v1::Secret;
use olm_core::revision::namespaced;
use olm_image::Credentials;

/// Types of Secrets with credentials, and the key each of them keeps its document under.
const FORMS: [(&str, &str); 2] = [
    ("kubernetes.io/dockerconfigjson", ".dockerconfigjson"),
    ("kubernetes.io/dockercfg", ".dockercfg"),
];

/// The name of a Secret, written `<namespace>/<name>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretName {
    pub namespace: String,
    pub name: String,
}

/// The Secret that `--global-pull-secret` names; nothing if the value is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GlobalPullSecret(pub Option<SecretName>);

/// The flag has another form (deploying.md 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("value of global-pull-secret should be of the format <namespace>/<name>")]
pub struct NotASecretName;

impl FromStr for GlobalPullSecret {
    type Err = NotASecretName;

    fn from_str(text: &str) -> Result<Self, NotASecretName> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let (namespace, name) = namespaced(text).map_err(|_| NotASecretName)?;
        Ok(Self(Some(SecretName { namespace, name })))
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret {}/{}", self.namespace, self.name)
    }
}

/// The relevant part of a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Held {
    Missing,
    /// The API server refuses to show it, with this code.
    Refused(u16),
    /// It is of another type, whatever it holds.
    OtherType(String),
    /// The fault, never its content.
    Malformed(String),
    Usable(Credentials),
}

/// Returns the key under which a Secret with credentials keeps its document; nothing for other types.
pub fn document_key(secret: &Secret) -> Option<&'static str> {
    let type_ = secret.type_.as_deref()?;
    FORMS.iter().find(|(form, _)| *form == type_).map(|(_, key)| *key)
}

/// Drops what nobody reads of a Secret: all but its name, its type and the document with credentials.
pub(super) fn only_credentials(secret: &mut Secret) {
    let document = document_key(secret);
    if let Some(data) = &mut secret.data {
        data.retain(|key, _| Some(key.as_str()) == document);
    }
    (secret.metadata.annotations, secret.metadata.managed_fields) = (None, None);
}

impl Held {
    pub(super) fn of(secret: &Secret) -> Self {
        let Some(key) = document_key(secret) else {
            return Self::OtherType(secret.type_.clone().unwrap_or_else(|| "Opaque".to_owned()));
        };
        let document = secret.data.as_ref().and_then(|data| data.get(key));
        let Some(document) = document else {
            return Self::Malformed(format!("key {key} is missing"));
        };
        match Credentials::parse(&document.0) {
            Ok(credentials) => Self::Usable(credentials),
            Err(error) => Self::Malformed(format!("key {key}: {error}")),
        }
    }

    /// Returns why nothing is to be had of it, if so.
    pub(super) fn fault(&self, name: &SecretName) -> Option<String> {
        match self {
            Self::Missing => Some(format!("{name} does not exist")),
            Self::Refused(code) => {
                Some(format!("{name} cannot be read: the API server answers {code}"))
            }
            Self::OtherType(type_) => {
                Some(format!("{name} is of type {type_:?}, not kubernetes.io/dockerconfigjson"))
            }
            Self::Malformed(fault) => Some(format!("{name} is malformed: {fault}")),
            Self::Usable(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use rstest::rstest;

    use super::*;

    const NAME: &str = "Secret ns/s";
    const REFUSED: &str = "value of global-pull-secret should be of the format <namespace>/<name>";

    fn fault(type_: &str, key: &str, document: &str) -> Option<String> {
        let data = ByteString(document.as_bytes().to_vec());
        let mut secret = Secret {
            type_: Some(type_.to_owned()),
            data: Some([(key.to_owned(), data.clone()), ("other".to_owned(), data)].into()),
            ..Secret::default()
        };
        only_credentials(&mut secret);
        assert!(!secret.data.iter().flatten().any(|(kept, _)| kept == "other"));
        let held = Held::of(&secret);
        assert!(!format!("{held:?}").contains("hunter2"), "{held:?}");
        let name = SecretName { namespace: "ns".to_owned(), name: "s".to_owned() };
        held.fault(&name)
    }

    // catalogs.md 5.4, deploying.md 3.1 and P22
    #[rstest]
    #[case::json(
        "kubernetes.io/dockerconfigjson",
        ".dockerconfigjson",
        r#"{"auths":{"h.io":{"username":"u","password":"hunter2"}}}"#,
        None
    )]
    #[case::old(
        "kubernetes.io/dockercfg",
        ".dockercfg",
        r#"{"h.io":{"username":"u","password":"hunter2"}}"#,
        None
    )]
    #[case::other_type(
        "Opaque",
        ".dockerconfigjson",
        r#"{"auths":{"h.io":{"password":"hunter2"}}}"#,
        Some(" is of type \"Opaque\", not kubernetes.io/dockerconfigjson")
    )]
    #[case::other_key(
        "kubernetes.io/dockerconfigjson",
        "config",
        "hunter2",
        Some(" is malformed: key .dockerconfigjson is missing")
    )]
    #[case::no_json(
        "kubernetes.io/dockerconfigjson",
        ".dockerconfigjson",
        "hunter2",
        Some(
            " is malformed: key .dockerconfigjson: credentials are not a docker configuration: \
             not valid JSON"
        )
    )]
    #[case::bad_entry(
        "kubernetes.io/dockerconfigjson",
        ".dockerconfigjson",
        r#"{"auths":{"h.io":{"auth":"hunter2"}}}"#,
        Some(" is malformed: key .dockerconfigjson: invalid credentials for h.io")
    )]
    fn what_is_wrong_is_said_without_the_content(
        #[case] type_: &str,
        #[case] key: &str,
        #[case] document: &str,
        #[case] want: Option<&str>,
    ) {
        let want = want.map(|rest| format!("{NAME}{rest}"));
        assert_eq!(fault(type_, key, document), want);
    }

    // deploying.md 3.1, P18
    #[rstest]
    #[case("ns/s", "Secret ns/s")]
    #[case("", "none")]
    #[case("x", REFUSED)]
    #[case("a/b/c", REFUSED)]
    #[case("/b", REFUSED)]
    fn the_flag_has_one_form(#[case] text: &str, #[case] want: &str) {
        let got = match text.parse::<GlobalPullSecret>() {
            Ok(GlobalPullSecret(Some(name))) => name.to_string(),
            Ok(GlobalPullSecret(None)) => "none".to_owned(),
            Err(error) => error.to_string(),
        };
        assert_eq!(got, want);
    }
}
