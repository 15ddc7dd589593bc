//! Candidates for the next word of a command line.

use clap::builder::PossibleValue;
use clap::{Arg, Command};

/// The candidates for the next word: fixed words, files, and names from a cluster.
#[derive(Debug, Default)]
pub(super) struct After {
    pub(super) candidates: Vec<String>,
    pub(super) files: bool,
    pub(super) names: Vec<Names>,
    /// The prefix of each name, and the beginning of the name.
    pub(super) prefix: String,
    pub(super) begin: String,
    /// The first name of the line, whose versions are meant.
    pub(super) subject: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    Contexts,
    Namespaces,
    Extensions,
    Packages,
    Versions,
    Catalogs,
    Subscriptions,
}

impl Names {
    /// Returns which names an argument of a command takes.
    fn of(command: &str, arg: &Arg) -> &'static [Self] {
        match (command, arg.get_id().as_str()) {
            ("add", _) => &[],
            (_, "context") => &[Self::Contexts],
            (_, "namespace" | "watch_namespace" | "watching" | "system_namespace") => {
                &[Self::Namespaces]
            }
            (_, "catalog")
            | ("remove" | "refresh", "name")
            | ("diff", "old")
            | ("render", "sources") => &[Self::Catalogs],
            ("install", "package") => &[Self::Packages],
            ("upgrade", "version") | ("upgrade" | "plan", "to") | ("install", "range") => {
                &[Self::Versions]
            }
            ("graph", "name")
            | ("show", "bundle")
            | ("render", "target")
            | ("rbac" | "images", "targets") => &[Self::Extensions, Self::Packages],
            ("why", "words") => &[Self::Extensions],
            (_, "subscriptions") => &[Self::Subscriptions],
            (_, "name" | "names") if arg.is_positional() => &[Self::Extensions],
            _ => &[],
        }
    }
}

/// Returns the candidates for the last word.
pub(super) fn after(command: &Command, words: &[String]) -> After {
    let (last, before) = match words.split_last() {
        Some((last, before)) => (last.as_str(), before),
        None => ("", &[][..]),
    };
    let mut command = command;
    let (mut wanting, mut words) = (None, Vec::new());
    for word in before {
        if wanting.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            let takes_next = |flag: &&Arg| !word.contains('=') && !flag.is_require_equals_set();
            wanting = flag(command, word).filter(takes_next);
        } else if let Some(next) = command.find_subcommand(word) {
            command = next;
        } else {
            words.push(word);
        }
    }
    let subject = words.first().map(|name| (*name).clone());
    if let Some(wanting) = wanting {
        return After { subject, ..values(command, wanting, "", last) };
    }
    if let Some((name, value)) = last.split_once('=').filter(|_| last.starts_with('-')) {
        let any = After { files: true, ..After::default() };
        let found = flag(command, name);
        let found = found.map(|found| values(command, found, &format!("{name}="), value));
        return After { subject, ..found.unwrap_or(any) };
    }
    if last.starts_with('-') {
        let flags = command.get_arguments().filter(|flag| !flag.is_hide_set());
        let flags = flags.filter_map(|flag| Some(format!("--{}", flag.get_long()?)));
        let candidates = flags.filter(|flag| flag.starts_with(last)).collect();
        return After { candidates, ..After::default() };
    }
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let verbs: Vec<_> = verbs
        .filter(|verb| verb.get_name().starts_with(last))
        .map(|verb| match verb.get_about() {
            Some(about) => format!("{}\t{about}", verb.get_name()),
            None => verb.get_name().to_owned(),
        })
        .collect();
    let mut positionals: Vec<_> = command.get_positionals().collect();
    positionals.truncate(words.len() + 1);
    let names = match (command.get_name(), positionals.last()) {
        ("why", _) if words.len() == 1 => &[Names::Versions],
        (command, Some(arg)) => Names::of(command, arg),
        (_, None) => &[],
    };
    After {
        files: verbs.is_empty() && !positionals.is_empty(),
        candidates: verbs,
        names: names.to_vec(),
        begin: last.to_owned(),
        subject,
        prefix: String::new(),
    }
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
fn values(command: &Command, flag: &Arg, prefix: &str, begin: &str) -> After {
    let possible = flag.get_possible_values();
    let names = Names::of(command.get_name(), flag).to_vec();
    let files = possible.is_empty() && names.is_empty();
    let values = possible.iter().map(PossibleValue::get_name);
    let values = values.filter(|value| value.starts_with(begin));
    let candidates = values.map(|value| format!("{prefix}{value}")).collect();
    let (prefix, begin) = (prefix.to_owned(), begin.to_owned());
    After { candidates, files, names, prefix, begin, subject: None }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::commands::Cli;
    use crate::fixture::cases;

    fn complete(words: &[String]) -> After {
        let mut command = Cli::command();
        command.build();
        after(&command, words)
    }

    #[test]
    fn what_may_follow() {
        type Case = (Vec<String>, Vec<String>, bool);
        for (name, (line, expected, files)) in cases::<Case>("what_may_follow") {
            let found = complete(&line);
            let names = found.candidates.iter().filter_map(|it| it.split('\t').next());
            let names = names.map(str::to_owned).collect();
            assert_eq!((names, found.files), (expected, files), "{name}");
        }
    }

    #[test]
    fn which_names_are_asked_for() {
        for (name, (line, expected)) in cases::<(Vec<String>, String)>("which_names_are_asked_for")
        {
            let found = complete(&line);
            assert_eq!(format!("{:?}", found.names), expected, "{name}");
            assert!(found.subject.is_none_or(|subject| subject == "lamp"), "{name}");
        }
    }

    #[test]
    fn every_verb_is_offered_with_what_it_does() {
        let verbs = complete(&[String::new()]).candidates;
        assert!(verbs.iter().any(|verb| verb.starts_with("doctor\tCheck the cluster")));
        assert_eq!(complete(&[]).candidates, verbs);
    }
}
