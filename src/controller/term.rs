//! Until when this process may write.
//!
//! A leader counts from before its last good renewal was sent, by a clock that goes on while the
//! machine sleeps, and every write asks that clock in one place (`cluster::within_term`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;

/// A clock that goes on while the machine sleeps; `Instant` stands still meanwhile on Linux.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Value of [`Inner::until`] of a term without an end.
const FOREVER: u64 = u64::MAX;

/// So long after its end a term is overdue: 20 seconds after the record has ceased to count.
const OVERDUE: Duration = Duration::from_secs(137 + 20 - 107);

/// Nothing is written, because the lease is not held.
#[derive(Debug, thiserror::Error)]
#[error("nothing is written: this process does not lead")]
pub struct NotLeading;

/// The time in which a process may write: while it holds its lease, as far as it knows.
#[derive(Clone)]
pub struct Term(Arc<Inner>);

struct Inner {
    /// Milliseconds of the clock until which writes are allowed; 0 before and after the term.
    until: AtomicU64,
    /// Whether no further write may begin.
    closed: AtomicBool,
    /// Writes that have begun and not ended.
    under_way: watch::Sender<usize>,
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
}

/// One write under way.
pub struct Write(Term);

impl Term {
    /// Returns a term without beginning and end, for a process that needs no lease.
    pub fn unlimited() -> Self {
        let term = Self::pending();
        term.0.until.store(FOREVER, Ordering::SeqCst);
        term
    }

    /// Returns a term that has not begun.
    pub fn pending() -> Self {
        Self::with_clock(uptime)
    }

    pub(crate) fn with_clock(clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            until: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            under_way: watch::Sender::new(0),
            clock: Box::new(clock),
        }))
    }

    /// Allows writes until the clock shows `until`.
    pub(crate) fn extend(&self, until: Duration) {
        let until = u64::try_from(until.as_millis()).unwrap_or(FOREVER);
        self.0.until.store(until, Ordering::SeqCst);
    }

    /// Ends it: nothing is written from now on, what is under way is cut.
    pub fn end(&self) {
        self.close();
        self.0.until.store(0, Ordering::SeqCst);
    }

    /// Returns whether others must have taken the lease long ago although this process still counts
    /// as the holder, because its renewal is stuck.
    pub fn is_overdue(&self) -> bool {
        let until = self.0.until.load(Ordering::SeqCst);
        let overdue = Duration::from_millis(until).saturating_add(OVERDUE);
        until != 0 && until != FOREVER && (self.0.clock)() >= overdue
    }

    /// Lets no further write begin.
    pub fn close(&self) {
        self.0.closed.store(true, Ordering::SeqCst);
    }

    /// Waits until no write is under way.
    pub async fn idle(&self) {
        let mut under_way = self.0.under_way.subscribe();
        // It fails when the sender is gone, which `self` holds.
        let _ = under_way.wait_for(|count| *count == 0).await;
    }

    /// Begins a write, which ends with the returned value.
    pub fn begin(&self) -> Result<Write, NotLeading> {
        // Counted before it is asked: whoever closes a term and finds it idle has the last word.
        self.0.under_way.send_modify(|count| *count += 1);
        let write = Write(self.clone());
        if self.0.closed.load(Ordering::SeqCst) || !write.is_allowed() {
            return Err(NotLeading);
        }
        Ok(write)
    }
}

impl Write {
    /// Returns whether it may continue.
    pub fn is_allowed(&self) -> bool {
        let until = self.0.0.until.load(Ordering::SeqCst);
        until == FOREVER || (self.0.0.clock)().as_millis() < u128::from(until)
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        self.0.0.under_way.send_modify(|count| *count -= 1);
    }
}

/// Returns a clock of tests that goes on by hand, from 1000 seconds on.
#[cfg(test)]
pub(crate) fn stopped_clock() -> (Arc<AtomicU64>, impl Fn() -> Duration + use<>) {
    let time = Arc::new(AtomicU64::new(1000));
    let clock = Arc::clone(&time);
    (time, move || Duration::from_secs(clock.load(Ordering::SeqCst)))
}

/// Returns the time since the machine started.
pub(crate) fn uptime() -> Duration {
    let time = clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_before_and_after_a_term() {
        let (clock, shown) = stopped_clock();
        let term = Term::with_clock(shown);
        assert!(term.begin().is_err());
        term.extend(Duration::from_secs(1107));
        let write = term.begin().unwrap();
        clock.store(1106, Ordering::SeqCst);
        assert!(write.is_allowed() && term.begin().is_ok());
        // A process that was frozen meanwhile finds this out before its next write.
        clock.store(1107, Ordering::SeqCst);
        assert!(!write.is_allowed() && term.begin().is_err());
        term.extend(Duration::from_secs(2000));
        assert!(write.is_allowed() && term.begin().is_ok());
        term.end();
        assert!(!write.is_allowed() && term.begin().is_err());
    }

    #[tokio::test]
    async fn a_closed_term_lets_writes_end() {
        let term = Term::unlimited();
        let write = term.begin().unwrap();
        term.close();
        assert!(write.is_allowed() && term.begin().is_err());
        let idle = tokio::spawn({
            let term = term.clone();
            async move { term.idle().await }
        });
        tokio::task::yield_now().await;
        assert!(!idle.is_finished());
        drop(write);
        idle.await.unwrap();
    }

    #[test]
    fn the_clock_goes_on() {
        let before = uptime();
        assert!(!before.is_zero() && uptime() >= before);
    }
}
