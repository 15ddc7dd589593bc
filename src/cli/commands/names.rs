//! Other names of commands: each stands for a command of the help, with the same code behind it.
//!
//! Source: plugin.md 1.1.

use std::ffi::OsString;

use clap::Command;

use super::completion::candidates::flag;

/// The words of another name, what they stand for, and what is added at the end.
const OTHER: [(&[&str], &[&str], &[&str]); 10] = [
    (&["tree"], &["status"], &["--output=tree"]),
    (&["preview", "uninstall"], &["delete", "--dry-run"], &[]),
    (&["crd-check"], &["crd", "check"], &[]),
    (&["crd-migrate"], &["crd", "migrate"], &[]),
    (&["mirror-check"], &["images", "--check"], &[]),
    (&["catalog", "mirror", "list"], &["images"], &[]),
    (&["catalog", "validate"], &["catalog", "lint"], &[]),
    (&["migrate", "check"], &["from-classic", "--report"], &[]),
    (&["support-bundle"], &["doctor"], &[]),
    (&["must-gather"], &["doctor"], &[]),
];
/// Those that write a file, which they name with `-o`.
const ARCHIVES: [&str; 2] = ["support-bundle", "must-gather"];

/// What somebody is told who writes `update`.
pub(super) const UPDATE: &str =
    "\"update\" is \"upgrade\" (move an extension) or \"status\" (what could move)";

/// Returns the words of a command line, the program first, with a command of the help in the place of
/// another name.
pub(super) fn resolved(command: &Command, mut words: Vec<OsString>) -> Vec<OsString> {
    let Some(at) = verb(command, &words) else {
        return words;
    };
    let is = |(name, ..): &&(&[&str], _, _)| {
        let end = at + name.len();
        words.get(at..end).is_some_and(|found| found == *name)
    };
    let Some((name, stands_for, after)) = OTHER.iter().find(is) else {
        return words;
    };
    if ARCHIVES.contains(&name[0]) {
        for word in &mut words[at..] {
            if word == "-o" || word == "--output" {
                *word = "--dump".into();
            }
        }
    }
    words.splice(at..at + name.len(), stands_for.iter().map(OsString::from));
    words.extend(after.iter().map(OsString::from));
    words
}

/// Returns where the command stands: at the first word that is neither a flag nor its value.
pub(super) fn verb(command: &Command, words: &[OsString]) -> Option<usize> {
    let mut is_value = false;
    for (at, word) in words.iter().enumerate().skip(1) {
        let text = word.to_string_lossy();
        if std::mem::take(&mut is_value) {
            continue;
        }
        if !text.starts_with('-') {
            return Some(at);
        }
        is_value = flag(command, &text).is_some() && !text.contains('=');
    }
    None
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use rstest::rstest;

    use super::*;
    use crate::commands::Cli;

    // plugin.md U2
    #[rstest]
    #[case("tree quay", "status quay --output=tree")]
    #[case("preview uninstall quay", "delete --dry-run quay")]
    #[case("crd-check cluster dir", "crd check cluster dir")]
    #[case("crd-migrate a.b --to v2", "crd migrate a.b --to v2")]
    #[case("mirror-check quay", "images --check quay")]
    #[case("catalog mirror list --catalog c", "images --catalog c")]
    #[case("catalog validate dir", "catalog lint dir")]
    #[case("migrate check", "from-classic --report")]
    #[case("support-bundle -o f.tgz quay", "doctor --dump f.tgz quay")]
    #[case("must-gather --output f.tgz", "doctor --dump f.tgz")]
    #[case("-n tree --context=c tree quay", "-n tree --context=c status quay --output=tree")]
    #[case("status tree", "status tree")]
    #[case("catalog list", "catalog list")]
    fn another_name_is_the_command_that_it_stands_for(#[case] line: &str, #[case] want: &str) {
        let words = |line: &str| {
            let words = std::iter::once("kubectl-olm").chain(line.split(' '));
            words.map(OsString::from).collect::<Vec<_>>()
        };
        let got = resolved(&Cli::command(), words(line));
        assert_eq!(got, words(want));
        Cli::command().try_get_matches_from(got).expect("the command is there");
    }
}
