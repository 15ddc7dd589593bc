//! The payload of a signature: JSON, read as strictly as by containers/image.
//!
//! Source: containers-signature(5), `containers/image` (`sigstore_payload.go`).

use olm_core::strict_json::Members;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::digest::Digest;

/// 2^63: a timestamp is an integer of 64 bits.
const LIMIT: f64 = 9_223_372_036_854_775_808.0;
const TYPE: &str = "cosign container image signature";

/// A payload, whose signature was verified already.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    pub(crate) digest: Digest,
    pub(crate) name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    critical: Critical,
    // It has to be there, but may be null.
    #[serde(deserialize_with = "present")]
    optional: Option<Members<Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Critical {
    #[serde(rename = "type")]
    kind: String,
    image: Image,
    identity: Named,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    #[serde(rename = "docker-reference")]
    name: String,
}

impl Payload {
    /// Parses a payload; what is wrong with it is said without its content.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let whole: Whole = serde_json::from_slice(bytes)
            .map_err(|_| "its payload is not of the form that cosign writes")?;
        let Members(optional) = whole.optional.unwrap_or_default();
        if optional.get("creator").is_some_and(|it| !it.is_string() && !it.is_null()) {
            return Err("optional.creator of its payload is not a string");
        }
        let is_integer = |it: f64| it.fract() == 0.0 && (-LIMIT..LIMIT).contains(&it);
        let is_time = |it: &Value| it.is_null() || it.as_f64().is_some_and(is_integer);
        if optional.get("timestamp").is_some_and(|it| !is_time(it)) {
            return Err("optional.timestamp of its payload is not an integer");
        }
        if whole.critical.kind != TYPE {
            return Err("critical.type of its payload is not that of a signature of cosign");
        }
        let digest = whole.critical.image.digest.parse();
        let digest = digest.map_err(|_| "the digest in its payload is invalid")?;
        Ok(Self { digest, name: whole.critical.identity.name })
    }
}

fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    T::deserialize(from)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixture::cases;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn whole(optional: &str) -> String {
        format!(
            r#"{{"critical": {{"identity": {{"docker-reference": "q.io/a"}}, "image":
            {{"docker-manifest-digest": "sha256:{HEX}"}}, "type": "{TYPE}"}}, {optional}}}"#
        )
    }

    #[test]
    fn payloads_are_read_strictly() {
        for (optional, want) in cases::<(String, bool)>("payloads_are_read_strictly") {
            let read = Payload::parse(whole(&optional).as_bytes());
            assert_eq!(read.is_ok(), want, "{optional}: {read:?}");
        }
    }

    #[test]
    fn other_payloads_are_refused() {
        let text = whole(r#""optional": null"#);
        let (critical, twice) = (r#""critical": {"#, r#""critical": {"type": "x", "#);
        for (from, to) in [
            (TYPE, "atomic container signature"),
            ("sha256:", "md5:"),
            ("docker-reference", "reference"),
            (critical, twice),
        ] {
            assert!(Payload::parse(text.replace(from, to).as_bytes()).is_err(), "{to}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Payload::parse(&bytes);
        }
    }
}
