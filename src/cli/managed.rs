//! Objects of extensions on a cluster, found by their labels in every served kind, metadata only.

use kube::core::PartialObjectMeta;
use kube::discovery::{Discovery, verbs};
use olm_api::keys::label;
use olm_cluster::{join_bounded, message};

use crate::prelude::*;

/// Objects in one page of a list.
const PAGE: u32 = 500;

pub(crate) struct Managed {
    pub(crate) resource: ApiResource,
    pub(crate) object: PartialObjectMeta<DynamicObject>,
}

impl Managed {
    /// Returns the text for it: `<Kind>.<group> <namespace>/<name>`.
    pub(crate) fn text(&self) -> String {
        let kind = match self.resource.group.as_str() {
            "" => self.resource.kind.clone(),
            group => format!("{}.{group}", self.resource.kind),
        };
        let namespace = self.object.namespace().map(|it| it + "/").unwrap_or_default();
        format!("{kind} {namespace}{}", self.object.name_any())
    }

    /// Returns its name as kubectl prints it.
    pub(crate) fn named(&self) -> String {
        named(&self.resource.kind, &self.resource.group, &self.object.name_any())
    }

    /// Whether its kind is this one of the core group.
    fn is(&self, kind: &str) -> bool {
        self.resource.group.is_empty() && self.resource.kind == kind
    }

    /// Returns the UID and the text of its controller.
    pub(crate) fn controller(&self) -> Option<(&str, String)> {
        let mut owners = self.object.owner_references().iter();
        let owner = owners.find(|owner| owner.controller == Some(true))?;
        Some((&owner.uid, format!("{} {}", owner.kind, owner.name)))
    }

    pub(crate) fn api(&self, client: &Client) -> Api<DynamicObject> {
        match self.object.namespace() {
            Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        }
    }
}

/// Returns the message of the API server on one line, or why there is no answer. The client's own
/// text repeats the message and adds details for programmers.
pub(crate) fn failure(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(_) => plain(&message(error)),
        kube::Error::Service(_) | kube::Error::HyperError(_) => message(error),
        error => Chain(error).to_string(),
    }
}

/// Returns the name of an object as kubectl prints it: `deployment.apps/lamp`.
pub(crate) fn named(kind: &str, group: &str, name: &str) -> String {
    let kind = kind.to_lowercase();
    if group.is_empty() { format!("{kind}/{name}") } else { format!("{kind}.{group}/{name}") }
}

/// Returns every kind that can be listed, each in its most stable version.
pub(crate) async fn kinds(client: &Client) -> anyhow::Result<Vec<ApiResource>> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await;
    let discovery = discovery.context("reading the served APIs")?;
    let all = discovery.groups().flat_map(kube::discovery::ApiGroup::resources_by_stability);
    let listed = all.filter(|(_, can)| can.supports_operation(verbs::LIST));
    Ok(listed.map(|(resource, _)| resource).collect())
}

/// Returns the objects of a kind, page by page.
pub(crate) async fn all(
    api: &Api<DynamicObject>,
    selector: &str,
) -> kube::Result<Vec<PartialObjectMeta<DynamicObject>>> {
    let mut params = ListParams::default().labels(selector).limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = api.list_metadata(&params).await?;
        all.extend(page.items);
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(all);
        }
    }
}

/// Returns the objects of all extensions, or of the named one, and the kinds that could not be
/// listed with the reasons. Without revisions, their content, and objects that others derived from
/// these.
pub(crate) async fn of_extensions(
    client: &Client,
    kinds: &[ApiResource],
    name: Option<&str>,
) -> (Vec<Managed>, Vec<String>) {
    let selector = match name {
        Some(name) => format!("{}={name}", label::OWNER_NAME),
        None => label::OWNER_NAME.to_owned(),
    };
    let ours = |kind: &&ApiResource| kind.group != olm_api::GROUP;
    let lists = kinds.iter().filter(ours).map(|resource| {
        let api = Api::<DynamicObject>::all_with(client.clone(), resource);
        let selector = &selector;
        async move { (resource, all(&api, selector).await) }
    });
    let (mut found, mut unread) = (Vec::new(), Vec::new());
    for (resource, listed) in join_bounded(lists.collect()).await {
        match listed {
            Ok(mut objects) => {
                objects.retain(|object| !object.labels().contains_key(label::REVISION_NAME));
                let managed = |object| Managed { resource: resource.clone(), object };
                found.extend(objects.into_iter().map(managed));
            }
            // Served, and gone or not to be listed.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405) => {}
            Err(error) => unread.push(format!("{}: {}", resource.plural, failure(&error))),
        }
    }
    (installed(found), unread)
}

/// Leaves out what is made of an object and inherits its labels, as Endpoints do
/// of a Service, and the views of an object in other API groups, which have its UID.
fn installed(mut found: Vec<Managed>) -> Vec<Managed> {
    let place = |one: &Managed| (one.object.namespace(), one.object.name_any());
    let uids: BTreeSet<_> = found.iter().filter_map(|one| one.object.uid()).collect();
    let services: BTreeSet<_> = found.iter().filter(|one| one.is("Service")).map(place).collect();
    let is_kubernetes = |group: &str| !group.contains('.') || group.ends_with(".k8s.io");
    found.sort_by_key(|one| !is_kubernetes(&one.resource.group));
    let mut seen = BTreeSet::new();
    found.retain(|one| {
        one.controller().is_none_or(|(owner, _)| !uids.contains(owner))
            && !(one.is("Endpoints") && services.contains(&place(one)))
            && one.object.uid().is_none_or(|uid| seen.insert(uid))
    });
    found
}

#[cfg(test)]
mod tests {
    use kube::core::GroupVersionKind;
    use serde_json::json;

    use super::*;

    fn managed((group, kind): (&str, &str), (name, uid): (&str, &str), owner: &str) -> Managed {
        let metadata = json!({"name": name, "namespace": "n", "uid": uid, "ownerReferences":
            [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": owner, "controller": true}]});
        let object = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        Managed { resource, object }
    }

    #[test]
    fn what_inherits_the_labels_of_an_object_is_not_installed() {
        let found = vec![
            managed(("project.openshift.io", "Project"), ("p", "1"), "revision"),
            managed(("", "Namespace"), ("p", "1"), "revision"),
            managed(("", "Service"), ("s", "2"), "revision"),
            managed(("discovery.k8s.io", "EndpointSlice"), ("s-abcde", "3"), "2"),
            managed(("", "Endpoints"), ("s", "4"), "none"),
            managed(("", "Endpoints"), ("other", "5"), "revision"),
            managed(("", "ConfigMap"), ("theirs", "6"), "somebody"),
        ];
        let left: Vec<_> = installed(found).iter().map(Managed::text).collect();
        let want = ["Namespace n/p", "Service n/s", "Endpoints n/other", "ConfigMap n/theirs"];
        assert_eq!(left, want);
    }
}
