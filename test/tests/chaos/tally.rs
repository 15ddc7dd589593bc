//! What was done to the controller and around it, in numbers.

use std::collections::BTreeMap;
use std::fmt;

/// Counts by kind.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) rounds: u64,
    pub(crate) kills: u64,
    /// Kills that found the stage unfinished.
    pub(crate) in_the_middle: u64,
    /// What was deleted by hand, by stage.
    pub(crate) hands: BTreeMap<String, u64>,
    /// What was away, by stage.
    pub(crate) outages: BTreeMap<String, u64>,
}

impl Tally {
    pub(crate) fn count(counts: &mut BTreeMap<String, u64>, kind: String) {
        *counts.entry(kind).or_default() += 1;
    }

    /// Returns the table, with the faults a proxy injected.
    pub(crate) fn with(&self, requests: u64, injected: &BTreeMap<String, u64>) -> String {
        let total: u64 = injected.values().sum();
        let lines = [
            ("rounds", self.rounds.to_string()),
            ("kills", self.kills.to_string()),
            ("  in the middle", self.in_the_middle.to_string()),
            ("requests", requests.to_string()),
            ("injected faults", total.to_string()),
        ];
        let mut table = String::new();
        for (name, value) in lines {
            row(&mut table, name, &value);
        }
        let groups = [
            ("", injected),
            ("deleted: ", &self.hands),
            ("away: ", &self.outages),
        ];
        for (prefix, counts) in groups {
            for (kind, count) in counts {
                row(&mut table, &format!("  {prefix}{kind}"), &count.to_string());
            }
        }
        table
    }
}

fn row(table: &mut String, name: &str, value: &str) {
    use fmt::Write as _;
    // Writing to a String cannot fail.
    let _ = writeln!(table, "{name:<40} {value:>8}");
}
