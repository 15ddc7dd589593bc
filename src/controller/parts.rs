//! The parts of this process, and their stop: first the reconcilers, then the servers.

use std::time::Duration;

use futures::future::join_all;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout_at};

use crate::term::Term;
use crate::watchdog::Watchdog;

/// The tasks of this process, by how they end.
pub struct Parts {
    /// End by themselves when the process is to stop, and write until then.
    acting: JoinSet<&'static str>,
    /// End by themselves when the process is to stop.
    serving: JoinSet<&'static str>,
    /// Never end.
    endless: JoinSet<&'static str>,
    limits: Limits,
    watchdog: Watchdog,
}

/// The time limits of stopping (deploying.md 4.4).
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Reconciles under way may take so long to end.
    passes: Duration,
    /// Writes under way may take so long after that.
    writes: Duration,
    /// So long after the beginning of the stop answers may still be sent.
    answers: Duration,
}

const LIMITS: Limits = Limits {
    passes: Duration::from_secs(20),
    writes: Duration::from_secs(15),
    answers: Duration::from_secs(40),
};

impl Parts {
    /// Returns no parts yet; each is watched from its start on.
    pub fn new(watchdog: Watchdog) -> Self {
        Self {
            watchdog,
            acting: JoinSet::new(),
            serving: JoinSet::new(),
            endless: JoinSet::new(),
            limits: LIMITS,
        }
    }

    /// Starts what writes to the cluster.
    pub fn act(&mut self, name: &'static str, part: impl Future<Output = ()> + Send + 'static) {
        self.acting.spawn(self.watchdog.watch(name, named(name, part)));
    }

    /// Starts what answers requests.
    pub fn serve(&mut self, name: &'static str, part: impl Future<Output = ()> + Send + 'static) {
        self.serving.spawn(self.watchdog.watch(name, named(name, part)));
    }

    /// Starts what goes on until the process ends.
    pub fn keep(&mut self, name: &'static str, part: impl Future<Output = ()> + Send + 'static) {
        self.endless.spawn(self.watchdog.watch(name, named(name, part)));
    }

    /// Waits until one of them ends, and says which.
    pub async fn ended(&mut self) -> Result<&'static str, JoinError> {
        tokio::select! {
            Some(ended) = self.acting.join_next() => ended,
            Some(ended) = self.serving.join_next() => ended,
            Some(ended) = self.endless.join_next() => ended,
            else => std::future::pending().await,
        }
    }

    /// Lets reconciles under way end, and cuts between two writes those that take too long. Says
    /// whether nothing of them can be written any more.
    pub async fn stop_acting(&mut self, terms: &[Term]) -> bool {
        ended_by(&mut self.acting, Instant::now() + self.limits.passes).await;
        for term in terms {
            term.close();
        }
        let idle = join_all(terms.iter().map(Term::idle));
        let idle = tokio::time::timeout(self.limits.writes, idle).await.is_ok();
        self.acting.shutdown().await;
        idle
    }

    /// Lets answers under way end; `started` is when the process was to stop.
    pub async fn stop_serving(&mut self, started: Instant) {
        ended_by(&mut self.serving, started + self.limits.answers).await;
        self.serving.shutdown().await;
        self.endless.shutdown().await;
    }
}

async fn named(name: &'static str, part: impl Future<Output = ()>) -> &'static str {
    part.await;
    name
}

/// Waits until all of them have ended, at most until `deadline`.
async fn ended_by(parts: &mut JoinSet<&'static str>, deadline: Instant) {
    while let Ok(Some(ended)) = timeout_at(deadline, parts.join_next()).await {
        match ended {
            Ok(name) => tracing::debug!(name, "ended"),
            Err(error) => tracing::warn!(%error, "a part failed while stopping"),
        }
    }
    if !parts.is_empty() {
        tracing::warn!(parts = parts.len(), "aborted, because they take too long to stop");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const PASSES: Duration = Duration::from_millis(400);
    const WRITES: Duration = Duration::from_millis(300);
    const ANSWERS: Duration = Duration::from_millis(600);
    const NEVER: Duration = Duration::from_hours(1);

    fn parts() -> Parts {
        Parts {
            limits: Limits { passes: PASSES, writes: WRITES, answers: ANSWERS },
            ..Parts::new(Watchdog::default())
        }
    }

    /// Stops and returns how long reconciles and answers took, and whether no write is left.
    async fn stopped(parts: &mut Parts, terms: &[Term]) -> (Duration, Duration, bool) {
        let started = Instant::now();
        let idle = parts.stop_acting(terms).await;
        let passes = started.elapsed();
        parts.stop_serving(started).await;
        (passes, started.elapsed(), idle)
    }

    // However many endless parts there are, everything else is waited for.
    #[rstest]
    #[case::none(0)]
    #[case::some(3)]
    #[tokio::test]
    async fn endless_parts_neither_delay_nor_hasten_the_end(#[case] endless: usize) {
        let mut parts = parts();
        parts.limits = LIMITS;
        for _ in 0..endless {
            parts.keep("endless", std::future::pending());
        }
        let (pass, download) = (Duration::from_millis(50), Duration::from_millis(300));
        parts.act("pass", tokio::time::sleep(pass));
        parts.serve("quick", std::future::ready(()));
        parts.serve("download", tokio::time::sleep(download));
        let (acted, served, idle) = stopped(&mut parts, &[]).await;
        assert!(idle && acted >= pass && served >= download);
        assert!(served < LIMITS.passes);
    }

    #[tokio::test]
    async fn what_takes_too_long_is_cut() {
        let mut parts = parts();
        parts.act("pass", std::future::pending());
        parts.serve("download", tokio::time::sleep(NEVER));
        let (acted, served, idle) = stopped(&mut parts, &[]).await;
        assert!(idle && acted >= PASSES && served >= ANSWERS);
        assert!(served < NEVER);
    }

    // deploying.md P34: a lease is released after the last write only.
    #[rstest]
    #[case::ends(PASSES + WRITES / 3, true)]
    #[case::does_not_end(NEVER, false)]
    #[tokio::test]
    async fn a_write_under_way_is_waited_for(#[case] lasts: Duration, #[case] expected: bool) {
        let term = Term::unlimited();
        let mut parts = parts();
        let write = term.begin().unwrap();
        parts.act("pass", async move {
            tokio::time::sleep(lasts).await;
            drop(write);
            std::future::pending::<()>().await;
        });
        let (acted, _, idle) = stopped(&mut parts, std::slice::from_ref(&term)).await;
        assert_eq!(idle, expected);
        assert!(acted >= lasts.min(PASSES + WRITES));
        assert!(term.begin().is_err());
    }

    #[tokio::test]
    async fn a_part_that_ends_is_named() {
        let mut parts = Parts::new(Watchdog::default());
        parts.keep("endless", std::future::pending());
        parts.act("short", std::future::ready(()));
        assert_eq!(parts.ended().await.unwrap(), "short");
    }
}
