//! Text of a catalog, sanitized for display; escaped for Mermaid. Templates escape it for SVG and HTML.

use std::fmt::Write as _;

use olm_core::error::{first_of, printable};

/// The most characters of a name or range in a drawing.
pub(super) const MAX_LABEL: usize = 48;
/// The most characters of a line of details.
pub(super) const MAX_DETAIL: usize = 240;

/// The most bundles named in a sentence.
const MAX_NAMED: usize = 4;

/// Returns a text cut to a number of characters, with everything replaced that is not a visible
/// character of its own: control characters and those that change the direction of the text.
pub(super) fn shown(text: &str, limit: usize) -> String {
    let mut shown: String = text.chars().take(limit).map(printable).collect();
    if text.chars().nth(limit).is_some() {
        shown.pop();
        shown.push('…');
    }
    shown
}

/// Returns a line as it is, without characters that change what stands around them.
pub(crate) fn visible(line: &str) -> String {
    shown(line, usize::MAX)
}

/// Returns text as one segment of the path of an address.
pub(crate) fn segment(text: &str) -> String {
    let Ok(encoded) = askama::filters::urlencode_strict(text);
    encoded.to_string()
}

/// Returns `<verb> a, b and 3 more`.
pub(super) fn named(verb: &str, names: &[&str]) -> Option<String> {
    // Naming one more is shorter than saying "and 1 more".
    let most = if names.len() == MAX_NAMED + 1 { names.len() } else { MAX_NAMED };
    let shown = names.iter().map(|name| shown(name, MAX_LABEL));
    (!names.is_empty()).then(|| format!("{verb} {}", first_of(shown, most)))
}

/// Quotes text for Mermaid, lines separated by `<br/>`.
///
/// Everything but plain letters, digits and a few signs is written as a character code, so that
/// neither Mermaid's grammar nor its Markdown nor the HTML it makes sees anything else. What could
/// start a list (`- a`, `1. a`) is not one of those signs.
pub(super) fn mermaid(lines: &[String]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| mermaid_line(line)).collect();
    format!("\"{}\"", lines.join("<br/>"))
}

fn mermaid_line(line: &str) -> String {
    let mut escaped = String::with_capacity(line.len());
    let mut before = ' ';
    for character in line.chars() {
        let plain = character.is_ascii_alphanumeric()
            || (character == ' ' && before != '.')
            || (".,-".contains(character) && before != ' ');
        if plain {
            escaped.push(character);
        } else {
            let _ = write!(escaped, "#{};", u32::from(character));
        }
        before = character;
    }
    escaped
}
