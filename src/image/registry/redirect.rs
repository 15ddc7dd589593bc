//! Which redirects of a registry are followed.
//!
//! A registry is chosen by whoever writes a catalog, so its responses must not decide which hosts
//! are contacted. Only blobs, and manifests that are asked for by digest, may come from another one,
//! because they are verified, and the answer whether an image exists, of which nothing is used.
//!
//! Source: catalogs.md 8.3.

use std::net::IpAddr;

use reqwest::header::{HeaderMap, LOCATION};
use reqwest::{StatusCode, Url};

use super::error::RequestError;

/// Which redirects of a request are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Redirects {
    /// To the same scheme, host and port.
    SameHost,
    /// To any host, but not from `https` to `http`.
    AnyHost,
}

/// Returns the target of a redirect in the response of a request to `at`, `None` if there is none.
pub(super) fn target(
    at: &Url,
    status: StatusCode,
    headers: &HeaderMap,
    allowed: Redirects,
) -> Result<Option<Url>, RequestError> {
    if !matches!(status.as_u16(), 301..=303 | 307 | 308) {
        return Ok(None);
    }
    location(at, headers, allowed)
}

/// Returns the URL in `Location` of a response to a request to `at`, if there is one.
pub(super) fn location(
    at: &Url,
    headers: &HeaderMap,
    allowed: Redirects,
) -> Result<Option<Url>, RequestError> {
    let Some(location) = headers.get(LOCATION) else { return Ok(None) };
    let joined = location.to_str().ok().and_then(|it| at.join(it).ok());
    let Some(mut next) = joined else { return Ok(None) };
    // User names in a redirect are never ours, so they are dropped.
    let _ = next.set_username("").and_then(|()| next.set_password(None));
    let why = if !matches!(next.scheme(), "http" | "https") {
        "it is neither http nor https"
    } else if at.scheme() == "https" && next.scheme() == "http" {
        "it leads from https to http"
    } else if allowed == Redirects::SameHost && !is_same_host(at, &next) {
        "only what has a digest may be on another host"
    } else {
        return Ok(Some(next));
    };
    Err(RequestError::redirect(at, &next, why))
}

/// Returns whether scheme, host and port are the same.
pub(super) fn is_same_host(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

/// Returns whether the host of a URL is a loopback or link-local address: only a registry at such
/// an address may name a token service at one. Host names are not resolved.
pub(super) fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let Ok(address) = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() else {
        let name = host.trim_end_matches('.');
        return name.is_empty() || name == "localhost" || name.ends_with(".localhost");
    };
    let address = address.to_canonical();
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    address.is_loopback() || address.is_unspecified() || is_link_local
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cases;

    const FROM: &str = "https://a.io/v2/r/blobs/x";

    fn follow(from: &str, location: &str, allowed: Redirects) -> Result<String, String> {
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, location.parse().unwrap());
        let from = from.parse().unwrap();
        match target(&from, StatusCode::TEMPORARY_REDIRECT, &headers, allowed) {
            Ok(next) => Ok(next.map(|it| it.to_string()).unwrap_or_default()),
            Err(err) => Err(err.to_string()),
        }
    }

    #[test]
    fn requests_stay_with_their_host() {
        for (name, to, want) in cases::<(String, String, String)>("requests_stay_with_their_host") {
            match follow(FROM, &to, Redirects::SameHost) {
                Ok(got) => assert_eq!(got, want, "{name}"),
                Err(got) => assert!(!want.is_empty() && got.ends_with(&want), "{name}: {got}"),
            }
        }
    }

    #[test]
    fn what_is_verified_may_be_elsewhere_but_not_in_the_clear() {
        let followed = |to| follow(FROM, to, Redirects::AnyHost).is_ok();
        assert!(followed("https://b.io/x") && followed("https://a.io:444/x"));
        assert!(!followed("http://b.io/x") && !followed("ftp://b.io/x"));
    }

    #[test]
    fn this_machine_is_known() {
        for (url, local) in cases::<(String, bool)>("this_machine_is_known") {
            assert_eq!(is_local(&url.parse().unwrap()), local, "{url}");
        }
    }
}
