//! Texts of a length and a number that fit a condition, whatever a catalog names.

use std::fmt;

use crate::error::plain;

/// Items that a text names.
const MAX_NAMED: usize = 5;
/// Longest item, in characters.
const MAX_CHARS: usize = 300;

/// The first of many, and how many there are besides.
pub(super) struct Named<'a>(pub(super) &'a [String]);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = &self.0[..self.0.len().min(MAX_NAMED)];
        f.write_str(&named.join(", "))?;
        match self.0.len() - named.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Returns a text on one line, cut where it is too long.
pub(super) fn short(text: &str) -> String {
    let text = plain(text);
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
