//! Statistics of the disturbances.

use std::collections::BTreeMap;
use std::fmt;

use olm_test::proxy::Proxy;

use crate::life::Verdict;

/// Kills that found a stage unfinished.
pub(crate) const IN_THE_MIDDLE: &str = "killed in the middle of a stage";

/// How often each kind of thing happened, and what was compared all the time.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: BTreeMap<String, u64>,
    pub(crate) verdict: Verdict,
}

impl Tally {
    pub(crate) fn count(&mut self, kind: impl Into<String>) {
        self.more(kind, 1);
    }

    fn more(&mut self, kind: impl Into<String>, count: u64) {
        *self.counts.entry(kind.into()).or_default() += count;
    }

    /// Says whether anything of a kind was counted.
    pub(crate) fn has(&self, kind: &str) -> bool {
        self.counts.contains_key(kind)
    }

    /// Adds the requests and faults of a proxy since they were added before.
    pub(crate) fn add_faults(&mut self, proxy: &Proxy) {
        let (requests, faults) = proxy.take_counts();
        self.more("requests", requests);
        for (kind, count) in faults {
            self.more(format!("injected: {kind}"), count);
        }
    }

    /// Adds the numbers of another tally.
    pub(crate) fn add(&mut self, other: Self) {
        self.verdict.add(other.verdict);
        for (kind, count) in other.counts {
            self.more(kind, count);
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, count) in &self.counts {
            writeln!(f, "{kind:<70} {count:>8}")?;
        }
        write!(f, "{}", self.verdict)
    }
}
