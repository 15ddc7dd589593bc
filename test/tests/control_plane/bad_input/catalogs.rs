//! Images that are not catalogs, and catalogs that cannot be read.

use olm_image::built::ImageBuilder;
use olm_test::prelude::*;

use super::{FEW, GOOD, controller_is_well, serving, status_writes};

const UNPACKED_NOTHING: &str = "Catalog contents have not been unpacked yet";
const CONFIGS_LABEL: &str = "operators.operatorframework.io.index.configs.v1";
const DATABASE_LABEL: &str = "operators.operatorframework.io.index.database.v1";

fn image(cluster: &Cluster, name: &str) -> String {
    format!("{}/bad/{name}:v1", cluster.registry)
}

fn files(path: &str, text: &str) -> Files {
    Files::from([(path.to_owned(), text.as_bytes().to_vec())])
}

// api.md 2.5; catalogs.md 1.5, 1.8, 8.2: the faults are those of `refused.yaml` in `src/core`.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_named_by_file_document_and_line_and_is_not_served() {
    let cluster = cluster::with_controller().await;
    let (name, path) = ("bad-field", "configs/shop/catalog.yaml");
    let image = image(&cluster, name);
    let text = "schema: olm.package\nname: shop\n---\nschema: olm.channel\nname: 7\n";
    images::push_catalog(&image, files(path, text)).await;
    let catalog = Catalog::create(cluster.plane, name, &image);
    let fault = "document 2, line 4: expected value for key \"name\" to be a string";
    let message = format!("error storing fbc: error reading \"{path}\", {fault}");
    let found = catalog.says("True", "Retrying", &message).await;
    assert_eq!(serving(&found), "Unavailable");
    assert_eq!(condition_of(&found, "Serving")["message"], UNPACKED_NOTHING);
    assert!(found["status"]["resolvedSource"].is_null() && found["status"]["urls"].is_null());

    images::push_catalog(&image, files("configs/catalog.json", GOOD)).await;
    catalog.served().await;
    assert!(status_writes(&cluster, "clustercatalogs", name).len() <= FEW);
    controller_is_well(&cluster);
    catalog.delete();
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
        let catalog = Catalog::create(cluster.plane, name, &tag);
        let found = catalog.says("True", "Retrying", &message).await;
        assert_eq!(serving(&found), "Unavailable");
        catalog.set_image(&digest);
        catalog.says("False", "Blocked", &message).await;
        catalog.delete();
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
    let catalog = Catalog::create(cluster.plane, "bad-artifact", &tag);
    let message = "source catalog content: error copying image: not a container image: \
        configuration has media type \"application/vnd.cncf.helm.config.v1+json\"";
    catalog.says("False", "Blocked", message).await;
    controller_is_well(&cluster);
    catalog.delete();
}
