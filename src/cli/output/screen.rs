//! The one place where text meets the terminal.
//!
//! In: what commands print, with texts of others in it: conditions, answers of webhooks, messages of
//! probes, Events, catalogs. Out: the same with its control characters escaped, so that none of them
//! moves the cursor, sets a title or types an answer. Line breaks and tabs stay. Documents for
//! programs go out as they are: YAML has no control characters, and in JSON the escape is the same
//! character.

use std::io::{self, Write};

/// The first byte of U+0080 to U+00BF, of which those up to U+009F are control characters.
const LEAD: u8 = 0xc2;

/// A stream that people may look at.
#[derive(Debug)]
pub(crate) struct Screen<W> {
    stream: W,
    /// Whether the last byte was [`LEAD`].
    led: bool,
}

impl<W: Write> Screen<W> {
    /// Lets what is written to a stream pass without control characters.
    pub(crate) fn new(stream: W) -> Self {
        Self { stream, led: false }
    }

    fn pass(&mut self, byte: u8, clean: &mut Vec<u8>) {
        let led = std::mem::take(&mut self.led);
        let is_control = match byte {
            0x80..=0x9f => led,
            b'\n' | b'\t' => false,
            _ => byte.is_ascii_control(),
        };
        if led && !is_control {
            clean.push(LEAD);
        }
        match byte {
            LEAD => self.led = true,
            _ if is_control => clean.extend(format!("\\u{byte:04x}").into_bytes()),
            _ => clean.push(byte),
        }
    }
}

impl<W: Write> Write for Screen<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut clean = Vec::with_capacity(bytes.len());
        for byte in bytes {
            self.pass(*byte, &mut clean);
        }
        self.stream.write_all(&clean)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::escape::escaped;
    use super::*;
    use crate::output::{write_json, write_yaml};

    /// All characters that a terminal may take for a command, and some beside them.
    fn hostile() -> String {
        let controls = ('\0'..='\u{20}').chain('\u{7e}'..='\u{a1}');
        controls.chain("\u{1b}[31m\u{9b}2J\u{1b}]0;owned\u{7}é\u{20ac}\u{1f600}".chars()).collect()
    }

    fn screened(bytes: &[u8], at_once: usize) -> String {
        let mut screen = Screen::new(Vec::new());
        for part in bytes.chunks(at_once) {
            screen.write_all(part).unwrap();
        }
        screen.flush().unwrap();
        String::from_utf8(screen.stream).unwrap()
    }

    // plugin.md U12
    #[test]
    fn no_control_character_reaches_a_terminal() {
        let hostile = hostile();
        for at_once in [1, 2, 3, 1000] {
            let text = screened(hostile.as_bytes(), at_once);
            assert_eq!(text, escaped(&hostile));
            assert!(
                text.chars().all(|it| !it.is_control() || matches!(it, '\n' | '\t')),
                "{text:?}"
            );
            assert!(text.contains("\\u001b[31m\\u009b2J\\u001b]0;owned\\u0007é\u{20ac}"), "{text}");
        }
    }

    #[test]
    fn documents_for_programs_are_the_same_on_a_terminal() {
        let document = json!({"message": hostile(), "lines": "a\nb\u{1b}[31m\n", "plain": "é"});
        let mut json = Vec::new();
        write_json(&mut json, &document).unwrap();
        let read: Value = serde_json::from_str(&screened(&json, 7)).unwrap();
        assert_eq!(read, document);
        let mut yaml = Vec::new();
        write_yaml(&mut yaml, &document).unwrap();
        assert_eq!(screened(&yaml, 7).as_bytes(), yaml);
    }
}
