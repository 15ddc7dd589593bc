//! Formats text from a network or an archive: printable, short, in quotes.

use olm_core::error::{printable, quote};

use crate::limits::{MAX_ERROR_TEXT_BYTES, MAX_SHOWN_NAME};

/// Quotes a name; characters that are not printable are replaced, long names cut (catalogs.md 8.2).
pub(crate) fn shown(name: &str) -> String {
    let mut text: String = name.chars().take(MAX_SHOWN_NAME).map(printable).collect();
    if name.chars().nth(MAX_SHOWN_NAME).is_some() {
        text.push_str("...");
    }
    quote(&text)
}

/// Returns at most 512 bytes of a registry's text, on one line (catalogs.md 5.3).
pub(crate) fn said(text: &str) -> String {
    let mut said = String::new();
    for character in text.trim().chars().map(printable) {
        if said.len() + character.len_utf8() > MAX_ERROR_TEXT_BYTES {
            break;
        }
        said.push(character);
    }
    said
}
