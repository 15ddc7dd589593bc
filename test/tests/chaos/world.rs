//! Three extensions on one control plane, what is done to them, and how it must end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kube::api::{Api, DeleteParams};
use olm_api::ClusterExtension;
use olm_test::cluster::{Cluster, ControlPlane, Controller, ControllerOptions};
use olm_test::extension::{Extension, UNINSTALL};
use olm_test::package::{Bundle, chain};
use olm_test::scene::Scene;
use olm_test::state::State;
use olm_test::wait;
use serde_json::json;

use crate::setting;

/// How long the cluster must not change to count as settled.
const QUIET: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(200);
/// How long a stage may take to settle; after an outage the longest delay between attempts counts.
const SETTLED: Duration = Duration::from_secs(150);
/// After this time what still differs is printed, for whoever watches.
const SLOW: Duration = Duration::from_secs(20);

/// What is done to an extension, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Install,
    Upgrade,
    Rollback,
    Uninstall,
}

impl Stage {
    pub(crate) const ALL: [Self; 4] = [
        Self::Install,
        Self::Upgrade,
        Self::Rollback,
        Self::Uninstall,
    ];
}

struct Actor {
    scene: Scene,
    /// Whether 1.1.0 never becomes ready.
    breaks: bool,
}

/// The cluster, the controller and the extensions of one test.
pub(crate) struct World {
    pub(crate) plane: &'static ControlPlane,
    pub(crate) client: kube::Client,
    pub(crate) controller: Controller,
    actors: Vec<Actor>,
    undisturbed: BTreeMap<Stage, State>,
}

impl World {
    /// Makes three packages, each with versions 1.0.0 and 1.1.0: one loses a `ConfigMap` and changes
    /// the other, one breaks in the middle of its upgrade, one has several Deployments and more
    /// content than a Secret holds.
    pub(crate) async fn new(cluster: Cluster, suffix: &str) -> Self {
        let (plane, client) = (cluster.plane, cluster.client.clone());
        let name = suffix.to_owned();
        let controller = tokio::task::spawn_blocking(move || {
            let options = ControllerOptions {
                name,
                // A stall can only be understood from what was asked and when.
                args: vec![format!("--v={}", setting("VERBOSITY", 1))],
            };
            Controller::start(plane, options)
        })
        .await
        .expect("the controller starts");
        let deeper = |mut bundle: Bundle| {
            bundle.data.insert("depth".to_owned(), "11".to_owned());
            bundle
        };
        let (old, new) = (Bundle::new("1.0.0"), deeper(Bundle::new("1.1.0")));
        let large = |bundle: Bundle| bundle.with_second_config_map().with_filler(500_000);
        let casts = [
            (
                "a",
                false,
                [old.clone().with_second_config_map(), new.clone()],
            ),
            (
                "b",
                true,
                [
                    old.clone().with_deployments(2),
                    new.clone()
                        .with_deployments(3)
                        .with_second_config_map()
                        .broken(),
                ],
            ),
            (
                "c",
                false,
                [
                    large(old).with_deployments(3),
                    large(new).with_deployments(2),
                ],
            ),
        ];
        let mut actors = Vec::new();
        for (letter, breaks, bundles) in casts {
            let entries = chain(&["1.0.0", "1.1.0"]);
            let name = format!("{suffix}{letter}");
            let scene = Scene::set(cluster.clone(), &name, &bundles, &entries).await;
            actors.push(Actor { scene, breaks });
        }
        let mut world = Self {
            plane,
            client,
            controller,
            actors,
            undisturbed: BTreeMap::new(),
        };
        // An uninstall leaves the cluster as it was.
        let empty = world.quiet().await;
        world.undisturbed.insert(Stage::Uninstall, empty);
        world
    }

    /// Plays `stages` without any disturbance and remembers how each ends.
    pub(crate) async fn rehearse(&mut self, stages: &[Stage]) {
        for stage in stages {
            let started = Instant::now();
            self.begin(*stage).await;
            if *stage == Stage::Uninstall {
                self.ends_as_undisturbed(*stage).await;
            } else {
                for actor in &self.actors {
                    actor.ends(&self.client, *stage).await;
                }
                let state = self.quiet().await;
                self.undisturbed.insert(*stage, state);
            }
            let (objects, took) = (self.undisturbed[stage].len(), started.elapsed());
            println!("undisturbed {stage:?}: {objects} objects, {took:.1?}");
        }
    }

    /// Does what a user does, to all extensions.
    pub(crate) async fn begin(&self, stage: Stage) {
        for actor in &self.actors {
            let extension = actor.extension(&self.client);
            match stage {
                Stage::Install => drop(actor.scene.install(json!({"version": "1.0.0"})).await),
                Stage::Upgrade => extension.patch_catalog(json!({"version": "1.1.0"})).await,
                Stage::Rollback => {
                    let forced = json!({
                        "version": "1.0.0", "upgradeConstraintPolicy": "SelfCertified",
                    });
                    extension.patch_catalog(forced).await;
                }
                Stage::Uninstall => {
                    Api::<ClusterExtension>::all(self.client.clone())
                        .delete(&extension.name, &DeleteParams::default())
                        .await
                        .expect("it can be deleted");
                }
            }
        }
    }

    /// Returns a handle on the first extension.
    pub(crate) fn first(&self) -> (&Scene, Extension) {
        let actor = &self.actors[0];
        (&actor.scene, actor.extension(&self.client))
    }

    /// Returns in what the cluster differs from how `stage` ends undisturbed: OLM's own kinds first,
    /// because the whole takes long to read, and everything once those are equal.
    pub(crate) async fn differences(&self, stage: Stage) -> Result<Vec<String>, String> {
        let undisturbed = &self.undisturbed[&stage];
        let ours = State::read_ours(&self.client).await?;
        let lines = undisturbed.ours().differences(&ours);
        if lines.is_empty() {
            self.all_differences(stage).await
        } else {
            Ok(lines)
        }
    }

    async fn all_differences(&self, stage: Stage) -> Result<Vec<String>, String> {
        let found = State::read(&self.client).await?;
        Ok(self.undisturbed[&stage].differences(&found))
    }

    /// Waits until the cluster is as after the undisturbed `stage`, and stays so.
    pub(crate) async fn ends_as_undisturbed(&self, stage: Stage) {
        let what = format!("{stage:?} ends as it does undisturbed");
        let within = match stage {
            Stage::Uninstall => UNINSTALL,
            Stage::Install | Stage::Upgrade | Stage::Rollback => SETTLED,
        };
        let (started, told) = (Instant::now(), AtomicBool::new(false));
        wait::until(&what, within, || async {
            for _ in 0..2 {
                match self.differences(stage).await {
                    Ok(lines) if lines.is_empty() => {}
                    Ok(lines) => {
                        if started.elapsed() > SLOW && !told.swap(true, Ordering::Relaxed) {
                            let all = self.all_differences(stage).await;
                            println!("{stage:?} still differs after {SLOW:?}: {all:#?}");
                            println!("{}", self.controller.last_words());
                        }
                        return Err(lines);
                    }
                    Err(error) => return Err(vec![error]),
                }
            }
            Ok(())
        })
        .await;
    }

    /// Kills the controller.
    pub(crate) fn kill(&mut self) {
        tokio::task::block_in_place(|| self.controller.kill());
    }

    /// Starts the controller again.
    pub(crate) fn restart(&mut self) {
        tokio::task::block_in_place(|| self.controller.restart(self.plane));
    }

    /// Waits until nothing changes any more, and returns what there is.
    async fn quiet(&self) -> State {
        let deadline = Instant::now() + UNINSTALL;
        let (mut last, mut since) = (None, Instant::now());
        loop {
            // A kind that is just being removed cannot be listed for a moment.
            let state = State::read(&self.client).await;
            if last.as_ref() != Some(&state) {
                (last, since) = (Some(state), Instant::now());
            } else if since.elapsed() >= QUIET {
                return state.expect("the cluster can be read");
            }
            assert!(Instant::now() < deadline, "the cluster does not settle");
            tokio::time::sleep(POLL).await;
        }
    }
}

impl Actor {
    fn extension(&self, client: &kube::Client) -> Extension {
        Extension::named(client, &self.scene.name)
    }

    /// Waits for the undisturbed end of `stage`.
    async fn ends(&self, client: &kube::Client, stage: Stage) {
        let extension = self.extension(client);
        match stage {
            Stage::Upgrade if self.breaks => {
                extension
                    .shows("Progressing", "True", "RollingOut", "1.1.0")
                    .await;
            }
            Stage::Upgrade => drop(extension.installed("1.1.0").await),
            Stage::Install | Stage::Rollback => drop(extension.installed("1.0.0").await),
            Stage::Uninstall => extension.gone().await,
        }
    }
}
