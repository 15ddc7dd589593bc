//! The effect of flags and rights on the program as a whole.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, ListParams};
use olm_test::cluster::{
    self, CONTROLLER_ACCOUNT, Cluster, ControlPlane, Controller, ControllerOptions,
    SYSTEM_NAMESPACE,
};
use olm_test::package::{Bundle, chain};
use olm_test::scene::Scene;
use olm_test::{audit, wait};

const SOON: Duration = Duration::from_secs(20);

pub(crate) async fn start(plane: &'static ControlPlane, name: &str, args: &[&str]) -> Controller {
    let options = ControllerOptions {
        name: name.to_owned(),
        args: args.iter().map(|&arg| arg.to_owned()).collect(),
        ..ControllerOptions::default()
    };
    tokio::task::spawn_blocking(move || Controller::start(plane, options))
        .await
        .expect("the controller starts")
}

/// Removes the leases of controllers that an earlier test killed, as they would have to expire
/// first.
pub(crate) async fn clear_leases(cluster: &Cluster) -> Api<Lease> {
    let leases = Api::<Lease>::namespaced(cluster.client.clone(), SYSTEM_NAMESPACE);
    let all = (DeleteParams::default(), ListParams::default());
    leases.delete_collection(&all.0, &all.1).await.expect("Leases can be deleted");
    leases
}

async fn logs(controller: &Controller, text: &str) {
    wait::until(&format!("the log says {text:?}"), SOON, || async {
        let log = controller.log();
        log.contains(text).then_some(()).ok_or(log)
    })
    .await;
}

// ours: OpenShift passes this gate.
#[tokio::test(flavor = "multi_thread")]
async fn metas_is_served_unless_its_gate_is_off() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    let client =
        reqwest::Client::builder().tls_danger_accept_invalid_certs(true).build().expect("a client");
    for (gate, code) in [("true", 200), ("false", 404)] {
        let gate = format!("--feature-gates=APIV1MetasHandler={gate}");
        let controller = start(plane, "metas", &["--components=catalogs", &gate]).await;
        let mut scene = Scene::empty(cluster.clone(), &format!("metas{code}"));
        scene.publish(&[Bundle::new("1.0.0")], &chain(&["1.0.0"])).await;
        let address = controller.listening()["catalogs"].as_str().unwrap_or_default().to_owned();
        for (path, code) in [("all", 200), ("metas?schema=olm.package", code)] {
            let url = format!("https://{address}/catalogs/{}/api/v1/{path}", scene.name);
            let answer = client.get(&url).send().await.expect("catalogs are served");
            assert_eq!(answer.status().as_u16(), code, "{url} with {gate}");
        }
        plane.kubectl(&["delete", "clustercatalog", &scene.name]);
    }
}

// deploying.md P56: without step 5 of 7.2 the program does not lead and says why.
#[tokio::test(flavor = "multi_thread")]
async fn with_rights_to_everything_the_program_waits_and_names_the_binding() {
    // Of its own: whatever fails must not leave such a binding to other tests.
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    let binding = "operator-controller-cluster-admin-rolebinding";
    let account = format!("--serviceaccount={SYSTEM_NAMESPACE}:{CONTROLLER_ACCOUNT}");
    let policy = include_str!("../../../config/upstream-compatible/service_account_policy.yaml");
    plane.kubectl_with_input(&["apply", "-f", "-"], policy);
    plane.kubectl(&[
        "create",
        "clusterrolebinding",
        binding,
        "--clusterrole=cluster-admin",
        &account,
    ]);
    let user = format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{CONTROLLER_ACCOUNT}");
    let writes = || {
        let writes = audit::writes(&plane.addresses.audit_log).into_iter();
        writes.filter(|write| write.user == user).collect::<Vec<_>>()
    };
    let before = writes().len();
    let leases = clear_leases(&cluster).await;
    let controller = start(plane, "excess", &["--leader-elect"]).await;
    logs(&controller, &format!("kubectl delete clusterrolebinding {binding}")).await;
    logs(
        &controller,
        "kubectl delete validatingadmissionpolicy,validatingadmissionpolicybinding \
         clusterextension-serviceaccount-deprecated",
    )
    .await;
    wait::until("it is alive and ready", SOON, || async {
        let codes = (controller.health("healthz").await, controller.health("readyz").await);
        (codes == (200, 200)).then_some(()).ok_or(codes)
    })
    .await;
    let new = writes().split_off(before);
    assert!(new.is_empty(), "{new:#?}");
    let listed = leases.list(&ListParams::default()).await.expect("Leases can be listed");
    assert!(listed.items.is_empty(), "{listed:#?}");

    plane.kubectl(&["delete", "clusterrolebinding", binding]);
    logs(&controller, "leading").await;
    drop(controller);

    plane.kubectl(&[
        "create",
        "clusterrolebinding",
        binding,
        "--clusterrole=cluster-admin",
        &account,
    ]);
    let started = Timestamp::now();
    let controller = start(plane, "lab", &["--allow-excessive-rights", "--components=gate"]).await;
    // What the gate writes may stand there already.
    wait::until("the gate acts", SOON, || async {
        let log = audit::mentioning(&plane.addresses.audit_log, "clusteroperators");
        let mut new = log.iter().filter(|asked| asked.received > started);
        let acts = new.any(|asked| asked.user == user);
        acts.then_some(()).ok_or(controller.log())
    })
    .await;
    plane.kubectl(&["delete", "clusterrolebinding", binding]);
    plane.kubectl_with_input(&["delete", "-f", "-"], policy);
}

// ours: flags that are accepted without effect are logged.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_ignored_is_said_at_start() {
    let cluster = cluster::own().await;
    let args = [
        "--components=gate",
        "--feature-gates=PreflightPermissions=true",
        "--pprof-bind-address=:6060",
    ];
    let controller = start(cluster.plane, "warned", &args).await;
    for subject in ["feature gate PreflightPermissions", "--pprof-bind-address"] {
        logs(&controller, &format!("{subject} is accepted and ignored")).await;
    }
}
