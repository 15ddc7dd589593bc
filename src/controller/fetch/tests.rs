use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use axum::routing::get;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use olm_api::keys::label;
use olm_api::{
    AvailabilityMode, CatalogSourceType, ClusterCatalogSpec, ClusterCatalogStatus,
    ClusterCatalogUrls, ResolvedCatalogSource, ResolvedImageSource,
};
use olm_core::catalog::read;
use olm_core::error::Chain;
use olm_core::status::catalog as texts;
use olm_image::Room;
use rstest::rstest;
use tempfile::TempDir;

use super::*;
use crate::catalog::store::Origin;
use crate::catalog::{CatalogServer, Published};
use crate::server::{Limits, catalogs, started, tls};
use crate::tls::CurrentProfile;

const BLOBS: &str = r#"{"schema":"olm.package","name":"p","defaultChannel":"c"}
{"schema":"olm.channel","package":"p","name":"c","entries":[{"name":"p.v1"}]}
{"schema":"olm.bundle","package":"p","name":"p.v1","image":"example.com/p@sha256:1"}
{"schema":"olm.bundle","package":"q","name":"../../q.v1","properties":7}"#;

const PACKAGE: &str = "{\"schema\":\"olm.package\",\"name\":\"p\"}\n";

fn reference(digest: &str) -> String {
    format!("example.com/c@sha256:{digest}")
}

/// A catalog object that says it is served at `base` with content `digest`.
fn object(name: &str, base: &str, digest: &str) -> ClusterCatalog {
    let mut catalog = ClusterCatalog::new(name, ClusterCatalogSpec::default());
    catalog.metadata.uid = Some(format!("uid-{name}"));
    let mut status = ClusterCatalogStatus {
        resolved_source: Some(ResolvedCatalogSource {
            type_: CatalogSourceType::Image,
            image: ResolvedImageSource { ref_: reference(digest) },
        }),
        urls: Some(ClusterCatalogUrls { base: format!("{base}/catalogs/{name}") }),
        ..ClusterCatalogStatus::default()
    };
    texts::serving().put(&mut status.conditions, None, Timestamp::UNIX_EPOCH);
    catalog.status = Some(status);
    catalog
}

fn put(store: &Store, name: &str, digest: &str, text: &str) {
    let origin = Origin {
        catalog: name.to_owned(),
        uid: format!("uid-{name}"),
        reference: reference(digest),
        unpacked: Timestamp::UNIX_EPOCH,
    };
    let documents = read::documents([("c", text.as_bytes())]).unwrap();
    store.write(origin, documents.map(|it| it.meta)).unwrap();
}

fn listen(routes: Router) -> String {
    format!("http://{}", started(None, routes))
}

/// Serves with a certificate of its own; returns the address and the certificate.
fn listen_with_tls(folder: &Path, routes: Router) -> (String, String) {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.join("c"), folder.join("k"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let serving =
        tls::CertificateFiles::load(&certificate, &key, CurrentProfile::default()).unwrap();
    let port = started(Some(serving.certificates()), routes).port();
    (format!("https://localhost:{port}"), made.cert.pem())
}

/// A catalog server of the other half.
fn other_half(folder: &Path) -> (Arc<Store>, String) {
    let store = Arc::new(Store::open(folder, Room::default()).unwrap());
    let base = listen(routes(&store));
    (store, base)
}

fn routes(store: &Arc<Store>) -> Router {
    let (store, metrics) = (Arc::clone(store), Metrics::default());
    catalogs::routes(catalogs::Catalogs { store, metrics, metas: true })
}

fn remote(folder: &TempDir) -> Catalogs {
    measured(folder).0
}

/// The same with its metrics.
fn measured(folder: &TempDir) -> (Catalogs, Metrics) {
    let metrics = Metrics::default();
    let trust = Trust::Published(Published::default());
    (trusting(folder.path(), trust, &metrics).unwrap(), metrics)
}

fn trusting(folder: &Path, trust: Trust, metrics: &Metrics) -> anyhow::Result<Catalogs> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let (profile, room) = (CurrentProfile::default(), Room::default());
    Catalogs::remote(folder, trust, profile, room, metrics.clone())
}

fn bundles(known: &KnownCatalog) -> Option<usize> {
    known.package("p").map(|package| package.bundles.len())
}

async fn look(catalogs: &Catalogs, object: &ClusterCatalog) -> KnownCatalog {
    let mut known =
        catalogs.known(std::slice::from_ref(object), "p", Some(&Selector::default())).await;
    known.remove(0)
}

#[tokio::test]
async fn own_store_is_read_directly() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(folder.path(), Room::default()).unwrap());
    let catalogs = Catalogs::own(Arc::clone(&store));
    let known = look(&catalogs, &object("a", "http://unused", "1")).await;
    assert_eq!(known.problem(), Some(&CatalogProblem::NotCached));
    put(&store, "a", "1", BLOBS);
    let known = look(&catalogs, &object("a", "http://unused", "1")).await;
    assert_eq!((known.problem(), bundles(&known)), (None, Some(1)));
    assert_eq!(known.as_catalog().labels[label::METADATA_NAME], "a");
    // Content of an older object of the same name is not used.
    let mut other = object("a", "http://unused", "1");
    other.metadata.uid = Some("other".to_owned());
    assert!(look(&catalogs, &other).await.as_catalog().content.is_none());
}

#[tokio::test]
async fn of_a_catalog_without_a_package_similar_names_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(folder.path(), Room::default()).unwrap());
    let names = ["kettle", "kettles", "teapot"];
    let lines = names.map(|name| PACKAGE.replace("\"p\"", &format!("{name:?}")));
    put(&store, "a", "1", &lines.concat());
    let (all, known) = ([object("a", "http://unused", "1")], Catalogs::own(store));
    let known = known.known(&all, "ketle", Some(&Selector::default())).await;
    let catalog = known[0].as_catalog();
    let found = catalog.content.unwrap().packages().map(|(name, _)| name);
    assert_eq!(found.collect::<Vec<_>>(), ["kettle", "kettles"]);
}

// catalogs.md 4.3: the leader of the catalogs may be another replica.
#[rstest]
#[case::behind(1, Some(CatalogProblem::NotCached))]
#[case::ahead_of_the_status(-1, None)]
#[tokio::test]
async fn older_content_of_an_own_store_is_a_problem_until_the_newer_is_there(
    #[case] later: i64,
    #[case] problem: Option<CatalogProblem>,
) {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(folder.path(), Room::default()).unwrap());
    put(&store, "a", "1", BLOBS);
    let catalogs = Catalogs::own(Arc::clone(&store));
    let mut arrived = catalogs.downloads();
    let mut newer = object("a", "http://unused", "2");
    let status = newer.status.as_mut().unwrap();
    status.last_unpacked = Some(Time(Timestamp::from_second(later).unwrap()));
    let known = look(&catalogs, &newer).await;
    assert_eq!((known.problem(), bundles(&known)), (problem.as_ref(), Some(1)));
    assert!(!arrived.has_changed().unwrap());
    put(&store, "a", "2", PACKAGE);
    assert!(arrived.has_changed().unwrap());
    arrived.mark_unchanged();
    let known = look(&catalogs, &newer).await;
    assert_eq!((known.problem(), bundles(&known)), (None, Some(0)));
}

// catalogs.md C7
#[tokio::test]
async fn a_missing_package_is_no_problem_and_a_broken_one_is_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(folder.path(), Room::default()).unwrap());
    put(&store, "a", "1", BLOBS);
    let catalogs = Catalogs::own(Arc::clone(&store));
    let objects = [object("a", "http://unused", "1")];
    let none = catalogs.known(&objects, "none", Some(&Selector::default())).await;
    assert_eq!(none[0].problem(), None);
    assert!(none[0].as_catalog().content.unwrap().package("none").is_none());
    let is_parsed = |package: &str| {
        let key = (package.to_owned(), store.content("a").unwrap().origin().clone());
        catalogs.inner.parsed.get(&key).is_some()
    };
    assert!(!is_parsed("none"), "what is lacking takes no place among what is parsed");
    let broken = catalogs.known(&objects, "q", Some(&Selector::default())).await;
    assert!(broken[0].as_catalog().content.unwrap().package("q").unwrap().is_err());
    assert!(is_parsed("q"));
}

#[tokio::test]
async fn downloads_once_and_keeps_the_copy() {
    let (served, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, base) = other_half(served.path());
    put(&store, "a", "1", BLOBS);
    let catalogs = remote(&cache);
    let mut downloads = catalogs.downloads();
    let known = look(&catalogs, &object("a", &base, "1")).await;
    assert_eq!((known.problem(), bundles(&known)), (None, Some(1)));
    assert_eq!(*downloads.borrow_and_update(), 1);
    look(&catalogs, &object("a", &base, "1")).await;
    assert!(!downloads.has_changed().unwrap());
    // A restart needs no server.
    drop(catalogs);
    let catalogs = remote(&cache);
    let known = look(&catalogs, &object("a", "http://127.0.0.1:1", "1")).await;
    assert_eq!((known.problem(), bundles(&known)), (None, Some(1)));
}

// ours: the server gives few connections to one address.
#[tokio::test]
async fn more_catalogs_than_connections_are_all_fetched() {
    let (served, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Arc::new(Store::open(served.path(), Room::default()).unwrap());
    let base = listen(routes(&store));
    // One that rested for each of them would be too many before the end.
    let many = Limits::CATALOGS.per_address + 16;
    let objects: Vec<_> = (0..many)
        .map(|number| {
            let name = format!("c{number}");
            put(&store, &name, "1", BLOBS);
            object(&name, &base, "1")
        })
        .collect();
    let known = remote(&cache).known(&objects, "p", Some(&Selector::default())).await;
    let failed: Vec<_> = known.iter().filter_map(KnownCatalog::problem).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

// catalogs.md C2, C4
#[tokio::test]
async fn an_older_copy_is_used_until_the_new_one_is_complete() {
    let (served, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, base) = other_half(served.path());
    put(&store, "a", "1", BLOBS);
    let catalogs = remote(&cache);
    look(&catalogs, &object("a", &base, "1")).await;
    // The status is ahead of the server: its tag names another digest.
    let known = look(&catalogs, &object("a", &base, "2")).await;
    let text = "error: catalog server does not serve sha256:2 yet".to_owned();
    assert_eq!(known.problem(), Some(&CatalogProblem::FetchFailed(text)));
    assert_eq!(bundles(&known), Some(1));
    put(&store, "a", "2", r#"{"schema":"olm.package","name":"p"}"#);
    let known = eventually(async || {
        let known = look(&catalogs, &object("a", &base, "2")).await;
        known.problem().is_none().then_some(known)
    })
    .await;
    assert_eq!(bundles(&known), Some(0));
}

// catalogs.md C2: nothing else may happen that makes somebody look.
#[tokio::test]
async fn a_download_that_failed_is_asked_for_again() {
    let (served, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, base) = other_half(served.path());
    put(&store, "a", "1", BLOBS);
    let catalogs = remote(&cache);
    look(&catalogs, &object("a", &base, "1")).await;
    let mut told = catalogs.downloads();
    let newer = object("a", &base, "2");
    assert!(look(&catalogs, &newer).await.problem().is_some());
    put(&store, "a", "2", PACKAGE);
    tokio::time::timeout(Duration::from_secs(20), told.changed()).await.unwrap().unwrap();
    let known = look(&catalogs, &newer).await;
    assert_eq!((known.problem(), bundles(&known)), (None, Some(0)));
}

// ours: the last look gave up before a long download was complete.
#[tokio::test]
async fn a_copy_that_came_after_the_last_look_is_not_stale() {
    let cache = tempfile::tempdir().unwrap();
    let (catalogs, metrics) = measured(&cache);
    let object = object("a", "http://127.0.0.1:1", "1");
    assert!(look(&catalogs, &object).await.problem().is_some());
    assert!(metrics.encode().contains("olm_catalog_stale{catalog=\"a\"} 1"));
    let Source::Remote(remote) = &catalogs.inner.source else { panic!("it is remote") };
    put(&remote.store, "a", "1", BLOBS);
    assert_eq!(look(&catalogs, &object).await.problem(), None);
    assert!(metrics.encode().contains("olm_catalog_stale{catalog=\"a\"} 0"));
}

// catalogs.md 4.3: the server never answers.
#[rstest]
#[case::an_older_copy(true, true)]
#[case::not_selected(false, true)]
#[case::not_selected_and_no_copy(false, false)]
#[tokio::test]
async fn a_download_is_waited_for_where_nothing_older_can_be_used(
    #[case] selected: bool,
    #[case] older: bool,
) {
    let cache = tempfile::tempdir().unwrap();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let object = object("a", &format!("http://{}", silent.local_addr().unwrap()), "2");
    let catalogs = remote(&cache);
    let Source::Remote(remote) = &catalogs.inner.source else { panic!("it is remote") };
    if older {
        put(&remote.store, "a", "1", BLOBS);
    }
    let name = if selected { "a" } else { "b" };
    let name = [(label::METADATA_NAME.to_owned(), name.to_owned())].into();
    let selector = LabelSelector { match_labels: Some(name), ..LabelSelector::default() };
    let selector = Selector::new(Some(&selector)).unwrap();
    let began = std::time::Instant::now();
    let known = catalogs.known(&[object], "p", Some(&selector)).await.remove(0);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(known.problem(), Some(&CatalogProblem::NotCached));
    assert_eq!(bundles(&known), older.then_some(1));
}

async fn eventually<T>(mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(value) = attempt().await {
            return value;
        }
        assert!(tokio::time::Instant::now() < deadline, "not in time");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn answer(status: u16, length: usize, body: &'static str) -> Router {
    let response = move || async move {
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
        if length > body.len() {
            // A stream that ends before the length it announced.
            let begin = futures::stream::iter([Ok(body.as_bytes())]);
            // The beginning is sent before the end fails.
            let end = futures::stream::once(async {
                tokio::task::yield_now().await;
                Err(std::io::Error::other("cut"))
            });
            let stream = futures::StreamExt::chain(begin, end);
            *response.body_mut() = Body::from_stream(stream);
        }
        response
    };
    Router::new().fallback(get(response))
}

// catalogs.md C1, C2, C5
#[rstest]
#[case::not_found(404, 0, "x", "error: received unexpected response status code 404")]
#[case::unavailable(503, 0, "x", "error: received unexpected response status code 503")]
#[case::cut(200, 100, "{\"schema\":\"a\"}\n", "error performing request: reading the catalog: ")]
#[case::unreachable(
    0,
    0,
    "",
    "error performing request: Get \"http://127.0.0.1:1/catalogs/a/api/v1/all\": "
)]
#[case::no_blob(
    200,
    0,
    "{\"schema\":\"a\"}\n[]\n",
    "error parsing catalog contents: line 2 is not a catalog blob: "
)]
#[case::no_json(
    200,
    0,
    "<html>",
    "error parsing catalog contents: line 1 is not a catalog blob: invalid JSON"
)]
#[tokio::test]
async fn failed_downloads_leave_nothing(
    #[case] status: u16,
    #[case] length: usize,
    #[case] body: &'static str,
    #[case] text: &str,
) {
    let cache = tempfile::tempdir().unwrap();
    let base = match status {
        0 => "http://127.0.0.1:1".to_owned(),
        _ => listen(answer(status, length, body)),
    };
    let catalogs = remote(&cache);
    let known = look(&catalogs, &object("a", &base, "1")).await;
    let Some(CatalogProblem::FetchFailed(message)) = known.problem() else {
        panic!("{:?}", known.problem());
    };
    assert!(message.starts_with(text), "{message}");
    assert_eq!(message.contains("refused"), status == 0, "{message}");
    assert!(known.as_catalog().content.is_none());
    assert_eq!(std::fs::read_dir(cache.path().join("downloads")).unwrap().count(), 0);
}

#[tokio::test]
async fn upstream_answers_without_tag_and_with_null_lines_are_taken() {
    let cache = tempfile::tempdir().unwrap();
    let base = listen(answer(200, 0, "null\n{\"schema\":\"olm.package\",\"name\":\"p\"}\n\n"));
    let catalogs = remote(&cache);
    let known = look(&catalogs, &object("a", &base, "1")).await;
    assert_eq!((known.problem(), bundles(&known)), (None, Some(0)));
}

// catalogs.md 4.3: the answer to what was wanted before comes last.
#[tokio::test]
async fn a_download_that_was_overtaken_replaces_nothing() {
    let cache = tempfile::tempdir().unwrap();
    let gate = Arc::new(tokio::sync::Semaphore::new(1));
    let held = Arc::clone(&gate).acquire_owned().await.unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let base = listen(Router::new().fallback(get(move || {
        let is_first = count.fetch_add(1, Ordering::SeqCst) == 0;
        let gate = is_first.then(|| Arc::clone(&gate));
        async move {
            if let Some(gate) = gate {
                drop(gate.acquire().await);
            }
            PACKAGE
        }
    })));
    let catalogs = remote(&cache);
    catalogs.known(&[object("a", &base, "1")], "p", None).await;
    eventually(async || (asked.load(Ordering::SeqCst) == 1).then_some(())).await;
    let newer = object("a", &base, "2");
    let known = eventually(async || {
        let known = look(&catalogs, &newer).await;
        known.problem().is_none().then_some(known)
    });
    assert_eq!(bundles(&known.await), Some(0));
    drop(held);
    let mut told = catalogs.downloads();
    assert!(tokio::time::timeout(Duration::from_secs(1), told.changed()).await.is_err());
    assert_eq!(look(&catalogs, &newer).await.problem(), None);
}

#[tokio::test]
async fn problems_of_the_status_come_first() {
    let (served, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, base) = other_half(served.path());
    put(&store, "a", "1", BLOBS);
    let catalogs = remote(&cache);
    let mut silent = object("a", &base, "1");
    silent.status.as_mut().unwrap().conditions.clear();
    let known = look(&catalogs, &silent).await;
    assert_eq!(known.problem(), Some(&CatalogProblem::NotServing));
    // The content is addressed by digest, so it is what a healthy system would use.
    assert_eq!(bundles(&known), Some(1));
    let mut unresolved = object("b", &base, "1");
    unresolved.status.as_mut().unwrap().resolved_source = None;
    let known = look(&catalogs, &unresolved).await;
    assert_eq!(known.problem(), Some(&CatalogProblem::NoResolvedSource));
    let mut nowhere = object("c", &base, "1");
    nowhere.status.as_mut().unwrap().urls = None;
    let text = "error: catalog \"c\" has a nil status.urls value".to_owned();
    let known = look(&catalogs, &nowhere).await;
    assert_eq!(known.problem(), Some(&CatalogProblem::FetchFailed(text)));
}

#[tokio::test]
async fn copies_of_disabled_and_deleted_catalogs_are_removed() {
    let (served, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, base) = other_half(served.path());
    let catalogs = remote(&cache);
    let mut objects = ["a", "b", "c"].map(|name| {
        put(&store, name, "1", BLOBS);
        object(name, &base, "1")
    });
    let known = catalogs.known(&objects, "p", Some(&Selector::default())).await;
    assert!(known.iter().all(|known| known.problem().is_none()));
    objects[0].spec.availability_mode = Some(AvailabilityMode::Unavailable);
    let known = catalogs.known(&objects, "p", Some(&Selector::default())).await;
    assert!(!known[0].as_catalog().enabled && known[0].as_catalog().content.is_none());
    let Source::Remote(remote) = &catalogs.inner.source else { panic!("it is remote") };
    assert_eq!(remote.store.catalogs(), ["b", "c"]);
    catalogs.retain(&objects[..2]);
    assert_eq!(remote.store.catalogs(), ["b"]);
}

// ours: nothing warns of a catalog that is being deleted
#[tokio::test]
async fn a_catalog_that_is_being_deleted_counts_as_gone() {
    let cache = tempfile::tempdir().unwrap();
    let mut objects = ["a", "b"].map(|name| object(name, "http://127.0.0.1:1", "1"));
    objects[0].metadata.deletion_timestamp = Some(Timestamp::UNIX_EPOCH.into());
    let known = remote(&cache).known(&objects, "p", Some(&Selector::default())).await;
    assert_eq!(known.iter().map(KnownCatalog::name).collect::<Vec<_>>(), ["b"]);
}

// ours: an alert on what could never be fetched ends with the catalog.
#[tokio::test]
async fn a_deleted_catalog_that_was_never_fetched_leaves_no_series() {
    let cache = tempfile::tempdir().unwrap();
    let (catalogs, metrics) = measured(&cache);
    let known = look(&catalogs, &object("a", "http://127.0.0.1:1", "1")).await;
    assert!(known.problem().is_some());
    assert!(metrics.encode().contains("olm_catalog_stale{catalog=\"a\"} 1"));
    catalogs.retain(&[]);
    assert!(!metrics.encode().contains("catalog=\"a\""));
}

// ours: somebody may still wait for a download when the catalog goes.
#[tokio::test]
async fn a_catalog_that_is_deleted_during_its_download_leaves_no_series() {
    let cache = tempfile::tempdir().unwrap();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let object = object("a", &format!("http://{}", silent.local_addr().unwrap()), "2");
    let (catalogs, metrics) = measured(&cache);
    let Source::Remote(remote) = &catalogs.inner.source else { panic!("it is remote") };
    put(&remote.store, "a", "1", BLOBS);
    let deleted = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        catalogs.retain(&[]);
    };
    let (known, ()) = tokio::join!(look(&catalogs, &object), deleted);
    assert!(known.problem().is_some());
    assert!(!metrics.encode().contains("catalog=\"a\""), "{}", metrics.encode());
}

// catalogs.md C6
#[tokio::test]
async fn certificates_to_trust_are_read_for_every_download() {
    let folder = tempfile::tempdir().unwrap();
    let cas = folder.path().join("cas");
    std::fs::create_dir(&cas).unwrap();
    let trust = Trust::Folder(cas.clone());
    let metrics = Metrics::default();
    let error = trusting(folder.path(), trust.clone(), &metrics).unwrap_err();
    let want = format!("error getting HTTP client: no certificates found in \"{}\"", cas.display());
    assert_eq!(Chain(&*error).to_string(), want);

    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (base, ca) = listen_with_tls(folder.path(), answer(200, 0, PACKAGE));
    std::fs::write(cas.join("ca.crt"), other.cert.pem()).unwrap();
    std::fs::write(cas.join("README"), "no certificate").unwrap();
    // PEM, but of no certificate.
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    std::fs::write(cas.join("broken.crt"), broken).unwrap();
    let catalogs = trusting(folder.path(), trust, &metrics).unwrap();
    let object = object("a", &base, "1");
    assert!(look(&catalogs, &object).await.problem().is_some());
    let bundle = format!("{}{ca}", broken.replace("AAAA", "no base64"));
    std::fs::write(cas.join("ca.crt"), bundle).unwrap();
    eventually(async || look(&catalogs, &object).await.problem().is_none().then_some(())).await;
}

// deploying.md P15: what was refused is fetched at once when the CA is known.
#[tokio::test]
async fn a_published_ca_is_trusted_from_then_on() {
    let folder = tempfile::tempdir().unwrap();
    let catalogs = remote(&folder);
    let (base, ca) = listen_with_tls(folder.path(), answer(200, 0, PACKAGE));
    let Source::Remote(remote) = &catalogs.inner.source else { panic!("it is remote") };
    let object = object("a", &base, "1");
    let mut told = catalogs.downloads();
    assert!(look(&catalogs, &object).await.problem().is_some());
    remote.trust("rubbish".to_owned());
    assert!(!told.has_changed().unwrap());
    remote.trust(ca.clone());
    told.changed().await.unwrap();
    assert_eq!(look(&catalogs, &object).await.problem(), None);
    remote.trust(String::new());
    remote.trust(ca.clone());
    told.mark_unchanged();
    assert!(!told.has_changed().unwrap());
}

// deploying.md P33: of a replica nothing is taken but what was wanted, over TLS of our own CA.
#[tokio::test]
async fn a_replica_is_believed_by_its_ca_and_its_tag() {
    let folder = tempfile::tempdir().unwrap();
    let (store, plain) = other_half(&folder.path().join("store"));
    put(&store, "a", "1", BLOBS);
    let (base, ca) = listen_with_tls(folder.path(), routes(&store));
    let base = format!("{base}/catalogs/a");
    let published = Published::default();
    let trust = Trust::Published(published.clone());
    let replica = CatalogServer::replica(folder.path(), trust, CurrentProfile::default()).unwrap();
    let get = async |base: &str, digest: &str| {
        let lines = replica.get(base, &reference(digest)).await;
        lines.map(Iterator::count).map_err(|error| Chain(&*error).to_string())
    };
    let refused = get(&base, "1").await.unwrap_err();
    assert!(refused.starts_with("error performing request: Get"), "{refused}");
    published.take(ca.clone());
    assert_eq!(get(&base, "1").await, Ok(4));
    let other = "error: catalog server does not serve sha256:2 yet";
    assert_eq!(get(&base, "2").await, Err(other.to_owned()));

    // Without a tag, as upstream's; without TLS.
    let untagged = tempfile::tempdir().unwrap();
    let (base, ca) = listen_with_tls(untagged.path(), answer(200, 0, PACKAGE));
    published.take(ca);
    let other = "error: catalog server does not serve sha256:1 yet";
    assert_eq!(get(&base, "1").await, Err(other.to_owned()));
    let refused = get(&format!("{plain}/catalogs/a"), "1").await.unwrap_err();
    assert!(refused.starts_with("error performing request: Get"), "{refused}");
}
