//! An HTTP proxy in front of the real API server that does to chosen requests what a network, a
//! load balancer or an overloaded server does.
//!
//! It speaks plain HTTP on a loopback address to the client and TLS to the API server, and forwards
//! whatever the client sends, its token and impersonation included. [`Rule`]s, which can be added
//! and removed while it runs, say which requests are affected. No two requests share a connection
//! to the API server at a time, so that a delayed one does not delay others.
//!
//! ```text
//! let proxy = Proxy::start(plane);
//! let controller = Controller::start_through(plane, &proxy, options);
//! let rule = proxy.fail(Rule::get("secrets").named("x-1-*").status(500).times(1));
//! // ...
//! assert_eq!(proxy.strikes(rule), 1);
//! ```

mod rule;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderMap, RETRY_AFTER, TRANSFER_ENCODING,
};
use http::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::sync::mpsc;

use self::rule::Fault;
pub use self::rule::{Asked, Rule};
use crate::cluster::ControlPlane;
use crate::wait;

/// What a path begins with that goes on with a token and a slash.
const TOKEN: &str = "/as/";
/// Largest request that is forwarded, in bytes.
const LARGEST: usize = 16 << 20;
/// How soon the removal of a rule releases what it delays.
const TICK: Duration = Duration::from_millis(10);
/// How long [`Proxy::struck`] waits.
const STRUCK: Duration = Duration::from_secs(90);
/// Most chunks of a watch that are queued while its events are delayed.
const HELD_CHUNKS: usize = 4096;

type Failure = Box<dyn std::error::Error + Send + Sync>;
/// The response to a request; `Err` closes the connection without a response.
type Answer = Result<Response<Body>, Failure>;

/// The proxy; when it is dropped, it stops and closes all connections.
pub struct Proxy {
    address: SocketAddr,
    rules: Arc<Rules>,
    /// Its own runtime, so that a test that blocks its threads does not block the proxy.
    runtime: Option<tokio::runtime::Runtime>,
}

/// Identifies a rule that was given to [`Proxy::fail`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleId(usize);

impl Proxy {
    /// Starts a proxy in front of the API server of `plane`.
    pub fn start(plane: &ControlPlane) -> Self {
        // It may be installed already by another test, which is fine.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let ca = std::fs::read(&plane.addresses.ca_file).expect("the cluster has a CA");
        let certificates = reqwest::Certificate::from_pem_bundle(&ca).expect("a PEM file");
        let client = reqwest::Client::builder()
            .tls_certs_only(certificates)
            .http1_only()
            .no_gzip()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .expect("a client");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a socket of ours");
        let rules = Arc::new(Rules::default());
        let handler = Handler {
            client,
            server: plane.addresses.api_server.clone(),
            rules: Arc::clone(&rules),
        };
        let address = listener.local_addr().expect("it is bound");
        runtime.spawn(serve(listener, Arc::new(handler)));
        Self { address, rules, runtime: Some(runtime) }
    }

    /// Returns the URL of the proxy, for clients.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds a rule. If several match a request, the first that strikes counts.
    pub fn fail(&self, rule: Rule) -> RuleId {
        let mut rules = self.rules.lock();
        rules.last += 1;
        let id = RuleId(rules.last);
        rules.installed.insert(id, rule);
        id
    }

    /// Removes a rule; what it delays is released.
    pub fn stop(&self, rule: RuleId) {
        self.rules.lock().installed.remove(&rule);
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.rules.lock().installed.clear();
    }

    /// Returns how often a rule has struck, even if it was removed.
    pub fn strikes(&self, rule: RuleId) -> u64 {
        self.rules.lock().strikes.get(&rule).copied().unwrap_or(0)
    }

    /// Waits until a rule has struck so many times.
    pub async fn struck(&self, rule: RuleId, times: u64) {
        let what = format!("{times} strikes of the fault");
        wait::value(&what, STRUCK, || self.strikes(rule), |strikes| *strikes >= times).await;
    }

    /// Returns the requests that were struck and the faults, in order.
    pub fn log(&self) -> Vec<String> {
        self.rules.lock().log.clone()
    }

    /// Returns the number of requests, and of faults by kind, since they were returned before.
    pub fn take_counts(&self) -> (u64, BTreeMap<String, u64>) {
        let mut state = self.rules.lock();
        (std::mem::take(&mut state.requests), std::mem::take(&mut state.injected))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[derive(Default)]
struct Rules(Mutex<State>);

#[derive(Default)]
struct State {
    last: usize,
    installed: BTreeMap<RuleId, Rule>,
    strikes: BTreeMap<RuleId, u64>,
    injected: BTreeMap<String, u64>,
    log: Vec<String>,
    requests: u64,
}

impl Rules {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the fault for a request, if any.
    fn decide(&self, asked: &Asked) -> Option<Fault> {
        let mut state = self.lock();
        state.requests += 1;
        let struck = state.installed.iter_mut().find_map(|(id, rule)| {
            let whole = !matches!(rule.fault(), Fault::LateEvents(_));
            (whole && rule.is_about(asked) && rule.strikes()).then(|| (*id, rule.fault()))
        });
        let (id, fault) = struck?;
        state.count(id, fault, asked);
        Some(fault)
    }

    /// Returns the rule that delays the events of a watch, and for how long.
    fn delay(&self, asked: &Asked) -> Option<(RuleId, Duration)> {
        let state = self.lock();
        let mut installed = state.installed.iter();
        installed.find_map(|(id, rule)| match rule.fault() {
            Fault::LateEvents(time) if rule.is_about(asked) => Some((*id, time)),
            _ => None,
        })
    }
}

impl State {
    fn count(&mut self, id: RuleId, fault: Fault, asked: &Asked) {
        *self.strikes.entry(id).or_default() += 1;
        *self.injected.entry(fault.kind()).or_default() += 1;
        self.log.push(format!("{}: {asked}", fault.kind()));
    }
}

async fn serve(listener: TcpListener, handler: Arc<Handler>) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("a socket of ours");
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(TICK).await;
            continue;
        };
        let handler = Arc::clone(&handler);
        tokio::spawn(async move {
            let service = tower::service_fn(move |request: Request<_>| {
                Arc::clone(&handler).handle(request.map(Body::new))
            });
            let service = TowerToHyperService::new(service);
            let server = Builder::new(TokioExecutor::new()).http1_only();
            // It is fine if the client closes the connection, or we do.
            drop(server.serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

/// Returns the URL of a proxy for clients that send no token over plain HTTP: it adds this one.
pub(crate) fn with_token(url: &str, token: &str) -> String {
    format!("{url}{TOKEN}{token}")
}

/// Moves the token in the path of a request into its header.
fn with_its_token(mut request: Request<Body>) -> Result<Request<Body>, Failure> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let Some((token, path)) = path.strip_prefix(TOKEN).and_then(|rest| rest.split_once('/')) else {
        return Ok(request);
    };
    let bearer = http::HeaderValue::try_from(format!("Bearer {token}"))?;
    *request.uri_mut() = format!("/{path}").parse()?;
    request.headers_mut().insert(AUTHORIZATION, bearer);
    Ok(request)
}

struct Handler {
    client: reqwest::Client,
    server: String,
    rules: Arc<Rules>,
}

impl Handler {
    fn handle(
        self: Arc<Self>,
        request: Request<Body>,
    ) -> BoxFuture<'static, io::Result<Response<Body>>> {
        async move { self.answer(request).await.map_err(io::Error::other) }.boxed()
    }

    async fn answer(&self, request: Request<Body>) -> Answer {
        let request = with_its_token(request)?;
        let user = request.headers().get("impersonate-user");
        let user = user.and_then(|user| user.to_str().ok()).unwrap_or_default();
        let asked = Asked::new(request.method(), request.uri(), user);
        let fault = self.rules.decide(&asked);
        match fault {
            Some(Fault::Status(code)) => return Ok(status(code, &format!("injected: {asked}"))),
            Some(Fault::Quota) => return Ok(status(403, &over_quota(&asked))),
            Some(Fault::Silence(time)) => {
                tokio::time::sleep(time).await;
                return Err("silence".into());
            }
            _ => {}
        }
        let answer = self.forward(request).await?;
        match fault {
            Some(Fault::Unanswered(time)) => {
                // When the response ends, the request has been carried out.
                let _ = answer.bytes().await;
                tokio::time::sleep(time).await;
                Err("silence".into())
            }
            Some(Fault::Cut) => Ok(cut(answer, asked.verb == "watch").await?),
            _ if asked.verb == "watch" => Ok(self.watched(answer, asked)),
            _ => Ok(passed_on(answer)),
        }
    }

    async fn forward(&self, request: Request<Body>) -> Result<reqwest::Response, Failure> {
        let (head, body) = request.into_parts();
        let body = axum::body::to_bytes(body, LARGEST).await?;
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut headers = head.headers;
        headers.remove(HOST);
        without_hops(&mut headers);
        let request = self
            .client
            .request(head.method, format!("{}{path}", self.server))
            .headers(headers)
            .body(body);
        Ok(request.send().await?)
    }

    /// Forwards a watch, chunk by chunk, each delayed as the current rules say.
    fn watched(&self, answer: reqwest::Response, asked: Asked) -> Response<Body> {
        let (head, body) = parts(answer);
        let (chunks, queue) = mpsc::channel(HELD_CHUNKS);
        tokio::spawn(async move {
            let mut body = body;
            loop {
                let chunk = tokio::select! {
                    chunk = body.next() => chunk,
                    () = chunks.closed() => return,
                };
                let Some(chunk) = chunk else { return };
                if chunks.send((Instant::now(), chunk)).await.is_err() {
                    return;
                }
            }
        });
        let rules = Arc::clone(&self.rules);
        let late = stream::unfold((queue, rules, asked), |(mut queue, rules, asked)| async {
            let (came, chunk) = queue.recv().await?;
            wait_for(came, &rules, &asked).await;
            Some((chunk, (queue, rules, asked)))
        });
        Response::from_parts(head, Body::from_stream(late))
    }
}

/// Waits as long as a rule delays what came at `came`.
async fn wait_for(came: Instant, rules: &Rules, asked: &Asked) {
    let mut counted = false;
    while let Some((id, time)) = rules.delay(asked) {
        if !std::mem::replace(&mut counted, true) {
            rules.lock().count(id, Fault::LateEvents(time), asked);
        }
        if came.elapsed() >= time {
            return;
        }
        tokio::time::sleep(TICK).await;
    }
}

type Chunks = std::pin::Pin<Box<dyn futures::Stream<Item = reqwest::Result<Bytes>> + Send>>;

fn parts(answer: reqwest::Response) -> (http::response::Parts, Chunks) {
    let mut response = Response::new(());
    *response.status_mut() = answer.status();
    *response.headers_mut() = answer.headers().clone();
    without_hops(response.headers_mut());
    let (head, ()) = response.into_parts();
    (head, answer.bytes_stream().boxed())
}

fn passed_on(answer: reqwest::Response) -> Response<Body> {
    let (head, body) = parts(answer);
    Response::from_parts(head, Body::from_stream(body))
}

/// Cuts a response in the middle: a watch in its first chunk, everything else at half its length.
async fn cut(answer: reqwest::Response, watches: bool) -> Answer {
    let (head, mut body) = parts(answer);
    let whole = if watches {
        body.next().await.transpose()?.unwrap_or_default()
    } else {
        let mut whole = Vec::new();
        while let Some(chunk) = body.next().await {
            whole.extend_from_slice(&chunk?);
        }
        whole.into()
    };
    let half = whole.slice(..whole.len() / 2);
    let first = stream::once(async move { Ok(half) });
    let then = stream::once(async {
        // Gives the first half time to be sent before the connection ends.
        tokio::time::sleep(TICK).await;
        Err(io::Error::other("cut"))
    });
    Ok(Response::from_parts(head, Body::from_stream(first.chain(then))))
}

/// Removes hop-by-hop headers.
fn without_hops(headers: &mut HeaderMap) {
    for hop in [CONNECTION, TRANSFER_ENCODING] {
        headers.remove(hop);
    }
}

/// Returns what the API server says when a quota leaves no room.
fn over_quota(asked: &Asked) -> String {
    let Asked { resource, name, .. } = asked;
    format!(
        "{resource} \"{name}\" is forbidden: exceeded quota: injected, requested: \
         count/{resource}=1, used: count/{resource}=9, limited: count/{resource}=9"
    )
}

/// Returns the response of an API server that refuses a request. Its priority and fairness, which asks
/// for a wait of a second, answers with a header and plain text.
fn status(code: u16, message: &str) -> Response<Body> {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    let is_busy = code == 429;
    let (type_, body) = if is_busy {
        ("text/plain; charset=utf-8", format!("{message}\n"))
    } else {
        ("application/json", body.to_string())
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(code).expect("a status");
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(type_));
    if is_busy {
        headers.insert(RETRY_AFTER, 1.into());
    }
    response
}
