use std::io::Read as _;
use std::net::SocketAddr;

use olm_core::catalog::read;
use olm_image::Room;
use reqwest::{RequestBuilder, Response};
use rstest::rstest;
use tempfile::TempDir;

use super::super::started;
use super::super::tls::CertificateFiles;
use super::*;
use crate::catalog::store::Origin;
use crate::tls::CurrentProfile;

/// A running server on a store of its own, which has the content of [`large`] as catalog `acme`.
struct Server {
    folder: TempDir,
    store: Arc<Store>,
    content: Arc<Content>,
    metrics: Metrics,
    address: SocketAddr,
    client: reqwest::Client,
}

fn client() -> reqwest::ClientBuilder {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    reqwest::Client::builder().no_gzip().no_proxy().redirect(reqwest::redirect::Policy::none())
}

fn put(store: &Store, catalog: &str, digest: &str, text: &str) -> Arc<Content> {
    let origin = Origin::example(catalog, digest);
    let documents = read::documents([("c", text.as_bytes())]).unwrap();
    store.write(origin, documents.map(|it| it.meta)).unwrap()
}

impl Server {
    fn start(metas: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(folder.path(), Room::default()).unwrap());
        let metrics = Metrics::default();
        let routes =
            routes(Catalogs { store: Arc::clone(&store), metrics: metrics.clone(), metas });
        let address = started(None, routes);
        let content = put(&store, "acme", "1", &large());
        Self { folder, store, content, metrics, address, client: client().build().unwrap() }
    }

    fn put(&self, catalog: &str, digest: &str, text: &str) -> Arc<Content> {
        put(&self.store, catalog, digest, text)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("http://{}{path}", self.address))
    }

    async fn get(&self, path: &str) -> Response {
        self.request(Method::GET, path).send().await.unwrap()
    }
}

/// A catalog of one package whose bundle makes it larger than what is worth compressing.
fn large() -> String {
    let filler = "x".repeat(5000);
    format!(
        "{{\"schema\":\"olm.package\",\"name\":\"p\"}}{{\"schema\":\"olm.channel\",\"package\":\"p\",\"name\":\"c\"}}\
         {{\"schema\":\"olm.bundle\",\"package\":\"p\",\"name\":\"b\",\"filler\":\"{filler}\"}}\
         {{\"schema\":\"olm.package\",\"name\":\"q\"}}"
    )
}

fn header(response: &Response, name: &str) -> String {
    let value = response.headers().get(name);
    value.map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
}

fn unzip(bytes: &[u8]) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    text
}

#[tokio::test]
async fn all_answers_like_a_static_file() {
    let server = Server::start(true);
    let response = server.get("/catalogs/acme/api/v1/all").await;
    assert_eq!(response.status(), 200);
    assert_eq!(header(&response, "content-type"), "application/jsonl");
    assert_eq!(header(&response, "etag"), "W/\"sha256:1\"");
    assert_eq!(header(&response, "accept-ranges"), "bytes");
    assert_eq!(header(&response, "vary"), "Accept-Encoding");
    assert_eq!(
        header(&response, "last-modified"),
        negotiate::http_date(server.content.origin().unpacked)
    );
    assert_eq!(header(&response, "content-length"), server.content.index().bytes().to_string());
    let text = response.text().await.unwrap();
    assert_eq!(text.len() as u64, server.content.index().bytes());
    assert!(text.starts_with("{\"name\":\"p\",\"schema\":\"olm.package\"}\n"));
}

// catalogs.md 3, metrics.md: as upstream's, the duration includes the writing of the body.
#[tokio::test]
async fn a_request_counts_when_its_body_was_read_or_dropped() {
    let server = Server::start(true);
    let (store, metrics) = (Arc::clone(&server.store), server.metrics.clone());
    let catalogs = Arc::new(Catalogs { store, metrics, metas: true });
    let counted =
        |count: u8| format!("catalogd_http_request_duration_seconds_count{{code=\"200\"}} {count}");
    for before in 0..2 {
        let request = Request::get("/catalogs/acme/api/v1/all").body(Body::empty()).unwrap();
        let response = answer(State(Arc::clone(&catalogs)), request).await;
        assert!(!server.metrics.encode().contains(&counted(before + 1)));
        match before {
            0 => drop(axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap()),
            _ => drop(response),
        }
        server.metrics.assert_shows(&[&counted(before + 1)]);
    }
}

// catalogs.md H1, H2, H3
#[rstest]
#[case::root(Method::GET, "/", 404, "404 page not found\n")]
#[case::unknown(Method::GET, "/catalogs/none/api/v1/all", 404, "404 Not Found\n")]
#[case::unknown_metas(Method::GET, "/catalogs/none/api/v1/metas", 404, "404 Not Found\n")]
#[case::parameter_before_existence(
    Method::GET,
    "/catalogs/none/api/v1/metas?version=1",
    400,
    "400 Bad Request\n"
)]
#[case::parameter(Method::GET, "/catalogs/acme/api/v1/metas?version=1", 400, "400 Bad Request\n")]
#[case::post(Method::POST, "/catalogs/acme/api/v1/all", 405, "Method Not Allowed\n")]
#[case::bad_name(Method::GET, "/catalogs/Foo_Bar/api/v1/all", 400, "invalid catalog name: ")]
#[case::options(Method::OPTIONS, "/catalogs/acme/api/v1/metas", 405, "Method Not Allowed\n")]
#[tokio::test]
async fn refusals(
    #[case] method: Method,
    #[case] path: &str,
    #[case] status: u16,
    #[case] body: &str,
) {
    let server = Server::start(true);
    let response = server.request(method, path).send().await.unwrap();
    assert_eq!(response.status(), status);
    assert_eq!(header(&response, "content-type"), "text/plain; charset=utf-8");
    assert_eq!(header(&response, "x-content-type-options"), "nosniff");
    let allow = if status == 405 { "GET, HEAD" } else { "" };
    assert_eq!(header(&response, "allow"), allow);
    assert!(response.text().await.unwrap().starts_with(body));
}

// catalogs.md H1
#[tokio::test]
async fn metas_is_gone_when_its_gate_is_off() {
    let server = Server::start(false);
    let response = server.get("/catalogs/acme/api/v1/metas").await;
    assert_eq!(response.status(), 404);
    assert_eq!(response.text().await.unwrap(), "404 page not found\n");
    let redirect = server.get("/catalogs//acme").await;
    assert_eq!(header(&redirect, "location"), "/catalogs/acme");
}

// catalogs.md H4
#[tokio::test]
async fn head_has_length_and_no_body() {
    let server = Server::start(true);
    let head = |path: &str| {
        let gzip = server.request(Method::HEAD, path).header("accept-encoding", "gzip");
        gzip.send()
    };
    let response = head("/catalogs/acme/api/v1/all").await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(header(&response, "content-length"), server.content.index().bytes().to_string());
    assert!(!header(&response, "last-modified").is_empty());
    assert!(response.bytes().await.unwrap().is_empty());
    let response = head("/catalogs/acme/api/v1/metas?package=p").await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(header(&response, "content-type"), "application/jsonl");
}

// catalogs.md H4
#[tokio::test]
async fn ranges_are_plain_bytes() {
    let server = Server::start(true);
    let len = server.content.index().bytes();
    let get = |range: &str| {
        server
            .request(Method::GET, "/catalogs/acme/api/v1/all")
            .header("accept-encoding", "gzip")
            .header("range", range)
            .send()
    };
    let response = get("bytes=0-9").await.unwrap();
    assert_eq!(response.status(), 206);
    assert_eq!(header(&response, "content-range"), format!("bytes 0-9/{len}"));
    assert_eq!(header(&response, "content-encoding"), "");
    assert_eq!(response.text().await.unwrap(), "{\"name\":\"p");
    let response = get(&format!("bytes={len}-")).await.unwrap();
    assert_eq!(response.status(), 416);
    assert_eq!(header(&response, "content-range"), format!("bytes */{len}"));
    let response = get("bytes=0-1,4-5").await.unwrap();
    assert_eq!(response.status(), 200, "several ranges are answered with everything");
    assert_eq!(header(&response, "content-type"), "application/jsonl");
}

// catalogs.md H5, H6
#[tokio::test]
async fn conditions_end_in_304_and_412() {
    let server = Server::start(true);
    let modified = negotiate::http_date(server.content.origin().unpacked);
    for path in ["/catalogs/acme/api/v1/all", "/catalogs/acme/api/v1/metas?package=p"] {
        let get =
            |name: &str, value: &str| server.request(Method::GET, path).header(name, value).send();
        for (name, value) in
            [("if-modified-since", &*modified), ("if-none-match", "W/\"sha256:1\"")]
        {
            let response = get(name, value).await.unwrap();
            assert_eq!(response.status(), 304);
            assert_eq!(header(&response, "content-type"), "");
            assert_eq!(header(&response, "etag"), "W/\"sha256:1\"");
        }
        assert_eq!(get("if-modified-since", "nonsense").await.unwrap().status(), 200);
        assert_eq!(get("if-match", "\"x\"").await.unwrap().status(), 412);
    }
}

// catalogs.md H7, H8
#[tokio::test]
async fn large_answers_are_compressed() {
    let server = Server::start(true);
    server.put("small", "1", r#"{"schema":"a"}"#);
    let plain = server.get("/catalogs/acme/api/v1/all").await.text().await.unwrap();
    let get = |path: &str, accepted: &str| {
        server.request(Method::GET, path).header("accept-encoding", accepted).send()
    };
    for path in [
        "/catalogs/acme/api/v1/all",
        "/catalogs/acme/api/v1/metas",
        "/catalogs/acme/api/v1/metas?schema=olm.bundle",
    ] {
        let want =
            if path.contains("bundle") { plain.lines().nth(2).unwrap() } else { plain.trim_end() };
        let response = get(path, "gzip").await.unwrap();
        assert_eq!(header(&response, "content-encoding"), "gzip");
        assert_eq!(header(&response, "accept-ranges"), "");
        assert_eq!(unzip(&response.bytes().await.unwrap()).trim_end(), want);
        let response = get(path, "gzip, zstd").await.unwrap();
        assert_eq!(header(&response, "content-encoding"), "zstd");
        let body = zstd::decode_all(&*response.bytes().await.unwrap()).unwrap();
        assert_eq!(String::from_utf8(body).unwrap().trim_end(), want);
    }
    let response = get("/catalogs/small/api/v1/all", "gzip").await.unwrap();
    assert_eq!(header(&response, "content-encoding"), "");
    assert_eq!(header(&response, "vary"), "Accept-Encoding");
}

// catalogs.md H7
#[rstest]
#[case(1023, false)]
#[case(1024, true)]
#[tokio::test]
async fn compression_begins_at_1024_bytes(#[case] len: usize, #[case] compressed: bool) {
    let server = Server::start(true);
    let empty = "{\"schema\":\"a\",\"x\":\"\"}\n".len();
    let text = format!("{{\"schema\":\"a\",\"x\":\"{}\"}}", "y".repeat(len - empty));
    let content = server.put("acme", "1", &text);
    assert_eq!(content.index().bytes(), len as u64);
    for path in ["all", "metas?schema=a"] {
        let request = server.request(Method::GET, &format!("/catalogs/acme/api/v1/{path}"));
        let response = request.header("accept-encoding", "gzip").send().await.unwrap();
        assert_eq!(header(&response, "content-encoding") == "gzip", compressed);
    }
}

// catalogs.md H9, H11
#[rstest]
#[case("schema=olm.package", &["p", "q"])]
#[case("package=p", &["c", "b"])]
#[case("schema=olm.bundle&package=p&name=b", &["b"])]
#[case("name=q", &["q"])]
#[case("schema=", &["p", "c", "b", "q"])]
#[case("schema=olm.bundle&&schema=x", &["b"])]
#[case("name=none", &[])]
#[tokio::test]
async fn metas_filters(#[case] query: &str, #[case] names: &[&str]) {
    let server = Server::start(true);
    let response = server.get(&format!("/catalogs/acme/api/v1/metas?{query}")).await;
    assert_eq!(response.status(), 200);
    assert_eq!(header(&response, "content-type"), "application/jsonl");
    let text = response.text().await.unwrap();
    let value = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let found: Vec<_> = text.lines().map(|line| value(line)["name"].clone()).collect();
    assert_eq!(found, names);
}

// catalogs.md H12
#[tokio::test]
async fn every_body_is_entirely_old_or_entirely_new() {
    let server = Server::start(true);
    let old = large().replace('x', "o");
    let new = large().replace('x', "n");
    server.put("acme", "1", &old);
    let requests = (0..50).map(|number| {
        let path = if number % 2 == 0 { "all" } else { "metas?schema=olm.bundle" };
        let request = server.request(Method::GET, &format!("/catalogs/acme/api/v1/{path}"));
        async move { request.send().await.unwrap().text().await.unwrap() }
    });
    let (store, folder) = (Arc::clone(&server.store), server.folder.path().to_owned());
    let swap = tokio::task::spawn_blocking(move || {
        put(&store, "acme", "2", &new);
        assert!(folder.exists());
    });
    let bodies = futures::future::join_all(requests).await;
    swap.await.unwrap();
    for body in bodies {
        let (old, new) = (body.matches("oooo").count(), body.matches("nnnn").count());
        assert_eq!(old.max(new), 1250);
        assert_eq!(old.min(new), 0);
    }
}

fn certificate(folder: &std::path::Path) -> (std::path::PathBuf, std::path::PathBuf, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (certificate, key, made.cert.pem())
}

/// Serves nothing over TLS and returns its address.
fn serve_tls(certificates: &CertificateFiles) -> String {
    let address = started(Some(certificates.certificates()), Router::new());
    format!("https://localhost:{}/", address.port())
}

/// Returns a client that trusts this certificate alone.
fn trusting(pem: &str) -> reqwest::Client {
    let root = reqwest::Certificate::from_pem(pem.as_bytes()).unwrap();
    client().tls_certs_only([root]).build().unwrap()
}

// deploying.md 5.4
#[tokio::test]
async fn a_large_request_is_refused_over_tls_too() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key, pem) = certificate(folder.path());
    let certificates = CertificateFiles::load(&certificate, &key, CurrentProfile::default());
    let url = serve_tls(&certificates.unwrap());
    let sent = trusting(&pem).post(&url).body(vec![b'x'; 1024 * 1024]).send().await.unwrap();
    assert_eq!(sent.status(), http::StatusCode::PAYLOAD_TOO_LARGE);
    let text = sent.bytes().await.unwrap();
    assert_eq!(text, "the body of the request is larger than 65536 bytes\n");
}

// catalogs.md H13, stack.md case 9
#[tokio::test]
async fn a_replaced_certificate_serves_new_connections() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate_file, key_file, first) = certificate(folder.path());
    let mut certificates =
        CertificateFiles::load(&certificate_file, &key_file, CurrentProfile::default()).unwrap();
    let url = serve_tls(&certificates);
    let reaches = async |pem: &str| {
        let sent = trusting(pem).get(&url).send().await;
        sent.map(|response| response.version())
    };
    assert_eq!(reaches(&first).await.unwrap(), http::Version::HTTP_11);
    assert!(!certificates.reload().unwrap());
    let (_, _, second) = certificate(folder.path());
    assert!(certificates.reload().unwrap());
    assert!(reaches(&first).await.is_err());
    assert!(reaches(&second).await.is_ok());
    // A pair that does not match is not taken.
    std::fs::write(&certificate_file, first).unwrap();
    assert!(certificates.reload().is_err());
    assert!(reaches(&second).await.is_ok());
}

#[tokio::test]
async fn listen_info_names_every_address() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("listen.json");
    let addresses = [("catalogs", "127.0.0.1:1".parse().unwrap())].into();
    super::super::write_listen_info(&path, &addresses).unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(text, r#"{"catalogs":"127.0.0.1:1"}"#);
}
