//! `kubectl olm resolve`: which bundle a ClusterExtension would get.

use std::io::Write;

use clap::Args;

use crate::output::{Format, Outcome};

/// Flags of `resolve`.
#[derive(Debug, Args)]
pub(crate) struct ResolveArgs {
    /// Name of the package
    #[arg(long)]
    package: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Answers one request.
pub(crate) async fn run(_args: ResolveArgs, _out: &mut dyn Write) -> anyhow::Result<Outcome> {
    anyhow::bail!("not built yet")
}
