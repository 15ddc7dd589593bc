//! Statistics of the disturbances.

use std::collections::BTreeMap;
use std::fmt;

use olm_test::proxy::Proxy;

use crate::life::Verdict;

/// Counts by kind.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) rounds: u64,
    /// Number of kills, by stage.
    pub(crate) kills: BTreeMap<String, u64>,
    /// Number of kills that found the stage unfinished.
    pub(crate) in_the_middle: u64,
    /// Number of requests of the controller.
    pub(crate) requests: u64,
    /// Number of requests that the proxy failed, by kind of fault.
    pub(crate) faults: BTreeMap<String, u64>,
    /// Number of deletions by hand, by stage.
    pub(crate) hands: BTreeMap<String, u64>,
    /// Number of outages, by stage.
    pub(crate) outages: BTreeMap<String, u64>,
    /// Number of sets of another tenant, edits of a catalog and quotas, by kind.
    pub(crate) acts: BTreeMap<String, u64>,
    /// What was compared all the time.
    pub(crate) verdict: Verdict,
    /// Number of worlds whose end was not that of an undisturbed run.
    pub(crate) unequal: u64,
}

impl Tally {
    pub(crate) fn count(counts: &mut BTreeMap<String, u64>, kind: String) {
        *counts.entry(kind).or_default() += 1;
    }

    /// Returns the statistics of a proxy since they were returned before.
    pub(crate) fn of(proxy: &Proxy) -> Self {
        let (requests, faults) = proxy.take_counts();
        Self { requests, faults, ..Self::default() }
    }

    /// Adds the numbers of another tally.
    pub(crate) fn add(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.in_the_middle += other.in_the_middle;
        self.requests += other.requests;
        self.unequal += other.unequal;
        self.verdict.add(other.verdict);
        for (mine, theirs) in [
            (&mut self.kills, other.kills),
            (&mut self.hands, other.hands),
            (&mut self.outages, other.outages),
            (&mut self.faults, other.faults),
            (&mut self.acts, other.acts),
        ] {
            for (kind, count) in theirs {
                *mine.entry(kind).or_default() += count;
            }
        }
    }

    /// Returns a summary on one line.
    pub(crate) fn brief(&self) -> String {
        format!(
            "{} kills, {} of them in the middle, {} faults, {} deletions by hand, {} other acts",
            sum(&self.kills),
            self.in_the_middle,
            sum(&self.faults),
            sum(&self.hands),
            sum(&self.acts)
        )
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            ("rounds", self.rounds),
            ("kills", sum(&self.kills)),
            ("  in the middle", self.in_the_middle),
            ("requests", self.requests),
            ("injected faults", sum(&self.faults)),
            ("deletions by hand", sum(&self.hands)),
        ];
        for (name, count) in rows {
            row(f, name, count)?;
        }
        let groups = [
            ("killed: ", &self.kills),
            ("", &self.faults),
            ("deleted: ", &self.hands),
            ("away: ", &self.outages),
            ("", &self.acts),
        ];
        for (prefix, counts) in groups {
            for (kind, count) in counts {
                row(f, &format!("  {prefix}{kind}"), *count)?;
            }
        }
        let Verdict { followed, lost, not_installed } = self.verdict;
        row(f, "users' objects followed by UID", followed)?;
        row(f, "  lost", lost)?;
        row(f, "Installed not True after a success", not_installed)?;
        row(f, "unequal ends", self.unequal)
    }
}

fn sum(counts: &BTreeMap<String, u64>) -> u64 {
    counts.values().sum()
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, count: u64) -> fmt::Result {
    writeln!(f, "{name:<70} {count:>8}")
}
