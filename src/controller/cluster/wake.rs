//! Who is woken when a watched object changes, and how watches are tried again.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use olm_cluster::code;
use tokio::sync::Notify;

/// How long a lower rung is kept before a higher one is tried again.
pub(super) const CLIMB_AFTER: Duration = Duration::from_mins(30);

/// How soon a watch is asked for again after a refusal: an API server that has just started refuses
/// everything for a moment. Each further refusal makes the wait longer, up to [`CLIMB_AFTER`].
pub(super) const ASK_AGAIN: Duration = Duration::from_secs(5);

pub(super) const LONGER: u32 = 12;

/// A watch that was refused later than this worked before.
pub(super) const WORKED: Duration = Duration::from_mins(2);

/// How a group of objects is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// One watch over everything that any extension manages.
    Shared,
    /// Not known yet.
    Starting,
    /// One watch over everything with our label.
    Collection,
    /// One watch an object.
    Named,
    /// Not at all; the revision looks from time to time.
    Poll,
}

impl Mode {
    /// All of them, best first.
    pub(super) const ALL: [Self; 5] =
        [Self::Shared, Self::Collection, Self::Named, Self::Poll, Self::Starting];

    /// Returns its name in metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Starting => "starting",
            Self::Collection => "collection",
            Self::Named => "named",
            Self::Poll => "poll",
        }
    }
}

pub(super) struct Wake {
    pub(super) pending: Mutex<BTreeSet<String>>,
    pub(super) notify: Notify,
    /// Who hears of a revision before the reconciler does, by its name.
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

pub(super) fn is_refusal(err: &kube::Error) -> bool {
    matches!(code(err), 401 | 403 | 405)
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
