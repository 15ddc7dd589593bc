//! Texts of a length and a number that fit a condition, whatever a catalog names.

use crate::error::{first_of, plain};

/// Items that a text names.
const MAX_NAMED: usize = 5;
/// Longest item, in characters.
const MAX_CHARS: usize = 300;

/// Returns the first of many, and how many there are besides.
pub(super) fn named(all: &[String]) -> String {
    first_of(all, MAX_NAMED)
}

/// Returns a text on one line, cut where it is too long.
pub(super) fn short(text: &str) -> String {
    let text = plain(text);
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
