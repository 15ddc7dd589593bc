//! Entry point of the controller.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use olm_controller::args::{Args, LogFormat};
use olm_controller::cluster::Sentence;
use olm_controller::rights::RightsArgs;
use olm_controller::version::VersionArgs;
use olm_controller::{manager, resources, rights, telemetry, version};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// A bundle takes a hundred megabytes for a moment. musl's allocator, in the image, takes more than
/// half of all processor time; this does not, and gives back what is freed (stack.md 2).
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Work on files that is under way when everything else has ended may take so long; every step of
/// it can be repeated.
const LAST_FILES: Duration = Duration::from_millis(500);

/// Installs and upgrades ClusterExtensions, serves ClusterCatalogs, keeps the OpenShift gate.
#[derive(Debug, Parser)]
#[command(name = "olm-controller", version)]
#[command(args_conflicts_with_subcommands = true)]
struct CommandLine {
    #[command(subcommand)]
    task: Option<Task>,
    #[command(flatten)]
    args: Args,
}

/// Tasks other than running.
#[derive(Debug, Subcommand)]
enum Task {
    /// Print the version of this build
    Version(VersionArgs),
    /// Print every right that its own account needs, with the reason
    Rights(RightsArgs),
}

fn main() -> ExitCode {
    let program = std::env::args_os().next().unwrap_or_default();
    let program = Path::new(&program)
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let command = CommandLine::parse();
    let ended = match command.task {
        Some(Task::Version(args)) => version::print(&args).map_err(Into::into),
        Some(Task::Rights(args)) => rights::print(&args).map_err(Into::into),
        None => start(command.args, &program),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = %Sentence(&*error), "the controller exits");
            ExitCode::FAILURE
        }
    }
}

fn start(args: Args, program: &str) -> anyhow::Result<()> {
    let level = match args.v {
        0 => "info",
        1..=3 => "info,olm_controller=debug,olm_image=debug",
        _ => "debug,olm_controller=trace,olm_image=trace",
    };
    telemetry::init_logging(args.log_format == LogFormat::Json, level)
        .context("starting the log")?;
    // A core file, and a debugger of the same user, would show credentials (deploying.md 3.4).
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "a core file may be written");
    }
    resources::raise_open_files();
    // It fails only when there is one already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = resources::runtime().context("starting the runtime")?;
    let ended = runtime.block_on(manager::run(args, program));
    // A runtime that is dropped waits without a limit.
    runtime.shutdown_timeout(LAST_FILES);
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    // The chart and overlays add flags behind those that are there.
    #[test]
    fn the_last_of_a_flag_that_is_given_twice_counts() {
        let line =
            ["olm-controller", "--max-concurrent-reconciles=4", "--max-concurrent-reconciles=8"];
        let read = CommandLine::try_parse_from(line).unwrap();
        assert_eq!(read.args.max_concurrent_reconciles, 8);
        let gates = ["olm-controller", "--feature-gates=A=true", "--feature-gates=B=true"];
        CommandLine::try_parse_from(gates).unwrap();
    }
}
