//! All output of the program: formats, tables, notices, exit codes.

mod ask;
mod failure;
mod fold;
mod format;
mod key_values;
mod progress;
mod screen;
mod table;
mod written;

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

pub(crate) use ask::{Declined, agreed};
pub(crate) use failure::{Failure, one_line};
pub(crate) use fold::folded;
pub(crate) use format::{Format, drawn, formats, objects, written};
pub(crate) use key_values::KeyValues;
pub(crate) use progress::{during, during_blocking};
pub(crate) use screen::Screen;
pub(crate) use table::{Table, cell};
pub(crate) use written::Written;

/// The outcome of a command, by its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Outcome {
    Done = 0,
    /// The answer is no, or the request failed.
    Failed = 1,
    Usage = 2,
    /// The answer is not known.
    Unknown = 3,
    /// The time to wait was over.
    TimedOut = 4,
}

impl Outcome {
    /// Returns the outcome: no, or else unknown, or else yes.
    pub(crate) fn of(is_no: bool, is_unknown: bool) -> Self {
        match (is_no, is_unknown) {
            (true, _) => Self::Failed,
            (false, true) => Self::Unknown,
            (false, false) => Self::Done,
        }
    }
}

pub(crate) type Ended = anyhow::Result<Outcome>;

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(outcome as u8)
    }
}

/// Wrong usage that clap cannot detect; the exit code is 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// Ends a verb for wrong usage.
pub(crate) fn usage<T>(text: impl Into<String>) -> anyhow::Result<T> {
    Err(UsageError(text.into()).into())
}

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
    let _ = writeln!(io::stderr().lock(), "{}", screen::escaped(line));
}

/// Returns how many there are: `1 object`, `2 objects`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{s}")
}

/// Returns how long ago something was, as kubectl prints ages: in its largest unit.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Returns whether a failure is a write to a closed pipe.
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

pub(crate) fn write_yaml(out: &mut dyn Write, value: &Value) -> anyhow::Result<()> {
    Ok(out.write_all(olm_core::yaml::to_yaml(value).as_bytes())?)
}
