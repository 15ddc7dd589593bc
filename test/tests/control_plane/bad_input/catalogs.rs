//! Images that are not catalogs, and catalogs that cannot be read.

use olm_image::built::ImageBuilder;
use olm_test::cluster::{self, Cluster};
use olm_test::images;
use olm_test::package::Files;

use super::{Catalog, GOOD, controller_is_well, serving, status_writes};

const UNPACKED_NOTHING: &str = "Catalog contents have not been unpacked yet";
const CONFIGS_LABEL: &str = "operators.operatorframework.io.index.configs.v1";
const DATABASE_LABEL: &str = "operators.operatorframework.io.index.database.v1";

fn image(cluster: &Cluster, name: &str) -> String {
    format!("{}/bad/{name}:v1", cluster.registry)
}

fn files(path: &str, text: &str) -> Files {
    Files::from([(path.to_owned(), text.as_bytes().to_vec())])
}

/// A catalog of one file cannot be read: nothing is served, and `message` says why.
async fn refused(name: &str, path: &str, text: &str, message: &str) {
    let cluster = cluster::with_controller().await;
    let image = image(&cluster, name);
    images::push_catalog(&image, files(path, text)).await;
    let catalog = Catalog::create(&cluster, name, &image).await;
    let found = catalog.says("True", "Retrying", message).await;
    assert_eq!(serving(&found), ("Unavailable".to_owned(), UNPACKED_NOTHING.to_owned()));
    let status = found.status.expect("a status");
    assert!(status.resolved_source.is_none() && status.urls.is_none());

    images::push_catalog(&image, files("configs/catalog.json", GOOD)).await;
    catalog.served().await;
    assert!(status_writes(&cluster, "clustercatalogs", name).len() <= 3);
    controller_is_well(&cluster);
    catalog.delete().await;
}

// api.md 2.5; catalogs.md 8.2
#[tokio::test(flavor = "multi_thread")]
async fn text_that_is_no_catalog_is_named_by_file_and_line() {
    refused(
        "bad-text",
        "configs/README.md",
        "Not a catalog\n",
        "error storing fbc: error reading \"configs/README.md\", document 1, line 1: document is \
         not an object",
    )
    .await;
}

// api.md 2.5; catalogs.md 1.5, 8.2
#[tokio::test(flavor = "multi_thread")]
async fn broken_yaml_document_is_named_by_file_document_and_line() {
    refused(
        "bad-yaml",
        "configs/shop/catalog.yaml",
        "---\nschema: olm.package\nname: shop\n---\nschema: olm.channel\nname: [secret\nmore: x\n",
        "error storing fbc: error reading \"configs/shop/catalog.yaml\", document 2, line 7: \
         invalid YAML: illegal placement of ':' indicator",
    )
    .await;
}

// api.md 2.5; catalogs.md 1.5
#[tokio::test(flavor = "multi_thread")]
async fn broken_json_document_is_named_by_file_document_and_line() {
    refused(
        "bad-json",
        "configs/shop/catalog.json",
        "{\"schema\": \"a\"}\n{\"schema\": \"b\"}\n\n{\"schema\": secret}\n",
        "error storing fbc: error reading \"configs/shop/catalog.json\", document 3, line 4: \
         invalid JSON: expected value",
    )
    .await;
}

// api.md 2.5; catalogs.md 1.8
#[tokio::test(flavor = "multi_thread")]
async fn field_of_the_wrong_type_is_named_by_file_document_and_line() {
    refused(
        "bad-field",
        "configs/catalog.yaml",
        "schema: olm.package\nname: shop\n---\nschema: olm.channel\nname: 7\n",
        "error storing fbc: error reading \"configs/catalog.yaml\", document 2, line 4: expected \
         value for key \"name\" to be a string",
    )
    .await;
}

// api.md 2.5; catalogs.md R3
#[tokio::test(flavor = "multi_thread")]
async fn image_that_is_no_catalog_is_retried_by_tag_and_blocked_by_digest() {
    let cluster = cluster::with_controller().await;
    let message = format!(
        "source catalog content: catalog image is missing the required label \"{CONFIGS_LABEL}\""
    );
    let tag = image(&cluster, "bad-image");
    let digest = images::send(&tag, files("bin/sh", "no catalog"), &[]).await;
    let catalog = Catalog::create(&cluster, "bad-image", &tag).await;
    let found = catalog.says("True", "Retrying", &message).await;
    assert_eq!(serving(&found).0, "Unavailable");
    catalog.set_image(&digest).await;
    catalog.says("False", "Blocked", &message).await;
    controller_is_well(&cluster);
    catalog.delete().await;
}

// The message about the older kind of catalog says how to convert it.
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_index_image_is_told_to_be_converted() {
    let cluster = cluster::with_controller().await;
    let tag = image(&cluster, "bad-sqlite");
    let database = files("database/index.db", "SQLite format 3\0");
    let labels = [(DATABASE_LABEL, "/database/index.db")];
    let digest = images::send(&tag, database, &labels).await;
    let message = format!(
        "source catalog content: catalog image is missing the required label \
         \"{CONFIGS_LABEL}\": it is an SQLite catalog image, convert it with opm migrate"
    );
    let catalog = Catalog::create(&cluster, "bad-sqlite", &tag).await;
    catalog.says("True", "Retrying", &message).await;
    catalog.set_image(&digest).await;
    catalog.says("False", "Blocked", &message).await;
    controller_is_well(&cluster);
    catalog.delete().await;
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
