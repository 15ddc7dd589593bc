//! Answers that take longer than a request may: each is begun once and goes on while nobody waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use serde_json::Value;
use tokio::task::AbortHandle;

use super::{Ask, Documents};

/// How long a request waits before it says what it waits for.
const PATIENCE: Duration = Duration::from_secs(4);
/// Answers that are kept, under way or not asked for again.
const MOST: usize = 64;

/// An answer, shared by all who asked.
pub(super) type Answer = Arc<anyhow::Result<Value>>;

/// What makes an answer, and the answer once it is there.
type Task = (AbortHandle, Shared<BoxFuture<'static, Answer>>);

/// Answers that are under way.
#[derive(Default)]
pub(super) struct Slow {
    tasks: Mutex<BTreeMap<Ask, Task>>,
}

impl Slow {
    /// Returns the answer, or nothing if it is still under way.
    pub(super) async fn ask(&self, documents: &Arc<dyn Documents>, ask: &Ask) -> Option<Answer> {
        let shared = {
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            if tasks.len() >= MOST {
                tasks.retain(|_, (task, _)| !task.is_finished());
            }
            if tasks.len() >= MOST && !tasks.contains_key(ask) {
                return None;
            }
            let begin = || begin(Arc::clone(documents), ask.clone());
            tasks.entry(ask.clone()).or_insert_with(begin).1.clone()
        };
        let answer = tokio::time::timeout(PATIENCE, shared).await.ok()?;
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.remove(ask);
        Some(answer)
    }
}

fn begin(documents: Arc<dyn Documents>, ask: Ask) -> Task {
    let task = tokio::spawn(async move { documents.answer(ask).await });
    let abort = task.abort_handle();
    let answer = async move { Arc::new(task.await.unwrap_or_else(|gone| Err(gone.into()))) };
    (abort, answer.boxed().shared())
}
