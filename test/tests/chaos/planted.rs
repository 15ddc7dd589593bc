//! The comparison is worth something: a fault that is planted is found.

use olm_test::cluster;

use crate::STAGE;
use crate::world::{Stage, World};

/// Each line is a fault: what is run behind the controller's back, how it is undone, and what the
/// comparison must say. `NS` stands for the namespace of the extension.
const FAULTS: [(&str, &str, &str); 6] = [
    (
        "create configmap orphan --namespace NS",
        "delete configmap orphan --namespace NS",
        "left over: ConfigMap. NS/orphan",
    ),
    (
        "label configmap NS-settings copy=again --namespace NS",
        "label configmap NS-settings copy- --namespace NS",
        "ConfigMap. NS/NS-settings .metadata .labels .copy: null != \"again\"",
    ),
    (
        "create secret generic NS-1-0123456789abcdef --namespace olmv1-system",
        "delete secret NS-1-0123456789abcdef --namespace olmv1-system",
        "left over: Secret. olmv1-system/NS-1-0123456789abcdef",
    ),
    (
        "create clusterrole NS-second --verb=get --resource=pods",
        "delete clusterrole NS-second",
        "left over: ClusterRole.rbac.authorization.k8s.io /NS-second",
    ),
    (
        "annotate serviceaccount NS note=x --namespace NS",
        "annotate serviceaccount NS note- --namespace NS",
        "ServiceAccount. NS/NS .metadata .annotations .note: null != \"x\"",
    ),
    (
        "annotate clusterobjectset NS-1 note=x",
        "annotate clusterobjectset NS-1 note-",
        "ClusterObjectSet.olm.operatorframework.io /NS-1 .metadata .annotations .note: null != \"x\"",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_planted_fault_is_found() {
    let _alone = STAGE.lock().await;
    let mut world = World::new(cluster::shared().await, "plant").await;
    world.rehearse(&[Stage::Install]).await;
    let namespace = world.first().0.name.clone();
    let run = |command: &str| {
        let command = command.replace("NS", &namespace);
        let words: Vec<_> = command.split(' ').collect();
        tokio::task::block_in_place(|| drop(world.plane.kubectl(&words)));
    };
    for (plant, undo, report) in FAULTS {
        run(plant);
        let found = world
            .differences(Stage::Install)
            .await
            .expect("the cluster can be read");
        let report = report.replace("NS", &namespace);
        assert!(
            found.contains(&report),
            "{plant}: {found:#?} lacks {report}"
        );
        run(undo);
        world.ends_as_undisturbed(Stage::Install).await;
    }
    world.begin(Stage::Uninstall).await;
    world.first().1.gone().await;
}
