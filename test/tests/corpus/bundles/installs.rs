//! Bundles that install: every object present and owned, drift repaired, nothing left at the end.

use olm_core::object::Object;
use olm_test::prelude::*;

use super::drift;
use super::stage::Stage;

/// It installs, is repaired, and leaves nothing.
async fn lives(package: &str, version: &str) {
    let stage = Stage::set(package, &[version]).await;
    installs_on(stage, version).await;
}

/// The operator watches only its own namespace, which has the name of the package.
async fn installs_for_its_own_namespace(package: &str, version: &str) {
    let inline = json!({"watchNamespace": package});
    let stage = Stage::configured(package, package, version, inline).await;
    installs_on(stage, version).await;
}

/// The operator watches one other namespace.
async fn installs_for_another_namespace(package: &str, version: &str) {
    let watched = format!("{package}-watched");
    let inline = json!({"watchNamespace": watched});
    let plane = olm_test::cluster::with_controller().await.plane;
    plane.kubectl(&["create", "namespace", &watched]);
    let stage = Stage::configured(package, package, version, inline).await;
    installs_on(stage, version).await;
}

/// The bundle declares a requirement that is not met, and installs when the check is skipped.
async fn installs_when_forced(package: &str, version: &str, needs: &str) {
    let stage = Stage::set(package, &[version]).await;
    let extension = stage.install(version, json!({})).await;
    let text = format!("validating bundle {:?}: {needs}", stage.release(version).name);
    extension.says("True", "Retrying", &text).await;
    assert_eq!(stage.traces().await, Vec::<String>::new());
    let forced = async {
        stage.annotate(keys::policy::FORCE, "constraints");
        extension
    };
    let extension = stage.rolls_out(version, 1, forced).await;
    let objects = stage.rendered(version);
    stage.removed(&extension, &objects).await;
}

async fn installs_on(stage: Stage, version: &str) {
    let creation = stage.install(version, json!({}));
    let extension = stage.rolls_out(version, 1, creation).await;
    drift::is_repaired(&stage, &extension, version).await;
    let objects = stage.rendered(version);
    stage.holds(&extension, 1, &objects).await;
    let is_called = objects.iter().any(|object| has_webhook(object, &stage.name));
    assert_eq!(stage.has_certificate().await, is_called);
    stage.removed(&extension, &objects).await;
}

/// Says whether an object calls a webhook of the bundle; some CRDs name one of the author's.
fn has_webhook(object: &Object, namespace: &str) -> bool {
    let converted = "/spec/conversion/webhook/clientConfig/service/namespace";
    object.kind().ends_with("WebhookConfiguration")
        || object.pointer(converted).is_some_and(|found| found == namespace)
}

bundles! {
    // A ClusterServiceVersion that replaces, one that only skips, one that replaces again; each with
    // a skipRange.
    #[ignore = "taken over in the normal run: cargo test -p olm-test --test corpus -- --ignored installs"]
    gitlab_runner_operator: goes_through_its_chain("gitlab-runner-operator", ["1.48.2", "1.48.3", "1.49.0"]);
    // A webhook on one of two Deployments; a fork in the graph, bridged by a skipRange.
    node_healthcheck_operator: goes_through_its_chain("node-healthcheck-operator", ["0.10.3", "0.11.0", "0.12.0"]);
    // The smallest bundle, without a CRD.
    deployment_validation_operator: lives("deployment-validation-operator", "0.7.12");
    // rendering.md R2: two generated ClusterRoles of one name; 14 CRDs.
    #[ignore = "taken over in the normal run: cargo test -p olm-test --test corpus -- --ignored installs"]
    victoriametrics_operator: lives("victoriametrics-operator", "0.22.0");
    // A binding to a role that is not in the bundle.
    annotationlab: lives("annotationlab", "5.7.0");
    // An aggregated ClusterRole, whose rules belong to the API server; a prerelease version.
    #[ignore = "taken over in the normal run: cargo test -p olm-test --test corpus -- --ignored installs"]
    universal_crossplane: lives("universal-crossplane", "1.5.1-up.1");
    // Namespaced permissions only; the bundle's name is not its package's.
    #[ignore = "taken over in the normal run: cargo test -p olm-test --test corpus -- --ignored installs"]
    project_quay: lives("project-quay", "3.9.9");
    // Pods that read OLM's annotations.
    #[ignore = "one more of a kind: cargo test -p olm-test --test corpus -- --ignored installs"]
    ncn_operator: lives("ncn-operator", "0.3.18");
    // The same ClusterRole twice; the account `default`.
    nfs_provisioner_operator: lives("nfs-provisioner-operator", "0.0.5");
    // OwnNamespace only.
    #[ignore = "taken over in the normal run: cargo test -p olm-test --test corpus -- --ignored installs"]
    file_integrity_console_plugin: installs_for_its_own_namespace("file-integrity-console-plugin", "0.4.1-ocp4.19");
    // OwnNamespace only, with monitoring kinds that are not served here.
    community_windows_machine_config_operator: installs_for_its_own_namespace("community-windows-machine-config-operator", "8.0.0");
    // OwnNamespace and SingleNamespace; a binding to a service account in the author's namespace.
    openstack_lightspeed_operator: installs_for_another_namespace("openstack-lightspeed-operator", "0.0.2");
    // OwnNamespace and SingleNamespace; no properties at all.
    #[ignore = "one more of a kind: cargo test -p olm-test --test corpus -- --ignored installs"]
    pelorus_operator: installs_for_another_namespace("pelorus-operator", "0.0.9");
    // SingleNamespace only, by a typo of its author; namespaced rights only.
    percona_server_mongodb_operator: installs_for_another_namespace("percona-server-mongodb-operator", "1.18.0");
    // OwnNamespace and SingleNamespace; a quantity without quotes.
    #[ignore = "one more of a kind: cargo test -p olm-test --test corpus -- --ignored installs"]
    windup_operator: installs_for_its_own_namespace("windup-operator", "0.0.21");
    // A conversion webhook, whose certificate the controller issues.
    argocd_operator: lives("argocd-operator", "0.18.0");
    // OwnNamespace only, with a webhook.
    #[ignore = "one more of a kind: cargo test -p olm-test --test corpus -- --ignored installs"]
    gitlab_operator_kubernetes: installs_for_its_own_namespace("gitlab-operator-kubernetes", "3.3.0");
    // rendering.md R2: a manifest of the webhook Service.
    #[ignore = "one more of a kind: cargo test -p olm-test --test corpus -- --ignored installs"]
    kubernetes_imagepuller_operator: lives("kubernetes-imagepuller-operator", "1.1.2");
    // Webhooks that are limited to one namespace.
    marin3r: installs_for_its_own_namespace("marin3r", "0.13.1");
    // rendering.md 4.11: it cannot wait for certificates that only it would issue.
    cert_manager: lives("cert-manager", "1.16.5");
    // rendering.md R14: `template.containers`, which server-side apply refuses.
    dynatrace_operator: lives("dynatrace-operator", "1.0.0");
    // All three types of webhook on one of two Deployments; rendering.md R2: its own Service of the
    // generated name.
    opentelemetry_operator: lives("opentelemetry-operator", "0.158.0");
    // rendering.md 4.7: an init container mounts the injected volume.
    flink_kubernetes_operator: lives("flink-kubernetes-operator", "1.2.0");
    // 86 ClusterRoles, more than a phase of a revision may hold.
    edp_keycloak_operator: lives("edp-keycloak-operator", "1.35.0");
    // The largest of all: 6.8 MB, 32 CRDs.
    sn_operator: lives("sn-operator", "0.19.7");
    // A ServiceAccount that is generated and in a manifest; an empty Secret.
    tagger: lives("tagger", "2.1.17");
}

async fn goes_through_its_chain(package: &str, versions: [&str; 3]) {
    let stage = Stage::set(package, &versions).await;
    let creation = stage.install(versions[0], json!({}));
    let extension = stage.rolls_out(versions[0], 1, creation).await;
    for (version, number) in [(versions[1], 2), (versions[2], 3)] {
        let upgrade = async {
            extension.patch_catalog(json!({"version": version})).await;
            extension.clone()
        };
        stage.rolls_out(version, number, upgrade).await;
    }
    let all: Vec<Object> = versions.iter().flat_map(|version| stage.rendered(version)).collect();
    stage.removed(&extension, &all).await;
}

// rendering.md 4: a revision without any object.
#[tokio::test(flavor = "multi_thread")]
async fn gitlab_operator_kubernetes_once_had_nothing_to_install() {
    let (name, version) = ("gitlab-without-objects", "2.2.3");
    let inline = json!({"watchNamespace": name});
    let stage = Stage::configured(name, "gitlab-operator-kubernetes", version, inline).await;
    assert_eq!(stage.rendered(version), []);
    let extension = stage.install(version, json!({})).await;
    extension.installed(version).await;
    stage.removed(&extension, &[]).await;
}

// Thirteen webhooks; a Service name so long that upstream's certificate is refused. Its constraint
// is not met here, and the check is skipped as by an administrator who takes the risk.
#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_messaging_topology_operator() {
    let needs = "unmet constraints: requires API \"rabbitmq.com/v1beta1, Kind=RabbitmqCluster\" (not \
                 served by the cluster); requires package \"rabbitmq-cluster-operator\" in version range \
                 \">2.0.0\" (no installed ClusterExtension provides it)";
    installs_when_forced("rabbitmq-messaging-topology-operator", "1.19.3", needs).await;
}

// Five conversion webhooks; a constraint in `metadata/properties.yaml`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "one more of a kind: cargo test -p olm-test --test corpus -- --ignored installs"]
async fn dbaas_operator() {
    let needs = "unmet constraints: Service Binding Operator is required: any of (Package \
                 rh-service-binding-operator is needed: requires package \
                 \"rh-service-binding-operator\" in version range \">=1.0.0\" (no installed \
                 ClusterExtension provides it) or Package service-binding-operator is needed: \
                 requires package \"service-binding-operator\" in version range \">=1.0.0\" (no \
                 installed ClusterExtension provides it)); requires package \"ack-rds-controller\" \
                 in version range \">=0.0.27 <=0.1.3\" (no installed ClusterExtension provides it)";
    installs_when_forced("dbaas-operator", "0.5.0", needs).await;
}

// Twelve Deployments, webhooks on three of them. Its pods have a PriorityClass that is not in the
// bundle: the rollout waits, and names the Deployment, until the class is created.
#[tokio::test(flavor = "multi_thread")]
async fn community_kubevirt_hyperconverged() {
    let (package, version) = ("community-kubevirt-hyperconverged", "1.18.1");
    let stage = Stage::set(package, &[version]).await;
    let extension = stage.install(version, json!({})).await;
    let missing = "Object Deployment.apps/v1 community-kubevirt-hyperconverged/";
    extension.shows("Ready", "False", "RollingOut", missing).await;
    let provided = async {
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "kubevirt-cluster-critical"}, "value": 1_000_000_000,
        });
        let plane = stage.cluster.plane;
        plane.create(&class);
        extension
    };
    let extension = stage.rolls_out(version, 1, provided).await;
    let objects = stage.rendered(version);
    stage.removed(&extension, &objects).await;
}
