//! The three extensions of a world.

use olm_test::cluster::Cluster;
use olm_test::extension::Extension;
use olm_test::package::{Bundle, chain};
use olm_test::scene::Scene;

use crate::stage::Stage;

/// An extension, and its scenario.
pub(crate) struct Actor {
    pub(crate) scene: Scene,
    /// Whether 1.1.0 never becomes ready.
    breaks: bool,
}

/// Makes three packages, each with versions 1.0.0 and 1.1.0: one loses a `ConfigMap` and changes
/// the other, one breaks in the middle of its upgrade, one has several Deployments and more content
/// than a Secret holds.
pub(crate) async fn cast(cluster: &Cluster, suffix: &str) -> Vec<Actor> {
    let deeper = |mut bundle: Bundle| {
        bundle.data.insert("depth".to_owned(), "11".to_owned());
        bundle
    };
    let (old, new) = (Bundle::new("1.0.0"), deeper(Bundle::new("1.1.0")));
    let large = |bundle: Bundle| bundle.with_second_config_map().with_filler(500_000);
    let broken = new.clone().with_deployments(3).with_second_config_map();
    let casts = [
        ("a", false, [old.clone().with_second_config_map(), new.clone()]),
        ("b", true, [old.clone().with_deployments(2), broken.broken()]),
        ("c", false, [large(old).with_deployments(3), large(new).with_deployments(2)]),
    ];
    let mut actors = Vec::new();
    for (letter, breaks, bundles) in casts {
        let entries = chain(&["1.0.0", "1.1.0"]);
        let name = format!("{suffix}{letter}");
        let scene = Scene::set(cluster.clone(), &name, &bundles, &entries).await;
        actors.push(Actor { scene, breaks });
    }
    actors
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

    /// Waits for the end of an undisturbed `stage`.
    pub(crate) async fn ends(&self, client: &kube::Client, stage: Stage) {
        let extension = self.extension(client);
        match stage {
            Stage::Upgrade if self.is_stuck_in(stage) => {
                extension.shows("Progressing", "True", "RollingOut", "1.1.0").await;
            }
            Stage::Upgrade => drop(extension.installed("1.1.0").await),
            Stage::Install | Stage::Rollback => drop(extension.installed("1.0.0").await),
            Stage::Uninstall | Stage::Orphan => extension.gone().await,
        }
    }
}
