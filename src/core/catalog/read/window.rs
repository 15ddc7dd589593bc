//! The text of a file, as much of it as one document needs.

use std::io::Read;
use std::mem;

use super::{MAX_FILE_BYTES, Reason};

/// Bytes read at once; more, while a document goes on behind them.
pub(super) const STEP_BYTES: usize = 1 << 18;

/// Text of a file from where it is read on. Bytes that are not UTF-8 become U+FFFD.
#[derive(Debug)]
pub(super) struct Window<R> {
    file: R,
    text: String,
    /// Bytes of the text that are done with.
    done: usize,
    /// Bytes of a character whose end was not read yet.
    cut: Vec<u8>,
    /// Bytes of the file read so far.
    read: usize,
    at_end: bool,
}

impl<R: Read> Window<R> {
    /// Opens a window on the beginning of a file, behind a byte order mark.
    pub(super) fn open(file: R) -> Result<Self, Reason> {
        let mut window =
            Self { file, text: String::new(), done: 0, cut: Vec::new(), read: 0, at_end: false };
        window.grow()?;
        if window.text.starts_with('\u{feff}') {
            window.pass('\u{feff}'.len_utf8());
        }
        Ok(window)
    }

    /// Returns the text that was read and not passed.
    pub(super) fn text(&self) -> &str {
        &self.text[self.done..]
    }

    /// Says whether the text goes to the end of the file.
    pub(super) fn is_last(&self) -> bool {
        self.at_end
    }

    /// Leaves so many bytes of the text behind.
    pub(super) fn pass(&mut self, bytes: usize) {
        self.done += bytes;
    }

    /// Reads on: as much again as there is, so that a large document is not looked at often. The text
    /// is read where it stays.
    pub(super) fn grow(&mut self) -> Result<(), Reason> {
        let mut bytes = mem::take(&mut self.text).into_bytes();
        bytes.drain(..mem::take(&mut self.done));
        let step = bytes.len().max(STEP_BYTES);
        bytes.append(&mut self.cut);
        let read = (&mut self.file).take(step as u64).read_to_end(&mut bytes)?;
        self.at_end = read < step;
        self.read += read;
        if self.read > MAX_FILE_BYTES {
            return Err(Reason::FileTooLarge);
        }
        if !self.at_end {
            self.cut = bytes.split_off(end_of_characters(&bytes));
        }
        self.text = String::from_utf8(bytes)
            .unwrap_or_else(|fault| String::from_utf8_lossy(fault.as_bytes()).into_owned());
        Ok(())
    }
}

/// Returns where the last character begins if its end is missing, else the end of the bytes.
fn end_of_characters(bytes: &[u8]) -> usize {
    // One that is cut has three bytes at most.
    let last = bytes.len().saturating_sub(3);
    let first = bytes[last..].iter().rposition(|byte| *byte >= 0xc0).map(|at| last + at);
    let is_cut =
        |at: &usize| str::from_utf8(&bytes[*at..]).is_err_and(|fault| fault.error_len().is_none());
    first.filter(is_cut).unwrap_or(bytes.len())
}
