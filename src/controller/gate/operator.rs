//! The `ClusterOperator`: which one, and what is written into it.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ManagedFieldsEntry};
use kube::api::{Api, Patch, PatchParams};
use kube::core::DynamicObject;
use olm_api::conditions::clusteroperator;
use olm_api::keys;
use olm_core::gate::{elsewhere, operator_conditions};
use olm_core::rights::UPSTREAMS_OPERATOR;
use olm_core::status::Statement;
use serde_json::{Value, json};

use super::{Degraded, GROUP, Gate, GateError, VERSION, openshift};

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
pub(super) async fn write(
    gate: &Gate,
    verdict: Statement,
    degraded: Option<Degraded>,
) -> Result<(), GateError> {
    let api = openshift(gate.client.clone(), "ClusterOperator");
    let name = match gate.manage {
        Manage::Never => return Ok(()),
        Manage::Always => keys::name::CLUSTER_OPERATOR,
        Manage::Auto => managed_name(gate, &api).await?,
    };
    put(gate, &api, name, verdict, degraded).await?;
    let other = keys::name::CLUSTER_OPERATOR_OURS;
    if name == other {
        return Ok(());
    }
    // It cannot be deleted, and what it says would stop updates although nobody keeps it up.
    let stale = api.get_metadata_opt(other).await;
    if stale.map_err(READ)?.is_some() {
        put(gate, &api, other, elsewhere(), None).await?;
    }
    Ok(())
}

const READ: fn(kube::Error) -> GateError =
    |error| GateError::Read("the ClusterOperator", error.into());

/// Writes the conditions, if they differ from what is there.
async fn put(
    gate: &Gate,
    api: &Api<DynamicObject>,
    name: &str,
    verdict: Statement,
    degraded: Option<Degraded>,
) -> Result<(), GateError> {
    let failed = |error: kube::Error| GateError::Write(name.to_owned(), error.into());
    let found = match api.get_opt(name).await.map_err(READ)? {
        Some(found) => found,
        None => create(api, name).await.map_err(failed)?,
    };
    let before = found.data.get("status").cloned().unwrap_or_default();
    let mut conditions: Vec<Condition> =
        serde_json::from_value(before.get("conditions").cloned().unwrap_or_default())
            .unwrap_or_default();
    let version = gate.payload.as_deref().unwrap_or_default();
    let now = Timestamp::now();
    let mut changed = false;
    for statement in operator_conditions(verdict, version, true, degraded) {
        changed |= statement.put(&mut conditions, None, now);
    }
    if !changed {
        return Ok(());
    }
    if let Some(upgradeable) =
        conditions.iter().find(|condition| condition.type_ == clusteroperator::UPGRADEABLE)
    {
        tracing::info!(
            operator = name,
            status = upgradeable.status,
            reason = upgradeable.reason,
            "verdict changed"
        );
    }
    let mut status = json!({"conditions": ours(&conditions), "relatedObjects": related()});
    if !version.is_empty() {
        status["versions"] = json!([{"name": "operator", "version": version}]);
    }
    let patch = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "ClusterOperator",
        "metadata": {"name": name}, "status": status,
    });
    let params = PatchParams::apply(keys::manager::UPGRADE_GATE).force();
    api.patch_status(name, &params, &Patch::Apply(patch)).await.map(drop).map_err(failed)
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

/// Keeps the four conditions that are ours.
fn ours(conditions: &[Condition]) -> Vec<&Condition> {
    let types = [
        clusteroperator::AVAILABLE,
        clusteroperator::PROGRESSING,
        clusteroperator::DEGRADED,
        clusteroperator::UPGRADEABLE,
    ];
    conditions.iter().filter(|condition| types.contains(&condition.type_.as_str())).collect()
}

/// Returns the `ClusterOperator` to write: `olm`, unless somebody else keeps its verdict.
///
/// Source: applying.md 9.7.
async fn managed_name(gate: &Gate, api: &Api<DynamicObject>) -> Result<&'static str, GateError> {
    let other = Api::<Deployment>::namespaced(gate.client.clone(), OTHER_NAMESPACE)
        .get_metadata_opt(UPSTREAMS_OPERATOR)
        .await
        .map_err(|error| GateError::Read("Deployment cluster-olm-operator", error.into()))?;
    if other.is_some() {
        return Ok(keys::name::CLUSTER_OPERATOR_OURS);
    }
    let operator = api.get_metadata_opt(keys::name::CLUSTER_OPERATOR).await.map_err(READ)?;
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

/// Says whether an entry is another manager's and holds condition `Upgradeable`.
fn keeps_verdict(entry: &ManagedFieldsEntry) -> bool {
    let key = format!("k:{{\"type\":\"{}\"}}", clusteroperator::UPGRADEABLE);
    entry.manager.as_deref() != Some(keys::manager::UPGRADE_GATE)
        && entry
            .fields_v1
            .as_ref()
            .and_then(|fields| fields.0.pointer("/f:status/f:conditions"))
            .is_some_and(|conditions| conditions.get(&key).is_some())
}

/// What must-gather collects for us.
fn related() -> Value {
    let entry = |group: &str, resource: &str, name: &str| json!({"group": group, "resource": resource, "name": name});
    json!([
        entry("", "namespaces", "openshift-operator-controller"),
        entry("", "namespaces", "openshift-catalogd"),
        entry(olm_api::GROUP, "clusterextensions", ""),
        entry(olm_api::GROUP, "clustercatalogs", ""),
        entry(olm_api::GROUP, "clusterobjectsets", ""),
    ])
}
