//! Content that does not match its digest: none of it is used.

use olm_api::keys::name::CATALOG_CONFIGS_LABEL;
use olm_image::built::BuiltImage;
use olm_image::digest::Digest;
use olm_test::prelude::*;

use super::{GOOD, controller_is_well, waits_for_bundle};

fn catalog_image(name: &str) -> BuiltImage {
    // The name makes the layer differ from those of other tests.
    let text = GOOD.replace("shop", name);
    let files = Files::from([("configs/catalog.json".to_owned(), text.into_bytes())]);
    images::build(&files, &[(CATALOG_CONFIGS_LABEL, "/configs")])
}

/// Changes one byte of a blob in the registry's storage, and returns the digest it has now.
fn tamper(cluster: &Cluster, digest: &Digest) -> Digest {
    let file = stored(cluster, digest);
    let mut bytes = std::fs::read(&file).expect("the registry stores the blob");
    *bytes.last_mut().expect("a blob is not empty") ^= 0xff;
    std::fs::write(file, &bytes).expect("the blob can be changed");
    Digest::sha256(&bytes)
}

fn mismatch(want: &Digest, got: &Digest) -> String {
    format!("error copying image: reading blob {want}: content has digest {got}, expected {want}")
}

fn stored(cluster: &Cluster, digest: &Digest) -> PathBuf {
    let mut folders = vec![cluster.dir.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.ends_with(format!("{}/data", digest.hex())) {
                return path;
            }
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    panic!("the registry does not store {digest}")
}

/// Pushes an image, has it changed, creates a catalog of it, and waits until that is refused with the
/// text that `change` returns.
async fn is_refused(name: &str, built: BuiltImage, change: impl FnOnce(&Cluster) -> String) {
    let cluster = cluster::with_controller().await;
    let tag = format!("{}/bad/{name}:v1", cluster.registry);
    images::send_built(&tag, &built).await;
    let fault = change(&cluster);
    let catalog = Catalog::create(cluster.plane, &format!("bad-{name}"), &tag);
    let message = format!("source catalog content: {fault}");
    let found = catalog.says("True", "Retrying", &message).await;
    assert!(found["status"]["resolvedSource"].is_null(), "{found}");
    controller_is_well(&cluster);
    catalog.delete();
}

// catalogs.md O4
#[tokio::test(flavor = "multi_thread")]
async fn layer_with_another_digest_is_no_catalog() {
    let built = catalog_image("digest-layer");
    let want = Digest::sha256(&built.layers[0]);
    let change = |cluster: &Cluster| mismatch(&want, &tamper(cluster, &want));
    is_refused("digest-layer", built, change).await;
}

// catalogs.md O4
#[tokio::test(flavor = "multi_thread")]
async fn configuration_that_lists_other_layers_is_no_catalog() {
    let mut built = catalog_image("digest-diff");
    let config = String::from_utf8(built.config).expect("a configuration is text");
    let parsed: Value = serde_json::from_str(&config).expect("a configuration");
    let old = parsed["rootfs"]["diff_ids"][0].as_str().expect("a layer");
    let other = Digest::sha256(b"other").to_string();
    let before = Digest::sha256(config.as_bytes()).to_string();
    built.config = config.replace(old, &other).into_bytes();
    let after = Digest::sha256(&built.config).to_string();
    let manifest = String::from_utf8(built.manifest).expect("a manifest is text");
    built.manifest = manifest.replace(&before, &after).into_bytes();
    let fault = format!(
        "error unpacking image: layer 1, entry \"configs/catalog.json\": decompressed layer has \
         digest {old}, the image configuration says {other}"
    );
    is_refused("digest-diff", built, |_| fault).await;
}

// catalogs.md O4; api.md row 23
#[tokio::test(flavor = "multi_thread")]
async fn bundle_with_another_digest_is_not_installed_until_the_registry_has_the_right_one() {
    let cluster = cluster::with_controller().await;
    let mut scene = Scene::empty(cluster, "nodigest");
    let bundle = Bundle::new("1.0.0");
    let tag = format!("{}/{}-bundle:v1", scene.cluster.registry, scene.name);
    let built = images::build(&scene.package.bundle_files(&bundle), &[]);
    let by_digest = images::send_built(&tag, &built).await;
    let want = Digest::sha256(&built.layers[0]);
    let fault = mismatch(&want, &tamper(&scene.cluster, &want));
    scene.publish_catalog(scene.package.catalog_of(&by_digest)).await;
    scene.create_namespace();
    scene.grant(std::slice::from_ref(&bundle));

    let extension = scene.install(json!({})).await;
    waits_for_bundle(&extension, "1.0.0", &fault).await;
    controller_is_well(&scene.cluster);

    std::fs::write(stored(&scene.cluster, &want), &built.layers[0]).expect("it is mended");
    extension.installed("1.0.0").await;
    extension.delete().await;
}
