//! Registry credentials from docker and podman configuration files, kept in memory.
//!
//! In: the JSON of `config.json`, `auth.json`, `.dockerconfigjson` or `.dockercfg`. Out: the
//! credential for a repository, found by its longest prefix. Credential helpers are programs on the
//! machine and are deliberately not run.
//!
//! Source: catalogs.md 5.4, containers-auth.json(5).

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Text that never reaches a log, an event or a condition: `Debug` hides it.
#[derive(Clone, PartialEq, Eq, Deserialize, Default)]
#[serde(transparent)]
pub struct SecretString(String);

impl SecretString {
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// Returns the secret itself; only for the request that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretString(..)")
    }
}

/// Credentials that are sent to a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    Basic {
        username: String,
        password: SecretString,
    },
    /// An OAuth refresh token, exchanged for access tokens, and what is sent to a registry that has no
    /// token service: user and password, empty if there are none.
    IdentityToken {
        token: SecretString,
        username: String,
        password: SecretString,
    },
    /// A bearer token that is sent unchanged.
    RegistryToken(SecretString),
}

impl Credential {
    /// Returns user and password, if it has them.
    pub(crate) fn login(&self) -> Option<(&str, &SecretString)> {
        match self {
            Self::Basic { username, password } | Self::IdentityToken { username, password, .. } => {
                let is_set = !username.is_empty() || !password.0.is_empty();
                is_set.then_some((username.as_str(), password))
            }
            Self::RegistryToken(_) => None,
        }
    }

    /// Returns what no text may contain.
    pub(crate) fn secrets(&self) -> Vec<&str> {
        match self {
            Self::Basic { password, .. } => vec![password.expose()],
            Self::IdentityToken { token, password, .. } => vec![token.expose(), password.expose()],
            Self::RegistryToken(token) => vec![token.expose()],
        }
    }
}

/// Why credentials cannot be read. The text never contains what was read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// Not JSON of a known shape.
    #[error("credentials are not a docker configuration: {0}")]
    Shape(&'static str),
    /// The members of a key are not texts, or `auth` is not `user:password` in base64.
    #[error("invalid credentials for {0}")]
    Entry(String),
}

/// Credentials by repository prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    by_prefix: BTreeMap<String, Credential>,
    /// The faults of ignored entries.
    pub(crate) faults: Vec<AuthError>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Entry {
    auth: SecretString,
    username: String,
    password: SecretString,
    identitytoken: SecretString,
    registrytoken: SecretString,
}

impl Credentials {
    /// Reads a configuration: `{"auths": {...}}`, or the older form that is the inner map alone.
    ///
    /// Keys without a credential are skipped; `credsStore` leaves such keys behind, and settings are such
    /// keys in the older form. An entry that cannot be used does not keep the others from being used.
    ///
    /// Fails if it is of another form, or no entry can be used because something is wrong with one.
    pub fn parse(json: &[u8]) -> Result<Self, AuthError> {
        let value = serde_json::from_slice(json).map_err(|_| AuthError::Shape("not valid JSON"))?;
        let Value::Object(mut object) = value else {
            return Err(AuthError::Shape("not an object"));
        };
        let entries = match object.remove("auths") {
            Some(Value::Object(entries)) => entries,
            Some(Value::Null) => Map::new(),
            Some(_) => return Err(AuthError::Shape("unexpected members")),
            None => {
                // Without a login a configuration has settings alone, such as `currentContext`.
                object.retain(|key, value| value.is_object() || key.contains(['.', ':', '/']));
                object
            }
        };
        let mut credentials = Self::default();
        for (key, entry) in entries.into_iter().collect::<BTreeMap<_, _>>() {
            let read = Entry::read(entry).ok_or_else(|| AuthError::Entry(without_user(&key)));
            match read.and_then(|entry| entry.credential(&key)) {
                Ok(Some(credential)) => credentials.insert(&key, credential),
                Ok(None) => {}
                Err(fault) => credentials.faults.push(fault),
            }
        }
        match credentials.faults.first() {
            Some(fault) if credentials.is_empty() => Err(fault.clone()),
            _ => Ok(credentials),
        }
    }

    /// Adds `credential` for everything below `key`: a host, a repository prefix or a URL.
    pub fn insert(&mut self, key: &str, credential: Credential) {
        let (prefix, exact) = normalize(key);
        // A key written as a plain prefix takes precedence over one that was reduced from a URL.
        if exact || !self.by_prefix.contains_key(&prefix) {
            self.by_prefix.insert(prefix, credential);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.by_prefix.is_empty()
    }

    /// Returns the key and the credential with the longest prefix of `registry/repository`, cut at
    /// slashes: `host/ns/repo`, then `host/ns`, then `host`.
    pub fn lookup(&self, registry: &str, repository: &str) -> Option<(&str, &Credential)> {
        let name = format!("{registry}/{repository}");
        let mut prefix = name.as_str();
        loop {
            if let Some((key, credential)) = self.by_prefix.get_key_value(prefix) {
                return Some((key, credential));
            }
            prefix = &prefix[..prefix.rfind('/')?];
        }
    }
}

impl Entry {
    /// Reads an entry; what is null counts as absent.
    fn read(mut entry: Value) -> Option<Self> {
        if let Value::Object(members) = &mut entry {
            members.retain(|_, member| !member.is_null());
        }
        serde_json::from_value::<Option<Self>>(entry).ok().map(Option::unwrap_or_default)
    }

    fn credential(self, key: &str) -> Result<Option<Credential>, AuthError> {
        // It counts before the two fields, as for Docker and the kubelet.
        let login = if self.auth.0.is_empty() {
            Some((self.username, self.password))
        } else {
            decode(self.auth.expose())
        };
        let token = self.identitytoken;
        if !token.0.is_empty() {
            let (username, password) = login.unwrap_or_default();
            return Ok(Some(Credential::IdentityToken { token, username, password }));
        }
        if !self.registrytoken.0.is_empty() {
            return Ok(Some(Credential::RegistryToken(self.registrytoken)));
        }
        let (username, password) = login.ok_or_else(|| AuthError::Entry(without_user(key)))?;
        let credential = Credential::Basic { username, password };
        Ok(credential.login().is_some().then_some(credential))
    }
}

fn decode(auth: &str) -> Option<(String, SecretString)> {
    // With line breaks, as base64 writes them, too.
    let auth = auth.trim().replace(['\r', '\n'], "");
    let bytes = STANDARD.decode(&auth).or_else(|_| STANDARD_NO_PAD.decode(&auth)).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (username, password) = text.split_once(':')?;
    // Docker pads the decoded text with NUL bytes.
    let password = password.trim_matches('\0');
    Some((username.to_owned(), SecretString::new(password)))
}

/// Takes the user off a key that was written as a URL with one: the password may stand there.
fn without_user(key: &str) -> String {
    key.rsplit_once('@').map_or(key, |(_, host)| host).to_owned()
}

/// Reduces a key to a prefix of references, and says whether it was one as written.
fn normalize(key: &str) -> (String, bool) {
    let bare = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://"));
    let text = bare.unwrap_or(key).trim_end_matches('/');
    let (host, path) = text.split_once('/').unwrap_or((text, ""));
    // The path of a URL is an API version, which may stand behind a plain host, too.
    let names_host = bare.is_some() || matches!(path, "v1" | "v2");
    let prefix = if names_host { host } else { text };
    match prefix {
        "index.docker.io" | "registry-1.docker.io" => ("docker.io".into(), false),
        other => (other.to_owned(), !names_host),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixture::cases;

    fn basic(username: &str, password: &str) -> Credential {
        Credential::Basic { username: username.into(), password: SecretString::new(password) }
    }

    #[test]
    fn credentials_are_found() {
        type Case = (String, String, String, String);
        for (name, json, repository, want) in cases::<Case>("credentials_are_found") {
            let credentials = Credentials::parse(json.as_bytes()).unwrap();
            let registry = if repository == "docker.io" { &repository } else { "h.io" };
            let (login, token) = want.split_once(' ').unwrap_or((&want, ""));
            let login = login.split_once(':').map(|(username, password)| basic(username, password));
            let want = match login {
                Some(Credential::Basic { username, password }) if !token.is_empty() => {
                    let token = SecretString::new(token);
                    Some(Credential::IdentityToken { token, username, password })
                }
                login => login,
            };
            let found = credentials.lookup(registry, &repository);
            assert_eq!(found.map(|(_, credential)| credential), want.as_ref(), "{name}");
        }
    }

    #[test]
    fn errors_never_show_a_secret() {
        for json in cases::<String>("errors_never_show_a_secret") {
            let err = Credentials::parse(json.as_bytes()).unwrap_err();
            assert!(!format!("{err} {err:?}").contains("c2VjcmV0"), "{json}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Credentials::parse(&bytes);
        }
    }
}
