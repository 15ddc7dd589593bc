//! Objects in API versions that the Kubernetes that is gone to no longer serves: of stored revisions,
//! and on the cluster.

use olm_api::LifecycleState;
use olm_api::keys::label;
use olm_core::removed_apis::removed_in;
use olm_core::resolve::Knowledge;
use olm_core::revision::owner_name;

use crate::commands::prelude::*;

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

/// Counts objects by who applies them, a manager or an extension, API version and kind.
#[derive(Default)]
struct Count {
    /// Those of this minor version of Kubernetes 1 count.
    kubernetes: u64,
    objects: BTreeMap<(Option<String>, Option<String>, String, String), usize>,
}

impl Count {
    fn lacks(&self, api_version: &str, kind: &str) -> bool {
        removed_in(api_version, kind).is_some_and(|since| since <= self.kubernetes)
    }

    fn add(&mut self, by: (Option<&str>, Option<&str>), api_version: &str, kind: &str) {
        if self.lacks(api_version, kind) {
            let (manager, extension) = (by.0.map(str::to_owned), by.1.map(str::to_owned));
            let key = (manager, extension, api_version.to_owned(), kind.to_owned());
            *self.objects.entry(key).or_default() += 1;
        }
    }
}

/// Returns the uses of API versions that the Kubernetes of this minor version no longer serves.
pub(super) async fn find(
    cluster: &Cluster,
    stored: &[ClusterObjectSet],
    kubernetes: u64,
    unknown: &mut Vec<Unknown>,
) -> anyhow::Result<Vec<RemovedApi>> {
    let mut count = Count { kubernetes, ..Count::default() };
    let active = |set: &&ClusterObjectSet| set.spec.lifecycle_state == LifecycleState::Active;
    let namespace = cluster.system_namespace().await?;
    for set in stored.iter().filter(active) {
        match cluster.content(set).await {
            Ok(phases) => {
                for object in phases.iter().flat_map(|phase| &phase.objects) {
                    count.add((None, owner_name(set)), object.api_version(), object.kind());
                }
            }
            Err(error) => unknown.push(Unknown {
                what: format!("objects of revision {}", set.name_any()),
                why: one_line(&error),
                hint: Some(format!("kubectl auth can-i get secrets --namespace {namespace}")),
            }),
        }
    }
    live(cluster, &mut count, unknown).await?;
    let removed = count.objects.into_iter();
    let removed = removed.filter_map(|((manager, extension, api_version, kind), objects)| {
        let removed_in = format!("1.{}", removed_in(&api_version, &kind)?);
        Some(RemovedApi { extension, manager, api_version, kind, objects, removed_in })
    });
    Ok(removed.collect())
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
        if !count.lacks(&api_version, &kind.kind) {
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
            for manager in appliers(&object.metadata, &api_version) {
                count.add((Some(manager), None), &api_version, &kind.kind);
            }
        }
    }
    Ok(())
}

/// Returns the managers that apply an object in an API version. Objects of an extension are counted
/// by its revisions.
fn appliers<'a>(metadata: &'a kube::core::ObjectMeta, api_version: &str) -> BTreeSet<&'a str> {
    let labels = metadata.labels.as_ref();
    if labels.is_some_and(|labels| labels.contains_key(label::OWNER_NAME)) {
        return BTreeSet::new();
    }
    let entries = metadata.managed_fields.iter().flatten();
    entries
        .filter(|entry| entry.api_version.as_deref() == Some(api_version))
        .filter_map(|entry| entry.manager.as_deref())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // plugin.md 1.4
    #[test]
    fn who_applies_an_object_in_a_version_is_known_by_its_managed_fields() {
        for (labels, want) in
            [(json!({}), vec!["argocd"]), (json!({label::OWNER_NAME: "quay"}), Vec::new())]
        {
            let metadata = json!({"labels": labels, "managedFields": [
                {"manager": "argocd", "apiVersion": "networking.k8s.io/v1beta1"},
                {"manager": "kubectl", "apiVersion": "networking.k8s.io/v1"},
            ]});
            let metadata = serde_json::from_value(metadata).unwrap();
            let by = appliers(&metadata, "networking.k8s.io/v1beta1");
            assert_eq!(Vec::from_iter(by), want);
        }
    }

    // plugin.md 1.4, U58
    #[test]
    fn what_is_gone_later_does_not_count() {
        let mut count = Count { kubernetes: 36, ..Count::default() };
        let by = (None, Some("quay"));
        count.add(by, "networking.k8s.io/v1beta1", "ServiceCIDR");
        assert!(count.objects.is_empty());
        count.add(by, "storage.k8s.io/v1alpha1", "VolumeAttributesClass");
        assert_eq!(count.objects.len(), 1);
    }
}
