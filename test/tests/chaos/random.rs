//! Random numbers that a seed repeats.

use std::time::{Duration, SystemTime};

/// `SplitMix64`: small, and good enough to choose moments.
pub(crate) struct Random(u64);

impl Random {
    /// Starts from `$SEED`, else from the clock, and prints the seed.
    pub(crate) fn from_environment() -> Self {
        let seed = std::env::var("SEED").ok().map_or_else(
            || {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                now.map_or(0, |since| u64::from(since.subsec_nanos()))
            },
            |text| text.parse().expect("SEED is a number"),
        );
        println!("SEED={seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// Returns a time of up to `limit`.
    pub(crate) fn up_to(&mut self, limit: Duration) -> Duration {
        let limit = u64::try_from(limit.as_micros()).expect("limits are short");
        Duration::from_micros(self.between(0, limit))
    }
}

#[test]
fn a_seed_repeats_its_numbers() {
    let numbers = |seed| {
        let mut random = Random(seed);
        [(); 8].map(|()| random.between(3, 9))
    };
    assert_eq!(numbers(1), numbers(1));
    assert_ne!(numbers(1), numbers(2));
    assert!(numbers(1).iter().all(|number| (3..=9).contains(number)));
}
