//! Waiting for a condition, with a deadline.

use std::fmt::Debug;
use std::future::Future;
use std::time::{Duration, Instant};

/// The shortest and the longest time between two looks; between them, a part of what has passed, so
/// that what is measured with it is right to a twentieth. A look that takes long is repeated after
/// as long again: a process a look would take a whole processor.
const POLL: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(100)];
const PART: u32 = 20;

/// Polls `look` until it returns `Ok`, and returns that; panics with the last `Err` after `within`.
pub async fn until<T, E, F, Fut>(what: &str, within: Duration, mut look: F) -> T
where
    E: Debug,
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    let begun = Instant::now();
    let deadline = begun + within;
    loop {
        let looked = Instant::now();
        let answer = look().await;
        let took = looked.elapsed();
        match answer {
            Ok(found) => return found,
            Err(last) if Instant::now() >= deadline => {
                panic!("{what}: not within {within:?}; last seen: {last:#?}")
            }
            Err(_) => {
                let [shortest, longest] = POLL;
                let pause = (begun.elapsed() / PART).clamp(shortest, longest).max(took);
                tokio::time::sleep(pause).await;
            }
        }
    }
}
