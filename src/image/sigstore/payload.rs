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
    /// The digest of the manifest.
    pub(crate) digest: Digest,
    /// The name that the image was signed for.
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
    use rstest::rstest;

    use super::*;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn whole(optional: &str) -> String {
        format!(
            r#"{{"critical": {{"identity": {{"docker-reference": "q.io/a"}}, "image":
            {{"docker-manifest-digest": "sha256:{HEX}"}}, "type": "{TYPE}"}}, {optional}}}"#
        )
    }

    #[rstest]
    #[case(r#""optional": null"#, true)]
    #[case(r#""optional": {}"#, true)]
    #[case(r#""optional": {"creator": "x", "timestamp": 1.0, "other": [1]}"#, true)]
    #[case(r#""optional": {"creator": null, "timestamp": null}"#, true)]
    #[case(r#""optional": {"timestamp": 1.5}"#, false)]
    #[case(r#""optional": {"timestamp": 9223372036854775808}"#, false)]
    #[case(r#""optional": {"creator": 1}"#, false)]
    #[case(r#""optional": {"a": 1, "a": 1}"#, false)]
    #[case(r#""optional": null, "more": 1"#, false)]
    #[case(r#""optional": []"#, false)]
    #[case(r#""other": null"#, false)]
    fn payloads_are_read_strictly(#[case] optional: &str, #[case] want: bool) {
        let read = Payload::parse(whole(optional).as_bytes());
        assert_eq!(read.is_ok(), want, "{read:?}");
    }

    #[rstest]
    #[case(TYPE, "atomic container signature")]
    #[case("sha256:", "md5:")]
    #[case("docker-reference", "reference")]
    fn other_payloads_are_refused(#[case] from: &str, #[case] to: &str) {
        let text = whole(r#""optional": null"#);
        assert!(Payload::parse(text.replace(from, to).as_bytes()).is_err());
        let twice = text.replace(r#""critical": {"#, r#""critical": {"type": "x", "#);
        assert!(Payload::parse(twice.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Payload::parse(&bytes);
        }
    }
}
