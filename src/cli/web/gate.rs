//! Admits only requests from this machine to this address that know the secret.
//!
//! There are no cookies, which all ports of a host share. Source: plugin.md 4, table.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, StatusCode};

/// The lifetime of the opening code.
const OPENING: Duration = Duration::from_secs(30);

const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The address that is served, and what one must know to be served.
pub(crate) struct Gate {
    address: SocketAddr,
    secret: String,
    opening: Mutex<Option<(String, Instant)>>,
}

impl Gate {
    /// Makes a gate for a bound address with a new secret of 128 random bits.
    pub(crate) fn new(address: SocketAddr) -> anyhow::Result<Self> {
        Ok(Self { address, secret: random()?, opening: Mutex::default() })
    }

    /// Returns the path that everything is below, without a slash at the end.
    pub(crate) fn base(&self) -> String {
        format!("/{}", self.secret)
    }

    /// Returns the address of the first page.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.secret)
    }

    /// Returns an address that leads to the first page once and soon: it may be seen by others, as
    /// arguments of programs are.
    pub(crate) fn opening_url(&self) -> anyhow::Result<String> {
        let code = random()?;
        let url = format!("http://{}/{code}", self.address);
        let until = Instant::now() + OPENING;
        *self.opening.lock().unwrap_or_else(PoisonError::into_inner) = Some((code, until));
        Ok(url)
    }

    /// Returns whether a path is the opening code, which is used up then.
    fn opens(&self, path: &str) -> bool {
        let mut opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let is_code = |(code, _): &mut (String, Instant)| path.strip_prefix('/') == Some(code);
        opening.take_if(is_code).is_some_and(|(_, until)| Instant::now() <= until)
    }

    /// Returns the answer to a request that gets no page.
    fn refusal(&self, request: &Request) -> Option<Response> {
        let text = |name: HeaderName| request.headers().get(name)?.to_str().ok();
        let local = format!("localhost:{}", self.address.port());
        let host = text(header::HOST).unwrap_or_default();
        // Clients leave out the port that HTTP has anyway.
        let is_meant =
            |own: &String| host == own || own.strip_suffix(":80").is_some_and(|own| host == own);
        if ![self.address.to_string(), local].iter().any(is_meant) {
            return Some(StatusCode::MISDIRECTED_REQUEST.into_response());
        }
        if text(HeaderName::from_static("sec-fetch-site")) == Some("cross-site") {
            return Some(StatusCode::FORBIDDEN.into_response());
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let allow = [(header::ALLOW, "GET, HEAD")];
            return Some((StatusCode::METHOD_NOT_ALLOWED, allow).into_response());
        }
        let path = request.uri().path();
        if self.opens(path) {
            let to = [(header::LOCATION, format!("{}/", self.base()))];
            return Some((StatusCode::SEE_OTHER, to).into_response());
        }
        let inside = path.strip_prefix(&self.base()).is_some_and(|rest| rest.starts_with('/'));
        (!inside).then(|| StatusCode::NOT_FOUND.into_response())
    }
}

/// Lets a request in, or refuses it; every answer gets the headers that it does not have already.
pub(crate) async fn guard(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let mut response = match gate.refusal(&request) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Returns 128 random bits as text that can stand in a path.
fn random() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let filled = provider.secure_random.fill(&mut bytes);
    filled.map_err(|_| anyhow::anyhow!("this machine provides no random numbers"))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cases;

    // plugin.md U78
    #[test]
    fn port_80_need_not_be_named() {
        type Case = (SocketAddr, String, Option<u16>);
        for (name, (address, host, want)) in cases::<Case>("port_80_need_not_be_named") {
            let gate = Gate::new(address).unwrap();
            let request = http::Request::get(format!("{}/", gate.base()));
            let request = request.header(header::HOST, host).body(axum::body::Body::empty());
            let refusal = gate.refusal(&request.unwrap());
            assert_eq!(refusal.map(|answer| answer.status().as_u16()), want, "{name}");
        }
    }
}
