//! Notices what stands still: loops that are polled no more, and leases believed held though not
//! renewed. That the API server is away is neither: whoever waits for it is still polled.
//!
//! Source: deploying.md 5.2.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval};

use crate::term::Term;

/// A loop that did not come round for so long stands still.
const MAX_SILENCE: Duration = Duration::from_mins(5);
/// The interval of polls of a loop without an event.
const TICK: Duration = Duration::from_secs(30);

/// Knows when every loop of the process came round last. Clones share it.
#[derive(Clone)]
pub struct Watchdog(Arc<Inner>);

struct Inner {
    loops: Mutex<Vec<Weak<Beat>>>,
    leases: Mutex<Vec<(String, Term)>>,
    tick: Duration,
    /// Time since a fixed moment.
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
}

/// The last iteration of a loop, in milliseconds of the clock.
struct Beat {
    name: String,
    last: AtomicU64,
}

impl Default for Watchdog {
    fn default() -> Self {
        let began = Instant::now();
        Self::new(TICK, move || began.elapsed())
    }
}

impl Watchdog {
    fn new(tick: Duration, clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            loops: Mutex::default(),
            leases: Mutex::default(),
            tick,
            clock: Box::new(clock),
        }))
    }

    /// Returns `part`, watched under a name until it ends or is dropped.
    ///
    /// It has come round whenever a poll returns: a deadlock or an endless loop in anything that it
    /// polls, such as a reconcile, shows.
    pub fn watch<P: Future>(
        &self,
        name: &str,
        part: P,
    ) -> impl Future<Output = P::Output> + use<P> {
        let beat = Arc::new(Beat { name: name.to_owned(), last: AtomicU64::new(self.now()) });
        let mut loops = self.0.loops.lock().unwrap_or_else(PoisonError::into_inner);
        loops.retain(|beat| beat.strong_count() > 0);
        loops.push(Arc::downgrade(&beat));
        drop(loops);
        let watchdog = self.clone();
        async move {
            let mut part = pin!(part);
            let mut ticks = interval(watchdog.0.tick);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            poll_fn(|cx| {
                while ticks.poll_tick(cx).is_ready() {}
                let polled = part.as_mut().poll(cx);
                beat.last.store(watchdog.now(), Ordering::Relaxed);
                polled
            })
            .await
        }
    }

    /// Watches whether a lease that is believed held is renewed.
    pub fn watch_lease(&self, name: &str, term: Term) {
        let mut leases = self.0.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.push((format!("lease {name}"), term));
    }

    /// Returns the watched loops, and whether each of them is running.
    pub fn checks(&self) -> Vec<(String, bool)> {
        let now = self.now();
        let loops = self.0.loops.lock().unwrap_or_else(PoisonError::into_inner);
        let loops = loops.iter().filter_map(Weak::upgrade).map(|beat| {
            let last = beat.last.load(Ordering::Relaxed);
            let silence = Duration::from_millis(now.saturating_sub(last));
            (beat.name.clone(), silence < MAX_SILENCE)
        });
        let leases = self.0.leases.lock().unwrap_or_else(PoisonError::into_inner);
        loops.chain(leases.iter().map(|(name, term)| (name.clone(), !term.is_overdue()))).collect()
    }

    fn now(&self) -> u64 {
        u64::try_from((self.0.clock)().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::sync::oneshot;

    use super::*;
    use crate::term::stopped_clock;

    // deploying.md P41: really stalled, a poll of it does not return.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_loop_that_stands_still_is_named() {
        let (time, clock) = stopped_clock();
        let watchdog = Watchdog::new(TICK, clock);
        let (let_go, held) = mpsc::channel::<()>();
        let (entered, inside) = oneshot::channel();
        let (end, ended) = oneshot::channel::<()>();
        let stalled = tokio::spawn(watchdog.watch("one", async move {
            entered.send(()).unwrap();
            held.recv().unwrap_err();
            ended.await.unwrap();
        }));
        inside.await.unwrap();
        time.fetch_add(MAX_SILENCE.as_secs() - 1, Ordering::SeqCst);
        assert_eq!(watchdog.checks(), [("one".to_owned(), true)]);
        time.fetch_add(1, Ordering::SeqCst);
        assert_eq!(watchdog.checks(), [("one".to_owned(), false)]);
        drop(let_go);
        end.send(()).unwrap();
        stalled.await.unwrap();
        assert_eq!(watchdog.checks(), [], "what has ended is not watched");
    }

    // deploying.md P41: nothing wakes who waits for an API server that is away, but the timer.
    #[tokio::test]
    async fn who_waits_is_polled() {
        let (time, clock) = stopped_clock();
        let watchdog = Watchdog::new(Duration::from_millis(10), clock);
        let part = tokio::spawn(watchdog.watch("one", std::future::pending::<()>()));
        time.fetch_add(MAX_SILENCE.as_secs(), Ordering::SeqCst);
        let deadline = Instant::now() + Duration::from_secs(10);
        while watchdog.checks() != [("one".to_owned(), true)] {
            assert!(Instant::now() < deadline, "it is never polled");
            tokio::task::yield_now().await;
        }
        part.abort();
    }

    // deploying.md P41
    #[test]
    fn a_lease_that_is_held_and_not_renewed_is_named() {
        let (time, clock) = stopped_clock();
        let term = Term::with_clock(clock);
        let watchdog = Watchdog::default();
        watchdog.watch_lease("x", term.clone());
        let holds = || watchdog.checks() == [("lease x".to_owned(), true)];
        assert!(holds(), "waiting for it");
        term.extend(Duration::from_secs(1107));
        time.store(1156, Ordering::SeqCst);
        assert!(holds(), "137 + 20 s since 1000 are not over");
        time.store(1157, Ordering::SeqCst);
        assert!(!holds());
        term.extend(Duration::from_secs(1201));
        assert!(holds(), "renewed");
        time.store(2000, Ordering::SeqCst);
        term.end();
        assert!(holds(), "known to be lost, which ends the process");
    }
}
