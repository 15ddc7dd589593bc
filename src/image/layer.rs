//! One layer as a stream of plain tar bytes, counted and hashed.
//!
//! In: the bytes of a layer blob, whatever their media type says. Out: a reader of the decompressed
//! bytes that stops at the limits. The compression is detected from the first bytes, as upstream
//! does; bzip2 and xz are refused.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::digest::{Digest, Hasher};
use crate::limits::{Limits, MAX_ZSTD_WINDOW_LOG};

/// Why reading a layer stopped; carried through `io::Error` by the readers in between.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayerError {
    /// A compression that is not supported.
    #[error("layer compression {0} is not supported")]
    Compression(&'static str),
    /// The decompressed layer is over its limit.
    #[error("layer is larger than {0} bytes when decompressed")]
    LayerBytes(u64),
    /// All decompressed layers together are over their limit.
    #[error("image is larger than {0} bytes when decompressed")]
    ImageBytes(u64),
    /// A compression ratio over the limit, as in a decompression bomb; holds the limit.
    #[error("layer expands more than {0} times when decompressed")]
    Ratio(u64),
    /// The caller stopped it, for example because the pull took too long.
    #[error("unpacking was stopped")]
    Stopped,
}

impl From<LayerError> for io::Error {
    fn from(err: LayerError) -> Self {
        Self::other(err)
    }
}

/// Asks a running unpack to stop at its next read.
#[derive(Debug, Clone, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Asks for the stop; it cannot be undone.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Reads the decompressed bytes of one layer.
pub(crate) struct LayerReader<'a> {
    inner: Box<dyn Read + 'a>,
    compressed: Arc<AtomicU64>,
    hasher: Hasher,
    out: u64,
    /// Decompressed bytes of all previous layers.
    before: u64,
    limits: &'a Limits,
    stop: StopFlag,
}

impl<'a> LayerReader<'a> {
    pub(crate) fn new(
        blob: Box<dyn Read + 'a>,
        hasher: Hasher,
        before: u64,
        limits: &'a Limits,
        stop: StopFlag,
    ) -> io::Result<Self> {
        let compressed = Arc::new(AtomicU64::new(0));
        let counted = Counted {
            inner: blob,
            count: Arc::clone(&compressed),
        };
        Ok(Self {
            inner: decompress(BufReader::with_capacity(64 << 10, counted))?,
            compressed,
            hasher,
            out: 0,
            before,
            limits,
            stop,
        })
    }

    /// Reads what the archive reader left unread, so that the digest covers all bytes, and returns
    /// the digest and the number of bytes.
    pub(crate) fn finish(mut self) -> io::Result<(Digest, u64)> {
        io::copy(&mut self, &mut io::sink())?;
        Ok((self.hasher.finish(), self.out))
    }

    fn check(&self) -> Result<(), LayerError> {
        let limits = self.limits;
        if self.out > limits.layer {
            return Err(LayerError::LayerBytes(limits.layer));
        }
        if self.before + self.out > limits.image {
            return Err(LayerError::ImageBytes(limits.image));
        }
        let compressed = self.compressed.load(Ordering::Relaxed);
        if self.out > limits.ratio_free && self.out > compressed.saturating_mul(limits.ratio) {
            return Err(LayerError::Ratio(limits.ratio));
        }
        if self.stop.is_set() {
            return Err(LayerError::Stopped);
        }
        Ok(())
    }
}

impl Read for LayerReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        self.out += read as u64;
        self.check()?;
        Ok(read)
    }
}

struct Counted<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

fn decompress<'a, R: Read + 'a>(mut blob: BufReader<R>) -> io::Result<Box<dyn Read + 'a>> {
    let magic = blob.fill_buf()?;
    if magic.starts_with(&[0x1f, 0x8b, 0x08]) {
        return Ok(Box::new(flate2::bufread::MultiGzDecoder::new(blob)));
    }
    // A stream may begin with a skippable frame, whose magic number has sixteen values.
    let skippable = matches!(magic, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]);
    if magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) || skippable {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(blob)?;
        decoder.window_log_max(MAX_ZSTD_WINDOW_LOG)?;
        return Ok(Box::new(decoder));
    }
    if magic.starts_with(b"BZh") {
        return Err(LayerError::Compression("bzip2").into());
    }
    if magic.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]) {
        return Err(LayerError::Compression("xz").into());
    }
    Ok(Box::new(blob))
}
