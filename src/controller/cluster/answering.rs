//! An API server of tests.

use std::sync::Arc;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// The status of a request that is not answered.
pub(crate) const NOT_ANSWERED: u16 = 0;

/// Returns a client whose requests, with their bodies as JSON, are answered with a status and a body.
pub(crate) fn answering(
    answer: impl Fn(&Request<Value>) -> (u16, Value) + Send + Sync + 'static,
) -> Client {
    let answer = Arc::new(answer);
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = Arc::clone(&answer);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let (status, body) = answer(&Request::from_parts(head, body));
            if status == NOT_ANSWERED {
                return Err(kube::Error::Service("cut".into()));
            }
            let body = Body::from(body.to_string().into_bytes());
            Ok(Response::builder().status(status).body(body).unwrap())
        }
    });
    Client::new(service, "default")
}

/// The answer to who lists metadata: that of one object.
pub(crate) fn found(metadata: &Value) -> (u16, Value) {
    let one = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": metadata});
    let list = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
        "metadata": {}, "items": [one]});
    (200, list)
}

/// The answer of an API server to who may not ask, or asks for what is not there.
pub(crate) fn refusal(code: u16) -> (u16, Value) {
    let reason = if code == 404 { "NotFound" } else { "Forbidden" };
    (code, json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason}))
}
