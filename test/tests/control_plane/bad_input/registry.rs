//! A registry that is stopped for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use olm_test::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{Catalog, apart, good, serving, waits_for_bundle};
use crate::credentials::Registries;

// catalogs.md R2, R4, R13; api.md rows 23 and 25
#[tokio::test(flavor = "multi_thread")]
async fn unreachable_registry_stops_nothing_that_runs_and_is_found_again() {
    let apart = apart::apart("registry").await;
    let _controller = apart.start().await;
    let runs = Scene::of(apart.handle(), "runs", &["1.0.0"]).await;
    let running = runs.installed(json!({}), "1.0.0").await;
    let waits = Scene::of(apart.handle(), "comes", &["1.0.0"]).await;
    let image = good(&apart.cluster, "outage").await;

    apart.cluster.plane.control("stop", "registry");
    let registry = &apart.cluster.registry;
    let refused = format!(
        "error creating image source: pinging container registry {registry}: Get \
         \"http://{registry}/v2/\": Connection refused"
    );
    let catalog = Catalog::create(&apart.cluster, "bad-outage", &image).await;
    let message = format!("source catalog content: {refused}");
    let found = catalog.says("True", "Retrying", &message).await;
    assert_eq!(serving(&found).0, "Unavailable");
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
    apart.is_well();
    catalog.delete().await;
    futures::join!(waiting.delete(), running.delete());
}

async fn listening() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    (listener, address)
}

/// Serves a registry that refuses every manifest with a different number, and counts them.
async fn numbering() -> (String, Arc<AtomicUsize>) {
    let (listener, address) = listening().await;
    let refused = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&refused);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let read = stream.read(&mut request).await.unwrap_or_default();
            let request = String::from_utf8_lossy(&request[..read]);
            let (status, body) = if request.contains("/manifests/") {
                let number = count.fetch_add(1, Ordering::SeqCst);
                let error = json!({"code": "DENIED", "message": format!("request {number}")});
                ("403 Forbidden", json!({"errors": [error]}))
            } else {
                ("200 OK", json!({}))
            };
            let body = body.to_string();
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            );
            // A client that tried TLS is gone.
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (address, refused)
}

// decision 7; catalogs.md R11
#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: make test-full"]
async fn registry_whose_errors_always_differ_is_not_asked_all_the_time() {
    let apart = apart::apart("numbers").await;
    let (registry, refused) = numbering().await;
    let registries = Registries::of(apart.cluster.plane);
    registries.set(&format!("[[registry]]\nlocation = \"{registry}\"\ninsecure = true\n"));
    let _controller = apart.start().await;
    let image = format!("{registry}/bad/numbers:v1");
    let catalog = Catalog::create(&apart.cluster, "bad-numbers", &image).await;
    let within = Duration::from_secs(30);
    let began = std::time::Instant::now();
    let attempts = || refused.load(Ordering::SeqCst);
    wait::value("three attempts", within, attempts, |seen| *seen >= 3).await;
    // One second, then two: three attempts take three seconds at least.
    assert!(began.elapsed() >= Duration::from_secs(2), "{refused:?}");
    assert!(refused.load(Ordering::SeqCst) <= 4, "{refused:?}");
    drop(registries);
    apart.is_well();
    catalog.delete().await;
}

/// Serves a registry that sends one byte of a manifest every two seconds, for ever.
async fn trickling() -> String {
    let (listener, address) = listening().await;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let read = stream.read(&mut request).await.unwrap_or_default();
                let request = String::from_utf8_lossy(&request[..read]).into_owned();
                if !request.contains("/manifests/") {
                    let ping =
                        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
                    return drop(stream.write_all(ping.as_bytes()).await);
                }
                let head = "HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n{";
                let mut sent = stream.write_all(head.as_bytes()).await;
                while sent.is_ok() {
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    sent = stream.write_all(b" ").await;
                }
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: make test-full"]
async fn pulls_that_trickle_are_said_and_hold_up_nobody_else() {
    let apart = apart::apart("trickle").await;
    let registry = trickling().await;
    let registries = Registries::of(apart.cluster.plane);
    registries.set(&format!("[[registry]]\nlocation = \"{registry}\"\ninsecure = true\n"));
    let _controller = apart.start().await;
    let bundles = [Bundle::new("1.0.0")];
    let goes = Scene::of(apart.handle(), "goes", &["1.0.0"]).await;
    let going = goes.installed(json!({}), "1.0.0").await;
    let mut slow = Vec::new();
    // As many as there are workers.
    for number in 1..=4 {
        let mut scene = Scene::empty(apart.handle(), &format!("slow{number}"));
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
    let comes = Scene::of(apart.handle(), "fifth", &["1.0.0"]).await;
    let coming = comes.install(json!({})).await;
    futures::join!(going.delete(), coming.installed("1.0.0"));
    for (_, extension) in &slow {
        let still = extension.get().await;
        assert!(is(&still, "Progressing", "True", "Retrying"));
        extension.delete().await;
    }
    drop(registries);
    apart.is_well();
    coming.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: make test-full"]
async fn an_image_that_cannot_be_had_again_is_said_and_tried_within_minutes() {
    let apart = apart::apart("again").await;
    let _controller = apart.start().await;
    let scene = Scene::of(apart.handle(), "again", &["1.0.0"]).await;
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
    extension.delete().await;
}
