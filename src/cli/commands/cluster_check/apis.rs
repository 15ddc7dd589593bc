//! Objects in API versions that the Kubernetes that is gone to no longer serves: of stored revisions,
//! and on the cluster.

use olm_api::LifecycleState;
use olm_api::keys::label;
use olm_core::removed_apis::removed_in;
use olm_core::resolve::Knowledge;
use olm_core::revision::owner_name;

use super::Findings;
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

pub(super) async fn find(
    cluster: &Cluster,
    stored: &[ClusterObjectSet],
    found: &mut Findings,
) -> anyhow::Result<()> {
    let mut count = Count { kubernetes: found.kubernetes, ..Count::default() };
    let active = |set: &&ClusterObjectSet| set.spec.lifecycle_state == LifecycleState::Active;
    let namespace = cluster.system_namespace().await?;
    for set in stored.iter().filter(active) {
        let by = Origin::Extension(owner_name(set).unwrap_or_default().to_owned());
        match cluster.content(set).await {
            Ok(phases) => {
                for object in phases.iter().flat_map(|phase| &phase.objects) {
                    count.add(by.clone(), object.api_version(), object.kind());
                }
            }
            Err(error) => found.unknown.push(Unknown {
                what: format!("objects of revision {}", set.name_any()),
                why: one_line(&error),
                hint: Some(format!("kubectl auth can-i get secrets --namespace {namespace}")),
            }),
        }
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
