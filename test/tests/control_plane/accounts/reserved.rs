//! Service accounts that nothing is installed with, even if an administrator named them.

use olm_test::prelude::*;

use super::{Made, extension, object_set, recorded};
use crate::catalog::condition;

/// Waits until a revision shows that its service account is reserved.
pub(super) async fn refuses_revision(cluster: &Cluster, name: &str, text: &str) {
    let read = || {
        let set = cluster.plane.json(&["get", "clusterobjectset", name, "-o", "json"]);
        let found = condition(&set, "Progressing");
        ["status", "reason", "message"].map(|key| found[key].clone())
    };
    let is_refused = |found: &[Value; 3]| *found == ["False", "InvalidConfiguration", text];
    wait::value(&format!("{name} is refused"), SOON, read, is_refused).await;
}

// P50
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_installed_with_a_reserved_account() {
    let cluster = cluster::with_controller().await;
    let by_flag = |account: &str| {
        format!("service account \"{account}\" is reserved (--forbidden-service-accounts)")
    };
    let own = format!("{SYSTEM_NAMESPACE}/{CONTROLLER_ACCOUNT}");
    for (name, account, text) in [
        (
            "p50-own",
            &*own,
            format!("service account \"{own}\" is reserved: it is the controller's own"),
        ),
        ("p50-system", "olmv1-system/default", by_flag("olmv1-system/default")),
        (
            "p50-kube",
            "kube-system/generic-garbage-collector",
            by_flag("kube-system/generic-garbage-collector"),
        ),
    ] {
        let (namespace, account) = account.split_once('/').expect("a namespace");
        let made = Made::new(&cluster, "clusterextension", &extension(name, namespace, account));
        let handle = Extension::named(&cluster.client, &made.name);
        handle.shows("Progressing", "False", "InvalidConfiguration", &text).await;
        assert!(handle.revisions().await.is_empty(), "{name} has a revision");
        handle.delete().await;

        let set = object_set(name, &recorded(namespace, account));
        let made = Made::new(&cluster, "clusterobjectset", &set);
        refuses_revision(&cluster, &made.name, &text).await;
        assert_eq!(
            cluster.plane.run(&format!("get configmap {name} -n default --ignore-not-found")),
            "",
            "{name} was applied"
        );
    }
}
