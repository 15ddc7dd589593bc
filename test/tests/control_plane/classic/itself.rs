//! Operators move while OLM Classic itself runs: the program that `OLM_CLASSIC` names, with its CRDs in
//! `crds` beside it. Its catalog operator does not run: what that would make is made here.

use std::process::Child;

use olm_test::classic::{self, Operator};
use olm_test::prelude::*;

use super::{all_moved, apply, back, called, of_one_namespace, running, scene, to_extensions};

const INSTALLED: Duration = Duration::from_mins(3);
const CSV: &str = "clusterserviceversions.operators.coreos.com";

/// Classic; it ends when this is dropped.
struct Classic {
    process: Child,
    log: PathBuf,
}

impl Drop for Classic {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Classic {
    fn start(program: &Path, plane: &ControlPlane, folder: &Path) -> Self {
        let log = folder.join("classic.log");
        let file = std::fs::File::create(&log).expect("a log");
        let process = Command::new(program)
            .args(["--namespace", classic::CATALOGS, "--interval", "10s"])
            .env("KUBECONFIG", &plane.addresses.kubeconfig)
            .env("OPERATOR_NAMESPACE", classic::CATALOGS)
            .stdout(file.try_clone().expect("a second handle"))
            .stderr(file)
            .spawn();
        Self { process: process.expect("OLM_CLASSIC names a program"), log }
    }

    /// Waits until it counts an operator as installed.
    async fn succeeded(&self, scene: &Scene) {
        let name = scene.package.bundle_name("1.0.0");
        wait::until(&format!("{name} has succeeded"), INSTALLED, || async {
            let csv = scene.get(CSV, &name).unwrap_or_default();
            if csv["status"]["phase"] == "Succeeded" {
                return Ok(());
            }
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let last: Vec<_> = log.lines().rev().take(20).map(str::to_owned).collect();
            Err((csv["status"].clone(), last))
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs OLM Classic: make test-classic"]
async fn classic_lets_its_operators_go_and_takes_them_back() {
    let program = std::env::var_os("OLM_CLASSIC").map(PathBuf::from);
    let program =
        program.expect("OLM_CLASSIC names the program `olm`: make test-classic builds it");
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    classic::prepare_with(plane, &program.with_file_name("crds"));
    let _controller = start(plane, "itself", &["--webhook-certificates=self-signed"]).await;
    let (own, own_bundle) = scene(&cluster, "itselfown", of_one_namespace).await;
    let (all, all_bundle) = scene(&cluster, "itselfall", called).await;
    let targets = [own.name.as_str()];
    let operators =
        [Operator::new(&own, &own_bundle, &targets), Operator::new(&all, &all_bundle, &[])];
    let folder = tempfile::tempdir().expect("a temporary folder");
    let itself = Classic::start(&program, plane, folder.path());
    let mut before = Vec::new();
    for operator in &operators {
        operator.present();
        itself.succeeded(operator.scene).await;
        before.push(running(operator).await);
    }
    let backup = folder.path().join("backup.yaml").to_string_lossy().into_owned();
    let ca = plane.addresses.controller_ca.to_string_lossy().into_owned();
    to_extensions(plane, &apply(&[&own.name, &all.name], &backup, &ca));
    all_moved(&operators, &before).await;
    to_extensions(plane, &["migrate", "rollback", &backup, "--yes"]);
    for (operator, before) in operators.iter().zip(&before) {
        itself.succeeded(operator.scene).await;
        back(operator, before).await;
    }
}
