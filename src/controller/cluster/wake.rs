//! Wakes reconciles when a watched object changes, and decides about retries of watches.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::runtime::watcher;
use olm_cluster::code;
use strum::{EnumIter, IntoStaticStr};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::error::request_of;

/// The time before a better mode of watching is tried again.
pub(super) const CLIMB_AFTER: Duration = Duration::from_mins(30);

/// The delay of a retry after a refused watch: an API server that has just started refuses
/// everything for a moment. Each further refusal increases it, up to [`CLIMB_AFTER`].
const ASK_AGAIN: Duration = Duration::from_secs(5);

const LONGER: u32 = 12;

/// A watch that was refused later than this worked before.
const WORKED: Duration = Duration::from_mins(2);

/// The pause before a refused watch is asked for again.
pub(super) struct Pause(Duration);

impl Pause {
    pub(super) fn new() -> Self {
        Self(ASK_AGAIN)
    }

    /// Waits after the refusal of a watch that began at `since`.
    pub(super) async fn wait(&mut self, since: Instant) {
        if since.elapsed() > WORKED {
            self.0 = ASK_AGAIN;
        }
        tokio::time::sleep(self.0).await;
        self.0 = CLIMB_AFTER.min(self.0 * LONGER);
    }
}

/// How often a revision is woken at most, after a burst.
const INTERVAL: Duration = Duration::from_secs(2);
/// The wake-ups of a burst, as the time that they would take at [`INTERVAL`]: 300.
const BURST: Duration = Duration::from_mins(10);

/// The rate at which each revision is woken: until when its wake-ups would last at [`INTERVAL`].
///
/// Another controller may undo each repair at once, and neither would ever stop.
#[derive(Debug, Default)]
pub(super) struct WakeRates(HashMap<String, Instant>);

impl WakeRates {
    /// Takes those out of `pending` that are woken now.
    pub(super) fn take_due(&mut self, pending: &mut BTreeSet<String>, now: Instant) -> Vec<String> {
        self.0.retain(|_, spent| *spent > now);
        let mut due = Vec::new();
        pending.retain(|name| {
            let spent = self.0.entry(name.clone()).or_insert(now);
            let waits = *spent > now + BURST;
            if !waits {
                *spent += INTERVAL;
                due.push(name.clone());
            }
            waits
        });
        due
    }
}

/// The mode of watching a group of objects; its name in metrics is in lower case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, EnumIter, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Mode {
    /// One watch over everything that any extension manages.
    Shared,
    /// Not known yet.
    #[default]
    Starting,
    /// One watch over everything with our label.
    Collection,
    /// One watch an object.
    Named,
    /// Not at all: the revision looks from time to time, or the account watches what the controller may not.
    Poll,
}

/// A task that ends when this is dropped.
pub struct Task(pub AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Default)]
pub(super) struct Wake {
    pub(super) pending: Mutex<BTreeSet<String>>,
    pub(super) notify: Notify,
    /// Listeners of a revision that are notified before the reconciler, by its name.
    pub(super) listening: Mutex<HashMap<String, Arc<Notify>>>,
}

/// Hears of a revision while a reconcile of it goes on.
pub struct News<'a> {
    pub(super) wake: &'a Wake,
    pub(super) revision: String,
    pub(super) come: Arc<Notify>,
}

impl News<'_> {
    /// Waits until something has happened to an object of the revision since the last call, or since
    /// this was made.
    pub async fn come(&self) {
        self.come.notified().await;
    }
}

impl Drop for News<'_> {
    fn drop(&mut self) {
        lock(&self.wake.listening).remove(&self.revision);
    }
}

impl Wake {
    pub(super) fn all(&self, names: impl IntoIterator<Item = String>) {
        let names: Vec<_> = names.into_iter().collect();
        let listening = lock(&self.listening);
        let come = names.iter().filter_map(|name| listening.get(name));
        come.for_each(|come| come.notify_one());
        drop(listening);
        lock(&self.pending).extend(names);
        self.notify.notify_one();
    }

    pub(super) fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut *lock(&self.pending))
    }
}

pub(super) fn is_refusal(err: &watcher::Error) -> bool {
    request_of(err).is_some_and(|err| matches!(code(err), 401 | 403 | 405))
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    // applying.md 3.10
    #[test]
    fn a_revision_whose_objects_never_rest_is_woken_now_and_then() {
        let (mut rates, start) = (WakeRates::default(), Instant::now());
        let mut pending = BTreeSet::new();
        let mut woken = |name: &str, tenths: std::ops::Range<u32>| {
            let turns = tenths.map(|tenth| {
                pending.insert(name.to_owned());
                let due = rates.take_due(&mut pending, start + Duration::from_millis(100) * tenth);
                due.iter().filter(|due| *due == name).count()
            });
            turns.sum::<usize>()
        };
        assert_eq!(woken("busy", 0..300), 300, "a rollout is followed closely");
        assert!((300..=335).contains(&(300 + woken("busy", 300..600))));
        assert_eq!(woken("busy", 600..700), 5);
        assert_eq!(woken("another", 700..710), 10);
        assert_eq!(woken("busy", 7000..7050), 50, "it has rested");
        assert_eq!(woken("another", 20_000..20_001), 1);
        assert!(rates.0.len() <= 2);
    }
}
