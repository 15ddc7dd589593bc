//! One file per subcommand: its arguments, and a `run` that prints in one place.
//!
//! A new command needs a variant of [`Command`] and a line in [`run`].

pub(crate) mod completion;
pub(crate) mod doctor;
pub(crate) mod graph;
pub(crate) mod lint_bundle;
pub(crate) mod range;
pub(crate) mod rbac;
pub(crate) mod render;
pub(crate) mod resolve;
pub(crate) mod show;
pub(crate) mod updates;
pub(crate) mod version;
pub(crate) mod why;

use std::io::Write;

use crate::args::{Cli, Command};
use crate::output::Outcome;

/// Runs one command; data goes to `out`.
pub(crate) async fn run(cli: Cli, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    match cli.command {
        Command::Resolve(args) => resolve::run(args, out).await,
        Command::Why(args) => why::run(*args, &cli.global, out).await,
        Command::Graph(args) => graph::run(args, &cli.global, out).await,
        Command::Range(args) => range::run(args, out).await,
        Command::Show(args) => show::run(args, &cli.global, out).await,
        Command::LintBundle(args) => lint_bundle::run(args, out).await,
        Command::Render(args) => render::run(args, &cli.global, out).await,
        Command::Rbac(args) => rbac::run(args, &cli.global, out).await,
        Command::Updates(args) => updates::run(args, &cli.global, out).await,
        Command::Doctor(args) => doctor::run(args, &cli.global, out).await,
        Command::Completion(args) => completion::run(&args, out),
        Command::Version(args) => version::run(&args, out),
        Command::Complete(args) => completion::complete(&args, out),
    }
}
