//! Requests: one object by its path, and several side by side.

use futures::stream::{self, StreamExt as _};
use http::Request;
use kube::Client;
use serde_json::Value;

/// Requests that are under way at the same time for one reconcile or command, so that it cannot take
/// all of the API server's attention.
const PARALLEL: usize = 8;

/// Runs futures a few at a time and returns their outputs in order.
///
/// They come as a list, not as an iterator: a closure that makes them would be held across the
/// await, and the compiler cannot show then that the whole may move between threads.
pub async fn join_bounded<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    stream::iter(futures).buffered(PARALLEL).collect().await
}

/// Reads what is at a path.
pub async fn get(client: &Client, path: &str) -> Result<Value, kube::Error> {
    let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    client.request(request).await
}

/// Reads what is at a path, if it is there.
pub async fn read(client: &Client, path: &str) -> Result<Option<Value>, kube::Error> {
    match get(client, path).await {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}
