//! Test cases that stand in `cases.yaml`, the flags of a verb, and an API server with fixed answers.

use std::convert::Infallible;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use olm_api::keys::annotation;
use olm_api::{ClusterExtension, ClusterObjectSet};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Returns the cases of a test: their names, and their arguments.
pub(crate) fn cases<T: DeserializeOwned>(test: &str) -> Vec<(String, T)> {
    let tables = olm_core::yaml::to_json(include_str!("cases.yaml")).unwrap();
    let cases = tables[0][test].as_object().unwrap_or_else(|| panic!("no cases of {test}"));
    assert!(!cases.is_empty(), "no cases of {test}");
    let read = |(name, case): (&String, &serde_json::Value)| {
        let case = T::deserialize(case).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name.clone(), case)
    };
    cases.iter().map(read).collect()
}

/// Returns a condition with this type, status, reason and message.
pub(crate) fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

/// Returns extension `e` of package `p`, with these members besides.
pub(crate) fn extension(more: &Value) -> ClusterExtension {
    let mut extension = json!({"metadata": {"name": "e"}, "spec": {"namespace": "n",
        "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}}});
    json_patch::merge(&mut extension, more);
    serde_json::from_value(extension).unwrap()
}

/// Returns a revision of it with this number, in this state, and whether it succeeded.
pub(crate) fn revision(
    number: i64,
    version: &str,
    state: &str,
    succeeded: &str,
) -> ClusterObjectSet {
    let annotations = json!({annotation::BUNDLE_VERSION: version});
    serde_json::from_value(json!({
        "metadata": {"name": format!("e-{number}"), "annotations": annotations},
        "spec": {"lifecycleState": state, "revision": number, "collisionProtection": "Prevent"},
        "status": {"conditions": [condition("Succeeded", succeeded, "R", "")]},
    }))
    .unwrap()
}

/// Reads the flags of a verb.
pub(crate) fn flags<A: clap::Args>(line: &str) -> A {
    let line = ["verb"].into_iter().chain(line.split_whitespace());
    let command = A::augment_args(clap::Command::new("verb"));
    A::from_arg_matches(&command.get_matches_from(line)).unwrap()
}

/// Returns a client of an API server that answers a method, a path and a body so: with an object, or with
/// the code of a refusal.
pub(crate) fn client<F>(answer: F) -> Client
where
    F: Fn(&Method, &str, &Value) -> Result<Value, u16> + Clone + Send + 'static,
{
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let answer = answer(&parts.method, parts.uri.path(), &body);
            let code = answer.as_ref().err().copied().unwrap_or(200);
            let reason = if code == 404 { "NotFound" } else { "R" };
            let refusal = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
                "status": "Failure", "message": "no", "reason": reason, "code": code});
            let answer = Body::from(answer.unwrap_or(refusal).to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
        }
    });
    Client::new(service, "default")
}
