//! The path and the query of a request.
//!
//! By hand, because the answers are those of upstream's server (catalogs.md 3.1, 3.4): an unclean
//! path is redirected, of a repeated parameter the first counts, an empty one is an absent one, a
//! semicolon and an unknown parameter are refused. The extractors of the HTTP library refuse
//! repeated parameters and take the others.

use olm_core::bundle::{MAX_SUBDOMAIN_BYTES, is_subdomain};

use crate::catalog::index::Query;

/// The target of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// The catalog's segment, still percent-encoded.
    pub(super) catalog: String,
    pub(super) endpoint: Endpoint,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint {
    All,
    Metas,
}

/// Why a path leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    NotFound,
    /// It has empty or dot segments; holds the path without them.
    Unclean(String),
}

/// Reads `/catalogs/<name>/api/v1/<endpoint>`.
pub(super) fn parse(path: &str) -> Result<Target, Refusal> {
    let clean = clean(path);
    if clean != path {
        return Err(Refusal::Unclean(clean));
    }
    let segments: Vec<&str> = path.split('/').collect();
    let endpoint = match segments[..] {
        ["", "catalogs", _, "api", "v1", "all"] => Endpoint::All,
        ["", "catalogs", _, "api", "v1", "metas"] => Endpoint::Metas,
        _ => return Err(Refusal::NotFound),
    };
    Ok(Target { catalog: segments[2].to_owned(), endpoint })
}

/// Removes empty segments, `.` and `..`, and keeps a trailing slash.
fn clean(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut directory = true;
    for segment in path.split('/').skip(1) {
        directory = matches!(segment, "" | "." | "..");
        match segment {
            "" | "." => {}
            ".." => {
                kept.pop();
            }
            name => kept.push(name),
        }
    }
    let slash = if directory && !kept.is_empty() { "/" } else { "" };
    format!("/{}{slash}", kept.join("/"))
}

/// Decodes and checks the name of a catalog, or says what is wrong with it.
pub(super) fn catalog_name(segment: &str) -> Result<String, &'static str> {
    const FORM: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
        characters, '-' or '.', and must start and end with an alphanumeric character";
    let name = decode(segment, false).ok_or(FORM)?;
    if name.len() > MAX_SUBDOMAIN_BYTES {
        return Err("must be no more than 253 bytes");
    }
    if is_subdomain(&name) { Ok(name) } else { Err(FORM) }
}

/// Reads the query of `/metas`; nothing when a parameter is unknown or cannot be decoded.
///
/// Of repeated parameters the first counts; an empty value equals an absent one.
pub(super) fn query(text: &str) -> Option<Query> {
    let mut found = [const { None }; 3];
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        if pair.contains(';') {
            return None;
        }
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let key = decode(key, true)?;
        let at = ["schema", "package", "name"].iter().position(|known| *known == key)?;
        found[at].get_or_insert(decode(value, true)?);
    }
    let [schema, package, name] = found.map(Option::unwrap_or_default);
    Some(Query { schema, package, name })
}

/// Undoes percent-encoding, and `+` for a blank where `form` says so.
fn decode(text: &str, form: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let value = digit()? * 16 + digit()?;
                u8::try_from(value).ok()?
            }
            b'+' if form => b' ',
            plain => plain,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    // catalogs.md H1
    #[rstest]
    #[case("/")]
    #[case("/catalogs/")]
    #[case("/catalogs/x/")]
    #[case("/catalogs/x/api/v1")]
    #[case("/catalogs/x.jsonl")]
    #[case("/catalogs/x/api/v1/all/")]
    #[case("/catalogs/x/api/v1/graphql")]
    fn leads_nowhere(#[case] path: &str) {
        assert_eq!(parse(path), Err(Refusal::NotFound));
    }

    #[rstest]
    #[case("//", "/")]
    #[case("/catalogs//x", "/catalogs/x")]
    #[case("/catalogs/../x/", "/x/")]
    #[case("/../..", "/")]
    #[case("/a/.", "/a/")]
    fn unclean_paths_are_cleaned(#[case] path: &str, #[case] clean: &str) {
        assert_eq!(parse(path), Err(Refusal::Unclean(clean.to_owned())));
    }

    // catalogs.md H2
    #[rstest]
    #[case("x", true)]
    #[case("a-b.c1", true)]
    #[case("%78", true)]
    #[case("Foo_Bar", false)]
    #[case("%2e%2e", false)]
    #[case("a%2Fb", false)]
    #[case("%zz", false)]
    #[case("", false)]
    #[case("-a", false)]
    fn names(#[case] segment: &str, #[case] valid: bool) {
        assert_eq!(catalog_name(segment).is_ok(), valid);
    }

    // catalogs.md H10, H11
    #[rstest]
    #[case("", Some(("", "", "")))]
    #[case("schema=", Some(("", "", "")))]
    #[case("schema=olm.bundle&&schema=x", Some(("olm.bundle", "", "")))]
    #[case("package=a+b%2Bc&name=n", Some(("", "a b+c", "n")))]
    #[case("version=1", None)]
    #[case("schema=a;b", None)]
    #[case("schema=%zz", None)]
    #[case("schema=%2", None)]
    fn queries(#[case] text: &str, #[case] want: Option<(&str, &str, &str)>) {
        let got = query(text);
        let got = got.as_ref().map(|query| (&*query.schema, &*query.package, &*query.name));
        assert_eq!(got, want);
    }

    proptest! {
        #[test]
        fn cleaning_is_idempotent(path in "/[a./%]{0,12}") {
            let once = clean(&path);
            prop_assert_eq!(clean(&once), once);
        }

        #[test]
        fn never_panics(path in ".{0,30}") {
            let _ = parse(&path);
            let _ = query(&path);
            let _ = catalog_name(&path);
        }
    }
}
