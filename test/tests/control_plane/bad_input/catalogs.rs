//! Images that are not catalogs, and catalogs that cannot be read.

use futures::future::join_all;
use olm_image::built::ImageBuilder;
use olm_test::prelude::*;

use super::{Catalog, FEW, GOOD, controller_is_well, serving, status_writes};

const UNPACKED_NOTHING: &str = "Catalog contents have not been unpacked yet";
const CONFIGS_LABEL: &str = "operators.operatorframework.io.index.configs.v1";
const DATABASE_LABEL: &str = "operators.operatorframework.io.index.database.v1";

fn image(cluster: &Cluster, name: &str) -> String {
    format!("{}/bad/{name}:v1", cluster.registry)
}

fn files(path: &str, text: &str) -> Files {
    Files::from([(path.to_owned(), text.as_bytes().to_vec())])
}

/// Catalogs of one file that cannot be read: the name, the file and its text, and what is said.
const UNREADABLE: [(&str, &str, &str, &str); 4] = [
    (
        "bad-text",
        "configs/README.md",
        "Not a catalog\n",
        "document 1, line 1: document is not an object",
    ),
    (
        "bad-yaml",
        "configs/shop/catalog.yaml",
        "---\nschema: olm.package\nname: shop\n---\nschema: olm.channel\nname: [secret\nmore: x\n",
        "document 2, line 7: invalid YAML: illegal placement of ':' indicator",
    ),
    (
        "bad-json",
        "configs/shop/catalog.json",
        "{\"schema\": \"a\"}\n{\"schema\": \"b\"}\n\n{\"schema\": secret}\n",
        "document 3, line 4: invalid JSON: expected value",
    ),
    (
        "bad-field",
        "configs/catalog.yaml",
        "schema: olm.package\nname: shop\n---\nschema: olm.channel\nname: 7\n",
        "document 2, line 4: expected value for key \"name\" to be a string",
    ),
];

// api.md 2.5; catalogs.md 1.5, 1.8, 8.2
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_named_by_file_document_and_line_and_is_not_served() {
    let cluster = cluster::with_controller().await;
    join_all(UNREADABLE.map(|(name, path, text, fault)| {
        let cluster = &cluster;
        async move {
            let image = image(cluster, name);
            images::push_catalog(&image, files(path, text)).await;
            let catalog = Catalog::create(cluster, name, &image).await;
            let message = format!("error storing fbc: error reading \"{path}\", {fault}");
            let found = catalog.says("True", "Retrying", &message).await;
            assert_eq!(serving(&found), ("Unavailable".to_owned(), UNPACKED_NOTHING.to_owned()));
            let status = found.status.expect("a status");
            assert!(status.resolved_source.is_none() && status.urls.is_none());

            images::push_catalog(&image, files("configs/catalog.json", GOOD)).await;
            catalog.served().await;
            assert!(status_writes(cluster, "clustercatalogs", name).len() <= FEW);
            catalog.delete().await;
        }
    }))
    .await;
    controller_is_well(&cluster);
}

// api.md 2.5; catalogs.md R3
#[tokio::test(flavor = "multi_thread")]
async fn image_that_is_no_catalog_is_retried_by_tag_and_blocked_by_digest() {
    let cluster = cluster::with_controller().await;
    let missing = format!(
        "source catalog content: catalog image is missing the required label \"{CONFIGS_LABEL}\""
    );
    let older = ": it is an SQLite catalog image, convert it with opm migrate";
    let database = [(DATABASE_LABEL, "/database/index.db")];
    for (name, path, labels, advice) in [
        ("bad-sqlite", "database/index.db", &database[..], older),
        ("bad-image", "bin/sh", &[], ""),
    ] {
        let tag = image(&cluster, name);
        let digest = images::send(&tag, files(path, "no catalog"), labels).await;
        let message = format!("{missing}{advice}");
        let catalog = Catalog::create(&cluster, name, &tag).await;
        let found = catalog.says("True", "Retrying", &message).await;
        assert_eq!(serving(&found).0, "Unavailable");
        catalog.set_image(&digest).await;
        catalog.says("False", "Blocked", &message).await;
        catalog.delete().await;
    }
    controller_is_well(&cluster);
}

// catalogs.md O3, 5.6
#[tokio::test(flavor = "multi_thread")]
async fn artifact_that_is_no_image_is_blocked() {
    let cluster = cluster::with_controller().await;
    let tag = image(&cluster, "bad-artifact");
    let layer = [("Chart.yaml", b"name: chart".as_slice())];
    let mut chart = ImageBuilder::new().layer(layer).expect("a layer").build().expect("an image");
    let manifest = String::from_utf8(chart.manifest).expect("a manifest is text");
    chart.manifest = manifest
        .replace(
            "application/vnd.oci.image.config.v1+json",
            "application/vnd.cncf.helm.config.v1+json",
        )
        .into_bytes();
    images::send_built(&tag, &chart).await;
    let catalog = Catalog::create(&cluster, "bad-artifact", &tag).await;
    let message = "source catalog content: error copying image: not a container image: \
        configuration has media type \"application/vnd.cncf.helm.config.v1+json\"";
    catalog.says("False", "Blocked", message).await;
    controller_is_well(&cluster);
    catalog.delete().await;
}
