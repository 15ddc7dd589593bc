//! The connections to the API server: few, each with many requests at once.
//!
//! Every watch is a request that stays. kube's own client speaks HTTP/1.1, where each of them takes a
//! connection, its descriptor and its buffers; over HTTP/2 they share one, as those of client-go do.
//! Requests about Leases share none with others, and what ends none with what stays: where a server
//! or something in front of it carries less at once than [`STREAMS`], watches wait for watches, and
//! nothing else does. Who connects through a proxy keeps kube's client, which knows how.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use axum::body::Bytes;
use http::{Request, Response, Uri};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use olm_cluster::{readable, without_secrets};
use tower::util::{MapErrLayer, MapResponseLayer};
use tower::{BoxError, ServiceBuilder};
use tower_http::decompression::DecompressionLayer;
use tower_http::timeout::ResponseBodyTimeoutLayer;

use super::client::is_watch;

/// Requests that a connection carries at once. kube-apiserver admits 100, and what is above its
/// limit would wait until another ends, which a watch does not.
const STREAMS: usize = 90;
/// The time after which an idle connection is pinged, and the time limit of the answer, both as in
/// client-go.
const PING_AFTER: Duration = Duration::from_secs(30);
const PING_LIMIT: Duration = Duration::from_secs(15);
/// Longest silence in the middle of an answer. The API server ends watches before that.
const SILENCE_LIMIT: Duration = Duration::from_secs(295);

/// Returns a client for a cluster. It does not retry by itself: failures belong into a status.
pub fn connect(mut config: Config) -> anyhow::Result<Client> {
    config.default_retry = false;
    let without_secrets = without_secrets(&config.auth_info);
    let failed = |error: kube::Error| kube::Error::Service(without_secrets(error.into()));
    if config.proxy_url.is_some() {
        let builder = ClientBuilder::try_from(config).map_err(failed).context("making a client")?;
        let builder = builder.with_layer(&MapErrLayer::new(without_secrets));
        return Ok(builder.with_layer(&MapResponseLayer::new(readable)).build());
    }
    let connections = Arc::new(Connections::new(connector(&config)?));
    let requests = tower::service_fn(move |request| {
        let connections = Arc::clone(&connections);
        async move { connections.send(request).await }
    });
    let service = ServiceBuilder::new()
        .map_response(readable)
        .map_err(without_secrets.clone())
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(failed).context("making a client")?)
        .layer(config.extra_headers_layer().map_err(failed).context("making a client")?)
        .layer(DecompressionLayer::new().gzip(!config.disable_compression))
        .layer(ResponseBodyTimeoutLayer::new(SILENCE_LIMIT))
        .service(requests);
    Ok(Client::new(service, config.default_namespace))
}

fn connector(config: &Config) -> anyhow::Result<HttpsConnector<HttpConnector>> {
    let mut plain = HttpConnector::new();
    plain.enforce_http(false);
    plain.set_connect_timeout(config.connect_timeout);
    plain.set_keepalive(Some(PING_AFTER));
    // The body of a write is sent after its head; waiting for the head to be acknowledged would add
    // 40 ms to each.
    plain.set_nodelay(true);
    let tls = config.rustls_client_config().context("using TLS")?;
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name =
            name.clone().try_into().context("using the TLS server name of the kubeconfig")?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(builder.enable_http1().enable_http2().wrap_connector(plain))
}

type Answer = UnsyncBoxBody<Bytes, BoxError>;

/// As many connections as the requests that are under way need.
struct Connections {
    connector: HttpsConnector<HttpConnector>,
    open: Mutex<BTreeMap<Sort, Vec<Connection>>>,
}

/// Requests that share connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sort {
    Brief,
    Watch,
    /// Reads and writes of Leases, which wait for nobody.
    Lease,
}

impl Sort {
    fn of(uri: &Uri) -> Self {
        if is_watch(uri) {
            Self::Watch
        } else if uri.path().contains("/apis/coordination.k8s.io/") {
            Self::Lease
        } else {
            Self::Brief
        }
    }
}

/// One connection over HTTP/2, and what every request on it holds a copy of; over HTTP/1.1, which few
/// servers insist on, one connection for each request.
type Connection = (Sender, Arc<()>);

type Sender = legacy::Client<HttpsConnector<HttpConnector>, Body>;

impl Connections {
    fn new(connector: HttpsConnector<HttpConnector>) -> Self {
        Self { connector, open: Mutex::default() }
    }

    /// Sends a request. It takes its room on the connection until its whole answer is read.
    async fn send(&self, request: Request<Body>) -> Result<Response<Answer>, BoxError> {
        let (client, taken) = self.with_room(Sort::of(request.uri()));
        Ok(client.request(request).await?.map(|body| {
            let counted = body.map_frame(move |frame| {
                let _ = &taken;
                frame
            });
            counted.map_err(BoxError::from).boxed_unsync()
        }))
    }

    /// Returns the first connection that can carry another request of this sort, so that those which
    /// were opened for a rush fall idle and close.
    fn with_room(&self, sort: Sort) -> Connection {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let open = open.entry(sort).or_default();
        let has_room = |(_, taken): &&Connection| Arc::strong_count(taken) <= STREAMS;
        if let Some(found) = open.iter().find(has_room) {
            return found.clone();
        }
        let client = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http2_keep_alive_interval(PING_AFTER)
            .http2_keep_alive_timeout(PING_LIMIT)
            .build(self.connector.clone());
        let made = (client, Arc::new(()));
        open.push(made.clone());
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections() -> Connections {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let config = Config::new(Uri::from_static("https://127.0.0.1:1"));
        Connections::new(connector(&config).unwrap())
    }

    // ours: no request waits for the end of a watch, and a connection is used before another is made
    #[tokio::test]
    async fn a_full_connection_is_followed_by_another() {
        let connections = connections();
        let count = || connections.open.lock().unwrap()[&Sort::Watch].len();
        let taking = || connections.with_room(Sort::Watch).1;
        let mut taken: Vec<_> = (0..STREAMS).map(|_| taking()).collect();
        assert_eq!(count(), 1);
        let more = taking();
        assert_eq!(count(), 2);
        taken.pop();
        let again = taking();
        assert_eq!(count(), 2);
        assert!(Arc::ptr_eq(&again, &taken[0]) && !Arc::ptr_eq(&again, &more));
    }

    // ours: behind a server that carries few requests at once, none waits for a watch to end, and
    // those about a Lease wait for none
    #[tokio::test]
    async fn watches_and_leases_have_connections_of_their_own() {
        let connections = connections();
        let leases = "/apis/coordination.k8s.io/v1/namespaces/n/leases";
        let requests = [
            "/api/v1/secrets?watch=true".to_owned(),
            "/api/v1/secrets".to_owned(),
            format!("{leases}/a"),
        ];
        let taken_by = |uri: &str| connections.with_room(Sort::of(&uri.parse().unwrap())).1;
        let [watch, brief, lease] = requests.map(|uri| taken_by(&uri));
        let of_lease = format!("{leases}?watch=true&fieldSelector=metadata.name%3Da");
        assert!(Arc::ptr_eq(&taken_by(&of_lease), &watch));
        assert!(Arc::ptr_eq(&taken_by(leases), &lease));
        assert!(!Arc::ptr_eq(&lease, &brief) && !Arc::ptr_eq(&lease, &watch));
        assert!(!Arc::ptr_eq(&brief, &watch));
    }
}
