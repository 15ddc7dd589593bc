//! Makes responses of the API server readable that it should not have had to store.
//!
//! An entry of `managedFields` may have any time that RFC 3339 can express. Times in the last hours of
//! the year 9999 do not fit into a `jiff` timestamp, so that one object with such an entry would make
//! every list and watch with it unreadable, for all tenants. No decision depends on these times, so
//! they are moved to the year before. Whoever writes objects back as they were read does not use this.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::Response;
use http_body::{Body, Frame};
use memchr::memmem;

/// How the time of an entry of `managedFields` begins.
const TIME: &[u8] = br#""time":"9999-12-3"#;
/// What follows it: in the order of the type, or sorted by name, as in custom resources.
const AFTER: [&[u8]; 2] = [br#"","fieldsType""#, br#""}"#];
/// The rest of a time: `1T23:59:59Z`.
const REST: usize = 11;
/// The last digit of the year.
const YEAR: usize = TIME.len() - 6;

/// The body of a response whose times can be read.
#[derive(Debug)]
pub struct Readable<B> {
    body: Pin<Box<B>>,
    /// The beginning of an entry that is not complete.
    kept: BytesMut,
}

/// Makes the times of a response readable.
pub fn readable<B>(answer: Response<B>) -> Response<Readable<B>> {
    answer.map(|body| Readable { body: Box::pin(body), kept: BytesMut::new() })
}

impl<B> Readable<B> {
    /// Takes the next bytes, and returns all but the beginning of an incomplete time.
    fn pass(&mut self, next: Bytes) -> Bytes {
        let is_usual = self.kept.is_empty() && memmem::find(&next, TIME).is_none();
        if is_usual && begun(&next) == 0 {
            return next;
        }
        let mut bytes = std::mem::take(&mut self.kept);
        bytes.extend_from_slice(&next);
        let mut from = 0;
        while let Some(found) = memmem::find(&bytes[from..], TIME) {
            let begin = from + found;
            from = begin + TIME.len();
            let (rest, after) =
                bytes[from..].split_at_checked(REST).unwrap_or((&bytes[from..], b""));
            if rest.contains(&b'"') {
                continue;
            }
            if AFTER.iter().any(|end| after.starts_with(end)) {
                bytes[begin + YEAR] = b'8';
            } else if AFTER.iter().any(|end| end.starts_with(after)) {
                self.kept = bytes.split_off(begin);
                return bytes.freeze();
            }
        }
        self.kept = bytes.split_off(bytes.len() - begun(&bytes));
        bytes.freeze()
    }
}

/// Returns how many bytes at the end may be the beginning of a time.
fn begun(bytes: &[u8]) -> usize {
    (1..TIME.len()).rev().find(|length| bytes.ends_with(&TIME[..*length])).unwrap_or(0)
}

impl<B: Body<Data = Bytes>> Body for Readable<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        loop {
            let frame = match ready!(self.body.as_mut().poll_frame(context)) {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None if self.kept.is_empty() => return Poll::Ready(None),
                None => {
                    let rest = std::mem::take(&mut self.kept).freeze();
                    return Poll::Ready(Some(Ok(Frame::data(rest))));
                }
            };
            // The API server sends no trailers that are used.
            let Ok(data) = frame.into_data() else { continue };
            let complete = self.pass(data);
            if !complete.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(complete))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(parts: &[&[u8]]) -> String {
        let mut body = Readable { body: Box::pin(()), kept: BytesMut::new() };
        let mut all = Vec::new();
        for part in parts {
            all.extend_from_slice(&body.pass(Bytes::copy_from_slice(part)));
        }
        all.extend_from_slice(&body.kept);
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn a_time_that_nothing_can_hold_becomes_one_that_can() {
        let entry = |year: &str| {
            let time = format!(r#""time":"{year}-12-31T23:59:59Z""#);
            format!(
                r#"[{{{time},"fieldsType":"FieldsV1"}},{{"operation":"Update",{time}}}],{{"time":"9999-12-31T23:59:59Z","x":1}}"#
            )
        };
        let (sent, want) = (entry("9999"), entry("9998"));
        for at in 0..sent.len() {
            let (first, second) = sent.as_bytes().split_at(at);
            assert_eq!(through(&[first, second]), want, "split at {at}");
        }
        let bytes: Vec<&[u8]> = sent.as_bytes().chunks(1).collect();
        assert_eq!(through(&bytes), want);
    }

    // An event of a watch is not kept back until the next one.
    #[test]
    fn what_is_whole_passes_at_once() {
        let mut body = Readable { body: Box::pin(()), kept: BytesMut::new() };
        let event = Bytes::from_static(b"{\"type\":\"BOOKMARK\"}\n");
        assert_eq!(body.pass(event.clone()), event);
        assert!(body.kept.is_empty());
    }
}
