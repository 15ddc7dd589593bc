//! Requests to the API server, counted by how they were answered.

use http::{Request, Response};
use kube::Client;
use kube::client::Body;

use crate::telemetry::Metrics;

/// Returns a client whose every request is counted, those of accounts too.
pub fn counted(client: Client, metrics: Metrics) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, metrics) = (client.clone(), metrics.clone());
        async move {
            let method = request.method().clone();
            let answer: Result<Response<Body>, kube::Error> = client.send(request).await;
            metrics.requested(&method, answer.as_ref().ok().map(Response::status));
            answer
        }
    });
    Client::new(service, namespace)
}
