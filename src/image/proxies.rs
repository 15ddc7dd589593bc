//! Proxies on the way to registries, where the environment names none.

use std::env;
use std::fmt;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::{ClientBuilder, NoProxy, Proxy};

/// Variables that name proxies; each counts in small letters too.
const VARIABLES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

/// Proxies by the scheme of a request, by default none.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    http: Option<String>,
    https: Option<String>,
    /// Hosts, domains and ranges of addresses that are asked directly, as in `NO_PROXY`.
    except: String,
}

/// The value is not the URL of a proxy.
#[derive(Debug, thiserror::Error)]
#[error("the proxy for {0} is not a URL")]
pub struct ProxyError(&'static str);

impl Proxies {
    /// Takes URLs of proxies, of which an empty one is none, and what is asked directly.
    ///
    /// # Errors
    /// Fails when one is not a URL.
    pub fn new(http: &str, https: &str, except: &str) -> Result<Self, ProxyError> {
        // Why is not said: the URL may hold credentials.
        Proxy::http(url(http)).map_err(|_| ProxyError("http"))?;
        Proxy::https(url(https)).map_err(|_| ProxyError("https"))?;
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Ok(Self { http: given(http), https: given(https), except: except.to_owned() })
    }

    /// Returns whether the environment sets a proxy, which takes precedence.
    pub fn in_environment() -> bool {
        let set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
        let both = |name: &&str| set(name) || set(&name.to_lowercase());
        VARIABLES.iter().any(both)
    }

    /// Returns those of the environment.
    fn of_environment() -> Self {
        let value = |name: &str| {
            let values = [name.to_owned(), name.to_lowercase()].into_iter().map(env::var);
            values.flatten().find(|value| !value.is_empty())
        };
        let of = |name| value(name).or_else(|| value("ALL_PROXY")).unwrap_or_default();
        let except = value("NO_PROXY").unwrap_or_default();
        Self::new(&of("HTTP_PROXY"), &of("HTTPS_PROXY"), &except).unwrap_or_default()
    }

    /// Returns the proxy of the environment on the way to a server, by Go's rule: `HTTPS_PROXY` or
    /// `HTTP_PROXY` by the scheme, unless `NO_PROXY` or this machine is meant.
    pub fn for_server(server: &Uri) -> Option<String> {
        let found = |name: &str| {
            let values = [name.to_owned(), name.to_lowercase()].into_iter().map(env::var);
            values.flatten().find(|value| !value.is_empty())
        };
        let is_plain = server.scheme_str() == Some("http");
        let proxy = found(if is_plain { "HTTP_PROXY" } else { "HTTPS_PROXY" })?;
        Self::between(server, &proxy, &found("NO_PROXY").unwrap_or_default())
            .then(|| if proxy.contains("://") { proxy } else { format!("http://{proxy}") })
    }

    fn between(server: &Uri, proxy: &str, except: &str) -> bool {
        let matcher = Matcher::builder().all(proxy).no(exceptions(except)).build();
        matcher.intercept(server).is_some()
    }

    /// Has a client take them; without any, those of the environment.
    ///
    /// # Errors
    /// Fails when one is not a URL.
    pub fn on(&self, mut builder: ClientBuilder) -> reqwest::Result<ClientBuilder> {
        let proxies = if *self == Self::default() { &Self::of_environment() } else { self };
        let except = direct(&proxies.except);
        if let Some(http) = &proxies.http {
            builder = builder.proxy(Proxy::http(http)?.no_proxy(except.clone()));
        }
        if let Some(https) = &proxies.https {
            builder = builder.proxy(Proxy::https(https)?.no_proxy(except));
        }
        Ok(builder)
    }
}

/// Reads what is asked directly. The client knows domains and addresses; here it gets what else Go
/// understands: `*.example.com`, a port, which then counts as any, and this machine, always.
fn direct(except: &str) -> Option<NoProxy> {
    NoProxy::from_string(&exceptions(except))
}

fn exceptions(except: &str) -> String {
    let hosts = except.split(',').map(host).chain(["localhost", "127.0.0.0/8", "::1"]);
    hosts.collect::<Vec<_>>().join(",")
}

fn host(entry: &str) -> &str {
    let entry = entry.trim();
    let host = match entry.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => entry,
    };
    // Colons that are left are those of an address.
    let host = if host.contains(':') && !host.starts_with('[') { entry } else { host };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.starts_with("*.") { &host[1..] } else { host }
}

/// Their URLs may hold credentials.
impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxies").finish_non_exhaustive()
    }
}

/// Returns something to parse in place of nothing.
fn url(given: &str) -> &str {
    if given.is_empty() { "http://none" } else { given }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cases;

    #[test]
    fn a_proxy_has_a_url() {
        for (http, https, good) in cases::<(String, String, bool)>("a_proxy_has_a_url") {
            let made = Proxies::new(&http, &https, "");
            assert_eq!(made.is_ok(), good, "{http} {https}: {made:?}");
            let shown = format!("{made:?}");
            assert!(!shown.contains("secret"), "{shown}");
        }
    }

    #[test]
    fn a_server_is_asked_through_the_proxy_unless_it_is_excepted() {
        let all = cases("a_server_is_asked_through_the_proxy_unless_it_is_excepted");
        for (name, server, except, want) in all as Vec<(String, String, String, bool)> {
            let server = server.parse().unwrap();
            for proxy in ["http://proxy.corp:3128", "proxy.corp:3128"] {
                assert_eq!(Proxies::between(&server, proxy, &except), want, "{name}: {proxy}");
            }
        }
    }

    #[test]
    fn exceptions_are_read_like_those_of_go_but_for_ports() {
        let all = cases("exceptions_are_read_like_those_of_go_but_for_ports");
        for (entry, want) in all as Vec<(String, String)> {
            assert_eq!(host(&entry), want, "{entry}");
        }
    }
}
