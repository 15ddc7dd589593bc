//! The page of a cluster over HTTP: what it shows of an extension is what the verbs print.

use std::time::{Duration, Instant};

use olm_test::cluster;
use olm_test::extension::Extension;
use olm_test::package::{Bundle, chain};
use olm_test::plugin::{self, Page};
use olm_test::scene::Scene;
use serde_json::{Value, json};

/// How long a page may say that it waits.
const SHOWN: Duration = Duration::from_mins(1);

/// Starts the page of the scene's cluster.
fn open(scene: &Scene) -> Page {
    let addresses = &scene.cluster.plane.addresses;
    Page::open(|command| {
        command
            .arg("--kubeconfig")
            .arg(&addresses.kubeconfig)
            .arg("--catalog-ca")
            .arg(&addresses.controller_ca)
            .env_remove("KUBECONFIG")
            .env("CONTAINERS_REGISTRIES_CONF", &addresses.registries_conf);
    })
}

/// Returns a page once it says more than that it waits.
async fn get(page: &Page, path: &str) -> (u16, String) {
    let begun = Instant::now();
    loop {
        let answer = reqwest::get(page.at(path)).await.expect("an answer");
        let waits = answer.headers().contains_key("refresh") && !path.contains("watch");
        let status = answer.status().as_u16();
        let text = answer.text().await.expect("text");
        if !waits {
            return (status, text);
        }
        assert!(begun.elapsed() < SHOWN, "{path} is not shown: {text}");
    }
}

async fn shown(page: &Page, path: &str) -> String {
    let (status, text) = get(page, path).await;
    assert_eq!(status, 200, "{path}: {text}");
    text
}

fn verb(scene: &Scene, args: &[&str]) -> Value {
    let args = [args, &["-o", "json"]].concat();
    let out = plugin::run(scene.cluster.plane, &args);
    serde_json::from_slice(&out.stdout).expect("a document")
}

// plugin.md U81
#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_what_the_verbs_say_of_a_cluster() {
    let cluster = cluster::with_controller().await;
    let versions = ["1.0.0", "1.1.0"];
    let bundles = versions.map(Bundle::new);
    let scene = Scene::set(cluster, "page", &bundles, &chain(&versions)).await;
    let extension: Extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    let name = &scene.name;
    let page = open(&scene);

    let status = verb(&scene, &["status", name]);
    let row = &status["extensions"][0];
    let text = shown(&page, "").await;
    assert!(
        text.contains(&format!("/extension/{name}\">{name}</a>")),
        "{text}"
    );
    let text = shown(&page, &format!("extension/{name}?watch=10")).await;
    let version = row["installed"]["version"].as_str().expect("a version");
    assert!(
        text.contains(&format!("<span class=\"count\">{version}</span>")),
        "{text}"
    );
    for holder in row["heldBy"].as_array().expect("a list") {
        let tag = format!(
            "<span class=\"tag\">{}</span>",
            holder.as_str().expect("a word")
        );
        assert!(text.contains(&tag), "{tag}: {text}");
    }
    for version in versions {
        let link = format!(
            "/bundle/{name}/{name}/{}\">{version}</a>",
            scene.package.bundle_name(version)
        );
        assert!(text.contains(&link), "{link}: {text}");
    }
    let text = shown(&page, "packages?q=page").await;
    assert!(text.contains(&format!("installed as {name}")), "{text}");
    let text = shown(&page, &format!("package/{name}/{name}")).await;
    assert!(
        text.contains("<svg") && text.contains(">installed"),
        "{text}"
    );
    let text = shown(&page, "catalogs").await;
    assert!(text.contains(&format!("/catalog/{name}\"")), "{text}");
    let text = shown(&page, &format!("catalog/{name}")).await;
    assert!(text.contains("Errors: 0"), "{text}");
    assert_eq!(get(&page, "extension/none").await.0, 404);
}
