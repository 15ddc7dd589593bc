//! The TLS profile that OpenShift's administrators choose, with a minimal `APIServer` CRD.

use kube::core::{ApiResource, GroupVersionKind};
use olm_test::prelude::*;

use crate::endpoints::metrics_are_for_those_who_may_read_them;

/// Chooses a profile, as an administrator does.
async fn choose(client: &kube::Client, profile: Value) {
    let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "APIServer");
    let servers = Api::<DynamicObject>::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let server = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "APIServer",
        "metadata": {"name": "cluster"}, "spec": {"tlsSecurityProfile": profile},
    });
    let params = PatchParams::apply("administrator").force();
    let patched = servers.patch("cluster", &params, &Patch::Apply(server)).await;
    patched.expect("the APIServer is written");
}

/// Returns a client that knows no more than TLS 1.2, and has no connection yet.
fn old_client() -> reqwest::Client {
    reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .tls_version_max(reqwest::tls::Version::TLS_1_2)
        .pool_idle_timeout(None)
        .build()
        .expect("a client")
}

/// Another profile of the cluster holds for new connections at once (deploying.md P38).
async fn another_profile_is_taken(cluster: &Cluster, controller: &Controller) {
    let client = &cluster.client;
    let listening = controller.listening();
    let urls = ["catalogs", "metrics"].map(|name| {
        let address = listening[name].as_str().unwrap_or_default();
        format!("https://{address}/metrics")
    });
    let old = old_client();
    let mut before = Vec::new();
    for url in &urls {
        let answer = old.get(url).send().await.expect("TLS 1.2 is offered");
        before.push(answer.status());
        answer.bytes().await.expect("the answer ends");
    }

    choose(client, json!({"type": "Modern"})).await;
    for url in &urls {
        wait::until(&format!("{url} refuses TLS 1.2"), SOON, || async {
            match old_client().get(url).send().await {
                Err(error) if format!("{error:?}").contains("ProtocolVersion") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
    // New connections are refused, so that these are the old ones.
    for (url, status) in urls.iter().zip(before) {
        let answer = old.get(url).send().await.expect("old connections live");
        assert_eq!(answer.status(), status);
    }
    cluster::scraping().get(&urls[0]).send().await.expect("TLS 1.3 is offered");

    // What is not supported is left out; none of TLS 1.2 is left, and one warning says so.
    let custom = json!({"minTLSVersion": "VersionTLS11", "ciphers": ["DES-CBC3-SHA"]});
    choose(client, json!({"type": "Custom", "custom": custom})).await;
    let note = "not supported are TLSv1.1, DES-CBC3-SHA; TLS 1.3 alone is offered";
    controller.logs(note).await;
    assert_eq!(controller.log().matches(note).count(), 1);

    cluster.plane.kubectl(&["delete", "apiservers.config.openshift.io", "cluster"]);
    wait::until("TLS 1.2 is offered again", SOON, || async {
        let answer = old_client().get(&urls[0]).send().await;
        answer.map(drop).map_err(|error| format!("{error:?}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_served_is_for_those_who_may_read_it_by_the_profile_of_the_cluster() {
    let cluster = cluster::own().await;
    choose(&cluster.client, json!({"type": "Intermediate"})).await;
    let args = ["--components=catalogs", "--tls-profile=cluster"];
    let mut controller = start(cluster.plane, "tls", &args).await;
    metrics_are_for_those_who_may_read_them(cluster.plane, &controller).await;
    another_profile_is_taken(&cluster, &controller).await;
    assert_eq!(controller.exit_code(), None, "it was never restarted");
}
