//! Every bound on what an image may cost, in one place.
//!
//! Source: catalogs.md 5.8, 5.3, 8.3.

use std::time::Duration;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Largest manifest or image configuration, in bytes.
pub const MAX_MANIFEST_BYTES: u64 = 4 * MIB;
/// Largest answer of a token service, in bytes.
pub const MAX_TOKEN_BYTES: u64 = MIB;
/// How much of an error answer is read, in bytes.
pub const MAX_ERROR_BODY_BYTES: u64 = 64 * KIB;
/// How much of a registry's own words is shown, in bytes.
pub const MAX_ERROR_TEXT_BYTES: usize = 512;
/// How much of a name from an image is shown, in characters.
pub const MAX_SHOWN_NAME: usize = 256;
/// Most redirects of one request.
pub const MAX_REDIRECTS: usize = 10;
/// Most symbolic links followed while one path is resolved.
pub const MAX_LINK_HOPS: usize = 40;
/// Largest window a zstd frame may ask for, as a power of two: 128 MiB.
pub const MAX_ZSTD_WINDOW_LOG: u32 = 27;
/// Bytes kept in memory before they move to a temporary file.
pub const SPOOL_MEMORY_BYTES: usize = 8 << 20;
/// Layers downloaded at the same time.
pub const PARALLEL_DOWNLOADS: usize = 4;

/// Time without a byte from a registry.
pub const IDLE_TIMEOUT: Duration = Duration::from_mins(1);
/// Time to connect to a registry.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Bounds of one pull. [`Limits::catalog`] and [`Limits::bundle`] are the defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Layers of an image.
    pub layers: usize,
    /// Compressed bytes of one layer.
    pub compressed_layer: u64,
    /// Compressed bytes of all layers.
    pub compressed_image: u64,
    /// Decompressed bytes of one layer.
    pub layer: u64,
    /// Decompressed bytes of all layers.
    pub image: u64,
    /// Decompressed bytes for one compressed byte, once `ratio_free` bytes have come out.
    pub ratio: u64,
    /// Decompressed bytes of a layer before `ratio` counts.
    pub ratio_free: u64,
    /// Tar entries of an image.
    pub entries: u64,
    /// Components of a path.
    pub path_depth: usize,
    /// Bytes of a path, and of the target of a link.
    pub path_bytes: usize,
    /// Bytes of all paths and link targets held at once, so that names cannot fill the memory.
    pub names: usize,
    /// Bytes of one kept file.
    pub file: u64,
    /// Bytes written for kept files, overwritten ones included.
    pub kept: u64,
    /// Files kept, overwritten ones included.
    pub kept_files: u64,
    /// Time a whole pull may take.
    pub pull: Duration,
}

impl Limits {
    /// Returns the bounds for catalog images.
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
            file: 512 * MIB,
            kept: 2 * GIB,
            kept_files: 100_000,
            pull: Duration::from_mins(10),
        }
    }

    /// Returns the bounds for bundle images, whose content ends in memory and in Secrets.
    pub fn bundle() -> Self {
        Self {
            kept: 256 * MIB,
            kept_files: 10_000,
            ..Self::catalog()
        }
    }
}
