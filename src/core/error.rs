//! How a failure is shown, and what a reconciler does about it.
//!
//! Errors are `thiserror` enums whose `Display` prints their own layer only; [`Chain`] joins the
//! layers. What a failure means for the reconcile that met it is decided once, by [`Classify`], on
//! the error type itself.

use std::error::Error;
use std::fmt;
use std::io;
use std::iter;
use std::time::Duration;

use itertools::Itertools as _;
use olm_api::conditions::Reason;

/// What a reconciler does after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// Waits for a change of the spec or of something watched, with this reason of `Progressing`.
    Terminal(Reason),
    /// May go away by itself: retry, with growing delays.
    Retry,
    /// Like [`Disposition::Retry`], but delays never exceed the given one.
    RetryWithin(Duration),
    /// Like [`Disposition::Retry`], but a server asks for this delay.
    RetryAfter(Duration),
    /// May go away by itself: reconcile again after exactly this long.
    Wait(Duration),
}

/// Longest `Retry-After` that is obeyed (decision 7): one response must not block the caller for long.
pub const MAX_RETRY_AFTER: Duration = Duration::from_mins(15);

/// Decides what follows from a failure of a reconcile.
pub trait Classify: Error {
    /// Returns what the reconciler does next.
    fn disposition(&self) -> Disposition;

    /// Returns whether it waits for what a person decides or repairs, so that nothing has failed here
    /// although it is retried.
    fn awaits_person(&self) -> bool {
        false
    }

    /// Returns whether another client wrote the object first: its next version will arrive soon,
    /// and nothing is wrong.
    fn is_conflict(&self) -> bool {
        false
    }
}

/// Prints an error and its causes, joined by `": "`, as nested `%w` wrapping does in Go.
///
/// A layer whose text is empty is left out, and a cause that its parent's text already ends with
/// is not printed twice.
pub struct Chain<'a>(pub &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layers =
            iter::successors(Some(self.0), |&error| error.source().map(|it| it as &dyn Error));
        f.write_str(&joined(layers.map(ToString::to_string)))
    }
}

/// Joins the texts of the layers of an error as [`Chain`] does.
pub fn joined(layers: impl Iterator<Item = String>) -> String {
    layers.fold(String::new(), |mut printed, text| {
        if !text.is_empty() && !printed.ends_with(&text) {
            if !printed.is_empty() {
                printed.push_str(": ");
            }
            printed.push_str(&text);
        }
        printed
    })
}

impl fmt::Debug for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Returns text as one word of a shell: as it is where nothing in it means anything to one.
///
/// Example: `it's` becomes `'it'\''s'`.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-/:@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Quotes text as Go's `%q` does for plain text: double quotes, `"`, `\` and control characters
/// escaped.
///
/// Example: `a"b` becomes `"a\"b"`.
pub fn quote(text: &str) -> String {
    use fmt::Write as _;
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            control if control.is_ascii_control() => {
                let _ = write!(quoted, "\\x{:02x}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns the character, or a replacement if it is a control, a line or paragraph break, or
/// invisible and able to change the text around it; XML forbids some of them, terminals interpret
/// others.
pub fn printable(character: char) -> char {
    let treacherous = character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{fffe}'
                | '\u{ffff}'
                | '\u{e0000}'..='\u{e007f}'
        );
    if treacherous { char::REPLACEMENT_CHARACTER } else { character }
}

/// Returns text on one line, without characters that change what stands around it.
pub fn plain(text: &str) -> String {
    text.split_whitespace().join(" ").chars().map(printable).collect()
}

/// Returns the lines of a text, all but the first indented, as [`plain`] text; none that are blank.
pub fn plain_lines(text: &str) -> String {
    text.lines().map(plain).filter(|line| !line.is_empty()).join("\n  ")
}

/// Returns the first `most` of some names, and how many more there are.
///
/// Example: `a, b and 3 more`.
pub fn first_of<T: fmt::Display>(names: impl IntoIterator<Item = T>, most: usize) -> String {
    let mut names = names.into_iter();
    let first = names.by_ref().take(most).join(", ");
    match names.count() {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Takes the path off an error of a temporary file.
///
/// The path holds a random name, so the same failure would read differently on every attempt and
/// each of them would change a status; it also reveals a directory of the machine.
pub fn without_path(error: io::Error) -> io::Error {
    match error.to_string().split_once(" at path \"") {
        Some((cause, _)) => io::Error::new(error.kind(), cause.to_owned()),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        #[source]
        cause: Option<Box<Self>>,
    }

    #[test]
    fn chain_prints_every_layer_once() {
        let layer = |text, cause| Layer { text, cause };
        let error = layer("a", Some(Box::new(layer("b", Some(Box::new(layer("c", None)))))));
        assert_eq!(Chain(&error).to_string(), "a: b: c");
        let repeated = layer("a: b", Some(Box::new(layer("b", None))));
        assert_eq!(Chain(&repeated).to_string(), "a: b");
    }

    #[test]
    fn errors_of_temporary_files_read_the_same_every_time() {
        let shown = |error: io::Error| without_path(error).to_string();
        let full = |name: &str| {
            let text = format!("No space left on device (os error 28) at path \"/cache/{name}\"");
            io::Error::new(io::ErrorKind::StorageFull, text)
        };
        assert_eq!(shown(full(".tmpA")), "No space left on device (os error 28)");
        assert_eq!(shown(full(".tmpA")), shown(full(".tmpB")));
        let kind = without_path(full(".tmpA")).kind();
        assert_eq!(kind, io::ErrorKind::StorageFull);
        let other = || io::Error::from_raw_os_error(13);
        assert_eq!(shown(other()), other().to_string());
    }

    #[test]
    fn a_shell_runs_nothing_of_a_word() {
        let image = "registry.example.com/a:1@sha256:0";
        assert_eq!(shell_word(image), image);
        assert_eq!(shell_word("x;id"), "'x;id'");
        assert_eq!(shell_word("it's $(id)"), r"'it'\''s $(id)'");
    }

    #[test]
    fn quotes_like_go() {
        assert_eq!(quote("a\"b\\c\n\u{1}é"), r#""a\"b\\c\n\x01é""#);
    }
}
