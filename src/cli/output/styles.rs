//! Color, if the output is a terminal and it is not disabled.
//!
//! A painted line has marks around it, which the screen replaces. They are control characters, and
//! nobody else's reach it: until something is painted the screen knows no marks, and what is written
//! into painted text is escaped.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::{AutoStream, ColorChoice, stream::RawStream};
use anstyle::{AnsiColor, Reset, Style};

use super::escape::escaped;

/// The mark behind a painted line.
const END: char = '\u{5}';

static PAINTING: AtomicBool = AtomicBool::new(false);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Paint {
    /// Bold, for what should be found at a glance.
    Strong = 1,
    /// Green, for something good.
    Good,
    /// Red, for something wrong.
    Bad,
    /// Dimmed, for something that matters less.
    Faint,
}

impl Paint {
    const ALL: [Self; 4] = [Self::Strong, Self::Good, Self::Bad, Self::Faint];

    fn mark(self) -> char {
        char::from(self as u8)
    }

    fn style(self) -> Style {
        match self {
            Self::Strong => Style::new().bold(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Bad => AnsiColor::Red.on_default(),
            Self::Faint => Style::new().dimmed(),
        }
    }
}

/// Returns the escape sequence for a mark, if there is one.
pub(super) fn sequence(mark: u8) -> Option<String> {
    if !PAINTING.load(Ordering::Relaxed) {
        return None;
    }
    let mark = char::from(mark);
    if mark == END {
        return Some(Reset.to_string());
    }
    let paint = Paint::ALL.into_iter().find(|paint| paint.mark() == mark);
    paint.map(|paint| paint.style().to_string())
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Styles {
    on: bool,
}

impl Styles {
    /// Enables color for a terminal, unless `NO_COLOR` or `TERM` disables it.
    pub(crate) fn of(stream: &impl RawStream) -> Self {
        let on = AutoStream::choice(stream) != ColorChoice::Never;
        PAINTING.store(on, Ordering::Relaxed);
        Self { on }
    }
}

/// Text of which some lines stand out. What is written into it does not: it is escaped.
#[derive(Debug)]
pub(crate) struct Painted {
    text: String,
    styles: Styles,
}

impl fmt::Write for Painted {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text.push_str(&escaped(text));
        Ok(())
    }
}

impl Painted {
    /// Returns text without lines.
    pub(crate) fn new(styles: Styles) -> Self {
        Self { text: String::new(), styles }
    }

    /// Adds a line that stands out, or the rest of one.
    pub(crate) fn line(&mut self, paint: Paint, line: &str) {
        let line = escaped(line);
        let on = self.styles.on;
        let line = if on { format!("{}{line}{END}", paint.mark()) } else { line };
        self.text.push_str(&line);
        self.text.push('\n');
    }

    /// Returns the text for the screen.
    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    // plugin.md U12
    #[test]
    fn nothing_that_is_written_into_painted_text_is_painted() {
        let mut text = Painted::new(Styles { on: true });
        writeln!(text, "a\u{1}b\u{1b}[1m").unwrap();
        text.line(Paint::Bad, "c\u{5}d");
        assert_eq!(text.into_text(), "a\\u0001b\\u001b[1m\n\u{3}c\\u0005d\u{5}\n");
    }

    #[test]
    fn without_color_there_are_no_marks() {
        let mut text = Painted::new(Styles { on: false });
        text.line(Paint::Strong, "a");
        assert_eq!(text.into_text(), "a\n");
        assert_eq!(sequence(1), None);
    }
}
