//! The `ClusterOperator`: which one, and what is written into it.

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ManagedFieldsEntry};
use kube::api::{Api, ApiResource, Patch, PatchParams};
use kube::core::{DynamicObject, GroupVersionKind};
use olm_api::conditions::clusteroperator;
use olm_api::keys;
use olm_core::gate::{elsewhere, operator_condition, operator_conditions};
use olm_core::rights::UPSTREAMS_OPERATOR;
use olm_core::status::find;
use serde_json::{Value, json};

use super::{GROUP, Gate, Report, VERSION, openshift};
use crate::cluster::{ApiError, RequestError};

/// Whether and where the verdict is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Manage {
    /// Into `olm`, or into one of our own where another operator keeps `olm`.
    Auto,
    /// Into `olm`.
    Always,
    /// Nowhere.
    Never,
}

/// Upstream's operator, which keeps `olm` where it runs.
const OTHER_NAMESPACE: &str = "openshift-cluster-olm-operator";

/// Writes the verdict where it belongs, and takes it off where it stood before.
pub(super) async fn write(gate: &Gate, state: Report) -> anyhow::Result<()> {
    let api = openshift(gate.client.clone(), "ClusterOperator");
    let name = match gate.manage {
        Manage::Never => return Ok(()),
        Manage::Always => keys::name::CLUSTER_OPERATOR,
        Manage::Auto => managed_name(gate, &api).await?,
    };
    let version = state.version.clone();
    let conditions = put(&api, name, state).await?;
    let other = keys::name::CLUSTER_OPERATOR_OURS;
    if name == other {
        return Ok(());
    }
    // It cannot be deleted, and what it says would stop updates although nobody keeps it up.
    if api.get_metadata_opt(other).await.map_err(RequestError::doing(READING))?.is_some() {
        put(&api, other, Report { verdict: elsewhere(), degraded: None, version }).await?;
    }
    match find(&conditions, clusteroperator::UPGRADEABLE) {
        Some(upgradeable) => put_operator_condition(gate, upgradeable).await,
        None => Ok(()),
    }
}

const READING: &str = "reading the ClusterOperator";

/// Writes the verdict into `OLM` `cluster`, from which OpenShift's operator takes that of `olm`, if that
/// is there and differs.
async fn put_operator_condition(gate: &Gate, upgradeable: &Condition) -> anyhow::Result<()> {
    let kind = GroupVersionKind::gvk("operator.openshift.io", VERSION, "OLM");
    let kind = ApiResource::from_gvk(&kind);
    let api = Api::<DynamicObject>::all_with(gate.client.clone(), &kind);
    let found = match api.get(keys::name::OLM).await {
        // The kind may be missing, too.
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
        found => found.map_err(RequestError::doing("reading OLM cluster"))?,
    };
    let condition = json!(operator_condition(upgradeable));
    let conditions = found.data.pointer("/status/conditions").and_then(Value::as_array);
    if conditions.is_some_and(|conditions| conditions.contains(&condition)) {
        return Ok(());
    }
    let patch = json!({
        "apiVersion": kind.api_version, "kind": kind.kind,
        "metadata": {"name": keys::name::OLM}, "status": {"conditions": [condition]},
    });
    let params = PatchParams::apply(keys::manager::UPGRADE_GATE).force();
    let patched = api.patch_status(keys::name::OLM, &params, &Patch::Apply(patch)).await;
    patched.map(drop).map_err(ApiError).context("writing OLM cluster")
}

/// Writes the status, if it differs from what is there, and returns its conditions.
async fn put(
    api: &Api<DynamicObject>,
    name: &str,
    Report { verdict, degraded, version }: Report,
) -> anyhow::Result<Vec<Condition>> {
    let writing = || format!("writing ClusterOperator {name}");
    let found = match api.get_opt(name).await.map_err(RequestError::doing(READING))? {
        Some(found) => found,
        None => create(api, name).await.map_err(ApiError).with_context(writing)?,
    };
    let before = found.data.get("status").cloned().unwrap_or_default();
    let mut conditions: Vec<Condition> =
        serde_json::from_value(before.get("conditions").cloned().unwrap_or_default())
            .unwrap_or_default();
    let versions = version.map(|version| json!([{"name": "operator", "version": version}]));
    let related = related();
    let now = Timestamp::now();
    let mut changed = before.get("relatedObjects") != Some(&related)
        || versions.as_ref().is_some_and(|new| before.get("versions") != Some(new));
    let statements = operator_conditions(verdict, degraded);
    // The others are somebody else's.
    conditions.retain(|found| statements.iter().any(|own| own.type_ == found.type_));
    for statement in statements {
        changed |= statement.put(&mut conditions, None, now);
    }
    if !changed {
        return Ok(conditions);
    }
    if let Some(upgradeable) = find(&conditions, clusteroperator::UPGRADEABLE) {
        tracing::info!(
            operator = name,
            status = upgradeable.status,
            reason = upgradeable.reason,
            "verdict changed"
        );
    }
    let mut status = json!({"conditions": conditions, "relatedObjects": related});
    if let Some(versions) = versions {
        status["versions"] = versions;
    }
    let patch = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "ClusterOperator",
        "metadata": {"name": name}, "status": status,
    });
    let params = PatchParams::apply(keys::manager::UPGRADE_GATE).force();
    let patched = api.patch_status(name, &params, &Patch::Apply(patch)).await;
    patched.map_err(ApiError).with_context(writing)?;
    Ok(conditions)
}

/// Creates the object by an apply, because the right to create can be bound to a name only then.
async fn create(api: &Api<DynamicObject>, name: &str) -> Result<DynamicObject, kube::Error> {
    let operator = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "ClusterOperator",
        "metadata": {"name": name}, "spec": {},
    });
    let params = PatchParams::apply(keys::manager::UPGRADE_GATE);
    api.patch(name, &params, &Patch::Apply(operator)).await
}

/// Returns the `ClusterOperator` to write: `olm`, unless somebody else keeps its verdict.
///
/// Source: applying.md 9.7.
async fn managed_name(gate: &Gate, api: &Api<DynamicObject>) -> Result<&'static str, RequestError> {
    let other = Api::<Deployment>::namespaced(gate.client.clone(), OTHER_NAMESPACE)
        .get_opt(UPSTREAMS_OPERATOR)
        .await
        .map_err(RequestError::doing("reading Deployment cluster-olm-operator"))?;
    match other.map(|other| other.spec.and_then(|spec| spec.replicas)) {
        // Nobody else will ever change what it has written.
        Some(Some(0)) => return Ok(keys::name::CLUSTER_OPERATOR),
        Some(_) => return Ok(keys::name::CLUSTER_OPERATOR_OURS),
        None => {}
    }
    let operator = api.get_metadata_opt(keys::name::CLUSTER_OPERATOR).await;
    let operator = operator.map_err(RequestError::doing(READING))?;
    let kept_by_another = operator
        .iter()
        .flat_map(|operator| operator.metadata.managed_fields.iter().flatten())
        .any(keeps_verdict);
    Ok(if kept_by_another {
        keys::name::CLUSTER_OPERATOR_OURS
    } else {
        keys::name::CLUSTER_OPERATOR
    })
}

/// Returns whether an entry is another manager's and holds condition `Upgradeable`.
fn keeps_verdict(entry: &ManagedFieldsEntry) -> bool {
    let key = format!("k:{{\"type\":\"{}\"}}", clusteroperator::UPGRADEABLE);
    entry.manager.as_deref() != Some(keys::manager::UPGRADE_GATE)
        && entry
            .fields_v1
            .as_ref()
            .and_then(|fields| fields.0.pointer("/f:status/f:conditions"))
            .is_some_and(|conditions| conditions.get(&key).is_some())
}

/// The objects that must-gather collects.
fn related() -> Value {
    let entry = |group: &str, resource: &str, name: &str| json!({"group": group, "resource": resource, "name": name});
    let definition = |kinds: &str| {
        let name = format!("{kinds}.{}", olm_api::GROUP);
        entry("apiextensions.k8s.io", "customresourcedefinitions", &name)
    };
    json!([
        entry("", "namespaces", "openshift-operator-controller"),
        entry("", "namespaces", "openshift-catalogd"),
        definition("clusterextensions"),
        definition("clustercatalogs"),
        definition("clusterobjectsets"),
        entry(olm_api::GROUP, "clusterextensions", ""),
        entry(olm_api::GROUP, "clustercatalogs", ""),
        entry(olm_api::GROUP, "clusterobjectsets", ""),
    ])
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::Method;

    use super::*;
    use crate::cluster::answering::answering;

    // applying.md 9.5
    #[tokio::test]
    async fn what_must_gather_collects_is_kept_up_also_where_the_verdict_stays() {
        let stored = Arc::new(Mutex::new(json!({"metadata": {"name": "olm"}})));
        let kept = Arc::clone(&stored);
        let written = Arc::new(Mutex::new(0));
        let count = Arc::clone(&written);
        let client = answering(move |request| {
            let mut stored = kept.lock().unwrap();
            if *request.method() == Method::PATCH {
                stored["status"] = request.body()["status"].clone();
                *count.lock().unwrap() += 1;
            }
            (200, stored.clone())
        });
        let api = openshift(client, "ClusterOperator");
        let put = async || {
            let version = Some("4.20.1".to_owned());
            put(&api, "olm", Report { verdict: elsewhere(), degraded: None, version })
                .await
                .unwrap();
        };
        for _ in 0..2 {
            put().await;
            assert_eq!(*written.lock().unwrap(), 1, "what is there is not written again");
        }
        stored.lock().unwrap()["status"]["relatedObjects"] = json!([]);
        put().await;
        assert_eq!(stored.lock().unwrap()["status"]["relatedObjects"], related());
    }
}
