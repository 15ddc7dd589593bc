//! The authentication a registry asks for: the `WWW-Authenticate` header.

use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};

/// A supported challenge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// No challenge, or an unsupported one: send anonymous requests.
    Anonymous,
    Basic,
    Bearer {
        realm: String,
        service: Option<String>,
        scope: Option<String>,
    },
}

impl Challenge {
    /// Returns the first challenge of `headers` that is supported.
    pub(crate) fn read(headers: &HeaderMap) -> Self {
        headers
            .get_all(WWW_AUTHENTICATE)
            .iter()
            .find_map(|value| parse(value.to_str().ok()?))
            .unwrap_or(Self::Anonymous)
    }
}

fn parse(value: &str) -> Option<Challenge> {
    let value = value.trim();
    let (scheme, rest) = value.split_once(' ').unwrap_or((value, ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let (mut realm, mut service, mut scope) = (None, None, None);
    let mut rest = rest;
    while let Some((key, value, after)) = parameter(rest) {
        rest = after;
        match key.to_ascii_lowercase().as_str() {
            "realm" => realm = Some(value),
            "service" => service = Some(value),
            "scope" => scope = Some(value),
            _ => {}
        }
    }
    Some(Challenge::Bearer { realm: realm?, service, scope })
}

/// Splits `key=value` or `key="quoted"` off the front of a comma-separated list.
fn parameter(text: &str) -> Option<(&str, String, &str)> {
    let (key, rest) = text.trim_start_matches([' ', '\t', ',']).split_once('=')?;
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find(',').unwrap_or(rest.len());
        return Some((key.trim(), rest[..end].trim().to_owned(), &rest[end..]));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((key.trim(), value, &quoted[at + 1..])),
            '\\' => value.push(characters.next()?.1),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Challenge {
        Challenge::Bearer {
            realm: realm.into(),
            service: service.map(Into::into),
            scope: scope.map(Into::into),
        }
    }

    #[test]
    fn reads_the_usual_forms() {
        assert_eq!(
            parse(r#"Bearer realm="https://a.io/token",service="a.io",scope="repository:x:pull""#),
            Some(bearer("https://a.io/token", Some("a.io"), Some("repository:x:pull")))
        );
        assert_eq!(
            parse(r#"bearer service=a, realm="q\"x""#),
            Some(bearer("q\"x", Some("a"), None))
        );
        assert_eq!(parse(r#"Basic realm="x""#), Some(Challenge::Basic));
        assert_eq!(parse("Negotiate"), None);
        assert_eq!(parse("Bearer service=a"), None);
    }

    proptest! {
        #[test]
        fn any_header_is_read_or_ignored(text in "(Bearer )?[ -~]{0,60}") {
            let _ = parse(&text);
        }
    }
}
