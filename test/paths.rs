//! Paths of the checkout, the built programs and the shared test data.

use std::path::{Path, PathBuf};

/// Returns the root of the checkout.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the test crate stands in the checkout")
        .to_path_buf()
}

/// Returns the folder of shared test data: `$OLM_SHARED`, by default `../shared` beside the
/// checkout; a relative path counts from the checkout.
pub fn shared_data() -> PathBuf {
    let named = std::env::var_os("OLM_SHARED").unwrap_or_else(|| "../shared".into());
    let folder = repository().join(named);
    assert!(
        folder.is_dir(),
        "no test data in {}: set OLM_SHARED to the folder that holds vectors and bundles",
        folder.display()
    );
    folder
}

/// Returns the path of a program in the profile folder of the running test.
pub fn built(program: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    test.parent()
        .and_then(Path::parent)
        .expect("tests run from target/<profile>/deps")
        .join(program)
}

/// Returns the path of the controller: below `$OLM_IMAGE_ROOT`, the unpacked image, if that is set,
/// else of the profile of the running test.
pub fn controller() -> PathBuf {
    std::env::var_os("OLM_IMAGE_ROOT").map_or_else(
        || built("olm-controller"),
        |root| repository().join(root).join("olm-controller"),
    )
}

/// Returns the `local-cluster` program: `$LOCAL_CLUSTER`, by default `target/local-cluster`.
pub fn local_cluster() -> PathBuf {
    std::env::var_os("LOCAL_CLUSTER")
        .map_or_else(|| repository().join("target/local-cluster"), PathBuf::from)
}
