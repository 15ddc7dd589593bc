//! Proxies on the way to registries and the cluster.

use std::env;
use std::fmt;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::{ClientBuilder, NoProxy, Proxy, Url};

/// Variables that name proxies; each counts in small letters too.
const VARIABLES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

/// Proxies by the scheme of a request, by default none.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    http: Option<Url>,
    https: Option<Url>,
    /// Hosts, domains and ranges of addresses that are asked directly, as in `NO_PROXY`.
    except: String,
}

/// Why what is named cannot be used as proxy. The URL is not shown: it may hold credentials.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// It is not the URL of one.
    #[error("{0} is not the URL of a proxy with scheme http, https or socks5")]
    Url(&'static str),
    /// It is a SOCKS5 proxy to a cluster that asks for credentials.
    #[error("{0}: no credentials are sent to a SOCKS5 proxy on the way to a cluster")]
    Credentials(&'static str),
}

impl Proxies {
    /// Takes URLs of proxies, of which an empty one is none, and what is asked directly.
    pub fn new(http: &str, https: &str, except: &str) -> Result<Self, ProxyError> {
        let given = |name, text: &str| (!text.is_empty()).then(|| url(name, text)).transpose();
        Ok(Self {
            http: given("the proxy for http", http)?,
            https: given("the proxy for https", https)?,
            except: except.to_owned(),
        })
    }

    /// Returns whether the environment sets a proxy, which takes precedence.
    pub fn in_environment() -> bool {
        VARIABLES.into_iter().any(|name| value(name).is_some())
    }

    fn of_environment() -> Result<Self, ProxyError> {
        let of = |name| match variable(name)? {
            Some(proxy) => Ok(Some(proxy)),
            None => variable("ALL_PROXY"),
        };
        let except = value("NO_PROXY").unwrap_or_default();
        Ok(Self { http: of("HTTP_PROXY")?, https: of("HTTPS_PROXY")?, except })
    }

    /// Returns the proxy on the way to a server: that of a kubeconfig, else of the environment, by Go's
    /// rule: `HTTPS_PROXY` or `HTTP_PROXY` by the scheme, unless `NO_PROXY` or this machine is meant.
    pub fn for_server(server: &Uri, explicit: Option<&str>) -> Result<Option<Uri>, ProxyError> {
        let (name, proxy) = if let Some(explicit) = explicit {
            let name = "proxy-url in the kubeconfig";
            (name, Some(url(name, explicit)?))
        } else {
            let is_plain = server.scheme_str() == Some("http");
            let name = if is_plain { "HTTP_PROXY" } else { "HTTPS_PROXY" };
            let except = value("NO_PROXY").unwrap_or_default();
            let between = |proxy: &Url| Self::between(server, proxy.as_str(), &except);
            (name, variable(name)?.filter(between))
        };
        // The Kubernetes client sends none.
        if proxy.as_ref().is_some_and(|it| it.scheme() == "socks5h" && !it.username().is_empty()) {
            return Err(ProxyError::Credentials(name));
        }
        // It knows the scheme by this name only.
        let renamed = |proxy: Url| proxy.as_str().replacen("socks5h://", "socks5://", 1);
        proxy.map(|proxy| renamed(proxy).parse().map_err(|_| ProxyError::Url(name))).transpose()
    }

    fn between(server: &Uri, proxy: &str, except: &str) -> bool {
        let matcher = Matcher::builder().all(proxy).no(exceptions(except)).build();
        matcher.intercept(server).is_some()
    }

    /// Has a client take them; without any, those of the environment.
    pub fn on(&self, mut builder: ClientBuilder) -> Result<ClientBuilder, ProxyError> {
        let proxies = if *self == Self::default() { &Self::of_environment()? } else { self };
        let except = direct(&proxies.except);
        if let Some(http) = &proxies.http {
            let proxy =
                Proxy::http(http.clone()).map_err(|_| ProxyError::Url("the proxy for http"))?;
            builder = builder.proxy(proxy.no_proxy(except.clone()));
        }
        if let Some(https) = &proxies.https {
            let proxy =
                Proxy::https(https.clone()).map_err(|_| ProxyError::Url("the proxy for https"))?;
            builder = builder.proxy(proxy.no_proxy(except));
        }
        Ok(builder)
    }
}

/// Returns the value of a variable of the environment, if it is set in either case.
fn value(name: &str) -> Option<String> {
    let values = [name.to_owned(), name.to_lowercase()].into_iter().map(env::var);
    values.flatten().find(|value| !value.is_empty())
}

fn variable(name: &'static str) -> Result<Option<Url>, ProxyError> {
    value(name).map(|value| url(name, &value)).transpose()
}

/// Reads the URL of a proxy; without a scheme it is HTTP.
fn url(name: &'static str, given: &str) -> Result<Url, ProxyError> {
    let (scheme, rest) = given.split_once("://").unwrap_or(("http", given));
    // As for Go, in both the proxy resolves the names of servers.
    let scheme = if scheme.eq_ignore_ascii_case("socks5") { "socks5h" } else { scheme };
    let mut url = Url::parse(&format!("{scheme}://{rest}")).map_err(|_| ProxyError::Url(name))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        "socks5h" if url.has_host() => {
            let port = url.port().or(Some(1080));
            url.set_port(port).map_err(|()| ProxyError::Url(name))?;
            Ok(url)
        }
        _ => Err(ProxyError::Url(name)),
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
