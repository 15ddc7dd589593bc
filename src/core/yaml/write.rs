//! The writer: block style, and quotes around every text that some reader could misinterpret.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::go_float;

/// Longest key that is written without the explicit `?` form; readers give up at 1,024.
const MAX_SIMPLE_KEY_BYTES: usize = 900;

/// Writes a value as one YAML document, ended by a newline, without `---`.
///
/// Texts that a YAML 1.1 or 1.2 reader would take for a boolean, number, date or null are quoted;
/// texts of several lines become literal blocks if that is exact. Reading the result with
/// [`super::to_json`] returns the same value.
///
/// Example: `{"a": "yes", "b": 1}` gives `a: "yes"` and `b: 1` on two lines.
pub fn to_yaml(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => write_map(&mut out, map, 0, false),
        Value::Array(items) if !items.is_empty() => write_list(&mut out, items, 0, false),
        scalar => {
            write_scalar(&mut out, scalar, 0);
            out.push('\n');
        }
    }
    out
}

/// Writes values as a stream of documents, each opened by `---`.
///
/// Without values the text is empty.
pub fn to_yaml_stream(values: &[Value]) -> String {
    values.iter().fold(String::new(), |mut out, value| {
        out.push_str("---\n");
        out.push_str(&to_yaml(value));
        out
    })
}

fn indent(out: &mut String, depth: usize) {
    out.extend(std::iter::repeat_n("  ", depth));
}

/// Writes the entries of a map; `inline` says that the first one is on the current line.
fn write_map(out: &mut String, map: &Map<String, Value>, depth: usize, inline: bool) {
    for (position, (key, value)) in map.iter().enumerate() {
        if position > 0 || !inline {
            indent(out, depth);
        }
        let key = text(key);
        if key.len() > MAX_SIMPLE_KEY_BYTES {
            let _ = writeln!(out, "? {key}");
            indent(out, depth);
        } else {
            out.push_str(&key);
        }
        out.push(':');
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                out.push('\n');
                write_map(out, inner, depth + 1, false);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                write_list(out, items, depth, false);
            }
            scalar => {
                out.push(' ');
                write_scalar(out, scalar, depth + 1);
                out.push('\n');
            }
        }
    }
}

fn write_list(out: &mut String, items: &[Value], depth: usize, inline: bool) {
    for (position, item) in items.iter().enumerate() {
        if position > 0 || !inline {
            indent(out, depth);
        }
        out.push_str("- ");
        match item {
            Value::Object(map) if !map.is_empty() => write_map(out, map, depth + 1, true),
            Value::Array(inner) if !inner.is_empty() => write_list(out, inner, depth + 1, true),
            scalar => {
                write_scalar(out, scalar, depth + 1);
                out.push('\n');
            }
        }
    }
}

fn write_scalar(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => out.push_str(&float_text(float)),
            _ => {
                let _ = write!(out, "{number}");
            }
        },
        Value::String(content) if fits_block(content) => write_block(out, content, depth),
        Value::String(content) => out.push_str(&text(content)),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
}

/// Writes a float with a point, without which readers of YAML 1.1 take `1e+21` for a string.
fn float_text(float: f64) -> String {
    let text = go_float(float);
    match text.split_once('e') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0e{exponent}"),
        _ => text,
    }
}

/// Says whether a literal block gives back exactly this text.
fn fits_block(content: &str) -> bool {
    let trimmed = content.strip_suffix('\n').unwrap_or(content);
    trimmed.contains('\n')
        && !trimmed.ends_with('\n')
        && !trimmed.starts_with([' ', '\t', '\n'])
        && content
            .chars()
            .all(|c| c == '\n' || c == '\t' || !needs_escape(c))
        && content.lines().all(|line| {
            !line.starts_with('\t') && (line.is_empty() || !line.trim_matches(' ').is_empty())
        })
}

fn write_block(out: &mut String, content: &str, depth: usize) {
    out.push_str(if content.ends_with('\n') { "|" } else { "|-" });
    for line in content.strip_suffix('\n').unwrap_or(content).split('\n') {
        out.push('\n');
        if !line.is_empty() {
            indent(out, depth.max(1));
            out.push_str(line);
        }
    }
}

/// Returns a text as a plain scalar if no reader can misinterpret it, else in quotes.
fn text(content: &str) -> String {
    if is_plain(content) || is_quantity(content) {
        content.to_owned()
    } else if content.contains(['"', '\\']) && !content.chars().any(needs_escape) {
        // JSON in a text stays readable.
        format!("'{}'", content.replace('\'', "''"))
    } else {
        quoted(content)
    }
}

/// Says whether a text is a number with a unit, for example `64Mi`, which no reader takes for a
/// number.
fn is_quantity(content: &str) -> bool {
    let unit = content.trim_start_matches(|c: char| c.is_ascii_digit());
    let units = ["m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "s", "h"];
    unit.len() < content.len() && units.contains(&unit)
}

fn is_plain(content: &str) -> bool {
    let safe = |c: char| c.is_ascii_alphanumeric() || " _./:@+=,()*<>[]'-".contains(c);
    content.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && content.chars().all(safe)
        && !content.ends_with([' ', ':'])
        && !content.contains(": ")
        && !RESERVED
            .iter()
            .any(|word| content.eq_ignore_ascii_case(word))
}

/// Words that YAML 1.1 readers take for booleans or null.
const RESERVED: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];

fn needs_escape(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' | '\u{85}'
        )
}

fn quoted(content: &str) -> String {
    let mut out = String::with_capacity(content.len() + 2);
    out.push('"');
    for c in content.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if needs_escape(c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
