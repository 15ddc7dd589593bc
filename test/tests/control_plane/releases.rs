//! Another build of the controller before and after this one: installed operators are not affected.

use std::env;

use olm_test::prelude::*;

use crate::manifests::{Install, ready};

/// A build of the controller, with its manifests.
struct Build {
    install: Install,
    program: Option<PathBuf>,
}

impl Build {
    /// Applies the manifests, and starts the program.
    async fn run(&self) -> Vec<Controller> {
        self.install.apply();
        let controllers = self.install.start_program(self.program.as_ref());
        ready(&controllers).await;
        controllers
    }
}

/// Returns what is not to change: who the objects are, and what makes pods start again.
async fn lives(scene: &Scene, extension: &Extension) -> Value {
    let package = &scene.package;
    let deployment = scene.get("deployment", &package.deployment()).expect("it is there");
    let one = scene.get(&package.crd(), "one").expect("it is there");
    let crd = scene.get("customresourcedefinition", &package.crd()).expect("it is there");
    let revisions = extension.revisions().await;
    let uids: Vec<_> = revisions.iter().map(|set| set.metadata.uid.clone()).collect();
    let uid = |object: &Value| object["metadata"]["uid"].clone();
    json!({
        "objects": [uid(&deployment), uid(&one), uid(&crd)],
        "pods": deployment["spec"]["template"],
        "revisions": uids,
    })
}

/// Waits until a process has looked at extensions and revisions.
async fn has_looked(controllers: &[Controller]) {
    wait::until("it has reconciled", SOON, || async {
        let metrics = controllers.first().expect("a process").metrics().await;
        let kinds = ["controller-operator-cluster-extension-controller", "clusterobjectset"];
        let line = |kind| {
            format!(
                "controller_runtime_reconcile_total{{controller=\"{kind}\",result=\"success\"}}"
            )
        };
        let missing = kinds.into_iter().map(line).find(|line| !metrics.contains(line));
        missing.map_or(Ok(()), Err)
    })
    .await;
}

// docs/support.md: the controller's own upgrades
#[tokio::test(flavor = "multi_thread")]
#[ignore = "another build of the controller: make test-upgrade"]
async fn extensions_outlive_an_upgrade_of_the_controller_and_the_way_back() {
    let other = PathBuf::from(env::var_os("OLM_OTHER").expect("run `make test-upgrade`"));
    let this = Build { install: Install::of("default").await, program: None };
    let cluster = this.install.cluster.clone();
    let earlier = Build {
        install: Install { cluster: cluster.clone(), file: other.join("install.yaml") },
        program: Some(other.join("olm-controller")),
    };
    let mut controllers = earlier.run().await;
    let bundles = ["1.0.0", "1.1.0", "1.2.0"].map(Bundle::new);
    let (scene, extension) = Scene::first(cluster, "outliving", &bundles).await;
    let crd = scene.package.crd();
    scene.make_instance(&crd, &[]);
    for (build, next) in [(&this, "1.1.0"), (&earlier, "1.2.0")] {
        let before = lives(&scene, &extension).await;
        // As a Deployment is rolled out: with SIGTERM, so that the next process need not wait for the lease.
        for controller in &mut controllers {
            controller.signal("TERM");
            assert_eq!(controller.ended(SOON).await, 0);
        }
        controllers = build.run().await;
        has_looked(&controllers).await;
        assert_eq!(lives(&scene, &extension).await, before);
        extension.moves_to(next).await;
    }
    scene.cluster.plane.kubectl(&["delete", &crd, "one", "-n", &scene.name]);
    extension.delete().await;
}
