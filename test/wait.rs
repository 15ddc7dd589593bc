//! Waiting for a condition, with a deadline.

use std::fmt::Debug;
use std::future::Future;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(100);

/// Polls `look` until it returns `Ok`, and returns that; panics with the last `Err` after `within`.
pub async fn until<T, E, F, Fut>(what: &str, within: Duration, mut look: F) -> T
where
    E: Debug,
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    let deadline = Instant::now() + within;
    loop {
        match look().await {
            Ok(found) => return found,
            Err(last) if Instant::now() >= deadline => {
                panic!("{what}: not within {within:?}; last seen: {last:#?}")
            }
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}
