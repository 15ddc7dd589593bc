//! Bad input: every error says what is wrong and where, affects nothing else, and causes neither a
//! panic nor a hot loop.
//!
//! Texts are those of api.md 2.5 and 4.4; delays those of decision 7.

mod apart;
mod calm;
mod catalogs;
mod digests;
mod disk;
mod extensions;
mod hostile;
mod registry;
mod schema;

use olm_api::GROUP;
use olm_image::built::BuiltImage;
use olm_test::audit::Request;
use olm_test::prelude::*;

/// Most status writes for a few conditions in a row; a hot loop makes hundreds.
const FEW: usize = 8;

/// Content of a catalog that can be read.
const GOOD: &str = "{\"schema\": \"olm.package\", \"name\": \"shop\"}";

/// Returns the reason of `Serving`.
fn serving(catalog: &Value) -> Value {
    condition_of(catalog, "Serving")["reason"].clone()
}

/// Asserts that nothing is installed and that the status shows it.
pub(crate) async fn nothing_installed(extension: &Extension, found: &ClusterExtension) {
    assert!(is(found, "Installed", "False", "Failed"), "{found:#?}");
    let installed = condition(found, "Installed").map(|found| found.message.as_str());
    assert_eq!(installed, Some("No bundle installed"));
    let status = found.status.as_ref().expect("a status");
    assert!(status.install.is_none());
    assert!(extension.revisions().await.is_empty());
}

/// Waits until an extension says that it tries again because of this, and asserts that nothing is
/// installed.
async fn waits(extension: &Extension, message: &str) {
    let found = extension.says("True", "Retrying", message).await;
    nothing_installed(extension, &found).await;
}

/// The same, where `fault` is what is wrong with a bundle.
async fn waits_for_bundle(extension: &Extension, version: &str, fault: &str) {
    let bundle = format!("\"{}.v{version}\" with version \"{version}\"", extension.name);
    waits(extension, &format!("error for resolved bundle {bundle}: {fault}")).await;
}

/// Serves a package of which each version is one of these images, with an account, and returns the
/// versions.
pub(crate) async fn publish(
    scene: &mut Scene,
    built: impl IntoIterator<Item = BuiltImage>,
) -> Vec<String> {
    let (mut versions, mut pushed) = (Vec::new(), BTreeMap::new());
    for built in built {
        let version = format!("1.0.{}", versions.len());
        let image = format!("{}/{}-bundle:v{version}", scene.cluster.registry, scene.name);
        pushed.insert(version.clone(), images::send_built(&image, &built).await);
        versions.push(version);
    }
    let entries: Vec<&str> = versions.iter().map(String::as_str).collect();
    scene.publish_catalog(scene.package.catalog_files(&chain(&entries), &pushed)).await;
    scene.create_namespace();
    scene.grant(&[Bundle::new("1.0.0")]);
    versions
}

/// Pushes a catalog that can be read, and returns its image.
async fn good(cluster: &Cluster, name: &str) -> String {
    let image = format!("{}/bad/{name}:v1", cluster.registry);
    let files = [("configs/c.json".to_owned(), GOOD.as_bytes().to_vec())];
    images::push_catalog(&image, files.into()).await;
    image
}

/// Asserts that the controller with this state folder has neither ended nor panicked.
fn is_well(state: &Path) {
    let log = std::fs::read(state.join("log")).expect("the controller logs");
    let panicked = memchr::memmem::find(&log, b"panicked").is_some();
    assert!(!panicked, "{}", String::from_utf8_lossy(&log));
    let pid = std::fs::read_to_string(state.join("pid")).expect("the controller runs");
    let running = std::fs::read_to_string(format!("/proc/{}/cmdline", pid.trim()));
    assert!(running.is_ok_and(|line| line.contains("olm-controller")), "the controller has ended");
}

/// Asserts that the shared controller has neither ended nor panicked.
fn controller_is_well(cluster: &Cluster) {
    is_well(&cluster.dir.join("controller-state"));
}

/// Returns the writes of the status of an object so far, failed attempts included.
fn status_writes(cluster: &Cluster, resource: &str, name: &str) -> Vec<Request> {
    let mut writes = audit::writes(&cluster.plane.addresses.audit_log, name);
    writes.retain(|write| {
        write.group == GROUP
            && write.resource == resource
            && write.subresource == "status"
            && write.name == name
            && write.code != 409
    });
    writes
}
