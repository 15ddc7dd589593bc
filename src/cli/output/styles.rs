//! Color, if the output is a terminal and it is not disabled.

use anstream::{AutoStream, ColorChoice, stream::RawStream};
use anstyle::{AnsiColor, Style};

/// Whether text is colored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Styles {
    on: bool,
}

impl Styles {
    /// Enables color for a terminal, unless `NO_COLOR` or `TERM` disables it.
    pub(crate) fn of(stream: &impl RawStream) -> Self {
        Self { on: AutoStream::choice(stream) != ColorChoice::Never }
    }

    /// Bold, for what should be found at a glance.
    pub(crate) fn strong(self, text: &str) -> String {
        self.with(Style::new().bold(), text)
    }

    /// Green, for something good.
    pub(crate) fn good(self, text: &str) -> String {
        self.with(AnsiColor::Green.on_default(), text)
    }

    /// Red, for something wrong.
    pub(crate) fn bad(self, text: &str) -> String {
        self.with(AnsiColor::Red.on_default(), text)
    }

    /// Dimmed, for something that matters less.
    pub(crate) fn faint(self, text: &str) -> String {
        self.with(Style::new().dimmed(), text)
    }

    fn with(self, style: Style, text: &str) -> String {
        if self.on { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}
