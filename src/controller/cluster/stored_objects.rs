//! The number of stored objects of a kind, from the API server's metrics: numbers, never an object.
//!
//! For whoever has to know whether there are any and may list none of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use http::Request;
use kube::Client;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::message;

/// A count is at most this old: each API server counts every minute
/// (`--etcd-count-metric-poll-period`) and up to 1.2 times as much later, so after 132 s at most, and what
/// was read is kept for some.
pub const MAX_AGE: Duration = Duration::from_secs(150);

/// The API group and the plural of a kind.
type Resource = (String, String);

/// For so long what was read serves everybody: the metrics of an API server have many megabytes.
const YOUNG: Duration = Duration::from_secs(5);

/// The number of stored objects of each kind; unknown kinds are missing.
type Counts = Arc<BTreeMap<Resource, u64>>;

/// The numbers as they were read last.
#[derive(Debug, Default)]
pub struct StoredObjects(Mutex<Option<(Instant, Counts)>>);

impl StoredObjects {
    /// Returns them, not older than a moment; none where they cannot be read, which takes `get` on
    /// `/metrics`.
    pub async fn read(&self, client: &Client) -> Counts {
        let mut last = self.0.lock().await;
        let began = Instant::now();
        if let Some((at, counts)) = &*last
            && began.duration_since(*at) < YOUNG
        {
            return Arc::clone(counts);
        }
        let (at, counts) = match read(client).await {
            Ok(counts) => (began, Arc::new(counts)),
            Err(error) => {
                tracing::warn!(error = message(&error), "metrics of the API server not read");
                // Who has waited meanwhile does not wait for the same again.
                (Instant::now(), Counts::default())
            }
        };
        *last = Some((at, Arc::clone(&counts)));
        counts
    }
}

async fn read(client: &Client) -> Result<BTreeMap<Resource, u64>, kube::Error> {
    let request = Request::get("/metrics").body(Vec::new()).map_err(kube::Error::HttpError)?;
    let mut lines = client.request_stream(request).await?.lines();
    let mut counts = BTreeMap::new();
    while let Some(line) = lines.try_next().await.map_err(kube::Error::ReadEvents)? {
        counts.extend(sample(&line));
    }
    Ok(counts)
}

/// Reads a line of the metrics, if it is a number of stored objects. A count that failed is -1.
fn sample(line: &str) -> Option<(Resource, u64)> {
    let (name, rest) = line.split_once('{')?;
    let (labels, value) = rest.split_once("} ")?;
    let label = |wanted: &str| {
        let mut labels = labels.split(',').filter_map(|label| label.split_once('='));
        let (_, value) = labels.find(|(name, _)| *name == wanted)?;
        Some(value.trim_matches('"'))
    };
    let (group, plural) = match name {
        "apiserver_resource_objects" => (label("group")?, label("resource")?),
        // Before Kubernetes 1.34.
        "apiserver_storage_objects" => {
            let (plural, group) = label("resource")?.split_once('.')?;
            (group, plural)
        }
        _ => return None,
    };
    // Large numbers are written with an exponent.
    let value = value.split_whitespace().next()?.parse::<f64>().ok()?;
    let count = value.to_string().parse().ok()?;
    Some(((group.to_owned(), plural.to_owned()), count))
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::Response;
    use kube::client::Body;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::now(r#"apiserver_resource_objects{group="a.example.com",resource="foos"} 3"#, Some(3))]
    #[case::before(r#"apiserver_storage_objects{resource="foos.a.example.com"} 0"#, Some(0))]
    #[case::many(
        r#"apiserver_resource_objects{group="a.example.com",resource="foos"} 1.5e+06"#,
        Some(1_500_000)
    )]
    #[case::failed(r#"apiserver_storage_objects{resource="foos.a.example.com"} -1"#, None)]
    #[case::core(r#"apiserver_storage_objects{resource="pods"} 7"#, None)]
    #[case::another(r#"apiserver_watch_cache_size{resource="foos.a.example.com"} 7"#, None)]
    #[case::comment("# TYPE apiserver_resource_objects gauge", None)]
    fn a_line_of_the_metrics(#[case] line: &str, #[case] want: Option<u64>) {
        let resource = ("a.example.com".to_owned(), "foos".to_owned());
        assert_eq!(sample(line), want.map(|count| (resource, count)));
    }

    // ours: a thousand extensions that are removed at once read the metrics once
    #[tokio::test]
    async fn the_metrics_are_read_once_for_many() {
        let asked = Arc::new(AtomicUsize::new(0));
        let service = tower::service_fn({
            let asked = Arc::clone(&asked);
            move |_: Request<Body>| {
                asked.fetch_add(1, Ordering::Relaxed);
                let metrics = "# of an API server\n\
                    apiserver_resource_objects{group=\"a.example.com\",resource=\"foos\"} 3\n\
                    apiserver_resource_objects{group=\"b.example.com\",resource=\"bars\"} 0\n";
                let body = Body::from(metrics.as_bytes().to_vec());
                ready(Ok::<_, kube::Error>(Response::new(body)))
            }
        });
        let (client, stored) = (Client::new(service, "default"), StoredObjects::default());
        let of = |group: &str, plural: &str| (group.to_owned(), plural.to_owned());
        let want = [(of("a.example.com", "foos"), 3), (of("b.example.com", "bars"), 0)];
        for _ in 0..2 {
            assert_eq!(*stored.read(&client).await, BTreeMap::from(want.clone()));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
}
