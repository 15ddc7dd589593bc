//! A registry that is stopped for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use olm_test::extension::is;
use olm_test::package::{Bundle, chain};
use olm_test::scene::Scene;
use olm_test::{images, wait};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{Catalog, GOOD, apart, nothing_installed, says, serving};

// catalogs.md R2, R4, R13; api.md rows 23 and 25
#[tokio::test(flavor = "multi_thread")]
async fn unreachable_registry_stops_nothing_that_runs_and_is_found_again() {
    let apart = apart::apart("registry").await;
    let _controller = apart.start().await;
    let bundles = [Bundle::new("1.0.0")];
    let runs = Scene::set(apart.handle(), "runs", &bundles, &chain(&["1.0.0"])).await;
    let running = runs.install(json!({})).await;
    running.installed("1.0.0").await;
    let waits = Scene::set(apart.handle(), "comes", &bundles, &chain(&["1.0.0"])).await;
    let image = format!("{}/bad/outage:v1", apart.cluster.registry);
    let files = [("configs/c.json".to_owned(), GOOD.as_bytes().to_vec())];
    images::push_catalog(&image, files.into_iter().collect()).await;

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
    let message = format!(
        "error for resolved bundle \"buoy-comes.v1.0.0\" with version \"1.0.0\": {refused}"
    );
    let found = says(&waiting, "True", "Retrying", &message).await;
    nothing_installed(&waiting, &found).await;

    // Drift of what is installed is still repaired.
    let config_map = runs.package.config_map();
    let delete = ["delete", "configmap", &config_map, "--namespace", &runs.name];
    runs.cluster.plane.kubectl(&delete);
    wait::until("it is repaired", Duration::from_secs(30), || async {
        runs.get("configmap", &config_map).ok_or("no ConfigMap")
    })
    .await;
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

/// Serves a registry that refuses every manifest with a different number, and counts them.
async fn numbering() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
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
    let conf = &apart.cluster.plane.addresses.registries_conf;
    let before = std::fs::read_to_string(conf).expect("the registries are configured");
    let added = format!("{before}\n[[registry]]\nlocation = \"{registry}\"\ninsecure = true\n");
    std::fs::write(conf, added).expect("the configuration can be changed");
    let _controller = apart.start().await;
    let image = format!("{registry}/bad/numbers:v1");
    let catalog = Catalog::create(&apart.cluster, "bad-numbers", &image).await;
    let within = Duration::from_secs(30);
    let began = std::time::Instant::now();
    wait::until("three attempts", within, || async {
        let seen = refused.load(Ordering::SeqCst);
        if seen >= 3 { Ok(()) } else { Err(seen) }
    })
    .await;
    // One second, then two: three attempts take three seconds at least.
    assert!(began.elapsed() >= Duration::from_secs(2), "{refused:?}");
    assert!(refused.load(Ordering::SeqCst) <= 4, "{refused:?}");
    std::fs::write(conf, before).expect("the configuration can be changed");
    apart.is_well();
    catalog.delete().await;
}

/// Serves a registry that sends one byte of a manifest every two seconds, for ever.
async fn trickling() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
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
    let conf = &apart.cluster.plane.addresses.registries_conf;
    let before = std::fs::read_to_string(conf).expect("the registries are configured");
    let added = format!("{before}\n[[registry]]\nlocation = \"{registry}\"\ninsecure = true\n");
    std::fs::write(conf, added).expect("the configuration can be changed");
    let _controller = apart.start().await;
    let bundles = [Bundle::new("1.0.0")];
    let goes = Scene::set(apart.handle(), "goes", &bundles, &chain(&["1.0.0"])).await;
    let going = goes.install(json!({})).await;
    going.installed("1.0.0").await;
    let mut slow = Vec::new();
    // As many as there are workers.
    for number in 1..=4 {
        let mut scene = Scene::empty(apart.handle(), &format!("slow{number}"));
        let image = format!("{registry}/slow{number}:v1");
        let images = [("1.0.0".to_owned(), image)].into();
        let files = scene.package.catalog_files(&chain(&["1.0.0"]), &images);
        scene.publish_catalog(files).await;
        scene.create_namespace();
        scene.grant(&bundles);
        let extension = scene.install(json!({})).await;
        slow.push((scene, extension));
    }
    for (_, extension) in &slow {
        extension.shows("Progressing", "True", "Retrying", "still pulling image").await;
    }
    let comes = Scene::set(apart.handle(), "fifth", &bundles, &chain(&["1.0.0"])).await;
    let coming = comes.install(json!({})).await;
    futures::join!(going.delete(), coming.installed("1.0.0"));
    for (_, extension) in &slow {
        let still = extension.get().await;
        assert!(is(&still, "Progressing", "True", "Retrying"));
        extension.delete().await;
    }
    std::fs::write(conf, before).expect("the configuration can be changed");
    apart.is_well();
    coming.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: make test-full"]
async fn an_image_that_cannot_be_had_again_is_said_and_tried_within_minutes() {
    let apart = apart::apart("again").await;
    let _controller = apart.start().await;
    let bundles = [Bundle::new("1.0.0")];
    let scene = Scene::set(apart.handle(), "again", &bundles, &chain(&["1.0.0"])).await;
    let extension = scene.install(json!({})).await;
    extension.installed("1.0.0").await;
    apart.cluster.plane.control("stop", "registry");
    extension.patch_spec(json!({"progressDeadlineMinutes": 20})).await;
    extension.shows("Ready", "True", "BundleUnavailable", "Connection refused").await;
    apart.cluster.plane.control("start", "registry");
    let within = Duration::from_mins(4);
    extension
        .eventually("the change is made", within, |extension| {
            is(extension, "Ready", "True", "Succeeded")
        })
        .await;
    let revisions = extension.revisions().await;
    assert_eq!(revisions[0].spec.progress_deadline_minutes, Some(20));
    apart.is_well();
    extension.delete().await;
}
