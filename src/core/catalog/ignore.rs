//! Which files of a catalog `.indexignore` files exclude.
//!
//! The rules are close to git's, with the differences of catalogs.md 1.4 (I1 to I9): patterns are
//! only ever tested against files, so nothing is pruned, and a pattern that names a directory
//! decides about everything below it, for inclusion as well as exclusion.

use std::sync::Arc;

/// Most bytes of all ignore files of a catalog; those that are published have a few lines.
const MAX_BYTES: usize = 1 << 20;
/// Most bytes of the ignore files times those of all paths: each pattern is compared with each path.
const MAX_STEPS: usize = 1 << 34;

/// Name of the files that hold patterns.
pub const IGNORE_FILE: &str = ".indexignore";

/// All patterns of a catalog, those of parent directories before those of their children.
#[derive(Debug, Clone, Default)]
pub struct IgnoreList {
    patterns: Vec<Pattern>,
}

/// Returns how many bytes the ignore files of a catalog may have together; `paths` is the length of all
/// its paths (catalogs.md 5.8).
pub fn most_bytes(paths: usize) -> usize {
    MAX_BYTES.min(MAX_STEPS / paths.max(1))
}

impl IgnoreList {
    /// Adds the patterns of one ignore file; `directory` is the path of the directory it stands
    /// in, empty for the root.
    ///
    /// Files must be added parents first, because the last matching pattern decides.
    pub fn add(&mut self, directory: &str, text: &str) {
        let domain: Arc<[String]> = components(directory).map(ToOwned::to_owned).collect();
        let patterns =
            text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        self.patterns.extend(patterns.map(|line| Pattern::parse(line, &domain)));
    }

    /// Says whether the file at `path` is excluded: the last pattern that matches decides; a file
    /// that no pattern matches is read.
    ///
    /// Example: after `*` and `!*.yaml`, `a/b/c.yaml` is read and `a/b/README.md` is not.
    pub fn excludes(&self, path: &str) -> bool {
        let path: Vec<&str> = components(path).collect();
        self.patterns
            .iter()
            .rev()
            .find(|pattern| pattern.matches(&path))
            .is_some_and(|pattern| !pattern.includes)
    }
}

fn components(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

/// One line of an ignore file.
#[derive(Debug, Clone)]
struct Pattern {
    /// Directory of the ignore file; the pattern does not apply to paths outside it.
    domain: Arc<[String]>,
    /// Whether it began with `!`.
    includes: bool,
    /// Whether it ended with `/`: it then matches directories only, never a file's last component.
    directories_only: bool,
    rule: Rule,
}

#[derive(Debug, Clone)]
enum Rule {
    /// Holds no `/`: any single component may match.
    Component(String),
    /// Holds a `/`: the path from the ignore file's directory on must match, as a prefix. These are
    /// the texts between the slashes, empty ones included.
    Anchored(Vec<String>),
}

impl Pattern {
    fn parse(line: &str, domain: &Arc<[String]>) -> Self {
        let (includes, rest) = match line.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let (directories_only, rest) = match rest.strip_suffix('/') {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let rule = if rest.contains('/') {
            Rule::Anchored(rest.split('/').map(ToOwned::to_owned).collect())
        } else {
            Rule::Component(rest.to_owned())
        };
        Self { domain: Arc::clone(domain), includes, directories_only, rule }
    }

    fn matches(&self, path: &[&str]) -> bool {
        let Some((domain, path)) = path.split_at_checked(self.domain.len()) else { return false };
        if path.is_empty() || *domain != *self.domain {
            return false;
        }
        let candidates = if self.directories_only { &path[..path.len() - 1] } else { path };
        match &self.rule {
            Rule::Component(glob) => candidates.iter().any(|part| glob_matches(glob, part)),
            Rule::Anchored(segments) => prefix_matches(segments, candidates),
        }
    }
}

/// Says whether the segments match the path from its beginning, with any rest.
///
/// A segment `**` stands for the components before the first that matches the next segment; others
/// that match it are not tried, and an empty segment takes the `**` before it back (I9). At the end
/// it stands for any rest. `**` inside a longer segment never matches (I5). What no component was
/// needed for matches nothing (I9).
fn prefix_matches(segments: &[String], path: &[&str]) -> bool {
    let mut rest = path;
    let mut skips = false;
    for (i, segment) in segments.iter().enumerate() {
        match segment.as_str() {
            "" => skips = false,
            "**" if i + 1 == segments.len() => {}
            "**" => skips = true,
            inside if inside.contains("**") => return false,
            glob => {
                let reach = if skips { rest.len() } else { rest.len().min(1) };
                let found = rest[..reach].iter().position(|part| glob_matches(glob, part));
                let Some(at) = found else { return false };
                rest = &rest[at + 1..];
                skips = false;
            }
        }
    }
    rest.len() < path.len()
}

/// Says whether a glob (`*`, `?`, `[...]`, `\` to escape) matches a whole component.
///
/// A malformed glob matches nothing (I6).
fn glob_matches(glob: &str, text: &str) -> bool {
    let Some(tokens) = parse_glob(glob) else { return false };
    let text: Vec<char> = text.chars().collect();
    // Positions to backtrack to when what follows the last star does not match.
    let (mut token, mut at) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match tokens.get(token) {
            None if at == text.len() => return true,
            Some(Token::Star) => {
                retry = Some((token + 1, at));
                token += 1;
                continue;
            }
            Some(single) if text.get(at).is_some_and(|&c| single.accepts(c)) => {
                token += 1;
                at += 1;
                continue;
            }
            _ => {}
        }
        match retry {
            Some((after_star, start)) if start < text.len() => {
                retry = Some((after_star, start + 1));
                (token, at) = (after_star, start + 1);
            }
            _ => return false,
        }
    }
}

#[derive(Debug)]
enum Token {
    Star,
    Any,
    Literal(char),
    Class { negated: bool, ranges: Vec<(char, char)> },
}

impl Token {
    fn accepts(&self, character: char) -> bool {
        match self {
            Self::Star => false,
            Self::Any => true,
            Self::Literal(literal) => *literal == character,
            Self::Class { negated, ranges } => {
                ranges.iter().any(|&(low, high)| (low..=high).contains(&character)) != *negated
            }
        }
    }
}

/// Splits a glob into tokens, or returns nothing when it is malformed.
fn parse_glob(glob: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = glob.chars().peekable();
    while let Some(character) = rest.next() {
        tokens.push(match character {
            '*' => Token::Star,
            '?' => Token::Any,
            '\\' => Token::Literal(rest.next()?),
            '[' => parse_class(&mut rest)?,
            literal => Token::Literal(literal),
        });
    }
    Some(tokens)
}

/// Reads a character class after its `[`: an optional `^`, then one or more characters or ranges.
fn parse_class(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<Token> {
    fn character(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<char> {
        match rest.next()? {
            '\\' => rest.next(),
            '-' | ']' => None,
            plain => Some(plain),
        }
    }
    let negated = rest.next_if_eq(&'^').is_some();
    let mut ranges = Vec::new();
    while ranges.is_empty() || rest.next_if_eq(&']').is_none() {
        let low = character(rest)?;
        let high = match rest.next_if_eq(&'-') {
            Some(_) => character(rest)?,
            None => low,
        };
        ranges.push((low, high));
    }
    Some(Token::Class { negated, ranges })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cases;
    use proptest::prelude::*;

    const CASES: &str = include_str!("../testdata/catalog/cases.yaml");

    // catalogs.md 1.4, F15
    #[test]
    fn worked_examples() {
        for (files, path, excluded) in
            cases::<(Vec<(&str, &str)>, &str, bool)>(CASES, "worked_examples")
        {
            let mut list = IgnoreList::default();
            for (directory, text) in files {
                list.add(directory, text);
            }
            assert_eq!(list.excludes(path), excluded);
        }
    }

    // catalogs.md 1.4, I1 to I8
    #[test]
    fn rules() {
        for (text, path, excluded) in cases::<(&str, &str, bool)>(CASES, "rules") {
            let mut list = IgnoreList::default();
            list.add("", text);
            assert_eq!(list.excludes(path), excluded);
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in ".{0,40}", directory in "[a-c/]{0,6}", path in "[a-c/*]{0,12}") {
            let mut list = IgnoreList::default();
            list.add(&directory, &text);
            list.excludes(&path);
        }
    }
}
