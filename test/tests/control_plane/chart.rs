//! The chart that `make chart` writes, installed, upgraded and removed by Helm.

use std::env;

use olm_test::documents;
use olm_test::prelude::*;

use crate::manifests::{Install, installs, ready};

const RELEASE: &str = "olm";
const CATALOG: [&str; 3] = ["get", "clustercatalog", "operatorhubio"];

/// Runs Helm against the control plane and returns what it prints.
fn helm(install: &Install, args: &[&str]) -> String {
    let homes = ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"];
    let out = Command::new("helm")
        .args(args)
        .arg("--namespace=olmv1-system")
        .env("KUBECONFIG", &install.cluster.plane.addresses.kubeconfig)
        .envs(homes.map(|home| (home, install.cluster.dir.join(home))))
        .output()
        .expect("helm starts; `hack/tools.sh helm` fetches it");
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "helm {}: {errors}", args.join(" "));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

// deploying.md P64
#[tokio::test(flavor = "multi_thread")]
#[ignore = "another installer: make test-full"]
async fn helm_installs_upgrades_and_removes_the_controller_and_keeps_data() {
    let made = || paths::repository().join("target/chart/olm-controller");
    let chart = env::var_os("OLM_CHART").map_or_else(made, PathBuf::from);
    assert!(chart.exists(), "run `make chart` first");
    let chart = chart.to_string_lossy();
    let install = Install { cluster: cluster::empty().await, file: PathBuf::new() };
    let plane = install.cluster.plane;
    plane.let_scrape();

    // As install.md shows it.
    let blocks = documents::blocks(&documents::read("docs/install.md"));
    let shown = blocks.iter().find(|block| block.text.starts_with("helm install "));
    let shown = &shown.expect("the document has the commands").text;
    for command in shown.replace("target/chart/olm-controller", &chart).lines() {
        helm(&install, &command.split_whitespace().skip(1).collect::<Vec<_>>());
        plane.kubectl(&CATALOG);
    }
    let manifest = helm(&install, &["get", "manifest", RELEASE]);
    assert!(manifest.contains("kind: CustomResourceDefinition"), "an upgrade would keep old kinds");
    let upgrade = ["upgrade", RELEASE, &chart, "--set=replicas=2,uninstallPolicy=RetainCRDs"];
    helm(&install, &upgrade);
    plane.kubectl(&CATALOG);
    let kept = [&upgrade[..], &["--set=catalogs=false,defaultAccount=true"]].concat();
    helm(&install, &kept);
    plane.kubectl(&CATALOG);
    // It cannot be read here, and would hold up the next installation.
    plane.kubectl(&["delete", CATALOG[1], CATALOG[2]]);

    let controllers = install.start();
    ready(&controllers).await;
    let (scene, extension) = installs(&install, "charted").await;
    assert_eq!(install.refused(), [""; 0]);
    extension.delete().await;
    drop(scene);
    let deployment = plane.kubectl(&["get", "deployments", "-n=olmv1-system", "--output=yaml"]);
    for part in [
        "replicas: 2",
        "--account-policy=require",
        "--default-uninstall-policy=RetainCRDs",
        "--default-service-account=olmv1-system/olm-default-installer",
    ] {
        assert!(deployment.contains(part), "{part}: {deployment}");
    }

    drop(controllers);
    helm(&install, &["uninstall", RELEASE]);
    plane.kubectl(&["get", "crd", "clusterextensions.olm.operatorframework.io"]);
    let ours = "--selector=app.kubernetes.io/part-of=olm";
    let kinds = "deployments,validatingadmissionpolicies";
    assert_eq!(plane.kubectl(&["get", kinds, "-A", ours, "--output=name"]), "");
}
