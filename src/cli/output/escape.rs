//! Control characters as JSON escapes them.

use std::fmt::Write as _;

/// Returns a text with its control characters as JSON escapes them.
pub(crate) fn escaped(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() && !matches!(character, '\n' | '\t') {
            // Writing to a String cannot fail.
            let _ = write!(clean, "\\u{:04x}", u32::from(character));
        } else {
            clean.push(character);
        }
    }
    clean
}
