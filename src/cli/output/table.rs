//! Tables for people: upper-case headers, two spaces between columns, no borders.

use std::io::{self, Write};

/// Rows under a header; every column is as wide as its widest cell.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Makes a table with these headers.
    pub(crate) fn new(headers: &[&str]) -> Self {
        let headers = headers.iter().map(|header| (*header).to_owned()).collect();
        Self { rows: vec![headers] }
    }

    /// Adds a row; missing cells are empty.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Writes the table; lines have no trailing blanks.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(cell);
                let padding = width + 2 - cell.chars().count();
                line.extend(std::iter::repeat_n(' ', padding));
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["VERSION", "IN"]);
        table.row(vec!["1.0.0".to_owned(), "yes".to_owned()]);
        table.row(vec!["1.0.0-alpha".to_owned(), "no".to_owned()]);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "VERSION      IN\n1.0.0        yes\n1.0.0-alpha  no\n");
    }
}
