//! Everything bad at once: the controller does not loop, and valid objects are installed.

use olm_test::prelude::*;

use super::apart;

/// Publishes a catalog of two packages: a good one, and one without a CSV.
async fn publish(scene: &mut Scene, broken: &Package) {
    let bundle = Bundle::new("1.0.0");
    let mut catalog = Files::new();
    for package in [&scene.package, broken] {
        let mut files = package.bundle_files(&bundle);
        if package.suffix == broken.suffix {
            files.remove("manifests/csv.yaml");
        }
        let image = format!("{}/{}:v1", scene.cluster.registry, package.name());
        images::push_bundle(&image, files).await;
        catalog.extend(package.catalog_of(&image));
    }
    scene.publish_catalog(catalog).await;
}

/// Creates catalogs that cannot be read, and waits until each of them reports it.
async fn failing_catalogs(cluster: &Cluster) -> Vec<Catalog> {
    let registry = &cluster.registry;
    let text = format!("{registry}/bad/calm-text:v1");
    let files = [("configs/README.md".to_owned(), b"no catalog".to_vec())];
    images::push_catalog(&text, files.into_iter().collect()).await;
    let sources = [
        ("bad-calm-text", text),
        ("bad-calm-missing", format!("{registry}/bad/none:v1")),
        ("bad-calm-unreachable", "127.0.0.1:1/bad/none:v1".to_owned()),
        ("bad-calm-blocked", "foo/bar:latest".to_owned()),
    ];
    let catalogs = sources.map(|(name, image)| Catalog::create(cluster.plane, name, &image));
    for catalog in &catalogs {
        let failed = |found: &Value| {
            let reason = &condition_of(found, "Progressing")["reason"];
            reason.is_string() && reason != "Succeeded"
        };
        catalog.until("it fails", failed).await;
    }
    catalogs.into()
}

/// Creates extensions with these names, service accounts, namespaces and filters, and waits until
/// each of them has failed.
async fn failing_extensions<'a>(
    cluster: &Cluster,
    asked: impl IntoIterator<Item = (&'a str, &'a str, &'a str, Value)>,
) -> Vec<Extension> {
    let client = &cluster.client;
    let mut extensions = Vec::new();
    for (name, account, namespace, filter) in asked {
        let extension = Extension::create(client, name, namespace, account, filter).await;
        extensions.push(extension);
    }
    for extension in &extensions {
        let failing =
            |found: &Condition| ["Retrying", "InvalidConfiguration"].contains(&&*found.reason);
        extension.has("Progressing", "a failure", failing).await;
    }
    extensions
}

// decision 7
#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: make test-full"]
async fn failing_catalogs_and_extensions_are_tried_ever_more_rarely() {
    let apart = apart::apart("calm").await;
    let _controller = apart.start().await;
    let mut scene = Scene::empty(apart.cluster.clone(), "calm");
    let broken = Package::new("uncalm");
    publish(&mut scene, &broken).await;
    scene.create_namespace();
    scene.grant(&[Bundle::new("1.0.0")]);
    let namespace = ["--namespace", &*scene.name];
    let powerless = [&["create", "serviceaccount", "powerless"], &namespace[..]].concat();
    apart.cluster.plane.kubectl(&powerless);

    let catalogs = failing_catalogs(&apart.cluster).await;
    let served = json!({"matchLabels": {"olm.operatorframework.io/metadata.name": scene.name}});
    let good = |more: Value| {
        let mut filter = json!({"packageName": scene.package.name(), "selector": served});
        for (key, value) in more.as_object().into_iter().flatten() {
            filter[key] = value.clone();
        }
        filter
    };
    let asked = [
        ("calm-nocsv", "installer", &*scene.name, good(json!({"packageName": broken.name()}))),
        ("calm-norange", "installer", &*scene.name, good(json!({"version": "1.2.3-01"}))),
        ("calm-nothing", "installer", &*scene.name, good(json!({"packageName": "nothing"}))),
        ("calm-nonamespace", "installer", "calm-none", good(json!({}))),
        ("calm-noaccount", "nobody", &*scene.name, good(json!({}))),
        ("calm-norights", "powerless", &*scene.name, good(json!({}))),
        ("calm-nocatalog", "installer", &*scene.name, good(json!({"selector": {}}))),
    ];
    let extensions = failing_extensions(&apart.cluster, asked).await;

    let catalogs_of = catalogs.iter();
    let catalogs_of = catalogs_of.map(|one| ("clustercatalogs", one.name.as_str()));
    let extensions_of = extensions.iter();
    let extensions_of = extensions_of.map(|one| ("clusterextensions", one.name.as_str()));
    let all: Vec<_> = catalogs_of.chain(extensions_of).collect();
    apart.is_calm(&all, Duration::from_secs(10)).await;

    scene.installed(json!({}), "1.0.0").await;
    apart.is_well();
}
