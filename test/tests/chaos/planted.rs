//! Tests of the comparison itself: a fault that is planted is found.

use olm_test::prelude::*;

use crate::STAGE;
use crate::stage::Stage;
use crate::world::World;

/// How soon a violation is noticed.
const NOTICED: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "of the comparison itself: make test-full"]
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
    let faults: Vec<[String; 3]> = paths::rows("test/tests/chaos/planted.yaml");
    for [plant, undo, report] in &faults {
        run(plant);
        let report = report.replace("NS", &namespace);
        // Of what is ours something else may differ for a moment, which is told first.
        wait::until(&format!("{plant} is found: {report}"), NOTICED, || async {
            let found = world.differences(Stage::Install).await;
            let is_found = found.as_ref().is_ok_and(|found| found.contains(&report));
            is_found.then_some(()).ok_or(found)
        })
        .await;
        run(undo);
        world.ends_as_undisturbed(Stage::Install).await;
    }
    world.begin(Stage::Uninstall).await;
    world.ends_as_undisturbed(Stage::Uninstall).await;
    world.clear_after(Stage::Uninstall).await;
}

/// Each line has violations of what must always hold, and what is reported about each. `NS`, `CRD` and
/// `OLD` are those of the extension.
const NEVER: [(&[&str], &[&str]); 3] = [
    (
        &[UNSET, REPLACED, TAKEN, "delete OLD mine --namespace NS-users --wait=false"],
        &[
            "Installed is False 1.0.0 after True 1.0.0",
            "UID another, is another one",
            "it serves ",
            "is being deleted",
        ],
    ),
    (&["delete crd CRD --wait=false"], &["its CRD CRD is deleted"]),
    (&["delete deployment NS --namespace NS"], &["before its instance"]),
];

/// Not commands of kubectl: `Installed` becomes False, a user's object has another UID than before,
/// and a catalog serves what is held.
const UNSET: &str = "unset Installed";
const REPLACED: &str = "replace an object";
const TAKEN: &str = "take what is held";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "of the comparison itself: make test-full"]
async fn what_must_never_happen_is_noticed() {
    let _alone = STAGE.lock().await;
    let mut world = World::new(cluster::shared().await, "never").await;
    for (commands, reports) in NEVER {
        world.rehearse(&[Stage::Install]).await;
        // Without the controller nothing repairs it, and nothing else is deleted.
        world.kill();
        if reports.contains(&"before its instance") {
            world.first_leaves();
        }
        let scene = world.first().0;
        let (namespace, crd) = (scene.name.clone(), scene.package.crd());
        let old = crd.replacen("buoys.", "buoys.old.", 1);
        let held = world.held.served().await;
        for command in commands {
            match *command {
                UNSET => unset_installed(&world).await,
                REPLACED => world.life.made(&namespace, &crd, "another".to_owned()),
                TAKEN => {
                    world.held.say_it_serves(&format!("example.com/other@sha256:{:064}", 0)).await;
                }
                command => {
                    let command =
                        command.replace("NS", &namespace).replace("CRD", &crd).replace("OLD", &old);
                    let words: Vec<_> = command.split(' ').collect();
                    tokio::task::block_in_place(|| drop(world.plane.kubectl(&words)));
                }
            }
        }
        let mut noticed = Vec::new();
        wait::until("everything is noticed", NOTICED, || {
            noticed.extend(world.life.take_wrongs());
            let missing = reports.iter().find(|report| {
                let report = report.replace("CRD CRD", &format!("CRD {crd}"));
                !noticed.iter().any(|line| line.contains(&report))
            });
            let answer = missing.map_or(Ok(()), |report| Err((*report, noticed.clone())));
            async move { answer }
        })
        .await;
        world.held.say_it_serves(&held).await;
        world.remove_everything().await;
    }
}

async fn unset_installed(world: &World) {
    let extension = world.first().1;
    let mut found = extension.get().await;
    let conditions = found.status.iter_mut().flat_map(|status| &mut status.conditions);
    for condition in conditions.filter(|condition| condition.type_ == "Installed") {
        "False".clone_into(&mut condition.status);
    }
    Api::<ClusterExtension>::all(world.client.clone())
        .replace_status(&extension.name, &PostParams::default(), &found)
        .await
        .expect("the status is written");
}
