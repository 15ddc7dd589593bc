//! `kubectl olm`: the command line over the same code the controller runs.
//!
//! Arguments come in, one command runs, data goes to stdout and everything else to stderr.
//! Nothing is decided here but the exit code.

mod args;
mod bundle_source;
mod catalogs;
mod cluster;
mod commands;
mod describe;
mod environment;
mod output;
mod requests;

use std::io::{self, BufWriter, Write as _};
use std::process::ExitCode;

use clap::Parser as _;

use crate::args::Cli;
use crate::output::{Outcome, UsageError};

fn main() -> ExitCode {
    // Being second is as good as being first: some provider is installed either way.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A closed stream leaves nobody to tell.
            let _ = error.print();
            // Help and version are answers; everything else clap reports is wrong usage.
            let outcome = if error.use_stderr() {
                Outcome::Usage
            } else {
                Outcome::Done
            };
            return outcome.into();
        }
    };
    finish(execute(cli)).into()
}

/// Runs the command to its end on a runtime of its own.
fn execute(cli: Cli) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let mut out = BufWriter::new(io::stdout().lock());
    let outcome = runtime.block_on(commands::run(cli, &mut out))?;
    out.flush()?;
    Ok(outcome)
}

/// Tells stderr about a failure and says how the program ends.
fn finish(result: anyhow::Result<Outcome>) -> Outcome {
    let error = match result {
        Ok(outcome) => return outcome,
        Err(error) => error,
    };
    if output::is_broken_pipe(&error) {
        return Outcome::Done;
    }
    output::notice(&format!("error: {error:#}"));
    if error.is::<UsageError>() {
        Outcome::Usage
    } else {
        Outcome::Failed
    }
}
