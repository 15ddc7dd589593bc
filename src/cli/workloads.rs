//! Objects of a kind, and the reasons why workloads are not ready, from their status and their pods, as far
//! as the caller may read them.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Event, Pod};
use olm_api::keys::label;
use olm_core::revision::{MAX_PODS, Readiness, built_in, evaluate, hindrance, pod_selector};

use crate::managed::failure;
use crate::prelude::*;

/// Returns the reasons why an object is not ready; an error of a read is a reason too.
pub(crate) async fn reasons(client: &Client, live: &Object) -> Vec<String> {
    let (pods, unread) = match pods(client, live).await {
        Ok(pods) => (pods, None),
        Err(why) => (Vec::new(), Some(format!("pods not known: {why}"))),
    };
    let refused = if pods.is_empty() { refused(client, live).await } else { None };
    hindrance(live, &pods).into_iter().chain(refused).chain(unread).collect()
}

/// Returns why the pods of a workload are refused that has no condition for it: only Events tell.
async fn refused(client: &Client, live: &Object) -> Option<String> {
    pod_selector(live).filter(|_| live.kind() != "Deployment")?;
    let uid = live.pointer("/metadata/uid")?.as_str()?;
    let api = Api::<Event>::namespaced(client.clone(), live.namespace());
    let fields = format!("involvedObject.uid={uid},reason=FailedCreate");
    let events = api.list(&ListParams::default().fields(&fields)).await.ok()?.items.into_iter();
    let newest = events.max_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0))?;
    newest.message.as_deref().map(plain)
}

/// Returns the reasons why the workloads of an extension are not ready, one per line.
pub(crate) async fn causes(client: &Client, extension: &str) -> Result<Vec<String>, String> {
    let kinds = [
        ApiResource::erase::<Deployment>(&()),
        ApiResource::erase::<StatefulSet>(&()),
        ApiResource::erase::<DaemonSet>(&()),
    ];
    let (probes, mut lines) = (built_in(), Vec::new());
    let selector = format!("{}={extension}", label::OWNER_NAME);
    for kind in &kinds {
        let api = Api::<DynamicObject>::all_with(client.clone(), kind);
        let listed = api.list(&ListParams::default().labels(&selector)).await;
        for workload in objects(listed.map_err(|error| failure(&error))?.items, kind) {
            if evaluate(&workload, &probes) == Readiness::Ready {
                continue;
            }
            let reasons = reasons(client, &workload).await;
            if !reasons.is_empty() {
                lines.push(format!("{}: {}", workload.identity(), reasons.join("; ")));
            }
        }
    }
    Ok(lines)
}

/// Lists pods of an object, if it is a workload.
async fn pods(client: &Client, live: &Object) -> Result<Vec<Object>, String> {
    let Some(selector) = pod_selector(live) else { return Ok(Vec::new()) };
    let kind = ApiResource::erase::<Pod>(&());
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), live.namespace(), &kind);
    let params = ListParams::default().labels(&selector).limit(MAX_PODS);
    let listed = api.list(&params).await.map_err(|error| failure(&error))?;
    Ok(objects(listed.items, &kind))
}

/// Lists the objects of a kind, whole; a kind that is not served has none.
pub(crate) async fn list(
    client: &Client,
    (api_version, kind): (&str, &str),
    namespace: Option<&str>,
    selector: &str,
) -> anyhow::Result<Vec<Object>> {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let found = match api.list(&ListParams::default().labels(selector)).await {
        Ok(found) => found.items,
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => bail!("{} could not be read: {}", resource.plural, failure(&error)),
    };
    Ok(objects(found, &resource))
}

/// Returns listed objects with their kind, which stands in the list only.
pub(crate) fn objects(listed: Vec<DynamicObject>, kind: &ApiResource) -> Vec<Object> {
    let objects = listed.into_iter().filter_map(|object| {
        let mut object = Object::from_value(serde_json::to_value(object).ok()?)?;
        object.0.insert("apiVersion".to_owned(), json!(kind.api_version));
        object.0.insert("kind".to_owned(), json!(kind.kind));
        Some(object)
    });
    objects.collect()
}
