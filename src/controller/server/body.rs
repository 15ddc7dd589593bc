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

use super::negotiate::Encoding;
use crate::catalog::store::Content;

/// Bytes read at once.
const CHUNK_BYTES: u64 = 256 * 1024;
/// Level of compression: cheap.
const ZSTD_LEVEL: i32 = 1;

/// Pieces of a content.
pub(super) type Parts = VecDeque<Range<u64>>;

/// Returns a body of the given pieces, one after the other.
pub(super) fn stream(content: Arc<Content>, parts: Parts) -> Body {
    let state = (content, parts);
    Body::from_stream(try_unfold(state, |(content, mut parts)| async move {
        let Some(part) = next(&mut parts) else { return Ok(None) };
        let read_from = Arc::clone(&content);
        let chunk = blocking(move || read(&read_from, part)).await?;
        Ok::<_, io::Error>(Some((chunk, (content, parts))))
    }))
}

/// Returns a body of the given pieces, compressed on the way.
pub(super) fn compressed(content: Arc<Content>, parts: Parts, encoding: Encoding) -> Body {
    let encoder = match Encoder::new(encoding) {
        Ok(encoder) => encoder,
        Err(error) => return Body::from_stream(futures::stream::iter([Err::<Vec<u8>, _>(error)])),
    };
    let state = (content, parts, Some(encoder));
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
fn next(parts: &mut Parts) -> Option<Range<u64>> {
    let Range { start, end } = parts.pop_front()?;
    let middle = end.min(start.saturating_add(CHUNK_BYTES));
    if middle < end {
        parts.push_front(middle..end);
    }
    Some(start..middle)
}

fn read(content: &Content, part: Range<u64>) -> io::Result<Vec<u8>> {
    let len = usize::try_from(part.end - part.start).map_err(|_| io::ErrorKind::FileTooLarge)?;
    content.read(part.start, len)
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
