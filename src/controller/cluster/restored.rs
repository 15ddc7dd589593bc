//! Notices that the API server went back in time: its etcd was restored from a backup under this
//! process.
//!
//! Watches are not told, and what is in memory describes a cluster that does not exist any more. Resource
//! versions only grow, and a list that names none is a consistent read, whichever API server of a
//! cluster answers it; so one with a lower version than an answer before it tells. Only answers about
//! our own kinds count: they are in the etcd of the API server, while other APIs may count anew.
//!
//! With leader election the Lease tells sooner: it is older than before (`lease`), or, where the
//! backup is younger than its last renewal, the next one is older than what was listed or written
//! before it. Its etcd may be another one (`--etcd-servers-overrides`); the first renewal shows that.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use http::{Method, Request, Response, Uri};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use tokio::sync::watch;

use super::client::is_watch;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The error of each request once this is known: it would be based on outdated state.
const WENT_BACK: &str = "the API server went back to an earlier state";

/// The object that the resource version of an answer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VersionOf {
    /// A list of our kinds: that of all etcd at that time.
    List,
    /// A Lease that was written: that of all etcd at that time, if Leases are in the same etcd.
    Lease,
    /// An object of our kinds, which may be as old as anything.
    Object,
}

/// The newest resource version that is known.
#[derive(Debug, Default)]
struct Newest {
    version: AtomicU64,
    /// Whether Leases count with our kinds, once that is known.
    counts_leases: OnceLock<bool>,
}

/// The metadata of a list or an object.
#[derive(Deserialize)]
struct Answer {
    metadata: ListMeta,
}

/// Returns a client that notices it, and what resolves then. The request that shows it fails, and each
/// after it.
pub fn noticing(client: Client) -> (Client, impl Future<Output = ()> + Send + 'static) {
    let namespace = client.default_namespace().to_owned();
    let newest = Arc::new(Newest::default());
    let (notice, mut noticed) = watch::channel(false);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, newest, notice) = (client.clone(), Arc::clone(&newest), notice.clone());
        async move {
            if *notice.borrow() {
                return Err(WENT_BACK.into());
            }
            let Some(of) = version_of(request.method(), request.uri()) else {
                return Ok::<_, Failure>(client.send(request).await?);
            };
            // What was asked for before may be answered later with less.
            let least = newest.version.load(Ordering::SeqCst);
            let (head, body) = client.send(request).await?.into_parts();
            let bytes = body.collect_bytes().await?;
            if head.status.is_success()
                && let Some(version) = version(&bytes)
                && newest.note(of, version, least)
            {
                notice.send_replace(true);
                return Err(WENT_BACK.into());
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
    /// Notes a version; `least` was known before it was asked for. Says whether it is that of a
    /// backup.
    fn note(&self, of: VersionOf, version: u64, least: u64) -> bool {
        let older = version < least;
        if of == VersionOf::Lease {
            return least > 0 && *self.counts_leases.get_or_init(|| !older) && older;
        }
        self.version.fetch_max(version, Ordering::SeqCst);
        of == VersionOf::List && older
    }
}

/// Returns the object whose version the answer to a request will contain, if it counts.
fn version_of(method: &Method, uri: &Uri) -> Option<VersionOf> {
    let of = |group: &str| {
        let (_, rest) = uri.path().split_once(&format!("/apis/{group}/"))?;
        rest.split_once('/').map(|(_, kind)| kind)
    };
    if *method == Method::PUT && of("coordination.k8s.io").is_some() {
        return Some(VersionOf::Lease);
    }
    let kind = of(olm_api::GROUP)?;
    if *method != Method::GET {
        // What is deleted is answered with in many ways.
        return (*method != Method::DELETE).then_some(VersionOf::Object);
    }
    let mut query = uri.query().unwrap_or_default().split('&');
    let of_then =
        |pair: &str| pair.starts_with("continue=") || pair.starts_with("resourceVersion=");
    let lists = !kind.contains('/') && !is_watch(uri);
    (lists && !query.any(of_then)).then_some(VersionOf::List)
}

fn version(answer: &[u8]) -> Option<u64> {
    let answer: Answer = serde_json::from_slice(answer).ok()?;
    answer.metadata.resource_version?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube::Api;
    use kube::api::ListParams;
    use olm_api::ClusterObjectSet;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::cluster::answering::answering;

    // deploying.md 4.1: what is in memory describes a cluster that does not exist any more
    #[tokio::test]
    async fn a_list_that_is_older_than_the_one_before_is_noticed() {
        let version = Arc::new(AtomicU64::new(7));
        let present = Arc::clone(&version);
        let client = answering(move |_| {
            let version = present.load(Ordering::SeqCst).to_string();
            (200, json!({"metadata": {"resourceVersion": version}, "items": []}))
        });
        let (client, gone_back) = noticing(client);
        let mut gone_back = std::pin::pin!(gone_back);
        let sets = Api::<ClusterObjectSet>::all(client);
        for (now, noticed) in [(7, false), (7, false), (9, false), (8, true)] {
            version.store(now, Ordering::SeqCst);
            assert_eq!(sets.list(&ListParams::default()).await.is_err(), noticed, "{now}");
            let told = tokio::time::timeout(Duration::from_millis(20), gone_back.as_mut()).await;
            assert_eq!(told.is_ok(), noticed, "{now}");
        }
        version.store(10, Ordering::SeqCst);
        assert!(sets.list(&ListParams::default()).await.is_err(), "no request is sent afterwards");
    }

    // deploying.md 4.1: a backup may be younger than the last renewal, and older than what was written
    #[rstest]
    #[case::same_etcd(&[(VersionOf::List, 7), (VersionOf::Lease, 8), (VersionOf::Object, 12), (VersionOf::Lease, 10)], true)]
    #[case::nothing_since(&[(VersionOf::List, 7), (VersionOf::Lease, 8), (VersionOf::Lease, 9)], false)]
    #[case::an_old_object(&[(VersionOf::List, 7), (VersionOf::Object, 3), (VersionOf::Lease, 8)], false)]
    #[case::another_etcd(&[(VersionOf::List, 7), (VersionOf::Lease, 2), (VersionOf::Lease, 3)], false)]
    #[case::before_anything_is_known(&[(VersionOf::Lease, 8), (VersionOf::List, 7), (VersionOf::Lease, 9)], false)]
    fn a_renewal_older_than_what_was_known_before_is_noticed(
        #[case] answers: &[(VersionOf, u64)],
        #[case] noticed: bool,
    ) {
        let newest = Newest::default();
        let older = answers.iter().map(|(of, version)| {
            let least = newest.version.load(Ordering::SeqCst);
            newest.note(*of, *version, least)
        });
        assert_eq!(older.collect::<Vec<_>>().last(), Some(&noticed));
    }

    #[rstest]
    #[case::list("GET", "OWN?limit=500", Some(VersionOf::List))]
    #[case::selected("GET", "OWN?labelSelector=a%3Db", Some(VersionOf::List))]
    #[case::rest_of_a_list("GET", "OWN?limit=500&continue=x", None)]
    #[case::from_a_cache("GET", "OWN?resourceVersion=0", None)]
    #[case::watch("GET", "OWN?watch=true&resourceVersion=1", None)]
    #[case::one("GET", "OWN/a-1", None)]
    #[case::status("PUT", "OWN/a-1/status", Some(VersionOf::Object))]
    #[case::apply("PATCH", "OWN/a-1?fieldManager=m", Some(VersionOf::Object))]
    #[case::deletion("DELETE", "OWN/a-1", None)]
    #[case::renewal("PUT", "LEASES/l", Some(VersionOf::Lease))]
    #[case::lease("GET", "LEASES/l", None)]
    #[case::other_list("GET", "/api/v1/secrets", None)]
    #[case::other("PATCH", "/api/v1/namespaces/n/secrets/s", None)]
    fn only_what_is_certain_counts(
        #[case] method: Method,
        #[case] path: &str,
        #[case] expected: Option<VersionOf>,
    ) {
        let path = path.replace("OWN", "/apis/olm.operatorframework.io/v1/clusterobjectsets");
        let path = path.replace("LEASES", "/apis/coordination.k8s.io/v1/namespaces/n/leases");
        for before in ["", "https://proxy.example.com/k8s/clusters/c-1"] {
            let uri = format!("{before}{path}").parse().unwrap();
            assert_eq!(version_of(&method, &uri), expected);
        }
    }
}
