//! How many objects of a kind the API server has stored, out of its metrics: numbers, never an object.
//!
//! For whoever has to know whether there are any and may list none of them.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use http::Request;
use kube::Client;

/// A count is at most this old: each API server counts every minute
/// (`--etcd-count-metric-poll-period`) and up to 1.2 times as much later, so after 132 s at most.
pub const MAX_AGE: Duration = Duration::from_secs(150);

/// The API group and the plural of a kind.
pub type Resource = (String, String);

/// Returns how many objects of these kinds are stored; a kind is missing where that is not known.
///
/// # Errors
/// Fails when the metrics of the API server cannot be read, which takes `get` on `/metrics`.
pub async fn stored_objects(
    client: &Client,
    wanted: &[Resource],
) -> Result<BTreeMap<Resource, u64>, kube::Error> {
    let request = Request::get("/metrics").body(Vec::new()).map_err(kube::Error::HttpError)?;
    let mut lines = client.request_stream(request).await?.lines();
    let mut counts = BTreeMap::new();
    while let Some(line) = lines.try_next().await.map_err(kube::Error::ReadEvents)? {
        if let Some((resource, count)) = sample(&line)
            && wanted.contains(&resource)
        {
            counts.insert(resource, count);
        }
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
}
