//! The effect of flags and rights on the program as a whole.

use olm_test::prelude::*;

use crate::identity::may;

const SOON: Duration = Duration::from_mins(1);

// ours: OpenShift switches it on, and each test of catalogs has it, which is the default.
#[tokio::test(flavor = "multi_thread")]
async fn without_its_gate_metas_is_not_served_and_what_is_ignored_is_said_at_start() {
    let cluster = cluster::own().await;
    let gates = "--feature-gates=APIV1MetasHandler=false,PreflightPermissions=true";
    let args = ["--components=catalogs", gates, "--pprof-bind-address=:6060"];
    let controller = start(cluster.plane, "metas", &args).await;
    for subject in ["feature gate PreflightPermissions", "--pprof-bind-address"] {
        controller.logs(&format!("{subject} is accepted and ignored")).await;
    }
    let scene = Scene::served(cluster, "metas", &["1.0.0"]).await;
    let address = controller.listening()["catalogs"].as_str().unwrap_or_default().to_owned();
    let client = cluster::scraping();
    for (path, code) in [("all", 200), ("metas?schema=olm.package", 404)] {
        let url = format!("https://{address}/catalogs/{}/api/v1/{path}", scene.name);
        let answer = client.get(&url).send().await.expect("catalogs are served");
        assert_eq!(answer.status().as_u16(), code, "{url}");
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
    let all = ["create", "clusterrolebinding", binding, "--clusterrole=cluster-admin", &account];
    plane.kubectl(&all);
    let counts = || may(plane, "*", "*", "default");
    wait::value("the binding counts", SOON, counts, |counts| *counts).await;
    let writes = || {
        let writes = audit::writes(&plane.addresses.audit_log, audit::CONTROLLER).into_iter();
        writes.filter(|write| write.user == audit::CONTROLLER).collect::<Vec<_>>()
    };
    let before = writes().len();
    let leases = clear_leases(&cluster).await;
    let controller = start(plane, "excess", &["--leader-elect"]).await;
    controller.logs(&format!("kubectl delete clusterrolebinding {binding}")).await;
    let policies = "kubectl delete validatingadmissionpolicy,validatingadmissionpolicybinding \
        clusterextension-serviceaccount-deprecated";
    controller.logs(policies).await;
    controller.ready().await;
    assert_eq!(controller.health("healthz").await, 200);
    let new = writes().split_off(before);
    assert!(new.is_empty(), "{new:#?}");
    let listed = leases.list(&ListParams::default()).await.expect("Leases can be listed");
    assert!(listed.items.is_empty(), "{listed:#?}");

    plane.kubectl(&["delete", "clusterrolebinding", binding]);
    controller.logs("leading").await;
    drop(controller);

    plane.kubectl(&all);
    let started = Timestamp::now();
    let controller = start(plane, "lab", &["--allow-excessive-rights", "--components=gate"]).await;
    // What the gate writes may stand there already.
    wait::until("the gate acts", SOON, || async {
        let log = audit::mentioning(&plane.addresses.audit_log, "clusteroperators");
        let mut new = log.iter().filter(|asked| asked.received > started);
        let acts = new.any(|asked| asked.user == audit::CONTROLLER);
        acts.then_some(()).ok_or(controller.log())
    })
    .await;
    plane.kubectl(&["delete", "clusterrolebinding", binding]);
    plane.kubectl_with_input(&["delete", "-f", "-"], policy);
}
