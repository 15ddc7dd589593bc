//! Random numbers that a seed reproduces.

use std::time::Duration;

/// A source of numbers.
#[derive(Debug, Clone)]
pub struct Random(fastrand::Rng);

impl Random {
    /// Starts from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// Starts from `$SEED`, else from a random one, and prints the seed.
    pub fn from_environment() -> Self {
        let seed = std::env::var("SEED").ok().filter(|text| !text.is_empty()).map_or_else(
            || u64::from(fastrand::u32(..)),
            |text| text.parse().expect("SEED is a number"),
        );
        println!("SEED={seed}");
        Self::new(seed)
    }

    /// Returns another source of numbers, which the seed of this one reproduces too.
    #[must_use]
    pub fn another(&mut self) -> Self {
        Self(self.0.fork())
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0.u64(low..=high)
    }

    /// Returns a random duration of up to `limit`.
    pub fn up_to(&mut self, limit: Duration) -> Duration {
        let limit = u64::try_from(limit.as_micros()).expect("limits are short");
        Duration::from_micros(self.between(0, limit))
    }

    /// Returns true in `share` of a thousand cases.
    pub fn per_mille(&mut self, share: u64) -> bool {
        self.between(1, 1000) <= share
    }

    /// Returns one of `choices`.
    pub fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.0.usize(..choices.len())]
    }
}
