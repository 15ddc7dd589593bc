//! What the catalog server answers, asked over a socket.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::join_all;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, IF_MODIFIED_SINCE, LAST_MODIFIED};
use http::{HeaderMap, HeaderName};
use olm_controller::catalog::store::{Origin, Store};
use olm_controller::server::catalogs::{Catalogs, routes};
use olm_controller::server::{Limited, Limits, bind, serve};
use olm_controller::telemetry::Metrics;
use olm_core::catalog::read;
use olm_image::Room;
use reqwest::redirect::Policy;
use serde_json::Value;
use tempfile::TempDir;

use super::table::{Table, rows, text};

/// Bytes of the smallest catalog there can be: one blob that has nothing but a schema.
const SMALLEST: u64 = r#"{"schema":"a"}"#.len() as u64 + 1;

// catalogs.md section 3
#[tokio::test]
async fn catalogs_are_served_as_upstream_serves_them() {
    let catalogs = Served::new();
    let mut table = Table::new("http.jsonl");
    for row in rows("http.jsonl") {
        let answers = match text(&row, "kind") {
            "content" => {
                catalogs.put(text(&row, "catalog"), &files(&row));
                continue;
            }
            "request" => vec![catalogs.request(&row).await],
            "compression" => vec![catalogs.sized(&row).await],
            "parallel" => catalogs.parallel(&row).await,
            other => panic!("unknown kind of row {other}"),
        };
        let answer = match answers.iter().find(|answer| !answer.is(&row["want"])) {
            None => Ok(()),
            Some(other) => Err(other.to_string()),
        };
        table.judge(&row, answer);
    }
    table.conclude(86);
}

/// The files of a catalog: those of the row, or as many as it says, with their number for `I`.
fn files(row: &Value) -> Vec<(String, String)> {
    if let Some(files) = row["files"].as_object() {
        let files = files.iter();
        return files
            .map(|(name, content)| (name.clone(), content.as_str().expect("text").to_owned()))
            .collect();
    }
    let (files, content) = text(row, "generate").split_once(": ").expect("a rule");
    let content = content.strip_suffix(", I from 0").expect("a rule");
    let (count, _) = files.split_once(' ').expect("a number of files");
    let count: usize = count.parse().expect("a number of files");
    (0..count)
        .map(|number| {
            let content = content.replace('I', &number.to_string());
            (format!("meta_{number}.json"), content)
        })
        .collect()
}

/// One store of catalogs, served with `/metas` and without.
struct Served {
    store: Arc<Store>,
    with_metas: SocketAddr,
    without_metas: SocketAddr,
    _folder: TempDir,
}

impl Served {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = Store::open(folder.path(), Room::default()).expect("an empty store");
        let store = Arc::new(store);
        Self {
            with_metas: start(&store, true),
            without_metas: start(&store, false),
            store,
            _folder: folder,
        }
    }

    fn put(&self, catalog: &str, files: &[(String, String)]) {
        let origin = Origin {
            catalog: catalog.to_owned(),
            uid: String::new(),
            reference: "example.com/catalog@sha256:1".to_owned(),
            unpacked: jiff::Timestamp::UNIX_EPOCH,
        };
        let files = files.iter();
        let files = files.map(|(name, text)| (name.as_str(), text.as_bytes()));
        let documents = read::documents(files).expect("a readable catalog");
        let stored = self.store.write(origin, documents.map(|it| it.meta));
        stored.expect("the catalog can be stored");
    }

    /// Sends the request of a row as its test sends it.
    async fn request(&self, row: &Value) -> Answer {
        let redirects = match row["followRedirects"].as_bool() {
            Some(true) => Policy::limited(10),
            _ => Policy::none(),
        };
        let client = client(redirects);
        let address = match row["gates"]["APIV1MetasHandler"].as_bool() {
            Some(false) => self.without_metas,
            _ => self.with_metas,
        };
        let path = row["sentAs"].as_str().unwrap_or(text(row, "path"));
        let method = text(row, "method").parse().expect("a method");
        let mut request = client.request(method, format!("http://{address}{path}"));
        for (name, value) in row["headers"].as_object().into_iter().flatten() {
            request = request.header(name, value.as_str().expect("text"));
        }
        if let Some(body) = body(&row["body"]) {
            request = request.body(body);
        }
        if row.get("first").is_some() {
            let before = client.get(format!("http://{address}{path}"));
            let before = Answer::to(before).await;
            request = request.header(IF_MODIFIED_SINCE, &before.headers[LAST_MODIFIED]);
        }
        Answer::to(request).await
    }

    /// Asks for a catalog of a number of bytes, or for the smallest there can be.
    async fn sized(&self, row: &Value) -> Answer {
        let bytes = row["bodyBytes"].as_u64().expect("a number of bytes");
        let filled = SMALLEST + r#","x":"""#.len() as u64;
        let blob = match bytes.checked_sub(filled) {
            None => r#"{"schema":"a"}"#.to_owned(),
            Some(rest) => {
                let rest = usize::try_from(rest).expect("a small number");
                format!(r#"{{"schema":"a","x":"{}"}}"#, "y".repeat(rest))
            }
        };
        self.put("sized", &[("catalog.json".to_owned(), blob)]);
        let stored = self.store.content("sized").expect("the catalog is stored");
        assert_eq!(stored.index().bytes(), bytes.max(SMALLEST));
        let url = format!("http://{}/catalogs/sized/api/v1/all", self.with_metas);
        let request = client(Policy::none()).get(url);
        Answer::to(match text(row, "acceptEncoding") {
            "" => request,
            accepted => request.header(ACCEPT_ENCODING, accepted),
        })
        .await
    }

    /// Sends many requests at once, for the paths of a row in turn.
    async fn parallel(&self, row: &Value) -> Vec<Answer> {
        let client = client(Policy::none());
        let paths = row["paths"].as_array().expect("a list of paths");
        let count = row["parallel"].as_u64().expect("a number of requests");
        let requests = paths.iter().cycle().zip(0..count).map(|(path, number)| {
            let path = path.as_str().expect("a path");
            let path = match path.split_once(", I from 0 to ") {
                Some((path, _)) => path.replace('I', &number.to_string()),
                None => path.to_owned(),
            };
            Answer::to(client.get(format!("http://{}{path}", self.with_metas)))
        });
        join_all(requests).await
    }
}

fn start(store: &Arc<Store>, metas: bool) -> SocketAddr {
    let listener = bind(([127, 0, 0, 1], 0).into()).expect("a free port");
    let address = listener.local_addr().expect("a bound address");
    let routes = routes(Catalogs { store: Arc::clone(store), metrics: Metrics::default(), metas });
    // Rows ask 100 times at once, from one address.
    let limits = Limits { per_address: Limits::CATALOGS.connections, ..Limits::CATALOGS };
    let listener = Limited::new(listener, limits, Metrics::default());
    let listener = listener.expect("a listener");
    tokio::spawn(serve(listener, None, routes, std::future::pending()));
    address
}

fn client(redirects: Policy) -> reqwest::Client {
    // Several tests may install it; the first wins.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let client = reqwest::Client::builder().no_gzip().no_proxy();
    client.redirect(redirects).build().expect("a client")
}

/// The body of a request: text, or so many times the same.
fn body(row: &Value) -> Option<String> {
    if row.is_object() {
        let times = row["times"].as_u64().expect("a number");
        let repeated = text(row, "repeat").repeat(usize::try_from(times).expect("a number"));
        return Some(match text(row, "as") {
            "query" => serde_json::json!({"query": repeated}).to_string(),
            _ => repeated,
        });
    }
    row.as_str().map(str::to_owned)
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    async fn to(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.expect("the server answers");
        Self {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: response.bytes().await.expect("a whole body").to_vec(),
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim_end().to_owned()
    }

    fn header(&self, name: &HeaderName) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().expect("a header is text"))
    }

    /// Says whether this is what a row wants; newlines at the end of a body do not count.
    fn is(&self, want: &Value) -> bool {
        let want = want.as_object().expect("expectations");
        want.iter().all(|(key, value)| match key.as_str() {
            "status" => *value == self.status,
            "body" => *value == self.text(),
            "bodyContains" => self.text().contains(value.as_str().expect("text")),
            "blobs" => *value == self.text().lines().count(),
            "gzip" => *value == (self.header(&CONTENT_ENCODING) == "gzip"),
            "json" => serde_json::from_slice(&self.body).is_ok_and(|body: Value| body == *value),
            "headers" => self.has(value),
            other => panic!("unknown expectation {other}"),
        })
    }

    fn has(&self, headers: &Value) -> bool {
        let mut headers = headers.as_object().into_iter().flatten();
        headers.all(|(name, value)| {
            let name = name.parse().expect("the name of a header");
            *value == self.header(&name)
        })
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} {:?}", self.status, self.text(), self.headers)
    }
}
