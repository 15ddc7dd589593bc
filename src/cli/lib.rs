//! `kubectl olm`: a command line for the code that the controller runs.
//!
//! Arguments come in, one command runs, data goes to stdout and everything else to stderr. Only the
//! exit code is decided here.

mod bundle_source;
mod catalogs;
mod changes;
mod cluster;
mod commands;
mod connection;
mod describe;
mod document;
mod environment;
#[cfg(test)]
mod fixture;
mod graph;
mod limit;
mod managed;
mod offers;
mod output;
mod prelude;
mod private;
mod puller;
mod requests;
mod settings;
mod target;
mod verb;
mod waiting;
mod web;
mod workloads;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::error::ErrorKind;

pub use crate::commands::documents::schemas;
pub use crate::commands::{GROUPS, grouped as command};

use crate::commands::Cli;
use crate::output::{Declined, Failure, Outcome, Screen};

pub fn main() -> ExitCode {
    // This fails if a provider is installed already, which is fine.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let cli = match commands::parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A name alone asks for its help; everything else that goes to stderr is wrong usage.
            let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
            // If the stream is closed, the message cannot be shown anywhere.
            let _ = if is_help {
                write!(anstream::stdout(), "{}", error.render().ansi())
            } else {
                error.print()
            };
            let is_usage = error.use_stderr() && !is_help;
            return if is_usage { Outcome::Usage } else { Outcome::Done }.into();
        }
    };
    limit::set(cli.global.request_timeout);
    if cli.global.quiet {
        output::be_quiet();
    }
    if let Some(file) = &cli.global.auth_file {
        olm_image::auth_file::name(file.clone());
    }
    finish(execute(cli)).into()
}

/// Runs the command to its end on its own runtime.
fn execute(cli: Cli) -> anyhow::Result<Outcome> {
    output::fit();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // Line by line, so that a question stands below what it is about.
    let mut out = Screen(io::stdout().lock());
    let outcome = runtime.block_on(commands::run(cli, &mut out))?;
    match out.flush() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(outcome),
    }
}

/// Prints a failure to stderr and returns the outcome of the program.
fn finish(result: anyhow::Result<Outcome>) -> Outcome {
    let error = match result {
        Ok(outcome) => return outcome,
        Err(error) => error,
    };
    if output::is_broken_pipe(&error) {
        return Outcome::Done;
    }
    if error.is::<Declined>() {
        output::notice(&error.to_string());
        return Outcome::Failed;
    }
    let failure = Failure::of(&error);
    // Texts of upstream about catalogs begin so already.
    let text = failure.text.strip_prefix("error: ").unwrap_or(&failure.text);
    output::notice(&format!("error: {text}"));
    if let Some(hint) = failure.hint {
        output::notice(&format!("hint: {hint}"));
    }
    failure.outcome
}
