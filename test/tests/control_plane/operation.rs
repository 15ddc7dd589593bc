//! What those see who watch the program and its objects: Prometheus, and tools that go by kstatus.

use olm_test::prelude::*;

const SOON: Duration = Duration::from_secs(30);

/// kstatus of an object without conditions that it knows: it goes by the generation, then by
/// `Ready`.
fn is_current(extension: &ClusterExtension) -> bool {
    let status = extension.status.as_ref();
    let observed = status.and_then(|status| status.observed_generation);
    let ready = condition(extension, "Ready");
    observed == extension.metadata.generation && ready.is_some_and(|ready| ready.status == "True")
}

// deploying.md P63
#[tokio::test(flavor = "multi_thread")]
async fn an_extension_that_was_just_changed_is_in_progress_for_kstatus() {
    let scene = Scene::shared("kstatus", &["1.0.0"]).await;
    let extension = scene.install(json!({})).await;
    extension.eventually("current", ROLLOUT, is_current).await;

    let client = &scene.cluster.client;
    let patch = json!({"spec": {"source": {"catalog": {"version": "7.x"}}}});
    let changed = Api::<ClusterExtension>::all(client.clone())
        .patch(&scene.name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .expect("the change is admitted");
    assert!(!is_current(&changed), "{changed:?}");
    let seen = |extension: &ClusterExtension| {
        let status = extension.status.as_ref();
        status.and_then(|status| status.observed_generation) == extension.metadata.generation
    };
    let seen = extension.eventually("seen", SOON, seen).await;
    let ready = condition(&seen, "Ready").expect("the status has Ready");
    assert_eq!(ready.status, "False");
    assert_eq!(ready.observed_generation, seen.metadata.generation);

    for revision in extension.revisions().await {
        let status = revision.status.expect("the revision has a status");
        assert_eq!(status.observed_generation, revision.metadata.generation);
    }
    let catalog = Api::<ClusterCatalog>::all(client.clone());
    let catalog = catalog.get(&scene.name).await.expect("it exists");
    let status = catalog.status.expect("the catalog has a status");
    assert_eq!(status.observed_generation, catalog.metadata.generation);
    extension.delete().await;
}

/// A scrape shows the only extension, and what led to it (deploying.md 9.1).
pub(crate) async fn is_scraped(controller: &Controller, name: &str) {
    let of = |kind: &str, type_: &str| {
        format!("olm_{kind}_condition{{name=\"{name}\",type=\"{type_}\",status=\"True\"}} 1")
    };
    let lines = [
        of("clusterextension", "Installed"),
        of("clusterextension", "Ready"),
        of("clustercatalog", "Serving"),
        format!("olm_clustercatalog_enabled{{name=\"{name}\"}} 1"),
        "olm_clusterextensions{} 1".to_owned(),
        "olm_clusterobjectsets{state=\"succeeded\"} 1".to_owned(),
        "olm_install_duration_seconds_count 1".to_owned(),
        "olm_pull_total{result=\"unauthorized\"} 0".to_owned(),
        "olm_excessive_rights 0".to_owned(),
    ];
    controller.measures(&lines).await;
    let text = controller.metrics().await;
    for name in [
        "olm_pull_total{result=\"ok\"} ",
        "rest_client_requests_total{code=\"200\",method=\"GET\"} ",
        "olm_cache_bytes{kind=\"bundles\"} ",
        "olm_build_info{version=\"v",
        "process_resident_memory_bytes ",
    ] {
        assert!(text.contains(&format!("\n{name}")), "{name} in {text}");
    }
}

/// A scrape forgets an extension that is gone.
pub(crate) async fn is_forgotten(controller: &Controller, name: &str) {
    wait::until("the series are gone", SOON, || async {
        let text = controller.metrics().await;
        let left = format!("olm_clusterextension_condition{{name=\"{name}\"");
        if text.contains(&left) { Err(text) } else { Ok(()) }
    })
    .await;
}
