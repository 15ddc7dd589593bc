//! Proxies on the way to registries, where the environment names none.

use std::env;
use std::fmt;

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

/// What is given as a proxy is not the URL of one.
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

    /// Says whether the environment names a proxy; then nothing else counts.
    pub fn in_environment() -> bool {
        let set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
        let both = |name: &&str| set(name) || set(&name.to_lowercase());
        VARIABLES.iter().any(both)
    }

    /// Has a client take them; without any, those of the environment.
    pub(crate) fn on(&self, mut builder: ClientBuilder) -> reqwest::Result<ClientBuilder> {
        let except = NoProxy::from_string(&self.except);
        if let Some(http) = &self.http {
            builder = builder.proxy(Proxy::http(http)?.no_proxy(except.clone()));
        }
        if let Some(https) = &self.https {
            builder = builder.proxy(Proxy::https(https)?.no_proxy(except));
        }
        Ok(builder)
    }
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
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("http://proxy:3128", "http://user:secret@proxy:3128", true)]
    #[case("", "", true)]
    #[case("proxy:3128", "", true)]
    #[case("", "http://", false)]
    #[case("http://a b", "", false)]
    fn a_proxy_has_a_url(#[case] http: &str, #[case] https: &str, #[case] good: bool) {
        let made = Proxies::new(http, https, "");
        assert_eq!(made.is_ok(), good, "{made:?}");
        let shown = format!("{made:?}");
        assert!(!shown.contains("secret"), "{shown}");
    }
}
