//! `kubectl olm version`: which build this is.

use std::io::Write;

use clap::Args;
use olm_core::about::Build;

use crate::output::{self, Format, Outcome, formats};

const BUILD: Build = Build {
    version: concat!("v", env!("CARGO_PKG_VERSION")),
    commit: option_env!("OLM_COMMIT"),
    date: option_env!("OLM_DATE"),
    state: option_env!("OLM_STATE"),
    rustc: env!("OLM_RUSTC"),
    target: env!("OLM_TARGET"),
};

/// Flags of `version`.
#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// Output format
    #[arg(short, long, value_parser = formats(&[]), default_value_t)]
    output: Format,
}

/// Prints the version.
pub(crate) fn run(args: &VersionArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    match args.output {
        Format::Json => output::write_json(out, &BUILD.to_json())?,
        Format::Yaml => output::write_yaml(out, &BUILD.to_json())?,
        _ => writeln!(out, "{BUILD}")?,
    }
    Ok(Outcome::Done)
}
