//! Notices that the API server went back in time: its etcd was restored from a backup under this
//! process.
//!
//! Watches are not told, and what is in memory describes a cluster that does not exist any more. Resource
//! versions only grow, and a list that names none is a consistent read, whichever API server of a
//! cluster answers it; so one with a lower version than an answer before it tells. Only lists of
//! our own kinds count: they are in the etcd of the API server, while other APIs may count anew.
//! With leader election the Lease tells sooner (`lease`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, Request, Response, Uri};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use tokio::sync::watch;

use super::client::is_watch;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The newest resource version of each list of a kind.
#[derive(Debug, Default)]
struct Newest(Mutex<HashMap<String, u64>>);

/// What a list says of itself.
#[derive(Deserialize)]
struct Listed {
    metadata: ListMeta,
}

/// Returns a client that notices it, and what resolves then.
pub fn noticing(client: Client) -> (Client, impl Future<Output = ()> + Send + 'static) {
    let namespace = client.default_namespace().to_owned();
    let newest = Arc::new(Newest::default());
    let (notice, mut noticed) = watch::channel(false);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, newest, notice) = (client.clone(), Arc::clone(&newest), notice.clone());
        async move {
            let Some(kind) = listed(request.method(), request.uri()) else {
                return Ok::<_, Failure>(client.send(request).await?);
            };
            // A list that was asked for before may answer later with less.
            let least = newest.of(&kind);
            let (head, body) = client.send(request).await?.into_parts();
            let bytes = body.collect_bytes().await?;
            if head.status.is_success()
                && let Some(version) = version(&bytes)
                && newest.note(kind, version) < least
            {
                notice.send_replace(true);
            }
            Ok(Response::from_parts(head, Body::from(bytes)))
        }
    });
    let gone_back = async move {
        // Without the client there is nobody left who could notice.
        if noticed.wait_for(|noticed| *noticed).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    (Client::new(service, namespace), gone_back)
}

impl Newest {
    fn of(&self, kind: &str) -> u64 {
        let newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        newest.get(kind).copied().unwrap_or_default()
    }

    /// Notes a version, and returns it.
    fn note(&self, kind: String, version: u64) -> u64 {
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = newest.entry(kind).or_default();
        *known = version.max(*known);
        version
    }
}

/// Returns which of our kinds a request lists as it is now, if it does.
fn listed(method: &Method, uri: &Uri) -> Option<String> {
    let (_, rest) = uri.path().split_once(&format!("/apis/{}/", olm_api::GROUP))?;
    let (_, kind) = rest.split_once('/')?;
    let mut query = uri.query().unwrap_or_default().split('&');
    let of_then =
        |pair: &str| pair.starts_with("continue=") || pair.starts_with("resourceVersion=");
    let lists = method == Method::GET && !kind.contains('/') && !is_watch(uri);
    (lists && !query.any(of_then)).then(|| kind.to_owned())
}

fn version(list: &[u8]) -> Option<u64> {
    let listed: Listed = serde_json::from_slice(list).ok()?;
    listed.metadata.resource_version?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use kube::Api;
    use kube::api::ListParams;
    use olm_api::ClusterObjectSet;
    use rstest::rstest;

    use super::*;

    // deploying.md 4.1: what is in memory describes a cluster that does not exist any more
    #[tokio::test]
    async fn a_list_that_is_older_than_the_one_before_is_noticed() {
        let version = Arc::new(AtomicU64::new(7));
        let service = tower::service_fn({
            let version = Arc::clone(&version);
            move |_: Request<Body>| {
                let version = version.load(Ordering::SeqCst).to_string();
                let list = serde_json::json!({"kind": "List", "apiVersion": "v1",
                    "metadata": {"resourceVersion": version}, "items": []});
                ready(Ok::<_, Failure>(Response::new(Body::from(list.to_string().into_bytes()))))
            }
        });
        let (client, gone_back) = noticing(Client::new(service, "default"));
        let mut gone_back = std::pin::pin!(gone_back);
        let sets = Api::<ClusterObjectSet>::all(client);
        for (now, noticed) in [(7, false), (7, false), (9, false), (8, true)] {
            version.store(now, Ordering::SeqCst);
            sets.list(&ListParams::default()).await.unwrap();
            let told = tokio::time::timeout(Duration::from_millis(20), gone_back.as_mut()).await;
            assert_eq!(told.is_ok(), noticed, "{now}");
        }
    }

    #[rstest]
    #[case::list("/clusterobjectsets?limit=500", true)]
    #[case::selected("/clusterobjectsets?labelSelector=a%3Db", true)]
    #[case::rest_of_a_list("/clusterobjectsets?limit=500&continue=x", false)]
    #[case::from_a_cache("/clusterobjectsets?resourceVersion=0", false)]
    #[case::watch("/clusterobjectsets?watch=true&resourceVersion=1", false)]
    #[case::one("/clusterobjectsets/a-1", false)]
    fn only_lists_of_what_is_now_count(#[case] end: &str, #[case] counts: bool) {
        for before in ["", "https://proxy.example.com/k8s/clusters/c-1"] {
            let uri = format!("{before}/apis/olm.operatorframework.io/v1{end}").parse().unwrap();
            assert_eq!(listed(&Method::GET, &uri).is_some(), counts);
            assert_eq!(listed(&Method::DELETE, &uri), None);
        }
        let others = "/api/v1/secrets".parse().unwrap();
        assert_eq!(listed(&Method::GET, &others), None);
    }
}
