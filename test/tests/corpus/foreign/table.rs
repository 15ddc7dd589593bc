//! Reads the rows of a table and judges what ours answers to them.
//!
//! A row is equal, or listed as [`Known`]. One that is neither fails its table; so does a listed
//! one that is equal, or is answered in yet another way.

use olm_test::prelude::*;
use serde::Deserialize;

pub(crate) use crate::text;

/// Rows that are answered differently, for one reason.
#[derive(Deserialize)]
pub(crate) struct Known {
    reason: String,
    /// What is part of each of our answers.
    ours: String,
    /// The rows, as [`id`] names them.
    pub(crate) rows: Vec<String>,
}

/// Returns the rows of a table that `known.yaml` lists.
pub(crate) fn known(table: &str) -> Vec<Known> {
    let mut all = paths::yaml("test/tests/corpus/foreign/known.yaml");
    let known: Option<_> = serde_json::from_value(all[table].take()).expect("known rows");
    known.unwrap_or_default()
}

/// Reads the rows of a file.
pub(crate) fn rows(file: &str) -> Vec<Value> {
    crate::rows(&format!("vectors/foreign/{file}"))
}

/// Reads the rows of one kind.
pub(crate) fn rows_of(file: &str, kind: &str) -> Vec<Value> {
    let mut rows = rows(file);
    rows.retain(|row| row["kind"] == kind);
    rows
}

/// Returns the elements of a member that must be texts; an absent one has none.
pub(crate) fn texts<'a>(value: &'a Value, key: &str) -> Vec<&'a str> {
    let items = value[key].as_array().into_iter().flatten();
    items.map(|item| item.as_str().expect("a list of texts")).collect()
}

/// Names a row by test and case; no other row of its table has that name.
pub(crate) fn id(row: &Value) -> String {
    let test = text(row, "src").rsplit(' ').next().unwrap_or_default();
    format!("{test}: {}", text(row, "name"))
}

/// The judgement of a table, as far as its rows were answered.
#[derive(Default)]
pub(crate) struct Table {
    name: &'static str,
    known: Vec<Known>,
    equal: usize,
    named: BTreeMap<String, Vec<String>>,
    seen: BTreeSet<String>,
    failures: Vec<String>,
}

impl Table {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, known: known(name), ..Self::default() }
    }

    /// Takes what ours answers to a row: `Ok` is as the row has it, `Err` says what else.
    pub(crate) fn judge(&mut self, row: &Value, answer: Result<(), String>) {
        let id = id(row);
        let known = self.known.iter().find(|known| known.rows.contains(&id));
        match (answer, known) {
            (Ok(()), None) => self.equal += 1,
            (Ok(()), Some(_)) => self.failures.push(format!("{id}: is listed, and equal")),
            (Err(ours), Some(known)) if ours.contains(&known.ours) => {
                self.named.entry(known.reason.clone()).or_default().push(id.clone());
            }
            (Err(ours), _) => {
                self.failures.push(format!("{id}: ours is {ours}; row {row}"));
            }
        }
        assert!(self.seen.insert(id.clone()), "{id} stands twice");
    }

    /// Says how many of the `rows` are equal and which are named, and fails for all others.
    pub(crate) fn conclude(mut self, rows: usize) {
        let listed = self.known.iter().flat_map(|known| &known.rows);
        let absent = listed.filter(|row| !self.seen.contains(*row));
        self.failures.extend(absent.map(|row| format!("{row}: is listed, and no row")));
        let named: usize = self.named.values().map(Vec::len).sum();
        println!("{}: {} equal, {named} named", self.name, self.equal);
        for (reason, ids) in &self.named {
            println!("  {reason}: {}", ids.join("; "));
        }
        assert!(self.failures.is_empty(), "{}", self.failures.join("\n"));
        assert_eq!(self.seen.len(), rows, "rows of {}", self.name);
    }
}
