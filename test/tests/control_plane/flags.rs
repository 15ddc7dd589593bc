//! The effect of flags and rights on the program as a whole.

use olm_test::prelude::*;

use crate::identity::may;
use crate::optional::{a_missing_kind_is_left_out, a_missing_kind_is_waited_for};
use crate::permissions::{lacks_are_not_looked_for, lacks_are_reported};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_fatal_reported_or_left_out_as_flags_say() {
    let strict = ["--rbac-preflight=report", "--missing-optional-kinds=fail"];
    let (cluster, mut controller) = cluster::started("", &strict).await;
    let lacking = lacks_are_reported(&cluster).await;
    let waiting = a_missing_kind_is_waited_for(&cluster).await;
    controller.set_args(&["--rbac-preflight=off", "--missing-optional-kinds=defer"]);
    controller.restart(cluster.plane);
    lacks_are_not_looked_for(lacking).await;
    a_missing_kind_is_left_out(&controller, waiting).await;
}

// deploying.md P56: without step 5 of 7.2 the program does not lead and says why.
#[tokio::test(flavor = "multi_thread")]
async fn with_rights_to_everything_the_program_waits_and_names_the_bindings_of_upstream() {
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
