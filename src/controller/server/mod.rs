//! Everything that listens: catalogs over HTTP or HTTPS, metrics, health.
//!
//! HTTP/1.1 only, as upstream. Addresses are bound before anything else starts, so that port 0
//! can be resolved and written to the file of `--listen-info`.

mod auth;
mod body;
pub mod catalogs;
pub mod health;
mod limit;
mod negotiate;
mod path;
mod places;
pub mod tls;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum_server::Handle;
use axum_server::tls_rustls::RustlsAcceptor;
use futures::{StreamExt as _, future, stream};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use hyper_util::rt::TokioTimer;

use tls::Certificates;

pub use auth::Reviewer;
pub use limit::Limited;
pub use places::Limits;

/// Most bytes of a head (deploying.md 5.4).
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Most bytes of a request after its head. Nothing that is served reads any.
const MAX_BODY_BYTES: u64 = 64 * 1024;
/// Most bytes of a refused request that are read, and how long.
const MAX_REFUSED_BYTES: usize = 8 * 1024 * 1024;
const REFUSED: Duration = Duration::from_secs(5);
/// The time limit of the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The time that running answers have to complete when the process stops.
const DRAIN: Duration = Duration::from_secs(30);

/// Binds an address; port 0 lets the system choose, and [`TcpListener::local_addr`] tells.
///
/// `[::]` is every address of both families, and of IPv4 alone where the kernel has no other.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let every = address.ip() == Ipv6Addr::UNSPECIFIED;
    let listener = TcpListener::bind(address).or_else(|error| {
        let ipv4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
        if every && error.kind() != io::ErrorKind::AddrInUse {
            TcpListener::bind(ipv4)
        } else {
            Err(error)
        }
    })?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves in a test, until it ends, and returns the address.
#[cfg(test)]
pub(crate) fn started(certificates: Option<Certificates>, routes: Router) -> SocketAddr {
    let listener = bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = listener.local_addr().unwrap();
    let metrics = crate::telemetry::Metrics::default();
    let listener = Limited::new(listener, Limits::CATALOGS, metrics).unwrap();
    tokio::spawn(
        async move { serve(listener, certificates.as_ref(), routes, future::pending()).await },
    );
    address
}

/// Serves `routes` until `shutdown` is done, then lets running answers end for at most 30 s. With
/// `certificates` over TLS with ALPN `http/1.1`, else plain.
pub async fn serve(
    listener: Limited,
    certificates: Option<&Certificates>,
    routes: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let handle = Handle::<limit::Peer>::new();
    let stop = tokio::spawn({
        let handle = handle.clone();
        async move {
            shutdown.await;
            handle.graceful_shutdown(Some(DRAIN));
        }
    });
    let idle = listener.idle();
    let mut server = axum_server::Server::from_listener(listener).handle(handle);
    server
        .http_builder()
        .http1()
        .timer(TokioTimer::new())
        .max_buf_size(MAX_HEAD_BYTES)
        .header_read_timeout(idle);
    let service = routes.layer(from_fn(limit_body)).into_make_service();
    let result = if let Some(certificates) = certificates {
        let acceptor = RustlsAcceptor::new(certificates.config()).handshake_timeout(HANDSHAKE);
        server.acceptor(acceptor).http1_only().serve(service).await
    } else {
        server.http1_only().serve(service).await
    };
    stop.abort();
    result
}

/// Refuses requests that announce too much. Of what is not announced nothing is read.
async fn limit_body(request: Request, next: Next) -> Response {
    if request.body().size_hint().lower() > MAX_BODY_BYTES {
        let text = format!("the body of the request is larger than {MAX_BODY_BYTES} bytes\n");
        let kind = [(CONTENT_TYPE, "text/plain; charset=utf-8")];
        let answer = discarded(request.into_body(), text);
        return (StatusCode::PAYLOAD_TOO_LARGE, kind, answer).into_response();
    }
    next.run(request).await
}

/// Returns a text that ends with another body: a connection that is closed before that breaks off, so
/// that a client that still sends never sees the answer.
fn discarded(body: Body, text: String) -> Body {
    let mut left = MAX_REFUSED_BYTES;
    let rest = body.into_data_stream().take_while(move |piece| {
        let read = piece.as_ref().ok().and_then(|piece| left.checked_sub(piece.len()));
        left = read.unwrap_or(0);
        future::ready(read.is_some())
    });
    let nothing = rest.filter_map(|_| future::ready(None::<io::Result<Bytes>>));
    let text = stream::once(future::ready(Ok(Bytes::from(text))));
    Body::from_stream(text.chain(nothing.take_until(tokio::time::sleep(REFUSED))))
}

/// Writes the bound addresses to `path` as one JSON object, by name.
///
/// The file appears complete or not at all, so that its existence can be waited for.
pub fn write_listen_info(path: &Path, addresses: &BTreeMap<&str, SocketAddr>) -> io::Result<()> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    let text: BTreeMap<_, _> =
        addresses.iter().map(|(name, address)| (*name, address.to_string())).collect();
    serde_json::to_writer(file.as_file(), &text)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    // Go's `:8443` as well; pods of a cluster that prefers IPv6 are probed at such an address.
    #[test]
    fn every_address_is_one_of_both_families() {
        let listener = bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))).unwrap();
        let at = listener.local_addr().unwrap();
        TcpStream::connect((Ipv4Addr::LOCALHOST, at.port())).unwrap();
        // Machines may have IPv6 without its loopback address.
        if at.is_ipv6() && TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
            TcpStream::connect((Ipv6Addr::LOCALHOST, at.port())).unwrap();
        }
        bind(at).unwrap_err();
    }
}
