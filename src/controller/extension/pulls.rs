//! Requests to registries that may outlive a reconcile.
//!
//! A registry that answers a byte at a time holds up the extension that needs it, and nobody else:
//! a reconcile waits a few seconds, says that the pull continues, and is called again at its end.

use std::time::Duration;

use futures::SinkExt as _;
use futures::channel::mpsc;
use olm_image::PullError;
use tokio::task::{JoinError, JoinHandle};

use crate::by_key::ByKey;
use crate::cluster::Task;
use crate::turns::RegistryTurns;

/// The time that a reconcile waits for a registry. Nearly every pull takes less.
const PATIENCE: Duration = Duration::from_secs(5);
/// Requests for bundles that one registry is asked to serve at the same time.
const AT_ONCE: usize = 4;
/// Requests for bundles that all registries together are asked to serve at the same time: their
/// layers, 4 GiB at most, lie in temporary files meanwhile, in a folder of 10 GiB. Four
/// registries have to stall before the images of a fifth wait.
const ALL_AT_ONCE: usize = 16;
/// Names of extensions whose pull has ended and that nobody has looked at yet.
const WAITING: usize = 64;

/// Requests to registries, at most one an extension.
pub(super) struct Pulls<T> {
    patience: Duration,
    under_way: ByKey<UnderWay<T>>,
    turns: RegistryTurns,
    ended: mpsc::Sender<String>,
}

/// The end of what was asked of a registry.
type Answer<T> = Result<T, PullError>;

fn lost(error: JoinError) -> PullError {
    PullError::Store(std::io::Error::other(error))
}

/// What continues while no reconcile waits for it.
struct UnderWay<T> {
    image: String,
    end: JoinHandle<Answer<T>>,
    /// Ends it when this is dropped.
    task: Task,
}

/// Returns where the names of extensions come out whose pull has ended, and where they go in.
pub(super) fn ended() -> (mpsc::Sender<String>, mpsc::Receiver<String>) {
    mpsc::channel(WAITING)
}

impl<T: Send + 'static> Pulls<T> {
    /// `ended` is told of the extensions whose pull has ended after their reconcile did.
    pub(super) fn new(ended: mpsc::Sender<String>) -> Self {
        Self {
            patience: PATIENCE,
            under_way: ByKey::default(),
            turns: RegistryTurns::new(ALL_AT_ONCE, AT_ONCE),
            ended,
        }
    }

    /// Does `work` for an extension, or waits for what was begun earlier for the same image.
    /// `None` while it goes on.
    pub(super) async fn wait(
        &self,
        extension: &str,
        image: &str,
        registry: &str,
        work: impl Future<Output = Answer<T>> + Send + 'static,
    ) -> Option<Answer<T>> {
        // What goes on for another image ends here.
        let earlier = self.under_way.put(extension, None).filter(|pull| pull.image == image);
        let (mut pull, left) = match earlier {
            Some(pull) => (pull, true),
            None => (self.begin(image, registry, work), false),
        };
        if let Ok(answer) = tokio::time::timeout(self.patience, &mut pull.end).await {
            return Some(answer.map_err(lost).flatten());
        }
        if !left {
            pull = self.leave(extension, pull);
        }
        self.under_way.put(extension, Some(pull));
        None
    }

    /// Ends what goes on for an extension that is gone.
    pub(super) fn forget(&self, extension: &str) {
        self.under_way.put(extension, None);
    }

    fn begin(
        &self,
        image: &str,
        registry: &str,
        work: impl Future<Output = Answer<T>> + Send + 'static,
    ) -> UnderWay<T> {
        let turn = self.turns.next(registry);
        let end = tokio::spawn(async move {
            let _turn = turn.await;
            work.await
        });
        UnderWay { image: image.to_owned(), task: Task(end.abort_handle()), end }
    }

    /// Has the extension looked at again when its pull ends.
    fn leave(&self, extension: &str, pull: UnderWay<T>) -> UnderWay<T> {
        let mut ended = self.ended.clone();
        let name = extension.to_owned();
        let UnderWay { image, end, task } = pull;
        let end = tokio::spawn(async move {
            let answer = end.await;
            // Nobody listens any more when the controller stops.
            let _ = ended.send(name).await;
            answer.map_err(lost).flatten()
        });
        UnderWay { image, end, task }
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use tokio::sync::oneshot;

    use super::*;

    fn pulls(ended: mpsc::Sender<String>) -> Pulls<u8> {
        Pulls { patience: Duration::from_millis(50), ..Pulls::new(ended) }
    }

    async fn never() -> Answer<u8> {
        std::future::pending().await
    }

    #[tokio::test]
    async fn a_short_pull_ends_in_its_pass() {
        let (ended, _) = super::ended();
        let pulls = pulls(ended);
        let got = pulls.wait("e", "i", "r", async { Ok(1) }).await;
        assert_eq!(got.unwrap().unwrap(), 1);
    }

    #[tokio::test]
    async fn a_long_pull_goes_on_and_calls_at_its_end() {
        let (ended, mut called) = super::ended();
        let pulls = pulls(ended);
        let (finish, finished) = oneshot::channel();
        let work = async { Ok(finished.await.unwrap()) };
        assert!(pulls.wait("e", "i", "r", work).await.is_none());
        assert!(pulls.wait("e", "i", "r", never()).await.is_none());
        finish.send(2).unwrap();
        assert_eq!(called.next().await.as_deref(), Some("e"));
        let got = pulls.wait("e", "i", "r", never()).await;
        assert_eq!(got.unwrap().unwrap(), 2);
    }

    #[tokio::test]
    async fn another_image_ends_the_pull_of_the_first() {
        let (ended, _) = super::ended();
        let pulls = pulls(ended);
        let (held, dropped) = oneshot::channel::<()>();
        let work = async move {
            let _held = held;
            never().await
        };
        assert!(pulls.wait("e", "i", "r", work).await.is_none());
        let got = pulls.wait("e", "j", "r", async { Ok(3) }).await;
        assert_eq!(got.unwrap().unwrap(), 3);
        assert!(dropped.await.is_err());
    }

    #[tokio::test]
    async fn all_registries_together_have_a_limit() {
        let (ended, _) = super::ended();
        let pulls = Pulls { patience: Duration::from_millis(1), ..pulls(ended) };
        for number in 0..ALL_AT_ONCE {
            let (extension, registry) = (format!("e{number}"), format!("r{}", number / AT_ONCE));
            assert!(pulls.wait(&extension, "i", &registry, never()).await.is_none());
        }
        let (started, mut waiting) = oneshot::channel();
        let work = async move {
            started.send(()).unwrap();
            Ok(6)
        };
        assert!(pulls.wait("another", "i", "another", work).await.is_none());
        assert!(waiting.try_recv().is_err());
        pulls.forget("e0");
        waiting.await.unwrap();
    }
}
