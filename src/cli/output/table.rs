//! Tables for people: upper-case headers, two spaces between columns, no borders. On a terminal long
//! cells are broken into lines; in a pipe a row is one line.

use std::io::{self, Write};

use super::columns;
use super::fold::{broken, words};

/// Rows under a header.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(headers: &[&str]) -> Self {
        let headers = headers.iter().map(|header| (*header).to_owned()).collect();
        Self { rows: vec![headers] }
    }

    /// Adds a row; missing cells are empty. The lines of a cell become one.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.into_iter().map(joined).collect());
    }

    /// Writes the table, on a terminal not wider than that; lines have no trailing blanks.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.write_within(columns(), out)
    }

    fn write_within(&self, limit: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
        let widths = self.widths(limit);
        for row in &self.rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| lines(cell, *width));
            let cells: Vec<_> = cells.collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            for at in 0..height {
                let mut line = String::new();
                for (cell, width) in cells.iter().zip(&widths) {
                    let part = cell.get(at).map_or("", String::as_str);
                    line.push_str(part);
                    let padding = width + 2 - part.chars().count();
                    line.extend(std::iter::repeat_n(' ', padding));
                }
                writeln!(out, "{}", line.trim_end())?;
            }
        }
        Ok(())
    }

    /// Returns the widths of the columns; within a limit the widest ones give way, down to their
    /// longest word.
    fn widths(&self, limit: Option<usize>) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize, of: fn(&str) -> usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| of(cell)).max().unwrap_or(0)
        };
        let mut widths: Vec<_> =
            (0..columns).map(|at| widest(at, |it| it.chars().count())).collect();
        let least: Vec<_> = (0..columns).map(|at| widest(at, longest_word)).collect();
        let gaps = 2 * columns.saturating_sub(1);
        while limit.is_some_and(|limit| widths.iter().sum::<usize>() + gaps > limit) {
            let wide = (0..columns).filter(|at| widths[*at] > least[*at]);
            let Some(at) = wide.max_by_key(|at| widths[*at]) else { break };
            widths[at] -= 1;
        }
        widths
    }
}

/// Returns the text of a cell: a dash if there is none.
pub(crate) fn cell(text: Option<impl ToString>) -> String {
    text.map_or_else(|| "-".to_owned(), |text| text.to_string())
}

/// Joins the lines of a text.
fn joined(text: String) -> String {
    if !text.contains('\n') {
        return text;
    }
    let mut lines = text.lines();
    let mut one = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        one.push_str(if one.ends_with([':', ';', ',']) { " " } else { "; " });
        one.push_str(line.trim_start());
    }
    one
}

fn margin(text: &str) -> &str {
    &text[..text.len() - text.trim_start_matches(' ').len()]
}

fn longest_word(text: &str) -> usize {
    let words = words(text).map(|word| word.trim_end().chars().count());
    margin(text).len() + words.max().unwrap_or(0)
}

/// Breaks a text into lines, all with the same margin.
fn lines(text: &str, width: usize) -> Vec<String> {
    if text.chars().count() <= width {
        return vec![text.to_owned()];
    }
    let broken = broken(words(text), width, margin(text).len());
    broken.lines().map(|line| line.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(rows: &[&[&str]], limit: Option<usize>) -> String {
        let mut table = Table::new(rows[0]);
        for row in &rows[1..] {
            table.row(row.iter().map(|cell| (*cell).to_owned()).collect());
        }
        let mut out = Vec::new();
        table.write_within(limit, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows: [&[&str]; 3] = [&["VERSION", "IN"], &["1.0.0", "yes"], &["1.0.0-alpha", "no"]];
        let want = "VERSION      IN\n1.0.0        yes\n1.0.0-alpha  no\n";
        assert_eq!(written(&rows, None), want);
    }

    #[test]
    fn a_branch_of_a_tree_stays_at_its_depth() {
        let want = ["  configmap", "  light/lamp-settings"];
        assert_eq!(lines("  configmap light/lamp-settings", 24), want);
    }

    // plugin.md 1.3
    #[test]
    fn a_table_fits_the_terminal_and_loses_nothing() {
        let rows: [&[&str]; 2] = [
            &["NAME", "VERSIONS", "DESCRIPTION"],
            &["lamp", "1.2.0,1.1.0,1.0.0", "Turns lamps on, and off again"],
        ];
        let text = [
            "NAME  VERSIONS       DESCRIPTION",
            "lamp  1.2.0,1.1.0,   Turns lamps",
            "      1.0.0          on, and off",
            "                     again",
        ];
        assert_eq!(written(&rows, Some(34)).lines().collect::<Vec<_>>(), text);
        assert!(written(&rows, Some(60)).lines().all(|line| line.chars().count() <= 60));
        assert_eq!(written(&rows, Some(80)).lines().count(), 2);
    }

    #[test]
    fn the_lines_of_a_cell_become_one() {
        let rows: [&[&str]; 2] = [&["A", "B"], &["a\nb", "errors:\n  - c\n  - d"]];
        assert_eq!(written(&rows, None), "A     B\na; b  errors: - c; - d\n");
    }
}
