//! `signedIdentity` of `policy.json`: the names for which a signature counts.
//!
//! Source: containers-policy.json(5), `containers/image` (`policy_reference_match.go`).

use std::fmt;

use olm_core::error::quote;
use serde::Deserialize;

use crate::reference::{ImageRef, is_prefix};

/// A rule for the name in a signature.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
#[expect(clippy::enum_variant_names, reason = "as policy.json names them")]
pub(crate) enum Identity {
    /// The name of the image, with its version.
    MatchExact {},
    /// The name of the image with its tag; without a tag any name of the repository with a version.
    MatchRepoDigestOrExact {},
    /// Any name of the image's repository.
    MatchRepository {},
    ExactReference {
        docker_reference: Exact,
    },
    ExactRepository {
        docker_repository: Named,
    },
    /// As `MatchRepoDigestOrExact`, after one beginning of the image's name became another.
    RemapIdentity {
        prefix: Prefix,
        signed_prefix: Prefix,
    },
}

impl Default for Identity {
    fn default() -> Self {
        Self::MatchRepoDigestOrExact {}
    }
}

/// A reference with or without a version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Named(ImageRef);

impl TryFrom<String> for Named {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parsed = ImageRef::normalized(&text);
        parsed.map(Self).map_err(|why| format!("{} is not a name of images: {why}", quote(&text)))
    }
}

/// A reference with a version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Named")]
pub(crate) struct Exact(ImageRef);

impl TryFrom<Named> for Exact {
    type Error = String;

    fn try_from(Named(image): Named) -> Result<Self, String> {
        if image.is_name_only() {
            return Err(format!("{image} has neither a tag nor a digest"));
        }
        Ok(Self(image))
    }
}

/// The beginning of names: a registry, or more.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Prefix(String);

impl TryFrom<String> for Prefix {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if is_prefix(&text) {
            Ok(Self(text))
        } else {
            Err(format!("{} is not a registry or the beginning of names in one", quote(&text)))
        }
    }
}

/// The name that an image has to be signed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    Name(ImageRef),
    /// One of this repository, with a tag or a digest.
    Version(String),
    /// One of this repository.
    Repository(String),
    /// `remapIdentity` makes no valid name of the image's.
    Nothing,
}

impl Identity {
    /// Returns the name that an image has to be signed for.
    pub(crate) fn wanted(&self, image: &ImageRef) -> Wanted {
        match self {
            Self::MatchExact {} => Wanted::Name(image.clone()),
            Self::MatchRepoDigestOrExact {} => Wanted::version(image),
            Self::MatchRepository {} => Wanted::Repository(image.name()),
            Self::ExactReference { docker_reference } => Wanted::Name(docker_reference.0.clone()),
            Self::ExactRepository { docker_repository } => {
                Wanted::Repository(docker_repository.0.name())
            }
            Self::RemapIdentity { prefix: Prefix(prefix), signed_prefix: Prefix(signed) } => {
                let text = image.to_string();
                match image.name().strip_prefix(prefix.as_str()) {
                    Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                        let signed = format!("{signed}{}", &text[prefix.len()..]).parse();
                        signed.map_or(Wanted::Nothing, |image| Wanted::version(&image))
                    }
                    _ => Wanted::version(image),
                }
            }
        }
    }
}

impl Wanted {
    fn version(image: &ImageRef) -> Self {
        match image.tag() {
            Some(_) => Self::Name(image.clone()),
            None => Self::Version(image.name()),
        }
    }

    /// Returns whether the name in a signature is the expected one.
    pub(crate) fn is(&self, signed: &str) -> bool {
        let Ok(signed) = ImageRef::normalized(signed) else { return false };
        match self {
            Self::Name(image) => signed == *image,
            Self::Version(name) => !signed.is_name_only() && signed.name() == *name,
            Self::Repository(name) => signed.name() == *name,
            Self::Nothing => false,
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(image) => write!(f, "{image}"),
            Self::Version(name) => write!(f, "{name} with a tag or a digest"),
            Self::Repository(name) => write!(f, "{name}"),
            Self::Nothing => write!(f, "a name that remapIdentity cannot make"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cases;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    // more: testdata/signatures.toml
    #[test]
    fn names_count_as_for_containers_image() {
        type Case = (String, Vec<String>, Vec<String>);
        let image = "q.io/a:1".parse().unwrap();
        for (rule, right, mut wrong) in cases::<Case>("names_count_as_for_containers_image") {
            let wanted = serde_json::from_str::<Identity>(&rule).unwrap().wanted(&image);
            for name in right {
                assert!(wanted.is(&name), "{wanted:?} is not {name}");
            }
            wrong.extend(["", "a b", HEX].map(str::to_owned));
            for name in wrong {
                assert!(!wanted.is(&name), "{wanted:?} is {name}");
            }
        }
    }

    #[test]
    fn other_rules_are_refused() {
        for rule in cases::<String>("other_rules_are_refused") {
            assert!(serde_json::from_str::<Identity>(&rule).is_err(), "{rule}");
        }
    }
}
