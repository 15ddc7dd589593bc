//! A cluster that a test answers for.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::Value;

/// Returns a client that is answered by `answer`, of method and path, and what it asked.
pub(crate) fn client(
    answer: impl Fn(&str, &str) -> (u16, Value) + Send + Sync + 'static,
) -> (Client, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (seen, answer) = (Arc::clone(&asked), Arc::new(answer));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (method, path) = (request.method().as_str(), request.uri().path());
        seen.lock().unwrap().push(format!("{method} {path}"));
        let (code, value) = answer(method, path);
        let body = Body::from(value.to_string().into_bytes());
        let response = Response::builder().status(code).body(body).unwrap();
        async move { Ok::<_, Infallible>(response) }
    });
    (Client::new(service, "default"), asked)
}
