//! What may follow on a command line.

use clap::builder::PossibleValue;
use clap::{Arg, Command};

/// Returns what may stand in the place of the last word, and whether a file may.
pub(super) fn after(command: &Command, words: &[String]) -> (Vec<String>, bool) {
    let (last, before) = match words.split_last() {
        Some((last, before)) => (last.as_str(), before),
        None => ("", &[][..]),
    };
    let mut command = command;
    let mut wanting = None;
    for word in before {
        if wanting.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            wanting = flag(command, word).filter(|_| !word.contains('='));
        } else if let Some(next) = command.find_subcommand(word) {
            command = next;
        }
    }
    if let Some(wanting) = wanting {
        return values(wanting, "", last);
    }
    if let Some((name, value)) = last.split_once('=') {
        let found = flag(command, name);
        return found.map_or((Vec::new(), true), |found| values(found, &format!("{name}="), value));
    }
    if last.starts_with('-') {
        let names = command.get_arguments().filter(|flag| !flag.is_hide_set());
        let names = names.filter_map(|flag| Some(format!("--{}", flag.get_long()?)));
        return (matching(names, last), false);
    }
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let verbs: Vec<_> = verbs
        .filter(|verb| verb.get_name().starts_with(last))
        .map(|verb| match verb.get_about() {
            Some(about) => format!("{}\t{about}", verb.get_name()),
            None => verb.get_name().to_owned(),
        })
        .collect();
    let files = verbs.is_empty() && command.get_positionals().next().is_some();
    (verbs, files)
}

/// Returns the flag of this name, if a value follows it.
fn flag<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let name = word.split('=').next().unwrap_or_default();
    let short = |flag: &Arg| flag.get_short().map(|short| format!("-{short}"));
    let long = |flag: &Arg| flag.get_long().map(|long| format!("--{long}"));
    let mut flags = command.get_arguments();
    let found = flags
        .find(|flag| short(flag).as_deref() == Some(name) || long(flag).as_deref() == Some(name));
    found.filter(|flag| flag.get_action().takes_values())
}

/// Returns the values of a flag that begin so, each after `prefix`; a file where any value will do.
fn values(flag: &Arg, prefix: &str, begin: &str) -> (Vec<String>, bool) {
    let possible = flag.get_possible_values();
    let files = possible.is_empty();
    let values = possible.iter().map(PossibleValue::get_name);
    let values = values.filter(|value| value.starts_with(begin));
    let values = values.map(|value| format!("{prefix}{value}"));
    (values.collect(), files)
}

fn matching(all: impl Iterator<Item = String>, begin: &str) -> Vec<String> {
    all.filter(|one| one.starts_with(begin)).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use rstest::rstest;

    use super::*;
    use crate::commands::Cli;

    fn complete(line: &[&str]) -> (Vec<String>, bool) {
        let mut command = Cli::command();
        command.build();
        let words: Vec<_> = line.iter().map(|word| (*word).to_owned()).collect();
        after(&command, &words)
    }

    // deploying.md P61
    #[rstest]
    #[case::verb(&["bundle", "lin"], &["lint"], false)]
    #[case::flag(&["why", "--pack"], &["--package"], false)]
    #[case::global_flag(&["why", "--kubec"], &["--kubeconfig"], false)]
    #[case::value(&["why", "-o", "js"], &["json"], false)]
    #[case::value_after_equals(&["why", "--output=js"], &["--output=json"], false)]
    #[case::any_value(&["why", "--from", ""], &[], true)]
    #[case::file(&["show", "./"], &[], true)]
    #[case::hidden(&["__"], &[], false)]
    #[case::unknown(&["why", "--nothing="], &[], true)]
    fn what_may_follow(#[case] line: &[&str], #[case] expected: &[&str], #[case] files: bool) {
        let (found, any) = complete(line);
        let names: Vec<_> = found.iter().filter_map(|it| it.split('\t').next()).collect();
        assert_eq!((names.as_slice(), any), (expected, files));
    }

    #[test]
    fn every_verb_is_offered_with_what_it_does() {
        let (verbs, _) = complete(&[""]);
        assert!(verbs.iter().any(|verb| verb.starts_with("doctor\tCheck the cluster")));
        assert_eq!(complete(&[]).0, verbs);
    }
}
