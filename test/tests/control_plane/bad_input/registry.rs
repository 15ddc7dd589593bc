//! A registry that is stopped for a while.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use olm_test::prelude::*;
use olm_test::private::serve;

use super::apart::{self, Apart};
use super::{good, serving, waits_for_bundle};
use crate::credentials::Registries;

// catalogs.md R2, R4, R13; api.md rows 23 and 25
pub(super) async fn unreachable_registry_stops_nothing_that_runs_and_is_found_again(apart: &Apart) {
    let runs = Scene::of(apart.cluster.clone(), "runs", &["1.0.0"]).await;
    let running = runs.installed(json!({}), "1.0.0").await;
    let waits = Scene::of(apart.cluster.clone(), "comes", &["1.0.0"]).await;
    let image = good(&apart.cluster, "outage").await;

    apart.cluster.plane.control("stop", "registry");
    let registry = &apart.cluster.registry;
    let refused = format!(
        "error creating image source: pinging container registry {registry}: Get \
         \"http://{registry}/v2/\": Connection refused"
    );
    let catalog = Catalog::create(apart.cluster.plane, "bad-outage", &image);
    let message = format!("source catalog content: {refused}");
    let found = catalog.says("True", "Retrying", &message).await;
    assert_eq!(serving(&found), "Unavailable");
    let waiting = waits.install(json!({})).await;
    waits_for_bundle(&waiting, "1.0.0", &refused).await;

    // Drift of installed objects is still repaired.
    runs.is_repaired().await;
    assert!(is(&running.get().await, "Installed", "True", "Succeeded"));
    let failing = [("clustercatalogs", "bad-outage"), ("clusterextensions", "buoy-comes")];
    apart.is_calm(&failing, Duration::from_secs(10)).await;

    apart.cluster.plane.control("start", "registry");
    catalog.served().await;
    waiting.installed("1.0.0").await;
}

/// Serves a registry that answers requests for manifests like this, and everything else with an empty
/// object.
async fn manifests(answer: impl Fn() -> Response + Clone + Send + Sync + 'static) -> String {
    let routes = Router::new().fallback(move |uri: Uri| async move {
        if uri.path().contains("/manifests/") { answer() } else { "{}".into_response() }
    });
    serve(routes).await.0.to_string()
}

/// The entry of a registries.conf that allows plain HTTP.
fn insecure(plane: &ControlPlane, registry: &str) -> Registries {
    let registries = Registries::of(plane);
    registries.set(&format!("[[registry]]\nlocation = \"{registry}\"\ninsecure = true\n"));
    registries
}

// decision 7; catalogs.md R11
#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: make test-full"]
async fn registry_whose_errors_always_differ_is_not_asked_all_the_time() {
    let apart = apart::apart("numbers").await;
    let refused = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&refused);
    let registry = manifests(move || {
        let message = format!("request {}", count.fetch_add(1, Ordering::SeqCst));
        let errors = json!({"errors": [{"code": "DENIED", "message": message}]}).to_string();
        (StatusCode::FORBIDDEN, [(CONTENT_TYPE, "application/json")], errors).into_response()
    });
    let registry = registry.await;
    let _registries = insecure(apart.cluster.plane, &registry);
    let _controller = apart.start().await;
    let image = format!("{registry}/bad/numbers:v1");
    Catalog::create(apart.cluster.plane, "bad-numbers", &image);
    let within = Duration::from_secs(30);
    let began = std::time::Instant::now();
    let attempts = || refused.load(Ordering::SeqCst);
    wait::value("three attempts", within, attempts, |seen| *seen >= 3).await;
    // One second, then two: three attempts take three seconds at least.
    assert!(began.elapsed() >= Duration::from_secs(2), "{refused:?}");
    assert!(refused.load(Ordering::SeqCst) <= 4, "{refused:?}");
    apart.is_well();
}

/// A manifest of which one byte comes every two seconds, for ever.
fn trickle() -> Response {
    let bytes = futures::stream::unfold("{", |byte| async move {
        if byte == " " {
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        Some((Ok::<_, Infallible>(byte), " "))
    });
    ([(CONTENT_LENGTH, "100000")], Body::from_stream(bytes)).into_response()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: make test-full"]
async fn pulls_that_trickle_are_said_and_hold_up_nobody_else() {
    let apart = apart::apart("trickle").await;
    let registry = manifests(trickle).await;
    let _registries = insecure(apart.cluster.plane, &registry);
    let _controller = apart.start().await;
    let bundles = [Bundle::new("1.0.0")];
    let goes = Scene::of(apart.cluster.clone(), "goes", &["1.0.0"]).await;
    let going = goes.installed(json!({}), "1.0.0").await;
    let mut slow = Vec::new();
    // As many as there are workers.
    for number in 1..=4 {
        let mut scene = Scene::empty(apart.cluster.clone(), &format!("slow{number}"));
        let image = format!("{registry}/slow{number}:v1");
        scene.publish_catalog(scene.package.catalog_of(&image)).await;
        scene.create_namespace();
        scene.grant(&bundles);
        let extension = scene.install(json!({})).await;
        slow.push((scene, extension));
    }
    for (_, extension) in &slow {
        extension.shows("Progressing", "True", "Retrying", "still pulling image").await;
    }
    let comes = Scene::of(apart.cluster.clone(), "fifth", &["1.0.0"]).await;
    let coming = comes.install(json!({})).await;
    futures::join!(going.delete(), coming.installed("1.0.0"));
    for (_, extension) in &slow {
        let still = extension.get().await;
        assert!(is(&still, "Progressing", "True", "Retrying"));
    }
    apart.is_well();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: make test-full"]
async fn an_image_that_cannot_be_had_again_is_said_and_tried_within_minutes() {
    let apart = apart::apart("again").await;
    let _controller = apart.start().await;
    let scene = Scene::of(apart.cluster.clone(), "again", &["1.0.0"]).await;
    let extension = scene.installed(json!({}), "1.0.0").await;
    apart.cluster.plane.control("stop", "registry");
    extension.patch_spec(json!({"progressDeadlineMinutes": 20})).await;
    extension.shows("Ready", "True", "BundleUnavailable", "Connection refused").await;
    apart.cluster.plane.control("start", "registry");
    let made = |found: &ClusterExtension| is(found, "Ready", "True", "Succeeded");
    extension.eventually("the change is made", Duration::from_mins(4), made).await;
    let revisions = extension.revisions().await;
    assert_eq!(revisions[0].spec.progress_deadline_minutes, Some(20));
    apart.is_well();
}
