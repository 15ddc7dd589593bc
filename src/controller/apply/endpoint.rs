//! Requests for objects of one kind, with objects as plain JSON.
//!
//! kube's `DynamicObject` types the metadata; plain values keep every byte of what was given.

use http::Request as HttpRequest;
use kube::Client;
use kube::api::{
    DeleteParams, DynamicObject, GetParams, ListParams, Patch, PatchParams, PostParams,
    Preconditions, Request,
};
use kube::core::Resource;
use olm_api::keys::manager;
use olm_core::object::Object;
use serde_json::{Value, json};

use super::error::code;
use super::kinds::Kind;

/// Requests for objects of one kind in one namespace, as one account.
#[derive(Clone)]
pub(super) struct Endpoint {
    client: Client,
    request: Request,
    namespaced: bool,
}

impl Endpoint {
    /// `namespace` is ignored for cluster-scoped kinds.
    pub(super) fn new(client: Client, kind: &Kind, namespace: &str) -> Self {
        let namespace = kind.namespaced.then_some(namespace);
        let path = DynamicObject::url_path(&kind.resource, namespace);
        Self {
            client,
            request: Request::new(path),
            namespaced: kind.namespaced,
        }
    }

    /// Returns what is sent of an object: without a namespace where its kind has none (rendering.md
    /// R10).
    fn body(&self, object: &Object) -> Object {
        let mut object = object.clone();
        if !self.namespaced {
            object.metadata_mut().remove("namespace");
        }
        object
    }

    pub(super) async fn get(&self, name: &str) -> Result<Option<Object>, kube::Error> {
        let request = self.request.get(name, &GetParams::default());
        match self.send(request).await {
            Ok(object) => Ok(Some(object)),
            Err(err) if code(&err) == 404 => Ok(None),
            Err(err) => Err(err),
        }
    }

    /// Creates; never changes an object that exists.
    pub(super) async fn create(
        &self,
        object: &Object,
        dry_run: bool,
    ) -> Result<Object, kube::Error> {
        let params = PostParams {
            dry_run,
            field_manager: Some(field_manager(dry_run).to_owned()),
        };
        let body = serde_json::to_vec(&self.body(object).0).map_err(kube::Error::SerdeError)?;
        self.send(self.request.create(&params, body)).await
    }

    /// Server-side apply.
    pub(super) async fn apply(&self, object: &Object, force: bool) -> Result<Object, kube::Error> {
        let mut params = PatchParams::apply(manager::OBJECTS);
        params.force = force;
        let request =
            self.request
                .patch(object.name(), &params, &Patch::Apply(&self.body(object).0));
        self.send(request).await
    }

    /// Asks whether a forced apply would be accepted.
    pub(super) async fn try_apply(&self, object: &Object) -> Result<Object, kube::Error> {
        let params = PatchParams::apply(manager::DRY_RUN).force().dry_run();
        let request =
            self.request
                .patch(object.name(), &params, &Patch::Apply(&self.body(object).0));
        self.send(request).await
    }

    /// Replaces parts of the metadata, provided nobody wrote since `live` was read.
    pub(super) async fn replace_metadata(
        &self,
        live: &Object,
        parts: &[(&str, Value)],
    ) -> Result<Object, kube::Error> {
        let version = live.pointer("/metadata/resourceVersion").cloned();
        let guard = ("resourceVersion", version.unwrap_or_default());
        let operations: Vec<Value> = parts
            .iter()
            .chain([&guard])
            .map(|(key, value)| {
                // `add` also replaces, and works where the member is absent.
                json!({"op": "add", "path": format!("/metadata/{key}"), "value": value})
            })
            .collect();
        let patch = serde_json::from_value(Value::Array(operations));
        let patch = Patch::<()>::Json(patch.map_err(kube::Error::SerdeError)?);
        let params = PatchParams {
            field_manager: Some(manager::OBJECTS.to_owned()),
            ..PatchParams::default()
        };
        self.send(self.request.patch(live.name(), &params, &patch))
            .await
    }

    /// Deletes exactly the object that was read, if nobody wrote since.
    pub(super) async fn delete(&self, live: &Object) -> Result<(), kube::Error> {
        let text = |pointer: &str| {
            let value = live.pointer(pointer).and_then(Value::as_str);
            value.map(str::to_owned)
        };
        let mut params = DeleteParams::background();
        params.preconditions = Some(Preconditions {
            uid: text("/metadata/uid"),
            resource_version: text("/metadata/resourceVersion"),
        });
        let request = self.request.delete(live.name(), &params);
        let request = request.map_err(kube::Error::BuildRequest)?;
        self.client.request::<Value>(request).await.map(|_| ())
    }

    /// Lists at most `limit` objects.
    pub(super) async fn list(&self, limit: u32) -> Result<Vec<Object>, kube::Error> {
        let request = self.request.list(&ListParams::default().limit(limit));
        let request = request.map_err(kube::Error::BuildRequest)?;
        let mut list: Value = self.client.request(request).await?;
        let items = match list.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        };
        Ok(items.into_iter().filter_map(Object::from_value).collect())
    }

    async fn send<E: Into<kube::core::request::Error>>(
        &self,
        request: Result<HttpRequest<Vec<u8>>, E>,
    ) -> Result<Object, kube::Error> {
        let request = request.map_err(|err| kube::Error::BuildRequest(err.into()))?;
        self.client
            .request::<serde_json::Map<String, Value>>(request)
            .await
            .map(Object)
    }
}

fn field_manager(dry_run: bool) -> &'static str {
    if dry_run {
        manager::DRY_RUN
    } else {
        manager::OBJECTS
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use kube::client::Body;
    use kube::discovery::ApiResource;
    use tower::service_fn;

    use super::*;

    type Sent = Arc<Mutex<Vec<(String, Value)>>>;

    /// Returns a client whose requests are kept and answered with their own body.
    fn echo(sent: &Sent) -> Client {
        let sent = Arc::clone(sent);
        let answer = move |request: HttpRequest<Body>| {
            let sent = Arc::clone(&sent);
            async move {
                let path = request.uri().path().to_owned();
                let bytes = request.into_body().collect_bytes().await.unwrap();
                let body = serde_json::from_slice(&bytes).unwrap();
                sent.lock().unwrap().push((path, body));
                Ok::<_, Infallible>(http::Response::new(Body::from(bytes.to_vec())))
            }
        };
        Client::new(service_fn(answer), "default")
    }

    fn kind(kind: &str, plural: &str, namespaced: bool) -> Kind {
        let resource = ApiResource {
            group: "g".to_owned(),
            version: "v1".to_owned(),
            api_version: "g/v1".to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        Kind {
            resource,
            namespaced,
        }
    }

    // rendering.md R10: upstream sends the namespace, and the API server ignores it.
    #[tokio::test]
    async fn the_namespace_of_a_cluster_scoped_object_is_not_sent() {
        let object = |kind: &str| {
            let object = json!({"apiVersion": "g/v1", "kind": kind,
                "metadata": {"name": "n", "namespace": "stray"}});
            Object::from_value(object).unwrap()
        };
        for (kind, namespace, path) in [
            (kind("Wide", "wides", false), None, "/apis/g/v1/wides"),
            (
                kind("Near", "nears", true),
                Some("stray"),
                "/apis/g/v1/namespaces/stray/nears",
            ),
        ] {
            let sent = Sent::default();
            let object = object(&kind.resource.kind);
            let endpoint = Endpoint::new(echo(&sent), &kind, object.namespace());
            endpoint.create(&object, true).await.unwrap();
            endpoint.apply(&object, true).await.unwrap();
            endpoint.try_apply(&object).await.unwrap();
            let sent = sent.lock().unwrap();
            assert_eq!(sent.len(), 3);
            for (found, body) in &*sent {
                assert!(found.starts_with(path), "{found}");
                assert_eq!(body["metadata"]["namespace"].as_str(), namespace);
            }
        }
    }
}
