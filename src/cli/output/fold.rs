//! Long lines of text on a terminal.

use super::columns;

/// The narrowest terminal that lines are broken for.
const LEAST: usize = 60;
/// The beginning of a command, which is not broken, so that it can be copied.
const COMMAND: &str = "kubectl ";

/// Breaks a line between words where it is wider than the terminal; what follows begins below column
/// `hang`.
pub(crate) fn folded(line: &str, hang: usize) -> String {
    match columns() {
        Some(columns) => folded_within(columns.max(LEAST), line, hang),
        None => line.to_owned(),
    }
}

fn folded_within(limit: usize, line: &str, hang: usize) -> String {
    if line.chars().count() <= limit {
        return line.to_owned();
    }
    let (prose, command) = line.split_at(line.find(COMMAND).unwrap_or(line.len()));
    broken(words(prose).chain(Some(command)), limit, hang)
}

/// Returns the parts of a text that stay on one line.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive([' ', ','])
}

/// Writes words into lines, where they fit; every line but the first begins below column `hang`.
pub(super) fn broken<'a>(
    words: impl Iterator<Item = &'a str>,
    limit: usize,
    hang: usize,
) -> String {
    let (mut folded, mut at) = (String::new(), 0);
    for word in words.filter(|word| !word.is_empty()) {
        if at > hang && at + word.trim_end().chars().count() > limit {
            folded.truncate(folded.trim_end().len());
            folded.push('\n');
            folded.extend(std::iter::repeat_n(' ', hang));
            at = hang;
        }
        folded.push_str(word);
        at += word.chars().count();
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    // plugin.md 1.3
    #[test]
    fn a_line_fits_the_terminal_and_a_command_stays_whole() {
        let line = "Do   give it the rights that it lacks: kubectl olm rbac e --missing";
        let want =
            "Do   give it the rights\n     that it lacks:\n     kubectl olm rbac e --missing";
        assert_eq!(folded_within(24, line, 5), want);
        assert_eq!(folded_within(80, line, 5), line);
        assert_eq!(folded_within(5, "     word", 5), "     word", "nothing is narrower");
        assert_eq!(folded(line, 5), line, "there is no terminal");
    }
}
