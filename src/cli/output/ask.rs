//! Asking before something is written.

use std::io::{self, IsTerminal as _, Write as _};

use super::screen::escaped;
use super::usage;

/// The answer was no.
#[derive(Debug, thiserror::Error)]
#[error("nothing is changed")]
pub(crate) struct Declined;

/// Asks whether to go on, at a terminal; a no is an error. Without a terminal that is wrong usage;
/// `instead` is what to do then.
pub(crate) fn agreed(question: &str, instead: &str) -> anyhow::Result<()> {
    let mut errors = io::stderr();
    if !io::stdin().is_terminal() || !errors.is_terminal() {
        return usage(format!(
            "this changes the cluster, and there is no terminal to confirm on: {instead}"
        ));
    }
    write!(errors, "{} [y/N] ", escaped(question))?;
    errors.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    anyhow::ensure!(matches!(answer.trim(), "y" | "Y" | "yes"), Declined);
    Ok(())
}
