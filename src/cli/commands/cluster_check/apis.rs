//! Objects in API versions that the Kubernetes that is gone to no longer serves: of stored revisions,
//! and on the cluster.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use olm_api::LifecycleState;
use olm_api::keys::{label, name::SYSTEM_NAMESPACE};
use olm_core::removed_apis::removed_in;
use olm_core::resolve::Knowledge;
use olm_core::revision::{namespace_of, owner_name, referenced_secrets, unpack};

use super::Findings;
use crate::prelude::*;

/// Objects of one kind in an API version that is gone.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RemovedApi {
    /// The extension whose revision holds them.
    pub(super) extension: Option<String>,
    /// The field manager that applies them on the cluster.
    pub(super) manager: Option<String>,
    /// Their API version.
    pub(super) api_version: String,
    /// Their kind.
    pub(super) kind: String,
    /// The number of objects.
    #[schemars(range(min = 1))]
    pub(super) objects: usize,
    /// The first Kubernetes without.
    pub(super) removed_in: String,
}

/// The origin of objects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    Extension(String),
    Manager(String),
}

/// Counts objects by who applies them, API version and kind.
#[derive(Default)]
struct Count {
    /// Those of this minor version of Kubernetes 1 count.
    kubernetes: u64,
    objects: BTreeMap<(Origin, String, String), usize>,
}

impl Count {
    fn add(&mut self, by: Origin, api_version: &str, kind: &str) {
        if removed_in(api_version, kind).is_some_and(|since| since <= self.kubernetes) {
            let key = (by, api_version.to_owned(), kind.to_owned());
            *self.objects.entry(key).or_default() += 1;
        }
    }
}

/// Looks for them.
pub(super) async fn find(
    cluster: &Cluster,
    stored: &[ClusterObjectSet],
    found: &mut Findings,
) -> anyhow::Result<()> {
    let mut count = Count { kubernetes: found.kubernetes, ..Count::default() };
    let active = |set: &&ClusterObjectSet| set.spec.lifecycle_state == LifecycleState::Active;
    for set in stored.iter().filter(active) {
        of_revision(cluster.own_client(), set, (&mut count, &mut found.unknown)).await;
    }
    live(cluster, &mut count, &mut found.unknown).await?;
    let removed = count.objects.into_iter();
    found.removed = removed
        .filter_map(|((by, api_version, kind), objects)| {
            let removed_in = format!("1.{}", removed_in(&api_version, &kind)?);
            let (extension, manager) = match by {
                Origin::Extension(name) => (Some(name), None),
                Origin::Manager(name) => (None, Some(name)),
            };
            Some(RemovedApi { extension, manager, api_version, kind, objects, removed_in })
        })
        .collect();
    Ok(())
}

/// Counts the objects of a revision: those it holds, and those in its Secrets.
async fn of_revision(
    client: &Client,
    set: &ClusterObjectSet,
    (count, unknown): (&mut Count, &mut Vec<Unknown>),
) {
    let mut secrets = Contents::new();
    for (namespace, name) in referenced_secrets(&set.spec, SYSTEM_NAMESPACE) {
        match Api::<Secret>::namespaced(client.clone(), &namespace).get(&name).await {
            Ok(secret) => {
                secrets.insert((namespace, name), secret.data.unwrap_or_default());
            }
            Err(error) => {
                unknown.push(Unknown {
                    what: format!("objects of revision {}", set.name_any()),
                    why: format!("reading Secret {namespace}/{name}: {}", failure(&error)),
                    hint: Some(format!("kubectl auth can-i get secrets --namespace {namespace}")),
                });
                return;
            }
        }
    }
    of_content(set, &secrets, (count, unknown));
}

/// The data of Secrets, by namespace and name.
type Contents = BTreeMap<(String, String), BTreeMap<String, ByteString>>;

/// Counts the objects of a revision whose Secrets were read.
fn of_content(
    set: &ClusterObjectSet,
    secrets: &Contents,
    (count, unknown): (&mut Count, &mut Vec<Unknown>),
) {
    let by = Origin::Extension(owner_name(set).unwrap_or_default().to_owned());
    let mut add = |object: &Value| {
        let text = |key: &str| object[key].as_str().unwrap_or_default();
        count.add(by.clone(), text("apiVersion"), text("kind"));
    };
    for object in set.spec.phases.iter().flat_map(|phase| &phase.objects) {
        if let Some(inline) = &object.object {
            add(inline);
        }
        let Some(stored) = &object.ref_ else { continue };
        let place = (namespace_of(stored, SYSTEM_NAMESPACE), stored.name.clone());
        let bytes = secrets.get(&place).and_then(|data| data.get(&stored.key));
        let read = match bytes {
            Some(bytes) => unpack(&stored.name, &stored.key, &bytes.0)
                .map_err(|error| Chain(&error).to_string()),
            None => Err(format!("it has no key {:?}", stored.key)),
        };
        match read {
            Ok(object) => add(&Value::Object(object.0)),
            Err(why) => unknown.push(Unknown {
                what: format!("an object of revision {}", set.name_any()),
                why: format!("Secret {}/{}: {why}", place.0, place.1),
                hint: Some(format!("kubectl get secret {} --namespace {}", place.1, place.0)),
            }),
        }
    }
}

/// Counts the objects on the cluster that somebody applies in a version that is gone then and is
/// served now.
async fn live(
    cluster: &Cluster,
    count: &mut Count,
    unknown: &mut Vec<Unknown>,
) -> anyhow::Result<()> {
    let environment = &cluster.state().await?.environment;
    let Knowledge::Known(served) = &environment.served else { return Ok(()) };
    for group in &served.unreadable_groups {
        unknown.push(Unknown {
            what: format!("objects of {group} on the cluster"),
            why: "the API server does not say which kinds it has".to_owned(),
            hint: Some(format!("kubectl api-resources --api-group {group}")),
        });
    }
    for kind in &served.kinds {
        let gvk = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
        let api_version = gvk.api_version();
        if removed_in(&api_version, &kind.kind).is_none_or(|since| since > count.kubernetes) {
            continue;
        }
        let resource = ApiResource::from_gvk(&gvk);
        let api = Api::<DynamicObject>::all_with(cluster.own_client().clone(), &resource);
        let listed = match api.list_metadata(&ListParams::default()).await {
            Ok(listed) => listed,
            Err(error) => {
                unknown.push(Unknown {
                    what: format!("{} of {api_version} on the cluster", kind.kind),
                    why: failure(&error),
                    hint: Some(format!(
                        "kubectl auth can-i list {}.{} --all-namespaces",
                        resource.plural, kind.group
                    )),
                });
                continue;
            }
        };
        for object in listed.items {
            for by in appliers(&object.metadata, &api_version) {
                count.add(by, &api_version, &kind.kind);
            }
        }
    }
    Ok(())
}

/// Returns the managers that apply an object in an API version. Objects of an extension are counted
/// by its revisions.
fn appliers(metadata: &kube::core::ObjectMeta, api_version: &str) -> BTreeSet<Origin> {
    let labels = metadata.labels.as_ref();
    if labels.is_some_and(|labels| labels.contains_key(label::OWNER_NAME)) {
        return BTreeSet::new();
    }
    let entries = metadata.managed_fields.iter().flatten();
    entries
        .filter(|entry| entry.api_version.as_deref() == Some(api_version))
        .filter_map(|entry| entry.manager.clone().map(Origin::Manager))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // plugin.md 1.4
    #[test]
    fn content_of_a_revision_that_cannot_be_read_is_named() {
        let set = json!({"metadata": {"name": "quay-1"}, "spec": {"lifecycleState": "Active",
            "revision": 1, "collisionProtection": "Prevent", "phases": [{"name": "deploy",
                "objects": [{"ref": {"name": "quay-1-a", "namespace": "n", "key": "broken"}},
                    {"ref": {"name": "quay-1-a", "namespace": "n", "key": "absent"}}]}]}});
        let set = serde_json::from_value(set).unwrap();
        let data = BTreeMap::from([("broken".to_owned(), ByteString(b"x".to_vec()))]);
        let secrets = Contents::from([(("n".to_owned(), "quay-1-a".to_owned()), data)]);
        let (mut count, mut unknown) = (Count::default(), Vec::new());
        of_content(&set, &secrets, (&mut count, &mut unknown));
        assert_eq!(unknown.len(), 2, "{unknown:?}");
        for one in &unknown {
            assert_eq!(one.what, "an object of revision quay-1");
            assert!(one.why.starts_with("Secret n/quay-1-a: "), "{one:?}");
        }
    }

    // plugin.md 1.4
    #[test]
    fn who_applies_an_object_in_a_version_is_known_by_its_managed_fields() {
        let metadata = |labels: Value| {
            serde_json::from_value(json!({"labels": labels, "managedFields": [
                {"manager": "argocd", "apiVersion": "networking.k8s.io/v1beta1"},
                {"manager": "kubectl", "apiVersion": "networking.k8s.io/v1"},
            ]}))
            .unwrap()
        };
        let by = appliers(&metadata(json!({})), "networking.k8s.io/v1beta1");
        assert_eq!(by, [Origin::Manager("argocd".to_owned())].into());
        let owned = metadata(json!({"olm.operatorframework.io/owner-name": "quay"}));
        assert!(appliers(&owned, "networking.k8s.io/v1beta1").is_empty());
    }

    // plugin.md 1.4, U58
    #[test]
    fn what_is_gone_later_does_not_count() {
        let mut count = Count { kubernetes: 36, ..Count::default() };
        let by = Origin::Extension("quay".to_owned());
        count.add(by.clone(), "networking.k8s.io/v1beta1", "ServiceCIDR");
        assert!(count.objects.is_empty());
        count.add(by, "storage.k8s.io/v1alpha1", "VolumeAttributesClass");
        assert_eq!(count.objects.len(), 1);
    }
}
