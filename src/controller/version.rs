//! `olm-controller version`.

use std::io::{self, Write as _};

use clap::{Args, ValueEnum};
use olm_core::about::Build;

/// This build of the controller.
pub const BUILD: Build = Build {
    version: concat!("v", env!("CARGO_PKG_VERSION")),
    commit: option_env!("OLM_COMMIT"),
    date: option_env!("OLM_DATE"),
    state: option_env!("OLM_STATE"),
    rustc: env!("OLM_RUSTC"),
    target: env!("OLM_TARGET"),
};

/// Flags of `version`.
#[derive(Debug, Clone, Args)]
pub struct VersionArgs {
    /// How it is printed
    #[arg(short, long, value_enum, default_value_t)]
    pub output: OutputFormat,
}

/// The format of the output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Lines
    #[default]
    Text,
    /// One JSON document
    Json,
}

/// Prints the version.
pub fn print(args: &VersionArgs) -> io::Result<()> {
    let text = match args.output {
        OutputFormat::Text => BUILD.to_string(),
        OutputFormat::Json => format!("{:#}", BUILD.to_json()),
    };
    say(&text)
}

/// Prints an answer and ends its line.
pub(crate) fn say(text: &str) -> io::Result<()> {
    match writeln!(io::stdout(), "{text}") {
        // A reader that goes away has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
