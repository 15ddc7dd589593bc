//! Text of catalogs, images and the cluster, before any page sees it: without characters that change
//! what stands around them, and not longer than can be read.

use serde_json::Value;

/// Members that hold prose; everything else is a name or a sentence.
const PROSE: [&str; 5] = ["longDescription", "message", "rows", "picture", "manifest"];
/// Most bytes of prose.
const MAX_PROSE: usize = 64 * 1024;
/// Most characters of anything else.
const MAX_TEXT: usize = 2_000;

/// Cleans every text of a document. `picture` is markup made here, and stays.
pub(super) fn document(value: &mut Value) {
    member("", value);
}

fn member(name: &str, value: &mut Value) {
    match value {
        Value::String(_) if name == "picture" => {}
        Value::String(text) if PROSE.contains(&name) => *text = prose(text),
        Value::String(text) => *text = cut(&olm_core::error::plain(text)),
        Value::Array(items) => items.iter_mut().for_each(|item| member(name, item)),
        Value::Object(members) => {
            for (name, value) in members.iter_mut() {
                member(name, value);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Keeps the lines, and cleans each of them.
fn prose(text: &str) -> String {
    let mut end = text.len().min(MAX_PROSE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let lines = text[..end].lines().map(crate::graph::visible);
    let mut clean = lines.collect::<Vec<_>>().join("\n");
    if end < text.len() {
        clean.push_str("\n\n…");
    }
    clean
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // plugin.md U12, U77
    #[test]
    fn text_is_cut_and_loses_what_changes_other_text() {
        let mut value = json!({"name": "a\u{202e}b\nc", "items": ["\u{1b}[31m"],
            "longDescription": "# one\n\n    two\u{200f}\n", "text": "x".repeat(1_000_000)});
        document(&mut value);
        assert_eq!(value["name"], "a\u{fffd}b c");
        assert_eq!(value["items"][0], "\u{fffd}[31m");
        assert_eq!(value["longDescription"], "# one\n\n    two\u{fffd}");
        assert_eq!(value["text"].as_str().unwrap().chars().count(), MAX_TEXT + 1);
        let mut long = json!({"message": "ä".repeat(1_000_000)});
        document(&mut long);
        assert!(long["message"].as_str().unwrap().len() < MAX_PROSE + 8);
    }
}
