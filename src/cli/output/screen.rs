//! The one place where text meets the terminal.
//!
//! In: what commands print, with texts of others in it: conditions, answers of webhooks, messages of
//! probes, Events, catalogs. Out: the same with its control characters escaped, so that none of them
//! moves the cursor, sets a title or types an answer. Line breaks and tabs stay. Documents for
//! programs go out as they are: YAML has no control characters, and in JSON the escape is the same
//! character.

use std::fmt::Write as _;
use std::io::{self, Write};

/// A stream that people may look at; each write is whole characters, as those of `fmt` and `serde_json`
/// are.
#[derive(Debug)]
pub(crate) struct Screen<W>(pub(crate) W);

impl<W: Write> Write for Screen<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(escaped(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Returns a text with its control characters as JSON escapes them.
pub(super) fn escaped(text: &str) -> String {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::output::{write_json, write_yaml};

    /// All characters that a terminal may take for a command, and some beside them.
    fn hostile() -> String {
        let controls = ('\0'..='\u{20}').chain('\u{7e}'..='\u{a1}');
        controls.chain("\u{1b}[31m\u{9b}2J\u{1b}]0;owned\u{7}é\u{20ac}\u{1f600}".chars()).collect()
    }

    fn screened(bytes: &[u8]) -> String {
        let mut screen = Screen(Vec::new());
        screen.write_all(bytes).unwrap();
        String::from_utf8(screen.0).unwrap()
    }

    // plugin.md U12
    #[test]
    fn no_control_character_reaches_a_terminal() {
        let text = screened(hostile().as_bytes());
        assert!(text.chars().all(|it| !it.is_control() || matches!(it, '\n' | '\t')), "{text:?}");
        assert!(text.contains("\\u001b[31m\\u009b2J\\u001b]0;owned\\u0007é\u{20ac}"), "{text}");
        // Nor does a byte that belongs to no character.
        assert_eq!(screened(b"a\x9b2J"), "a\u{fffd}2J");
    }

    #[test]
    fn documents_for_programs_are_the_same_on_a_terminal() {
        let document = json!({"message": hostile(), "lines": "a\nb\u{1b}[31m\n", "plain": "é"});
        let mut json = Vec::new();
        write_json(&mut json, &document).unwrap();
        let read: Value = serde_json::from_str(&screened(&json)).unwrap();
        assert_eq!(read, document);
        let mut yaml = Vec::new();
        write_yaml(&mut yaml, &document).unwrap();
        assert_eq!(screened(&yaml).as_bytes(), yaml);
    }
}
