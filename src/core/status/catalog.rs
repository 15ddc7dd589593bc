//! The conditions of a `ClusterCatalog` (api.md 2.5).

use olm_api::conditions::{Reason, types};

use super::Statement;
use crate::catalog::lint::Tally;

/// Longest message of `ContentValid`, in bytes.
const FINDINGS_LIMIT: usize = 4096;
/// Longest note of an Event, in bytes.
pub const NOTE_LIMIT: usize = 1000;

const NOTHING_UNPACKED: &str = "Catalog contents have not been unpacked yet";
const SWITCHED_OFF: &str = "Catalog availability mode is set to Unavailable";

/// `Serving` is true: content is served.
pub fn serving() -> Statement {
    Statement::yes(
        types::SERVING,
        Reason::Available,
        "Serving desired content from resolved source",
    )
}

/// `Serving` is false: nothing was unpacked yet, and nothing can be served.
pub fn nothing_unpacked() -> Statement {
    Statement::no(types::SERVING, Reason::Unavailable, NOTHING_UNPACKED)
}

/// `ContentValid` is not known: nothing was unpacked yet.
pub fn nothing_read() -> Statement {
    Statement::unknown(types::CONTENT_VALID, Reason::NotRead, NOTHING_UNPACKED)
}

/// `ContentValid`: what the lint found in the content of a catalog.
pub fn examined(catalog: &str, found: &Tally) -> Statement {
    if found.errors + found.warnings == 0 {
        let text = "The content has neither errors nor warnings.";
        return Statement::yes(types::CONTENT_VALID, Reason::NoFindings, text);
    }
    let text = findings(catalog, found, FINDINGS_LIMIT);
    Statement::no(types::CONTENT_VALID, Reason::Findings, text)
}

/// Says how much was found, the worst of it as far as that fits into so many bytes, and how to see
/// all.
pub fn findings(catalog: &str, found: &Tally, limit: usize) -> String {
    const CUT: &str = "…";
    let mut text = counted(found);
    if found.packages > 0 {
        text = format!("{text} in {}", number(found.packages, "package"));
    }
    let end = format!("\nall: kubectl olm catalog lint {catalog}");
    let mut separator = "; ";
    for line in &found.worst {
        let room = limit.saturating_sub(text.len() + separator.len() + end.len());
        let hint = line.hint.as_ref().map(|hint| format!("; hint: {hint}"));
        let hint = hint.unwrap_or_default();
        if line.text.len() > room {
            if let Some(room) = room.checked_sub(CUT.len()) {
                text.push_str(separator);
                text.push_str(&line.text[..line.text.floor_char_boundary(room)]);
                text.push_str(CUT);
            }
            break;
        }
        text.push_str(separator);
        text.push_str(&line.text);
        if line.text.len() + hint.len() <= room {
            text.push_str(&hint);
        }
        separator = "\n";
    }
    text + &end
}

/// Returns `2 errors, 5 warnings`; nothing for a number that is zero.
pub fn counted(found: &Tally) -> String {
    let numbers = [(found.errors, "error"), (found.warnings, "warning")];
    let numbers = numbers.into_iter().filter(|(count, _)| *count > 0);
    let numbers: Vec<_> = numbers.map(|(count, word)| number(count, word)).collect();
    numbers.join(", ")
}

fn number(count: usize, word: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {word}{s}")
}

/// The content was removed, because the catalog is being deleted.
pub fn removed() -> [Statement; 2] {
    [
        Statement::no(types::SERVING, Reason::Unavailable, ""),
        Statement::unknown(types::CONTENT_VALID, Reason::NotRead, ""),
    ]
}

/// The content was removed, because the catalog is disabled. `Progressing` is true on purpose: the
/// catalog can continue when it is enabled again.
pub fn switched_off() -> [Statement; 3] {
    [
        Statement::no(
            types::SERVING,
            Reason::UserSpecifiedUnavailable,
            SWITCHED_OFF,
        ),
        Statement::yes(types::PROGRESSING, Reason::Succeeded, SWITCHED_OFF),
        Statement::unknown(types::CONTENT_VALID, Reason::NotRead, SWITCHED_OFF),
    ]
}

/// `Progressing` is true: the content is unpacked and stored.
pub fn unpacked() -> Statement {
    Statement::yes(
        types::PROGRESSING,
        Reason::Succeeded,
        "Successfully unpacked and stored content from resolved source",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::lint::Line;

    fn line(text: impl Into<String>, hint: Option<&str>) -> Line {
        Line {
            text: text.into(),
            hint: hint.map(str::to_owned),
        }
    }

    fn tally(worst: Vec<Line>) -> Tally {
        Tally {
            errors: 2,
            warnings: 5,
            packages: 3,
            worst,
        }
    }

    // plugin.md U62, U72
    #[test]
    fn findings_are_told_with_their_way_out() {
        let found = tally(vec![
            line(
                "teapot/index.yaml:31: channel \"stable\" has 2 heads: a, b",
                None,
            ),
            line(
                "x.yaml:4: unknown field \"name\"",
                Some("the field is packageName"),
            ),
        ]);
        let said = examined("acme", &found);
        assert_eq!((said.status, said.reason), ("False", Reason::Findings));
        insta::assert_snapshot!(said.message, @r#"
        2 errors, 5 warnings in 3 packages; teapot/index.yaml:31: channel "stable" has 2 heads: a, b
        x.yaml:4: unknown field "name"; hint: the field is packageName
        all: kubectl olm catalog lint acme
        "#);
        let said = examined("acme", &Tally::default());
        assert_eq!((said.status, said.reason), ("True", Reason::NoFindings));
        let one = Tally {
            warnings: 1,
            worst: vec![line("a:1: b", None)],
            ..Tally::default()
        };
        let text = "1 warning; a:1: b\nall: kubectl olm catalog lint acme";
        assert_eq!(examined("acme", &one).message, text);
    }

    // plugin.md U72: ten lines, 4,096 bytes, no half characters
    #[test]
    fn long_findings_are_cut() {
        let ten = (0..10).map(|i| line(format!("f:{i}: x"), None));
        let text = examined("acme", &tally(ten.collect())).message;
        assert_eq!(text.lines().count(), 11);
        for bytes in 1330..1350 {
            let long = (0..10).map(|_| line("é".repeat(bytes / 2), Some("h")));
            let text = examined("acme", &tally(long.collect())).message;
            assert!(
                text.len() <= FINDINGS_LIMIT && text.len() > FINDINGS_LIMIT - 16,
                "{bytes}"
            );
            assert!(
                text.ends_with("\nall: kubectl olm catalog lint acme"),
                "{text}"
            );
        }
        // A hint that does not fit is left out before the finding is.
        let room = FINDINGS_LIMIT - "2 errors, 5 warnings in 3 packages; ".len();
        let room = room - "\nall: kubectl olm catalog lint acme".len();
        let text = examined("acme", &tally(vec![line("x".repeat(room), Some("h"))])).message;
        assert!(!text.contains("hint") && !text.contains('…') && text.len() == FINDINGS_LIMIT);
        let note = findings(
            "acme",
            &tally(vec![line("x".repeat(room), None)]),
            NOTE_LIMIT,
        );
        assert_eq!(note.len(), NOTE_LIMIT);
    }
}
