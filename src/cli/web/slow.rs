//! Answers that take longer than a request may: each is begun once and goes on while nobody waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use serde_json::Value;

use super::{Ask, Documents};

/// The time until a request is answered with a progress page.
const PATIENCE: Duration = Duration::from_secs(4);
/// The time that an answer is kept for its page, which is requested again every two seconds.
const KEPT: Duration = Duration::from_secs(30);
/// Answers that are kept, under way or not asked for again.
const MOST: usize = 64;

/// An answer, shared by all who asked.
pub(super) type Answer = Arc<anyhow::Result<Value>>;

/// Since when an answer is there, and the answer.
type Task = (Arc<OnceLock<Instant>>, Shared<BoxFuture<'static, Answer>>);

/// Answers that are under way.
pub(super) struct Slow {
    kept: Duration,
    tasks: Mutex<BTreeMap<Ask, Task>>,
}

impl Default for Slow {
    fn default() -> Self {
        Self { kept: KEPT, tasks: Mutex::default() }
    }
}

impl Slow {
    /// Returns the answer, or nothing if it is still under way.
    pub(super) async fn ask(&self, documents: &Arc<dyn Documents>, ask: &Ask) -> Option<Answer> {
        let shared = {
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            let full = tasks.len() >= MOST;
            tasks.retain(|key, (since, _)| {
                let age = since.get().map(Instant::elapsed);
                age.is_none_or(|age| age < self.kept && (!full || key == ask))
            });
            if tasks.len() >= MOST && !tasks.contains_key(ask) {
                return None;
            }
            let begin = || begin(Arc::clone(documents), ask.clone());
            tasks.entry(ask.clone()).or_insert_with(begin).1.clone()
        };
        let answer = tokio::time::timeout(PATIENCE, shared).await.ok()?;
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).remove(ask);
        Some(answer)
    }
}

fn begin(documents: Arc<dyn Documents>, ask: Ask) -> Task {
    let since = Arc::new(OnceLock::new());
    let there = Arc::clone(&since);
    // A task of its own, so that it ends while nobody asks.
    let task = tokio::spawn(async move {
        let answer = documents.answer(ask).await;
        there.get_or_init(Instant::now);
        answer
    });
    let answer = async move { Arc::new(task.await.unwrap_or_else(|gone| Err(gone.into()))) };
    (since, answer.boxed().shared())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::Icon;
    use super::*;

    /// Answers with how often it was asked, but not at once.
    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Documents for Counted {
        fn answer(&self, _: Ask) -> BoxFuture<'_, anyhow::Result<Value>> {
            let count = self.0.fetch_add(1, Ordering::Relaxed) + 1;
            let answer = async move {
                tokio::task::yield_now().await;
                Ok(count.into())
            };
            answer.boxed()
        }

        fn icon<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Option<Icon>> {
            async { None }.boxed()
        }
    }

    /// Waits until everything that was begun is there.
    async fn finished(slow: &Slow) {
        let deadline = Instant::now() + Duration::from_secs(30);
        let is_open = |(since, _): &Task| since.get().is_none();
        while slow.tasks.lock().unwrap().values().any(is_open) {
            assert!(Instant::now() < deadline);
            tokio::task::yield_now().await;
        }
    }

    // plugin.md 4, slow answers
    #[tokio::test]
    async fn an_answer_that_nobody_came_for_in_time_is_made_anew() {
        for (kept, want) in [(KEPT, 1), (Duration::ZERO, 2)] {
            let documents: Arc<dyn Documents> = Arc::new(Counted::default());
            let slow = Slow { kept, ..Slow::default() };
            // Looked at once: this begins it and waits for nothing.
            assert!(slow.ask(&documents, &Ask::Catalogs).now_or_never().is_none());
            finished(&slow).await;
            let answer = slow.ask(&documents, &Ask::Catalogs).await.unwrap();
            assert_eq!(answer.as_ref().as_ref().unwrap(), &Value::from(want), "kept for {kept:?}");
        }
    }

    // plugin.md 4, slow answers
    #[tokio::test]
    async fn finished_answers_make_room_but_for_the_one_that_is_asked_for() {
        let documents: Arc<dyn Documents> = Arc::new(Counted::default());
        let slow = Slow::default();
        let name = |i: usize| Ask::Extension(i.to_string());
        for i in 0..MOST {
            assert!(slow.ask(&documents, &name(i)).now_or_never().is_none());
        }
        finished(&slow).await;
        assert_eq!(slow.tasks.lock().unwrap().len(), MOST);
        let answer = slow.ask(&documents, &name(0)).await.unwrap();
        assert_eq!(answer.as_ref().as_ref().unwrap(), &Value::from(1));
        assert!(slow.tasks.lock().unwrap().is_empty());
    }
}
