//! A sheet about one thing: labels on the left, their texts on the right. On a terminal long texts
//! are broken into lines.

use std::io::{self, Write};

use super::folded;

/// Labels with lines of text, aligned when written.
#[derive(Debug, Default)]
pub(crate) struct KeyValues {
    rows: Vec<(&'static str, String)>,
}

impl KeyValues {
    pub(crate) fn line(&mut self, label: &'static str, text: String) {
        self.lines(label, [text]);
    }

    /// Adds a label with any number of lines; without a line the label is left out.
    pub(crate) fn lines(&mut self, label: &'static str, lines: impl IntoIterator<Item = String>) {
        let mut label = label;
        for text in lines {
            for line in text.lines() {
                self.rows.push((label, line.to_owned()));
                label = "";
            }
        }
    }

    /// Writes the sheet; lines have no trailing blanks.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let width = self.rows.iter().map(|(label, _)| label.len()).max().unwrap_or(0) + 2;
        for (label, text) in &self.rows {
            writeln!(out, "{}", folded(format!("{label:width$}{text}").trim_end(), width))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_label_are_aligned() {
        let mut sheet = KeyValues::default();
        sheet.line("Name", "a".to_owned());
        sheet.lines("Findings", ["one\ntwo".to_owned(), "three".to_owned()]);
        sheet.lines("Nothing", []);
        let mut out = Vec::new();
        sheet.write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "Name      a\nFindings  one\n          two\n          three\n");
    }
}
