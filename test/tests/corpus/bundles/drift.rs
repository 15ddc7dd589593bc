//! Drift is repaired: a deleted object and an edited one.

use olm_core::object::Object;
use olm_test::prelude::*;

use super::stage::Stage;

/// Deletes a Deployment, removes the rules of a role, and waits until both are as before.
pub(crate) async fn is_repaired(stage: &Stage, extension: &Extension, version: &str) {
    let objects = stage.rendered(version);
    let deployment = find(stage, &objects, |object| object.kind() == "Deployment").await;
    let role = find(stage, &objects, has_own_rules).await;
    let before = deployment.get().await.expect("the Deployment is there");
    let intact = role.get().await.expect("the role is there");

    deployment.delete().await;
    role.patch(&json!({"rules": []})).await;

    wait::until(&format!("{}: drift is repaired", stage.name), SOON, || async {
        let found = deployment.get().await.ok_or("no Deployment")?;
        if found.metadata.uid == before.metadata.uid {
            return Err("the Deployment is still the old one");
        }
        let found = role.get().await.ok_or("no role")?;
        if found.data == intact.data { Ok(()) } else { Err("the role lacks its rules") }
    })
    .await;
    extension.installed(version).await;
}

/// An aggregated cluster role gets its rules from the API server, not from the bundle.
fn has_own_rules(object: &Object) -> bool {
    let rules = object.pointer("/rules").and_then(Value::as_array);
    matches!(object.kind(), "Role" | "ClusterRole")
        && object.group() == "rbac.authorization.k8s.io"
        && object.pointer("/aggregationRule").is_none()
        && rules.is_some_and(|rules| !rules.is_empty())
}

/// An object on the cluster, with the API for its kind.
struct Live {
    api: Api<DynamicObject>,
    name: String,
}

impl Live {
    async fn get(&self) -> Option<DynamicObject> {
        let found = self.api.get_opt(&self.name).await;
        found.expect("the administrator may read everything")
    }

    async fn delete(&self) {
        let done = self.api.delete(&self.name, &DeleteParams::default()).await;
        done.map(drop).expect("the administrator may delete everything");
    }

    async fn patch(&self, patch: &Value) {
        let params = PatchParams::default();
        let done = self.api.patch(&self.name, &params, &Patch::Merge(patch)).await;
        done.map(drop).expect("the administrator may change everything");
    }
}

async fn find(stage: &Stage, objects: &[Object], wanted: impl Fn(&Object) -> bool) -> Live {
    let found = objects.iter().find(|object| wanted(object));
    let identity = found.expect("the bundle has such an object").identity();
    Live { api: stage.objects.lock().await.existing(&identity).await, name: identity.name }
}
