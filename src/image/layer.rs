//! One layer as a stream of plain tar bytes, counted and hashed.
//!
//! In: the bytes of a layer blob, whatever their media type says. Out: a reader of the decompressed
//! bytes that stops at the limits. The compression is detected from the first bytes, as upstream
//! does; bzip2 and xz are refused. Decompression takes a processor of its own.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Scope;

use crate::digest::{Digest, Hasher};
use crate::limits::{Limits, MAX_ZSTD_WINDOW_LOG};

/// Bytes that are decompressed at once, and how often that is done before they are asked for.
const BLOCK_BYTES: usize = 128 << 10;
const BLOCKS_AHEAD: usize = 4;

/// Why reading a layer stopped; carried through `io::Error` by the readers in between.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayerError {
    #[error("layer compression {0} is not supported")]
    Compression(&'static str),
    /// The layer is larger than it may be when decompressed, or all together are.
    #[error("{0} when decompressed")]
    TooLarge(String),
    /// The caller stopped it, for example because the pull took too long.
    #[error("unpacking was stopped")]
    Stopped,
}

impl From<LayerError> for io::Error {
    fn from(err: LayerError) -> Self {
        Self::other(err)
    }
}

/// Reads the decompressed bytes of one layer.
pub(crate) struct LayerReader<'a> {
    inner: ReadAhead,
    compressed: Arc<AtomicU64>,
    hasher: Hasher,
    out: u64,
    /// Decompressed bytes of all previous layers.
    before: u64,
    limits: &'a Limits,
    /// Set when reading is to stop.
    stop: &'a AtomicBool,
}

impl<'a> LayerReader<'a> {
    /// Begins to decompress `blob` in `scope`.
    pub(crate) fn new<'scope>(
        scope: &'scope Scope<'scope, '_>,
        blob: &'scope File,
        hasher: Hasher,
        before: u64,
        limits: &'a Limits,
        stop: &'a AtomicBool,
    ) -> io::Result<Self> {
        let compressed = Arc::new(AtomicU64::new(0));
        let counted = Counted { inner: blob, count: Arc::clone(&compressed) };
        Ok(Self {
            inner: ReadAhead::new(scope, decompress(BufReader::with_capacity(64 << 10, counted))?),
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
        let too_large = |text| Err(LayerError::TooLarge(text));
        if self.out > limits.layer {
            return too_large(format!("layer is larger than {} bytes", limits.layer));
        }
        if self.before + self.out > limits.image {
            return too_large(format!("image is larger than {} bytes", limits.image));
        }
        let compressed = self.compressed.load(Ordering::Relaxed);
        if self.out > limits.ratio_free && self.out > compressed.saturating_mul(limits.ratio) {
            return too_large(format!("layer expands more than {} times", limits.ratio));
        }
        if self.stop.load(Ordering::Relaxed) {
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

/// Reads a stream on a thread of its own, some blocks ahead.
struct ReadAhead {
    blocks: Receiver<io::Result<Vec<u8>>>,
    block: Cursor<Vec<u8>>,
}

impl ReadAhead {
    fn new<'scope>(scope: &'scope Scope<'scope, '_>, mut inner: impl Read + Send + 'scope) -> Self {
        let (ahead, blocks) = sync_channel(BLOCKS_AHEAD);
        scope.spawn(move || {
            loop {
                let mut block = Vec::with_capacity(BLOCK_BYTES);
                let read = (&mut inner).take(BLOCK_BYTES as u64).read_to_end(&mut block);
                let is_last = block.len() < BLOCK_BYTES;
                // Nobody waits for it any more.
                if ahead.send(Ok(block)).is_err() {
                    return;
                }
                if let Err(error) = read {
                    let _ = ahead.send(Err(error));
                }
                if is_last {
                    return;
                }
            }
        });
        Self { blocks, block: Cursor::default() }
    }
}

impl Read for ReadAhead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.block.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            match self.blocks.recv() {
                Ok(block) => self.block = Cursor::new(block?),
                Err(_) => return Ok(0),
            }
        }
    }
}

struct Counted<'a> {
    inner: &'a File,
    count: Arc<AtomicU64>,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

fn decompress(mut blob: BufReader<Counted<'_>>) -> io::Result<Box<dyn Read + Send + '_>> {
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
