//! The parts of a line: keys, plain scalars and their types, escapes.

use serde_json::{Number, Value};

use super::super::read::careful;

/// Says whether a line begins an item of a list.
pub(super) fn is_item(text: &str) -> bool {
    text == "-" || text.starts_with("- ")
}

/// Splits `key: value` into both; `None` if there is no key, or an unusual one.
pub(super) fn key(text: &str) -> Option<(&str, &str)> {
    let (key, rest) = match text.as_bytes().first()? {
        quote @ (b'"' | b'\'') => {
            let inside = &text[1..];
            let end = inside.find(char::from(*quote))?;
            let (key, rest) = (&inside[..end], &inside[end + 1..]);
            // Keys with escapes or doubled quotes, or that need folding, are not supported.
            if key.contains(['\\', ' ', '\t']) {
                return None;
            }
            (key, rest.strip_prefix(':')?)
        }
        b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'$' => {
            let usual = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./$@-".contains(byte);
            let mut end = 0;
            let bytes = text.as_bytes();
            loop {
                end += bytes[end..].iter().take_while(|byte| usual(byte)).count();
                if bytes.get(end) != Some(&b':') {
                    return None;
                }
                if matches!(bytes.get(end + 1), None | Some(b' ')) {
                    break;
                }
                end += 1;
            }
            let key = &text[..end];
            if is_special(key) {
                return None;
            }
            (key, &text[end + 1..])
        }
        _ => return None,
    };
    if !(rest.is_empty() || rest.starts_with(' ')) {
        return None;
    }
    Some((key, rest.trim_start_matches(' ')))
}

/// Says whether a text can be a line of a plain scalar: no key, no tab.
pub(super) fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends_key = |at: usize| matches!(bytes.get(at + 1), None | Some(b' '));
    !bytes.contains(&b'\t')
        && !bytes.iter().enumerate().any(|(at, byte)| *byte == b':' && ends_key(at))
}

/// Says whether a plain scalar that is supported here may begin like this.
pub(super) fn begins_plain(text: &str) -> bool {
    let mut characters = text.chars();
    let Some(first) = characters.next() else { return false };
    let second = characters.next();
    match first {
        'A'..='Z' | 'a'..='z' | '0'..='9' | '_' | '/' | '$' | '(' | '^' | '<' | '=' | '\\' => true,
        // Three of either would end the document if they were alone on the line.
        '-' => second.is_some_and(|c| c != ' ') && !text.starts_with("---"),
        '.' => second.is_some_and(|c| c.is_ascii_alphanumeric() || "*/".contains(c)),
        '+' | ':' => second.is_some_and(|c| c.is_ascii_digit()),
        other => other.is_alphabetic(),
    }
}

/// Words that are not plain strings, or not for every reader.
fn is_special(text: &str) -> bool {
    const WORDS: [&str; 13] = [
        "y", "n", "yes", "no", "on", "off", "true", "false", "null", "inf", "nan", "infinity", "_",
    ];
    text.len() <= 8 && WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// Resolves a plain scalar on one line to its type.
pub(super) fn resolve(text: &str) -> Option<Value> {
    match text {
        "true" => return Some(Value::Bool(true)),
        "false" => return Some(Value::Bool(false)),
        "null" => return Some(Value::Null),
        _ => {}
    }
    let bytes = text.as_bytes();
    let first = *bytes.first()?;
    if first.is_ascii_digit() {
        let plain = bytes.iter().all(u8::is_ascii_digit) && bytes.len() <= 18;
        if plain && (first != b'0' || bytes.len() == 1) {
            return text.parse().ok().map(|number: u64| Value::Number(Number::from(number)));
        }
    }
    let word = match first {
        b'.' | b'-' => bytes.get(1).is_some_and(u8::is_ascii_alphabetic) && !is_special(&text[1..]),
        _ => first.is_ascii_alphabetic() || b"/$(^".contains(&first) || first >= 0x80,
    };
    let flag = text.starts_with("--");
    if flag || bytes.contains(&b' ') || (word && !is_special(text)) {
        return Some(Value::String(text.to_owned()));
    }
    // Numbers of all kinds, versions, times: they are rare, and the rules are many.
    match careful(text).ok()?.as_slice() {
        [] => Some(Value::Null),
        [value] => Some(value.clone()),
        _ => None,
    }
}

/// Reads an escape after its `\`; returns the text after it.
pub(super) fn escape<'a>(text: &'a str, whole: &mut String) -> Option<&'a str> {
    let mut characters = text.chars();
    let character = match characters.next()? {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        ' ' => ' ',
        '"' => '"',
        '\\' => '\\',
        '/' => '/',
        'u' => {
            let digits = characters.as_str().get(..4)?;
            if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return None;
            }
            // A surrogate is not a character.
            let character = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
            whole.push(character);
            return Some(&characters.as_str()[4..]);
        }
        _ => return None,
    };
    whole.push(character);
    Some(characters.as_str())
}
