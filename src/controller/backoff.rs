//! Delays between attempts, kept per object.
//!
//! kube's controller gives its error policy no attempt count, so the count lives here. What goes in
//! is the key of a failing object, what comes out is how long to wait; which failures are retried
//! at all is decided elsewhere, by [`olm_core::error::Classify`].

use std::time::Duration;

use crate::by_key::ByKey;

/// First delay after a failure of a ClusterExtension or a ClusterObjectSet (decision 7).
pub const FIRST_DELAY_EXTENSION: Duration = Duration::from_millis(5);
/// First delay after a failure of a ClusterCatalog (decision 7).
pub const FIRST_DELAY_CATALOG: Duration = Duration::from_secs(1);
/// First delay after a failure of a watch, before a part of it is taken off at random.
const FIRST_DELAY_WATCH: Duration = Duration::from_secs(1);
/// Longest delay after a failure of a watch.
const MAX_DELAY_WATCH: Duration = Duration::from_secs(8);
/// No delay is longer than this, jitter aside (decision 7).
pub const MAX_DELAY: Duration = Duration::from_mins(5);
/// The interval of reconciles of a settled or terminally failed object, without jitter.
pub const RESYNC: Duration = Duration::from_hours(10);

/// Part of a delay that is added at random, so that objects failing together drift apart.
const JITTER: f64 = 0.1;

/// Delays that double with every failure of the same object, up to a cap, with 10 % jitter.
#[derive(Debug)]
pub struct Backoff {
    first: Duration,
    cap: Duration,
    failures: ByKey<u32>,
}

impl Backoff {
    /// Returns a backoff whose first delay is `first` and whose longest is `cap`.
    pub fn new(first: Duration, cap: Duration) -> Self {
        Self { first, cap, failures: ByKey::default() }
    }

    /// Counts a failure of `key` and returns how long to wait before the next attempt.
    ///
    /// The result lies between the doubled delay and 10 % above it.
    pub fn next(&self, key: &str) -> Duration {
        self.next_within(key, self.cap)
    }

    /// Like [`Backoff::next`], with the delay before jitter held at or below `limit`, beyond which no
    /// failure counts.
    pub fn next_within(&self, key: &str, limit: Duration) -> Duration {
        let delay = {
            let mut counts = self.failures.lock();
            let count = counts.entry(key.to_owned()).or_default();
            if delay(self.first, self.cap, *count) < limit {
                *count = count.saturating_add(1);
            }
            delay(self.first, self.cap, *count)
        };
        jittered(delay.min(limit))
    }

    /// Forgets the failures of `key`: its next delay is the first one again.
    pub fn forget(&self, key: &str) {
        self.failures.put(key, None);
    }
}

/// Delays before a watch that failed starts anew; an event in between forgets the failures.
///
/// They are shorter than kube's (30 s, and as much again at random): until its watches are back the
/// controller hears of nothing.
#[derive(Debug, Default)]
pub struct WatchDelays {
    failures: u32,
}

impl Iterator for WatchDelays {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        let delay = delay(FIRST_DELAY_WATCH, MAX_DELAY_WATCH, self.failures);
        Some(delay.mul_f64(1.0 - fastrand::f64() / 2.0))
    }
}

impl kube::runtime::utils::Backoff for WatchDelays {
    fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Returns `RESYNC` with up to 10 % added at random.
pub fn resync() -> Duration {
    jittered(RESYNC)
}

/// Returns `delay` with up to 10 % added at random.
pub fn jittered(delay: Duration) -> Duration {
    delay.mul_f64(1.0 + JITTER * fastrand::f64())
}

/// Returns the delay after the given number of failures in a row: `first`, doubled once for each
/// failure after the first, at most `cap`.
fn delay(first: Duration, cap: Duration, failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    first.saturating_mul(1 << doublings).min(cap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::first(1, 1)]
    #[case::second(2, 2)]
    #[case::ninth(9, 256)]
    #[case::capped(10, 300)]
    #[case::stays_at_the_cap(u32::MAX, 300)]
    fn doubles_up_to_the_cap(#[case] failures: u32, #[case] seconds: u64) {
        let got = delay(FIRST_DELAY_CATALOG, MAX_DELAY, failures);
        assert_eq!(got, Duration::from_secs(seconds));
    }

    #[test]
    fn one_object_does_not_slow_another_and_success_forgets() {
        let backoff = Backoff::new(Duration::from_secs(1), MAX_DELAY);
        for _ in 0..5 {
            backoff.next("a");
        }
        assert!(backoff.next("a") >= Duration::from_secs(32));
        assert!(backoff.next("b") < Duration::from_secs(2));
        backoff.forget("a");
        assert!(backoff.next("a") < Duration::from_secs(2));
    }

    #[test]
    fn a_watch_comes_back_within_seconds() {
        use kube::runtime::utils::Backoff as _;

        let mut delays = WatchDelays::default();
        let drawn: Vec<Duration> = delays.by_ref().take(20).collect();
        assert!(drawn.iter().all(|delay| *delay <= MAX_DELAY_WATCH));
        assert!(drawn[10..].iter().all(|delay| *delay >= MAX_DELAY_WATCH / 2));
        delays.reset();
        assert!(delays.next() <= Some(FIRST_DELAY_WATCH));
    }

    #[test]
    fn jitter_adds_at_most_a_tenth() {
        for _ in 0..100 {
            let got = jittered(Duration::from_secs(100));
            assert!(got >= Duration::from_secs(100) && got < Duration::from_secs(110));
        }
    }
}
