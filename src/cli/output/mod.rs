//! All output of the program: formats, tables, notices, exit codes.

mod ask;
mod escape;
mod failure;
mod fold;
mod format;
mod key_values;
mod progress;
mod screen;
mod styles;
mod table;
mod written;

use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde::Serialize;
use serde_json::Value;

pub(crate) use ask::agreed;
pub(crate) use failure::{Failure, one_line};
pub(crate) use fold::folded;
pub(crate) use format::{Format, formats, objects, written};
pub(crate) use key_values::KeyValues;
pub(crate) use progress::{during, during_blocking};
pub(crate) use screen::Screen;
pub(crate) use styles::{Paint, Painted, Styles};
pub(crate) use table::Table;
pub(crate) use written::Written;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It succeeded: exit code 0.
    Done,
    /// The answer is no, or the request failed: exit code 1.
    Failed,
    /// Wrong usage: exit code 2.
    Usage,
    /// The answer is not known: exit code 3.
    Unknown,
    /// The time to wait was over: exit code 4.
    TimedOut,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::SUCCESS,
            Outcome::Failed => Self::from(1),
            Outcome::Usage => Self::from(2),
            Outcome::Unknown => Self::from(3),
            Outcome::TimedOut => Self::from(4),
        }
    }
}

/// Wrong usage that clap cannot detect; the exit code is 2.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// A failure that knows its way out.
#[derive(Debug)]
pub(crate) struct Hinted {
    pub(crate) text: String,
    pub(crate) hint: Option<String>,
    pub(crate) outcome: Outcome,
}

impl Hinted {
    /// Returns the error that the answer is no.
    pub(crate) fn failed(text: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
        let (text, hint) = (text.into(), Some(hint.into()));
        Self { text, hint, outcome: Outcome::Failed }.into()
    }

    /// Returns the error that the answer is not known.
    pub(crate) fn unknown(text: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
        let (text, hint) = (text.into(), Some(hint.into()));
        Self { text, hint, outcome: Outcome::Unknown }.into()
    }
}

impl fmt::Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Hinted {}

static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on nothing but errors is said.
pub(crate) fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

static COLUMNS: AtomicUsize = AtomicUsize::new(0);

/// From now on tables and text are not wider than the terminal, if there is one.
pub(crate) fn fit() {
    let size = io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
    COLUMNS.store(size.map_or(0, |(width, _)| width.0.into()), Ordering::Relaxed);
}

fn columns() -> Option<usize> {
    Some(COLUMNS.load(Ordering::Relaxed)).filter(|columns| *columns > 0)
}

/// Writes one line to stderr; a closed stream is not a failure.
pub(crate) fn notice(line: &str) {
    if is_quiet() && !line.starts_with("error: ") {
        return;
    }
    let _ = writeln!(io::stderr().lock(), "{}", escape::escaped(line));
}

/// Says whether a failure is a write to a closed pipe.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|layer| {
        let io = layer.downcast_ref::<io::Error>().map(io::Error::kind);
        let json =
            layer.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        io.or(json) == Some(io::ErrorKind::BrokenPipe)
    })
}

/// Writes a value as one indented JSON document.
pub(crate) fn write_json(out: &mut dyn Write, value: &impl Serialize) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)?;
    Ok(())
}

/// Writes a value as one line of JSON.
pub(crate) fn write_json_line(out: &mut dyn Write, value: &Value) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)?;
    Ok(())
}

/// Writes a value as one YAML document.
pub(crate) fn write_yaml(out: &mut dyn Write, value: &Value) -> anyhow::Result<()> {
    let text = olm_core::yaml::to_yaml(value);
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        writeln!(out)?;
    }
    Ok(())
}
