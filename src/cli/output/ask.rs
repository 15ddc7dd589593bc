//! Asking before something is written.

use std::io::{self, IsTerminal as _, Write as _};

use super::UsageError;
use super::escape::escaped;

/// Asks whether to go on, at a terminal. Without one that is wrong usage; `instead` is what to do
/// then.
pub(crate) fn agreed(question: &str, instead: &str) -> anyhow::Result<bool> {
    let mut errors = io::stderr();
    if !io::stdin().is_terminal() || !errors.is_terminal() {
        let text =
            format!("this writes to the cluster and there is no terminal to ask on: {instead}");
        return Err(UsageError(text).into());
    }
    write!(errors, "{} [y/N] ", escaped(question))?;
    errors.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
