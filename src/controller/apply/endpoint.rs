//! Requests for objects of one kind, with objects as plain JSON.
//!
//! kube's `DynamicObject` types the metadata; plain values keep every byte of what was given.

use std::borrow::Cow;
use std::collections::BTreeMap;

use http::Request as HttpRequest;
use kube::Client;
use kube::api::{
    DeleteParams, DynamicObject, GetParams, ListParams, Patch, PatchParams, PostParams,
    Preconditions, Request,
};
use kube::core::Resource;
use olm_api::keys::manager;
use olm_core::object::{Identity, Object};
use olm_core::revision::{put_back, without_refused};
use serde_json::{Value, json};

use super::error::ApplyError;
use crate::cluster::{Kind, code, join_bounded};

/// What the API server answers to a dry run where a webhook declares side effects.
pub(super) const NO_DRY_RUN: &str = "does not support dry run";
/// The most attempts to apply an object without refused fields: an answer names one unknown field of a
/// map, and nothing below that map.
const MAX_ROUNDS: usize = 64;

/// Returns the kind of each object as `find` knows it, if it is served. A kind is asked for once, because
/// that it is not served is never remembered.
pub(super) async fn kinds_of<F: Future<Output = Result<Option<Kind>, kube::Error>>>(
    doing: &str,
    objects: &[&Object],
    find: impl Fn(Identity) -> F,
) -> Result<Vec<Option<Kind>>, ApplyError> {
    let key = |object: &Object| (object.api_version().to_owned(), object.kind().to_owned());
    // The first object of a kind stands for the others.
    let first = objects.iter().rev().map(|object| (key(object), object.identity()));
    let find = &find;
    let asked = first.collect::<BTreeMap<_, _>>().into_iter().map(|(key, object)| async move {
        let kind = find(object.clone()).await.map_err(|err| (object, err))?;
        Ok((key, kind))
    });
    let kinds = ApplyError::unless_failed(doing, join_bounded(asked.collect()).await)?;
    let kinds: BTreeMap<_, _> = kinds.into_iter().collect();
    Ok(objects.iter().map(|object| kinds.get(&key(object)).cloned().flatten()).collect())
}

/// Requests for objects of one kind in one namespace, as one account.
#[derive(Clone)]
pub(super) struct Endpoint {
    client: Client,
    request: Request,
    namespaced: bool,
}

impl Endpoint {
    /// `namespace` is ignored for cluster-scoped kinds; empty, for lists, means all of them.
    pub(super) fn new(client: Client, kind: &Kind, namespace: &str) -> Self {
        let namespace = Some(namespace).filter(|name| kind.namespaced && !name.is_empty());
        let path = DynamicObject::url_path(&kind.resource, namespace);
        Self { client, request: Request::new(path), namespaced: kind.namespaced }
    }

    /// Returns the object as it is sent: the namespace that bundles put on cluster-scoped objects
    /// stays in the revision (rendering.md R10).
    fn sent<'a>(&self, object: &'a Object) -> Cow<'a, Object> {
        if self.namespaced || object.namespace().is_empty() {
            return Cow::Borrowed(object);
        }
        let mut sent = object.clone();
        sent.metadata_mut().remove("namespace");
        Cow::Owned(sent)
    }

    pub(super) async fn get(&self, name: &str) -> Result<Option<Object>, kube::Error> {
        match self.get_served(name).await {
            Err(err) if code(&err) == 404 => Ok(None),
            answer => answer,
        }
    }

    /// Reads an object. If the kind is not served in this version any more, that is an error, because
    /// the object may exist in another one.
    pub(super) async fn get_served(&self, name: &str) -> Result<Option<Object>, kube::Error> {
        let request = self.request.get(name, &GetParams::default());
        match self.send(request).await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 404 && status.reason == "NotFound" => {
                Ok(None)
            }
            Err(err) => Err(err),
        }
    }

    /// Creates; never changes an object that exists.
    pub(super) async fn create(
        &self,
        object: &Object,
        dry_run: bool,
    ) -> Result<Object, kube::Error> {
        let field_manager = if dry_run { manager::DRY_RUN } else { manager::OBJECTS };
        let params = PostParams { dry_run, field_manager: Some(field_manager.to_owned()) };
        let body = serde_json::to_vec(&self.sent(object).0).map_err(kube::Error::SerdeError)?;
        self.send(self.request.create(&params, body)).await
    }

    pub(super) async fn apply(&self, object: &Object, force: bool) -> Result<Object, kube::Error> {
        let params = PatchParams { force, ..PatchParams::apply(manager::OBJECTS) };
        self.patch(object, &params).await
    }

    /// Asks whether a forced apply of a manager would be accepted.
    pub(super) async fn try_apply(
        &self,
        object: &Object,
        manager: &str,
    ) -> Result<Object, kube::Error> {
        self.patch(object, &PatchParams::apply(manager).force().dry_run()).await
    }

    async fn patch(&self, object: &Object, params: &PatchParams) -> Result<Object, kube::Error> {
        let (mut sent, mut lists) = (self.sent(object), Vec::new());
        let mut rounds = 0..MAX_ROUNDS;
        let mut applied = loop {
            // What has lost entries of a list is not written like that.
            let dry_run = params.dry_run || !lists.is_empty();
            let params = PatchParams { dry_run, ..params.clone() };
            let request = self.request.patch(object.name(), &params, &Patch::Apply(&sent.0));
            let answer = self.send(request).await;
            let Err(kube::Error::Api(refusal)) = &answer else { break answer? };
            if !params.dry_run && !lists.is_empty() && refusal.message.contains(NO_DRY_RUN) {
                // A webhook forbids it: what an apply takes is written.
                lists.clear();
                continue;
            }
            // A create ignores what an apply refuses: the object may be there already.
            let Some(accepted) =
                rounds.next().and_then(|_| without_refused(&sent, &refusal.message, &mut lists))
            else {
                return answer;
            };
            tracing::debug!(object = object.identity().text(), refusal = %refusal.message, "left out");
            sent = Cow::Owned(accepted);
        };
        put_back(&mut applied, &lists);
        if params.dry_run || lists.is_empty() {
            Ok(applied)
        } else {
            self.overwrite(object, applied).await
        }
    }

    /// Writes what an apply would make of an object, its managed fields included, provided nobody wrote
    /// since that was read.
    async fn overwrite(&self, object: &Object, applied: Object) -> Result<Object, kube::Error> {
        let parts: Vec<_> =
            applied.0.into_iter().map(|(key, part)| (format!("/{key}"), part)).collect();
        let is_content = |path: &str| !matches!(path, "/apiVersion" | "/kind" | "/status");
        let parts = parts.iter().filter(|(path, _)| is_content(path));
        let parts: Vec<_> = parts.map(|(path, part)| (path.as_str(), part.clone())).collect();
        self.replace(object, &parts).await
    }

    /// Replaces parts by their paths, provided nobody wrote since `live` was read.
    pub(super) async fn replace(
        &self,
        live: &Object,
        parts: &[(&str, Value)],
    ) -> Result<Object, kube::Error> {
        let version = live.pointer("/metadata/resourceVersion").cloned();
        let guard = ("/metadata/resourceVersion", version.unwrap_or_default());
        let operations: Vec<Value> = parts
            .iter()
            .chain([&guard])
            // `add` also replaces, and works where the member is absent.
            .map(|(path, value)| json!({"op": "add", "path": path, "value": value}))
            .collect();
        let patch = serde_json::from_value(Value::Array(operations));
        let patch = Patch::<()>::Json(patch.map_err(kube::Error::SerdeError)?);
        let params = PatchParams::apply(manager::OBJECTS);
        self.send(self.request.patch(live.name(), &params, &patch)).await
    }

    /// Deletes exactly the object that was read, if nobody wrote since.
    pub(super) async fn delete(&self, live: &Object) -> Result<(), kube::Error> {
        let text = |pointer: &str| live.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let mut params = DeleteParams::background();
        params.preconditions = Some(Preconditions {
            uid: text("/metadata/uid"),
            resource_version: text("/metadata/resourceVersion"),
        });
        let request =
            self.request.delete(live.name(), &params).map_err(kube::Error::BuildRequest)?;
        self.client.request::<Value>(request).await.map(|_| ())
    }

    /// Lists objects. Kind and version stand in the list only, not in each object.
    pub(super) async fn list(&self, params: &ListParams) -> Result<Vec<Object>, kube::Error> {
        Ok(self.page(params).await?.0)
    }

    /// The same, and returns how many there are besides.
    pub(super) async fn page(
        &self,
        params: &ListParams,
    ) -> Result<(Vec<Object>, u64), kube::Error> {
        let request = self.request.list(params).map_err(kube::Error::BuildRequest)?;
        let mut list: Value = self.client.request(request).await?;
        let items = match list.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        };
        let more = list.pointer("/metadata/remainingItemCount");
        let more = more.and_then(Value::as_u64).unwrap_or_default();
        Ok((items.into_iter().filter_map(Object::from_value).collect(), more))
    }

    async fn send<E: Into<kube::core::request::Error>>(
        &self,
        request: Result<HttpRequest<Vec<u8>>, E>,
    ) -> Result<Object, kube::Error> {
        let request = request.map_err(|err| kube::Error::BuildRequest(err.into()))?;
        self.client.request::<serde_json::Map<String, Value>>(request).await.map(Object)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use kube::discovery::ApiResource;
    use rstest::rstest;

    use super::*;
    use crate::cluster::answering::answering;

    /// A client whose requests are kept and answered with an object, as long as they have no field
    /// that begins with `odd`, of which one is named.
    fn recording() -> (Client, Arc<Mutex<Vec<Value>>>) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        let client = answering(move |request| {
            let sent = request.body();
            kept.lock().unwrap().push(sent.clone());
            let mut fields = sent.as_object().into_iter().flat_map(serde_json::Map::keys);
            match fields.find(|field| field.starts_with("odd")) {
                None => (200, json!({})),
                Some(odd) => {
                    let refusal = format!(
                        "failed to create typed patch object (n/o; g/v1, Kind=K): .{odd}: field not \
                         declared in schema"
                    );
                    (500, json!({"status": "Failure", "code": 500, "message": refusal}))
                }
            }
        });
        (client, seen)
    }

    fn kind(namespaced: bool) -> Kind {
        let resource = ApiResource {
            group: "g".to_owned(),
            version: "v1".to_owned(),
            api_version: "g/v1".to_owned(),
            kind: "K".to_owned(),
            plural: "ks".to_owned(),
        };
        Kind { resource, namespaced }
    }

    // applying.md 3.6
    #[tokio::test]
    async fn what_a_create_ignores_does_not_fail_an_apply() {
        let (client, seen) = recording();
        let mut object = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n"}});
        for number in 0..12 {
            object[format!("odd{number}")] = json!(1);
        }
        let object = Object::from_value(object).unwrap();
        Endpoint::new(client, &kind(false), "").apply(&object, true).await.unwrap();
        let seen = seen.lock().unwrap();
        let left: Vec<_> = seen.iter().map(|sent| sent.as_object().unwrap().len() - 3).collect();
        assert_eq!(left, (0..=12).rev().collect::<Vec<_>>());
    }

    // applying.md 3.6: what was made by a create has all entries, and keeps them when it is applied
    #[tokio::test]
    async fn entries_with_the_same_key_are_written_together() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        let client = answering(move |request| {
            let sent = request.body();
            let query = request.uri().query().unwrap_or_default().to_owned();
            kept.lock().unwrap().push((query, sent.clone()));
            let twice = "failed to create typed patch object (n/o; g/v1, Kind=K): errors:\n  .ports: \
                duplicate entries for key [port=80,protocol=\"TCP\"]";
            match sent.get("ports").and_then(Value::as_array).map_or(0, Vec::len) {
                _ if sent.is_array() => (200, json!({})),
                2 => (500, json!({"status": "Failure", "code": 500, "message": twice})),
                _ => (200, sent.clone()),
            }
        });
        let ports = json!([{"name": "http", "port": 80}, {"name": "metrics", "port": 80}]);
        let object = json!({"apiVersion": "g/v1", "kind": "K", "ports": ports,
            "metadata": {"name": "n", "resourceVersion": "7"}});
        let object = Object::from_value(object).unwrap();
        let endpoint = Endpoint::new(client, &kind(false), "");
        let tried = endpoint.try_apply(&object, manager::DRY_RUN).await.unwrap();
        assert_eq!(tried.0["ports"], ports);
        seen.lock().unwrap().clear();
        endpoint.apply(&object, false).await.unwrap();
        let seen = seen.lock().unwrap();
        let dry: Vec<_> = seen.iter().map(|(query, _)| query.contains("dryRun=All")).collect();
        assert_eq!(dry, [false, true, false]);
        let add = |path: &str, value: &Value| json!({"op": "add", "path": path, "value": value});
        assert_eq!(
            seen[2].1,
            json!([
                add("/metadata", &json!({"name": "n", "resourceVersion": "7"})),
                add("/ports", &ports),
                add("/metadata/resourceVersion", &json!("7"))
            ])
        );
    }

    // rendering.md R10, 1.5: upstream sends the namespace, which the API server ignores
    #[rstest]
    #[case::cluster(false, None)]
    #[case::namespaced(true, Some("ops"))]
    #[tokio::test]
    async fn a_namespace_is_sent_where_there_is_one(
        #[case] namespaced: bool,
        #[case] want: Option<&str>,
    ) {
        let (client, seen) = recording();
        let object = json!({"apiVersion": "g/v1", "kind": "K",
            "metadata": {"name": "n", "namespace": "ops"}});
        let object = Object::from_value(object).unwrap();
        let endpoint = Endpoint::new(client, &kind(namespaced), "ops");
        endpoint.create(&object, false).await.unwrap();
        endpoint.apply(&object, true).await.unwrap();
        endpoint.try_apply(&object, manager::DRY_RUN).await.unwrap();
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 3);
        for sent in seen.iter() {
            assert_eq!(sent["metadata"]["name"], "n");
            assert_eq!(sent["metadata"].get("namespace").and_then(Value::as_str), want);
        }
    }
}
