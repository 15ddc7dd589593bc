//! `kubectl olm completion`: completion for shells, and through kubectl.
//!
//! kubectl asks a program `kubectl_complete-olm` in `PATH` for what may follow; ours asks the plugin
//! itself, with the hidden verb `__complete`.

mod candidates;
mod names;

use std::{env, fs, io};

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::commands::Cli;
use crate::commands::prelude::*;

/// Name of the program that kubectl asks.
const NAME: &str = "kubectl_complete-olm";
const SCRIPT: &str = "#!/bin/sh\nexec kubectl-olm __complete -- \"$@\"\n";

/// Flags of `completion`.
#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// The shell that calls kubectl-olm directly
    shell: Option<Shell>,
    /// Write kubectl_complete-olm, which kubectl asks, into the first folder of PATH that can be
    /// written
    #[arg(long, conflicts_with = "shell")]
    install: bool,
}

/// The words after `kubectl olm`.
#[derive(Debug, Args)]
pub(crate) struct CompleteArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Prints a script for a shell, or writes the program that kubectl asks.
pub(crate) fn run(args: &CompletionArgs, out: &mut dyn Write) -> Ended {
    match args.shell {
        Some(shell) => {
            // Written at once: the generator does not survive a pipe that is closed early.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "kubectl-olm", &mut script);
            out.write_all(&script)?;
        }
        None if args.install => {
            let file = install(env::split_paths(&env::var_os("PATH").unwrap_or_default()))?;
            output::notice(&format!("note: {} is written", file.display()));
        }
        None => {
            return usage(
                "name a shell (bash, zsh, fish, powershell, elvish), or --install for kubectl",
            );
        }
    }
    Ok(Outcome::Done)
}

/// Prints what may follow, in the words of the library kubectl completes with: one candidate a line,
/// then a colon and the number of what else to do.
pub(crate) async fn complete(args: &CompleteArgs, out: &mut dyn Write) -> Ended {
    let mut command = Cli::command();
    command.build();
    let after = candidates::after(&command, &args.words);
    output::be_quiet();
    let names = names::find(&after, &args.words).await;
    for candidate in after.candidates.iter().chain(&names) {
        writeln!(out, "{candidate}")?;
    }
    // A file may follow where no name of the cluster does.
    writeln!(out, "{}", if after.files && names.is_empty() { ":0" } else { ":4" })?;
    Ok(Outcome::Done)
}

/// Writes the program that kubectl asks into the first folder that can be written.
fn install(folders: impl Iterator<Item = PathBuf>) -> anyhow::Result<PathBuf> {
    let mut refused = Vec::new();
    for folder in folders.filter(|folder| folder.is_dir()) {
        match write(&folder) {
            Ok(file) => return Ok(file),
            Err(error) => refused.push(format!("{}: {error}", folder.display())),
        }
    }
    if refused.is_empty() {
        bail!("PATH names no folder");
    }
    bail!("{NAME} cannot be written into any folder of PATH:\n{}", refused.join("\n"))
}

fn write(folder: &Path) -> io::Result<PathBuf> {
    let file = folder.join(NAME);
    fs::write(&file, SCRIPT)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    // deploying.md P61
    #[test]
    fn the_program_is_written_where_it_can_be() {
        let folder = tempfile::tempdir().unwrap();
        let (good, absent) = (folder.path().to_owned(), folder.path().join("absent"));
        let file = install([absent.clone(), good.clone()].into_iter()).unwrap();
        assert_eq!(file, good.join(NAME));
        assert_eq!(fs::read_to_string(&file).unwrap(), SCRIPT);
        assert_eq!(install([absent].into_iter()).unwrap_err().to_string(), "PATH names no folder");
    }
}
