//! The end of the help of a command: examples, which the documents run, and the meaning of its exit
//! codes besides 0 and 2 (plugin.md 1.1).

use clap::Command;

/// Commands, the meaning of their exit codes, and examples of them.
const HELP: &str = include_str!("examples.txt");

/// Adds examples and exit codes to the help of every command that has some.
pub(super) fn added(mut command: Command) -> Command {
    for line in HELP.lines() {
        let mut parts = line.split(" | ");
        let (path, codes) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let examples: Vec<_> = parts.map(|it| format!("  kubectl olm {it}\n")).collect();
        let text = format!("Examples:\n{}\nExit codes: {codes}", examples.concat());
        let with = |command: Command| command.after_help(text);
        command = match path.split_once(' ') {
            Some((verb, below)) => {
                command.mut_subcommand(verb, |it| it.mut_subcommand(below, with))
            }
            None => command.mut_subcommand(path, with),
        };
    }
    command
}
