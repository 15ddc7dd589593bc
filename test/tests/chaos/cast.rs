//! The three extensions of a world.

use olm_test::prelude::*;

use crate::stage::Stage;
use crate::user::Kind;

/// An extension, and its scenario.
pub(crate) struct Actor {
    pub(crate) scene: Scene,
    /// What users make objects of.
    pub(crate) kinds: Vec<Kind>,
    bundles: [Bundle; 2],
    /// Whether 1.1.0 never becomes ready.
    breaks: bool,
    /// Whether its CRDs are to stay when it goes with its whole folder.
    pub(crate) retains: bool,
}

/// Makes three packages, each with versions 1.0.0 and 1.1.0: one loses a `ConfigMap` and a CRD,
/// changes the other `ConfigMap` and gets another CRD; one breaks in the middle of its upgrade, which
/// brings a CRD; one has several Deployments and more content than a Secret holds.
pub(crate) async fn cast(cluster: &Cluster, suffix: &str) -> Vec<Actor> {
    let deeper = |mut bundle: Bundle| {
        bundle.data.insert("depth".to_owned(), "11".to_owned());
        bundle
    };
    let (old, new) = (Bundle::new("1.0.0"), deeper(Bundle::new("1.1.0")));
    let large = |bundle: Bundle| bundle.with_second_config_map().with_filler(500_000);
    let broken = new.clone().with_deployments(3).with_second_config_map().broken();
    let with_crd = |bundle: Bundle, letter: &str, word: &str| {
        let package = Package::new(&format!("{suffix}{letter}"));
        bundle.with_manifest(package.further_crd(word))
    };
    let first = with_crd(old.clone().with_second_config_map(), "a", OLD);
    let casts = [
        ("a", [first, with_crd(new.clone(), "a", NEW)]),
        ("b", [old.clone().with_deployments(2), with_crd(broken, "b", NEW)]),
        ("c", [large(old).with_deployments(3), large(new).with_deployments(2)]),
    ];
    // Most of it is waiting.
    let making = casts.into_iter().map(|(letter, bundles)| async move {
        let entries = chain(&["1.0.0", "1.1.0"]);
        let name = format!("{suffix}{letter}");
        let scene = Scene::set(cluster.clone(), &name, &bundles, &entries).await;
        let users = json!({"metadata": {"name": users(&scene)}});
        cluster.plane.requests().create("namespace", "", &users);
        let kinds = kinds(&scene, &bundles);
        let (breaks, retains) = (letter == "b", letter == "a");
        Actor { scene, kinds, bundles, breaks, retains }
    });
    futures::future::join_all(making).await
}

/// Begin the groups of CRDs that only 1.0.0, and only 1.1.0 has.
const OLD: &str = "old";
const NEW: &str = "new";

/// Returns the namespace of users, which is not the extension's.
pub(crate) fn users(scene: &Scene) -> String {
    format!("{}-users", scene.name)
}

fn kinds(scene: &Scene, bundles: &[Bundle; 2]) -> Vec<Kind> {
    let group = scene.package.group();
    let further = |word: &str, bundle: &Bundle| {
        let manifest = scene.package.further_crd(word);
        bundle.extra.contains(&manifest).then(|| format!("{word}.{group}"))
    };
    let [first, second] = bundles;
    let mut kinds = vec![Kind::new(scene, &group, true)];
    kinds.extend(further(OLD, first).map(|group| Kind::new(scene, &group, true)));
    kinds.extend(further(NEW, second).map(|group| Kind::new(scene, &group, false)));
    kinds
}

impl Actor {
    pub(crate) fn name(&self) -> &str {
        &self.scene.name
    }

    pub(crate) fn extension(&self, client: &kube::Client) -> Extension {
        Extension::named(client, self.name())
    }

    /// Says whether it does not finish `stage`.
    pub(crate) fn is_stuck_in(&self, stage: Stage) -> bool {
        self.breaks && stage == Stage::Upgrade
    }

    /// Says whether its upgrade is reverted in `stage`.
    pub(crate) fn reverts_in(&self, stage: Stage) -> bool {
        self.breaks && stage == Stage::Revert
    }

    /// CRDs of 1.0.0, which an uninstall removes; another one outlives the extension.
    pub(crate) fn removed_crds(&self) -> BTreeSet<String> {
        self.kinds.iter().filter(|kind| kind.of_first).map(|kind| kind.crd.clone()).collect()
    }

    /// Returns how many objects users have at the end of `stage`.
    pub(crate) fn objects_after(&self, stage: Stage) -> usize {
        match stage {
            Stage::Empty | Stage::Uninstall | Stage::Folder => 0,
            Stage::Install => self.removed_crds().len(),
            Stage::Upgrade | Stage::Rollback | Stage::StepBack | Stage::Revert | Stage::Orphan => {
                self.kinds.len()
            }
        }
    }

    /// Makes namespace, account and rights again after the folder was deleted.
    pub(crate) fn restore_folder(&self) {
        self.scene.create_namespace();
        self.scene.grant(&self.bundles);
    }

    /// Waits for the end of an undisturbed `stage`.
    pub(crate) async fn ends(&self, client: &kube::Client, stage: Stage) {
        let extension = self.extension(client);
        match stage {
            Stage::Upgrade if self.is_stuck_in(stage) => {
                extension.shows("Progressing", "True", "RollingOut", "1.1.0").await;
            }
            Stage::Upgrade => {
                extension.installed("1.1.0").await;
                replaced(&extension).await;
            }
            Stage::Revert if self.reverts_in(stage) => {
                extension.shows("Ready", "True", "RolloutReverted", "1.1.0").await;
                replaced(&extension).await;
            }
            Stage::Install | Stage::Rollback | Stage::StepBack | Stage::Revert => {
                extension.installed("1.0.0").await;
                replaced(&extension).await;
            }
            Stage::Empty | Stage::Uninstall | Stage::Orphan | Stage::Folder => {
                extension.gone().await;
            }
        }
    }
}

/// Waits until all revisions but the last are archived, which begins once the last has succeeded: a pause in
/// between is not the end of a stage.
async fn replaced(extension: &Extension) {
    let is_archived = |set: &ClusterObjectSet| {
        let status = set.status.as_ref();
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        conditions.iter().any(|it| it.type_ == "Progressing" && it.reason == "Archived")
    };
    let are = |all: &Vec<ClusterObjectSet>| all.iter().rev().skip(1).all(is_archived);
    wait::read("earlier revisions are archived", ROLLOUT, || extension.revisions(), are).await;
}
