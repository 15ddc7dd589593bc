//! All limits on the resources that pulling an image may use.
//!
//! Source: catalogs.md 5.8, 5.3, 8.3.

use std::time::Duration;

use olm_core::catalog::read::MAX_CATALOG_BYTES;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Largest manifest or image configuration, in bytes.
pub const MAX_MANIFEST_BYTES: u64 = 4 * MIB;
/// Most signatures of an image that are read.
pub const MAX_SIGNATURES: usize = 128;
/// Most bytes of what the signatures of an image sign.
pub const MAX_SIGNATURES_BYTES: u64 = 4 * MIB;
/// Largest response of a token service, in bytes.
pub const MAX_TOKEN_BYTES: u64 = MIB;
/// The most bytes of an error response that are read.
pub const MAX_ERROR_BODY_BYTES: u64 = 64 * KIB;
/// The most bytes of a registry's error text that are shown.
pub const MAX_ERROR_TEXT_BYTES: usize = 512;
/// The most characters of a name from an image that are shown.
pub const MAX_SHOWN_NAME: usize = 256;
/// Most redirects of one request.
pub const MAX_REDIRECTS: usize = 10;
/// Most symbolic links followed while one path is resolved.
pub const MAX_LINK_HOPS: usize = 40;
/// Largest window a zstd frame may have, as a power of two: 128 MiB.
pub const MAX_ZSTD_WINDOW_LOG: u32 = 27;
/// Bytes kept in memory before they move to a temporary file.
pub const SPOOL_MEMORY_BYTES: usize = 8 << 20;
/// Layers of an image downloaded at the same time.
pub const PARALLEL_DOWNLOADS: usize = 4;
/// Images that one puller unpacks at the same time, whatever registries they are from: each may
/// take a window of 128 MiB and [`SPOOL_MEMORY_BYTES`].
pub const PARALLEL_UNPACKS: usize = 2;
/// Most bytes of all layers of a bundle image, compressed: 256 MiB.
pub const MAX_BUNDLE_LAYER_BYTES: u64 = 256 * MIB;
/// Most bytes of the files kept of a bundle image: 32 MiB. Manifests may have half of that.
pub const MAX_BUNDLE_BYTES: u64 = 32 * MIB;

/// Longest that a pull waits until others have unpacked.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_hours(2);
/// Longest time without a byte from a registry.
pub const IDLE_TIMEOUT: Duration = Duration::from_mins(1);
/// Longest time to connect to a registry.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Limits of one pull. [`Limits::catalog`] and [`Limits::bundle`] are the defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Most layers of an image.
    pub layers: usize,
    /// Most compressed bytes of one layer.
    pub compressed_layer: u64,
    /// Most compressed bytes of all layers.
    pub compressed_image: u64,
    /// Most decompressed bytes of one layer.
    pub layer: u64,
    /// Most decompressed bytes of all layers.
    pub image: u64,
    /// Most decompressed bytes per compressed byte, once `ratio_free` bytes were produced.
    pub ratio: u64,
    /// Decompressed bytes of a layer before `ratio` is checked.
    pub ratio_free: u64,
    /// Most tar entries of an image.
    pub entries: u64,
    /// Most components of a path.
    pub path_depth: usize,
    /// Most bytes of a path, and of the target of a link.
    pub path_bytes: usize,
    /// Most bytes of all paths and link targets held at once, so that names cannot fill the memory.
    pub names: usize,
    /// Most steps of following links and of applying whiteouts: visited components of paths, and entries
    /// that a whiteout may concern.
    pub steps: u64,
    /// Most bytes of one kept file.
    pub file: u64,
    /// Most bytes written for kept files, overwritten ones included.
    pub kept: u64,
    /// Most files kept, overwritten ones included.
    pub kept_files: u64,
    /// Longest time of a whole pull.
    pub pull: Duration,
}

impl Limits {
    pub fn catalog() -> Self {
        Self {
            layers: 256,
            compressed_layer: 2 * GIB,
            compressed_image: 8 * GIB,
            layer: 8 * GIB,
            image: 16 * GIB,
            ratio: 1000,
            ratio_free: 64 * MIB,
            entries: 500_000,
            path_depth: 64,
            path_bytes: 4096,
            names: 64 << 20,
            steps: 50_000_000,
            file: 512 * MIB,
            kept: MAX_CATALOG_BYTES,
            kept_files: 100_000,
            pull: Duration::from_mins(10),
        }
    }

    /// Returns the limits for bundle images, whose content ends up in memory and in Secrets.
    pub fn bundle() -> Self {
        Self {
            compressed_layer: MAX_BUNDLE_LAYER_BYTES,
            compressed_image: MAX_BUNDLE_LAYER_BYTES,
            kept: MAX_BUNDLE_BYTES,
            kept_files: 10_000,
            ..Self::catalog()
        }
    }
}
