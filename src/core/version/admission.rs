//! The rule of the CustomResourceDefinition for `spec.source.catalog.version`, offline.

use super::{is_blank, is_identifier_byte};

/// The most characters the field may have.
const MAX_CHARACTERS: usize = 64;
/// Operators, the longer ones before those they start with.
const OPERATORS: [&str; 10] = ["!=", ">=", "=>", "<=", "=<", "~>", "=", ">", "<", "~"];

/// Says whether an API server accepts a text as `spec.source.catalog.version`.
///
/// This is narrower than [`super::VersionRange`]: hyphen ranges, leading zeros and the empty text
/// are refused here and understood there. The reverse does not hold either: `1.2.3-01` is accepted
/// here but is not a range.
///
/// Source: api.md 1.3.
pub fn is_admissible(text: &str) -> bool {
    if text.chars().count() > MAX_CHARACTERS {
        return false;
    }
    let mut rest = skip_blanks(text);
    loop {
        let Some(after) = comparator(rest) else {
            return false;
        };
        rest = skip_blanks(after);
        if rest.is_empty() {
            return true;
        }
        // Comparators are separated by blanks, one comma or one `||`.
        let separator = rest.strip_prefix("||").or_else(|| rest.strip_prefix(','));
        match separator {
            Some(after) => rest = skip_blanks(after),
            None if rest.len() == after.len() => return false,
            None => {}
        }
    }
}

/// Returns the text after the comparator at the start, if there is one.
fn comparator(text: &str) -> Option<&str> {
    let operator = OPERATORS.iter().find_map(|operator| text.strip_prefix(operator));
    let rest = operator.or_else(|| text.strip_prefix('^')).unwrap_or(text);
    let rest = skip_blanks(rest);
    let mut rest = component(rest.strip_prefix('v').unwrap_or(rest))?;
    for _ in 0..2 {
        if let Some(after) = rest.strip_prefix('.').and_then(component) {
            rest = after;
        }
    }
    let rest = rest.strip_prefix('-').and_then(dotted).unwrap_or(rest);
    Some(rest.strip_prefix('+').and_then(dotted).unwrap_or(rest))
}

/// Returns the text after a number without leading zeros, or a wildcard.
fn component(text: &str) -> Option<&str> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    match text.bytes().next()? {
        b'x' | b'X' | b'*' | b'0' => Some(&text[1..]),
        _ if digits > 0 => Some(&text[digits..]),
        _ => None,
    }
}

/// Returns the text after dot-separated identifiers.
fn dotted(text: &str) -> Option<&str> {
    let identifier = |text: &str| text.bytes().take_while(|byte| is_identifier_byte(*byte)).count();
    let mut end = identifier(text);
    if end == 0 {
        return None;
    }
    while text[end..].starts_with('.') {
        let more = identifier(&text[end + 1..]);
        if more == 0 {
            break;
        }
        end += 1 + more;
    }
    Some(&text[end..])
}

/// Returns the text without leading blanks.
fn skip_blanks(text: &str) -> &str {
    let blanks = text.bytes().take_while(|byte| is_blank(*byte)).count();
    &text[blanks..]
}
