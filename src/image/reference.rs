//! Image references, parsed strictly: what is not fully qualified is refused.
//!
//! In: text as a user or a catalog wrote it. Out: an [`ImageRef`] with registry, repository and a
//! tag or a digest. No registry is ever guessed and no tag is ever added, because a controller must
//! only pull from registries that somebody named.
//!
//! Source: distribution `reference` package (grammar and texts), catalogs.md 5.2.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use olm_core::catalog::lint::Pinned;
use olm_core::error::quote;

use crate::digest::{Digest, DigestError};

/// Longest repository name, registry included, in bytes.
const MAX_NAME_BYTES: usize = 255;
/// A violation of the grammar that is not named.
const GRAMMAR: Malformed = Malformed::Grammar(Cow::Borrowed("invalid reference format"));
/// Longest tag, in bytes.
const MAX_TAG_BYTES: usize = 128;

/// A fully qualified image reference with a tag, a digest, or both.
///
/// With both, the digest decides and the tag is only shown (catalogs.md 5.2).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageRef {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// Returns how a text pins an image, or why it is invalid.
pub fn pinned(text: &str) -> Result<Pinned, String> {
    match text.parse::<ImageRef>() {
        Ok(image) if image.digest().is_some() => Ok(Pinned::Digest),
        // Without a tag it means the tag `latest`.
        Ok(_) | Err(ReferenceError::NoVersion(_)) => Ok(Pinned::Tag),
        Err(ReferenceError::Parse { reason: Malformed::NotCanonical, .. }) => Ok(Pinned::Short),
        Err(ReferenceError::Parse { reason, .. }) => Err(reason.to_string()),
    }
}

/// A reference that cannot be used, as conditions show it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    #[error("error parsing image reference {}", quote(reference))]
    Parse {
        reference: String,
        #[source]
        reason: Malformed,
    },
    /// The reference names a repository but has neither tag nor digest.
    #[error("error creating reference: Docker reference {0} has neither a tag nor a digest")]
    NoVersion(String),
}

/// The faults of the text of a reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Registry or namespace are missing, such as in `nginx:1` or `docker.io/alpine`.
    #[error("repository name must be canonical")]
    NotCanonical,
    /// Any other violation of the grammar.
    #[error("{0}")]
    Grammar(Cow<'static, str>),
    #[error(transparent)]
    Digest(#[from] DigestError),
}

impl ImageRef {
    /// Returns the registry host with its port, as written: `quay.io`, `127.0.0.1:5000`.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Returns the path of the repository inside the registry: `ns/repo`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Returns registry and repository: `quay.io/ns/repo`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }

    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// Returns the reference to `digest` in the same repository, without a tag.
    #[must_use]
    pub fn with_digest(&self, digest: Digest) -> Self {
        Self { tag: None, digest: Some(digest), ..self.clone() }
    }

    /// Parses a reference as other tools write it, with or without a version: without a registry it
    /// is one of `docker.io`, and without a namespace there of `library`.
    ///
    /// Source: distribution `reference` package (`ParseNormalizedNamed`).
    pub(crate) fn normalized(text: &str) -> Result<Self, Malformed> {
        // It would be the identifier of an image.
        if text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(GRAMMAR);
        }
        let (host, path) = match text.split_once('/') {
            Some((host, path)) if is_host(host) => (host, path),
            _ => ("docker.io", text),
        };
        match host {
            "docker.io" | "index.docker.io" if !path.contains('/') => {
                parse(&format!("docker.io/library/{path}"))
            }
            "index.docker.io" => parse(&format!("docker.io/{path}")),
            _ => parse(&format!("{host}/{path}")),
        }
    }

    pub(crate) fn is_name_only(&self) -> bool {
        self.tag.is_none() && self.digest.is_none()
    }

    /// Returns the scopes of configuration that cover the image, the most specific first: the
    /// reference, the repository, its namespaces, the host, and wildcards of its domains.
    pub(crate) fn scopes(&self) -> Vec<String> {
        let mut scopes = vec![self.to_string()];
        let name = self.name();
        let mut prefix = name.as_str();
        scopes.push(prefix.to_owned());
        while let Some(slash) = prefix.rfind('/') {
            prefix = &prefix[..slash];
            scopes.push(prefix.to_owned());
        }
        let mut domain = self.registry.split(':').next().unwrap_or_default();
        while let Some(dot) = domain.find('.') {
            scopes.push(format!("*{}", &domain[dot..]));
            domain = &domain[dot + 1..];
        }
        scopes
    }

    /// Returns the digest, otherwise the tag, for requests to a registry.
    pub fn version(&self) -> String {
        let digest = self.digest.as_ref().map(ToString::to_string);
        digest.or_else(|| self.tag.clone()).unwrap_or_default()
    }
}

impl FromStr for ImageRef {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let parsed = parse(text)
            .map_err(|reason| ReferenceError::Parse { reference: text.to_owned(), reason })?;
        if parsed.is_name_only() {
            return Err(ReferenceError::NoVersion(parsed.name()));
        }
        Ok(parsed)
    }
}

impl fmt::Display for ImageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

fn parse(text: &str) -> Result<ImageRef, Malformed> {
    let versioned = text.split_once('@');
    let (named, digest) = versioned.map_or((text, None), |(named, digest)| (named, Some(digest)));
    let (name, tag) = split_tag(named);
    if name.is_empty() {
        let text = "repository name must have at least one component";
        return Err(Malformed::Grammar(text.into()));
    }
    // If the first component is not certainly a host, other tools would insert a default registry.
    let Some((registry, repository)) = name.split_once('/').filter(|(host, _)| is_host(host))
    else {
        return Err(shortened(name));
    };
    if repository.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err(uppercase(repository));
    }
    if !is_registry(registry) || !repository.split('/').all(is_component) {
        return Err(GRAMMAR);
    }
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return Err(GRAMMAR);
    }
    if name.len() > MAX_NAME_BYTES {
        let text = format!("repository name must not be more than {MAX_NAME_BYTES} characters");
        return Err(Malformed::Grammar(text.into()));
    }
    let digest = digest.map(parse_digest).transpose()?;
    // `docker.io/alpine` stands for `docker.io/library/alpine`, `index.docker.io` for `docker.io`.
    let short_hub = registry == "docker.io" && !repository.contains('/');
    if short_hub || registry == "index.docker.io" {
        return Err(Malformed::NotCanonical);
    }
    Ok(ImageRef {
        registry: registry.to_owned(),
        repository: repository.to_owned(),
        tag: tag.map(str::to_owned),
        digest,
    })
}

/// Splits `name:tag`; a colon before the last slash belongs to a port.
fn split_tag(named: &str) -> (&str, Option<&str>) {
    let slash = named.rfind('/').map_or(0, |at| at + 1);
    match named[slash..].find(':') {
        Some(colon) => (&named[..slash + colon], Some(&named[slash + colon + 1..])),
        None => (named, None),
    }
}

/// Returns why a name without a registry is refused: it is short, or invalid.
fn shortened(name: &str) -> Malformed {
    if name.split('/').all(is_component) {
        Malformed::NotCanonical
    } else if name.bytes().any(|b| b.is_ascii_uppercase()) {
        uppercase(name)
    } else {
        GRAMMAR
    }
}

fn uppercase(name: &str) -> Malformed {
    let text = format!("invalid reference format: repository name ({name}) must be lowercase");
    Malformed::Grammar(text.into())
}

/// Returns whether the first component of a name can only be a registry.
fn is_host(component: &str) -> bool {
    component.contains(['.', ':'])
        || component == "localhost"
        || component.bytes().any(|b| b.is_ascii_uppercase())
}

/// Returns whether a text is a registry, or the beginning of the names in one: `h.io:5000/a`.
pub(crate) fn is_prefix(text: &str) -> bool {
    let mut parts = text.split('/');
    parts.next().is_some_and(is_registry) && parts.all(is_component)
}

fn is_registry(registry: &str) -> bool {
    if let Some(rest) = registry.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else { return false };
        let port_is_fine = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        // Groups alone: no zone, and no IPv4 address in the last ones.
        let groups = address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':');
        return groups && address.parse::<std::net::Ipv6Addr>().is_ok() && port_is_fine;
    }
    is_domain(registry)
}

/// Returns whether a text is a host by name or IPv4 address, with or without a port.
fn is_domain(text: &str) -> bool {
    let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
    port.is_none_or(is_port) && host.split('.').all(is_host_label)
}

fn is_port(port: &str) -> bool {
    !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())
}

fn is_host_label(label: &str) -> bool {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    !label.is_empty() && label.bytes().all(fine) && !label.starts_with('-') && !label.ends_with('-')
}

/// Path component: alphanumeric runs joined by `.`, `_`, `__` or dashes.
fn is_component(component: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = component.as_bytes();
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else { return false };
    if !alphanumeric(first) || !alphanumeric(last) {
        return false;
    }
    component
        .split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        .all(|joint| matches!(joint, "" | "." | "_" | "__") || joint.bytes().all(|b| b == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let bytes = tag.as_bytes();
    bytes.len() <= MAX_TAG_BYTES
        && bytes.first().is_some_and(|&b| word(b))
        && bytes.iter().all(|&b| word(b) || b == b'.' || b == b'-')
}

/// Distinguishes text outside the grammar from an invalid digest, as upstream does.
fn parse_digest(digest: &str) -> Result<Digest, Malformed> {
    let Some((algorithm, hex)) = digest.split_once(':') else { return Err(GRAMMAR) };
    let algorithm_fine = algorithm
        .split(['-', '_', '+', '.'])
        .all(|part| part.starts_with(|c: char| c.is_ascii_alphabetic()))
        && algorithm.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_+.".contains(&b));
    if !algorithm_fine || hex.len() < 32 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(GRAMMAR);
    }
    Ok(digest.parse()?)
}

#[cfg(test)]
mod tests {
    use olm_core::error::Chain;
    use proptest::prelude::*;

    use super::*;
    use crate::fixture::cases;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn canonical_references_round_trip() {
        for text in cases::<String>("canonical_references_round_trip") {
            let text = text.replace("HEX", HEX);
            assert_eq!(text.parse::<ImageRef>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn names_of_other_tools_are_completed() {
        for (text, want) in cases::<(String, String)>("names_of_other_tools_are_completed") {
            assert_eq!(ImageRef::normalized(&text).unwrap().to_string(), want, "{text}");
            assert!(ImageRef::normalized(&format!("{text}/")).is_err(), "{text}");
        }
    }

    #[test]
    fn other_references_are_refused() {
        for (text, want) in cases::<(String, String)>("other_references_are_refused") {
            let err = text.parse::<ImageRef>().unwrap_err();
            let head = format!("error parsing image reference {}", quote(&text));
            assert_eq!(Chain(&err).to_string(), format!("{head}: {want}"));
        }
    }

    #[test]
    fn reference_without_tag_and_digest_is_refused() {
        let err = "quay.io/foo/bar".parse::<ImageRef>().unwrap_err();
        assert_eq!(
            err.to_string(),
            "error creating reference: Docker reference quay.io/foo/bar has neither a tag nor a digest"
        );
    }

    #[test]
    fn digest_wins_over_tag() {
        let image: ImageRef = format!("quay.io/ns/cat:v1@sha256:{HEX}").parse().unwrap();
        assert_eq!(image.version(), format!("sha256:{HEX}"));
        let digest = image.digest().unwrap().clone();
        assert_eq!(image.with_digest(digest).to_string(), format!("quay.io/ns/cat@sha256:{HEX}"));
    }

    #[test]
    fn long_names_and_tags_are_refused() {
        let name = format!("quay.io/{}:1", "a".repeat(248));
        assert!(name.parse::<ImageRef>().is_err());
        assert!(format!("q.io/a:{}", "t".repeat(128)).parse::<ImageRef>().is_ok());
        assert!(format!("q.io/a:{}", "t".repeat(129)).parse::<ImageRef>().is_err());
    }

    proptest! {
        #[test]
        fn parsing_never_panics_and_keeps_the_text(text in "\\PC{0,80}|[a-z0-9./:@_-]{0,80}") {
            if let Ok(image) = text.parse::<ImageRef>() {
                prop_assert_eq!(image.to_string(), text);
            }
        }
    }
}
