//! A folder is deleted at once, as a pruning tool does: an extension with its binding, its account and
//! the namespace of both.

use olm_test::prelude::*;
use olm_test::state::{self, State};

use crate::cast::Actor;
use crate::life::Life;
use crate::stage::Stage;
use crate::world::World;

/// Deletes everything that `actor` stands on, and waits for nothing.
pub(crate) async fn delete(plane: &ControlPlane, actor: &Actor, life: &Life) {
    let name = actor.name();
    if actor.retains {
        actor.scene.annotate(policy::UNINSTALL, "RetainCRDs");
        life.leaves(name, [].into());
    } else {
        life.leaves(name, actor.removed_crds());
    }
    // The operator goes with its namespace, so nobody would process the finalizers of what may go.
    life.lets_operators_go(name);
    for kind in actor.kinds.iter().filter(|kind| !life.known(name, &kind.crd).stays) {
        kind.finish().await.expect("the object is there");
    }
    let requests = plane.requests();
    let subject = json!({"kind": "ServiceAccount", "name": ACCOUNT, "namespace": name});
    let rbac = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let bindings = requests.list("clusterrolebinding", "", "").into_iter();
    let bindings = bindings.filter(|binding| binding["subjects"][0] == subject);
    let bindings: Vec<_> = bindings
        .filter_map(|binding| Some(format!("{rbac}/{}", binding["metadata"]["name"].as_str()?)))
        .collect();
    assert!(!bindings.is_empty(), "{name} has rights");
    let extension = format!("/apis/olm.operatorframework.io/v1/clusterextensions/{name}");
    let namespace = format!("/api/v1/namespaces/{name}");
    let account = format!("{namespace}/serviceaccounts/{ACCOUNT}");
    for path in [vec![extension, account], bindings, vec![namespace]].concat() {
        let deleted = requests.send(Method::DELETE, &path, None);
        deleted.unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}

/// Returns what is left and should not be. What stays on purpose is what users keep, and of the
/// extension whose CRDs are retained what is in no namespace: nobody could tell it apart any more.
pub(crate) async fn left(world: &World) -> Result<Vec<String>, String> {
    let found = State::read(&world.client).await?.without(&world.tenant.keys());
    let may_stay = |key: &str| {
        let retained = world.actors.iter().any(|actor| {
            let name = key.split_once(" /").map_or("", |(_, name)| name);
            actor.retains && name.contains(actor.name())
        });
        world.belongs_to_users(key) || (retained && !state::is_ours(key))
    };
    let beyond = found.keys_beyond(&world.undisturbed[&Stage::Empty]).into_iter();
    let mut left: Vec<_> = beyond.filter(|key| !may_stay(key)).collect();
    let namespaces = world.actors.iter().map(|actor| format!("Namespace. /{}", actor.name()));
    left.extend(namespaces.filter(|key| found.contains(key)));
    Ok(left.into_iter().map(|key| format!("left over: {key}")).collect())
}
