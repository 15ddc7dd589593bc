//! `kubectl olm range`: which versions are inside a version range.

use std::io::Write;

use clap::Args;

use crate::output::{Format, Outcome};

/// Flags of `range`.
#[derive(Debug, Args)]
pub(crate) struct RangeArgs {
    /// The version range
    range: Option<String>,
    /// Versions to look at
    versions: Vec<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Answers for one range.
pub(crate) fn run(_args: &RangeArgs, _out: &mut dyn Write) -> anyhow::Result<Outcome> {
    anyhow::bail!("not built yet")
}
