//! Response bodies: pieces of stored content, read as the client takes them.
//!
//! At most one chunk per response is in memory. Reading and compressing happen on the threads for
//! blocking work, so that one large answer does not slow another.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::ops::Range;
use std::sync::Arc;

use axum::body::Body;
use futures::stream::try_unfold;

use crate::catalog::store::{Content, Encoding};

/// Bytes read at once.
const CHUNK_BYTES: u64 = 256 * 1024;
/// Level of compression made while answering: cheap.
const ZSTD_LEVEL: i32 = 1;

/// A piece of a body: bytes of the content in one of its stored forms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) encoding: Encoding,
    pub(super) offset: u64,
    pub(super) len: u64,
}

impl Part {
    /// Returns a piece of the content as it is.
    pub(super) fn of(range: &Range<u64>) -> Self {
        Self { encoding: Encoding::Identity, offset: range.start, len: range.end - range.start }
    }
}

/// Returns a body of the given pieces, one after the other.
pub(super) fn stream(content: Arc<Content>, parts: Vec<Part>) -> Body {
    let state = (content, VecDeque::from(parts));
    Body::from_stream(try_unfold(state, |(content, mut parts)| async move {
        let Some(part) = next(&mut parts) else { return Ok(None) };
        let read_from = Arc::clone(&content);
        let chunk = blocking(move || read(&read_from, part)).await?;
        Ok::<_, io::Error>(Some((chunk, (content, parts))))
    }))
}

/// Returns a body of the given pieces, compressed on the way.
pub(super) fn compressed(content: Arc<Content>, parts: Vec<Part>, encoding: Encoding) -> Body {
    let encoder = match Encoder::new(encoding) {
        Ok(encoder) => encoder,
        Err(error) => return Body::from_stream(futures::stream::iter([Err::<Vec<u8>, _>(error)])),
    };
    let state = (content, VecDeque::from(parts), Some(encoder));
    Body::from_stream(try_unfold(state, |(content, mut parts, encoder)| async move {
        let Some(mut encoder) = encoder else { return Ok::<_, io::Error>(None) };
        let (chunk, parts, encoder) = blocking({
            let content = Arc::clone(&content);
            move || loop {
                let Some(part) = next(&mut parts) else {
                    return Ok((encoder.finish()?, parts, None));
                };
                encoder.write(&read(&content, part)?)?;
                let chunk = encoder.take();
                if !chunk.is_empty() {
                    return Ok((chunk, parts, Some(encoder)));
                }
            }
        })
        .await?;
        Ok(Some((chunk, (content, parts, encoder))))
    }))
}

/// Takes the next piece, at most one chunk of it; the rest stays in front.
fn next(parts: &mut VecDeque<Part>) -> Option<Part> {
    let part = parts.pop_front()?;
    let len = part.len.min(CHUNK_BYTES);
    if part.len > len {
        parts.push_front(Part { offset: part.offset + len, len: part.len - len, ..part });
    }
    Some(Part { len, ..part })
}

fn read(content: &Content, part: Part) -> io::Result<Vec<u8>> {
    let len = usize::try_from(part.len).map_err(|_| io::ErrorKind::FileTooLarge)?;
    content.read(part.encoding, part.offset, len)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// A compressor that hands out what it has made so far.
enum Encoder {
    Gzip(flate2::write::GzEncoder<Vec<u8>>),
    Zstd(zstd::Encoder<'static, Vec<u8>>),
}

impl Encoder {
    fn new(encoding: Encoding) -> io::Result<Self> {
        Ok(match encoding {
            Encoding::Zstd => Self::Zstd(zstd::Encoder::new(Vec::new(), ZSTD_LEVEL)?),
            Encoding::Gzip | Encoding::Identity => {
                Self::Gzip(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()))
            }
        })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Gzip(encoder) => encoder.write_all(bytes),
            Self::Zstd(encoder) => encoder.write_all(bytes),
        }
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(match self {
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
        })
    }

    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}
