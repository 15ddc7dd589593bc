//! Random numbers that a seed reproduces.

use std::time::{Duration, SystemTime};

/// `SplitMix64`: small, and good enough to choose times.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Starts from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Starts from `$SEED`, else from the clock, and prints the seed.
    pub fn from_environment() -> Self {
        let seed = std::env::var("SEED").ok().filter(|text| !text.is_empty()).map_or_else(
            || {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                now.map_or(0, |since| u64::from(since.subsec_nanos()))
            },
            |text| text.parse().expect("SEED is a number"),
        );
        println!("SEED={seed}");
        Self(seed)
    }

    /// Returns another source of numbers, which the seed of this one reproduces too.
    #[must_use]
    pub fn another(&mut self) -> Self {
        Self(self.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
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
        let last = u64::try_from(choices.len() - 1).expect("a short list");
        let index = usize::try_from(self.between(0, last)).expect("an index");
        &choices[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_numbers() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            [(); 8].map(|()| random.between(3, 9))
        };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
        assert!(numbers(1).iter().all(|number| (3..=9).contains(number)));
    }

    #[test]
    fn a_share_is_about_what_was_asked_for() {
        let mut random = Random::new(1);
        let hits = (0..100_000).filter(|_| random.per_mille(50)).count();
        assert!((4_500..5_500).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| !random.per_mille(0)));
    }
}
