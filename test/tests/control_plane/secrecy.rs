//! Credentials reach the host they are for, and nobody else.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use olm_test::prelude::*;
use olm_test::private::serve;

use crate::credentials::{Registries, apply_secret, link};
use crate::doctor::unpacked;

const USER: &str = "robot";
const NOT_HTTPS: &str = "is not https";
/// What a token service grants.
const GRANTED: &str = "granted-91b2d7";

type Texts = BTreeMap<String, String>;

/// How a registry refuses.
#[derive(Debug, Clone)]
enum Refusal {
    /// It asks for name and password, answers them with a status, and repeats what it was sent.
    Status(StatusCode),
    /// Its token service is good, and the token is refused and repeated.
    Token,
    /// Its token service is at this place.
    Realm(String),
    /// Its token service sends everybody to this host.
    TokenElsewhere(String),
    /// Its manifests are at this host.
    ManifestElsewhere(String),
}

impl Refusal {
    fn answer(&self, path: &str, headers: &HeaderMap) -> Response {
        let text = |name| headers.get(name).and_then(|it| it.to_str().ok());
        let host = text(header::HOST).unwrap_or_default();
        let asks = |challenge: String| {
            (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response()
        };
        let bearer = |realm: &str| asks(format!("Bearer realm=\"{realm}\",service=\"s\""));
        let moved = |to: &str| {
            let location = [(header::LOCATION, format!("http://{to}{path}"))];
            (StatusCode::TEMPORARY_REDIRECT, location).into_response()
        };
        let refuses = |status: StatusCode, sent: &str| {
            let message = format!("you sent {sent}");
            let errors = json!({"errors": [{"code": "UNAUTHORIZED", "message": message}]});
            (status, errors.to_string()).into_response()
        };
        let own = format!("http://{host}/token");
        match (self, path, text(header::AUTHORIZATION)) {
            (Self::Token, "/token", _) => json!({"token": GRANTED}).to_string().into_response(),
            (Self::TokenElsewhere(to), "/token", _) | (Self::ManifestElsewhere(to), _, Some(_)) => {
                moved(to)
            }
            (Self::Status(status), _, Some(sent)) => refuses(*status, sent),
            (Self::Token, _, Some(sent)) => refuses(StatusCode::UNAUTHORIZED, sent),
            (Self::Realm(realm), ..) => bearer(realm),
            (Self::Token | Self::TokenElsewhere(_), ..) => bearer(&own),
            (Self::Status(_) | Self::ManifestElsewhere(_), ..) => asks("Basic realm=\"r\"".into()),
        }
    }
}

/// A registry that refuses everything, and remembers what it was sent.
struct Registry {
    address: String,
    sent: Arc<Mutex<String>>,
}

impl Registry {
    async fn start(refusal: Refusal) -> Self {
        let sent = Arc::new(Mutex::new(String::new()));
        let seen = Arc::clone(&sent);
        let routes = Router::new().fallback(move |request: Request| async move {
            let (head, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 1 << 20).await.expect("a body");
            let body = String::from_utf8_lossy(&body);
            let line = format!("{} {:?} {body}\n", head.uri, head.headers);
            seen.lock().expect("nobody panics").push_str(&line);
            refusal.answer(head.uri.path(), &head.headers)
        });
        Self { address: serve(routes).await.0.to_string(), sent }
    }

    fn was_sent(&self, text: &str) -> bool {
        self.sent.lock().expect("nobody panics").contains(text)
    }
}

/// One registry, with what is known of it.
struct Case {
    /// Where its credential is configured.
    source: &'static str,
    registry: Registry,
    /// What its entry in a document holds.
    entry: Value,
    /// What is sent to it, and must not be anywhere else.
    secret: String,
    /// What is said about the failure.
    said: &'static str,
}

impl Case {
    /// The entry of a registries.conf that allows plain HTTP.
    fn insecure(&self) -> String {
        let location = &self.registry.address;
        format!("[[registry]]\nlocation = \"{location}\"\ninsecure = true\n")
    }
}

async fn case(source: &'static str, kind: &str, refusal: Refusal, said: &'static str) -> Case {
    let number = said.len();
    let raw = format!("{source}-{kind}-{number}-5e0d41");
    let (entry, secret) = match kind {
        "auth" => {
            let pair = STANDARD.encode(format!("{USER}:{raw}"));
            (json!({"auth": pair}), pair)
        }
        kind => (json!({kind: raw}), raw),
    };
    Case { source, registry: Registry::start(refusal).await, entry, secret, said }
}

/// The document of the cases of a source, or of all.
fn document(cases: &[Case], source: Option<&str>) -> Value {
    let cases = cases.iter();
    let cases = cases.filter(|case| source.is_none_or(|source| case.source == source));
    let entries = cases.map(|case| (case.registry.address.clone(), case.entry.clone()));
    json!({"auths": entries.collect::<serde_json::Map<_, _>>()})
}

/// A registry of each kind; those that send others elsewhere send them to a stranger.
async fn cases(stranger: &Registry) -> Vec<Case> {
    let elsewhere = || stranger.address.clone();
    let refused = Refusal::Status;
    let bad = Refusal::Realm("ftp://h.io/token".into());
    let moved = "only what has a digest may be on another host";
    let token = Refusal::TokenElsewhere(elsewhere());
    let manifest = Refusal::ManifestElsewhere(elsewhere());
    vec![
        case("named", "auth", refused(StatusCode::UNAUTHORIZED), "401 from").await,
        case("own", "auth", refused(StatusCode::FORBIDDEN), "403 from").await,
        case("global", "auth", Refusal::Token, "401 from").await,
        case("global", "identitytoken", token, moved).await,
        case("file", "auth", bad, NOT_HTTPS).await,
        case("file", "registrytoken", manifest, moved).await,
    ]
}

/// Puts the credentials where the controller finds them; those of its files go to `file`.
fn configure(plane: &ControlPlane, cases: &[Case], file: &Path) {
    for source in ["named", "own", "global"] {
        apply_secret(plane, SYSTEM_NAMESPACE, source, &document(cases, Some(source)));
    }
    let namespace = format!("--namespace={SYSTEM_NAMESPACE}");
    let offered = format!("{}=true", label::CATALOG_PULL_SECRET);
    plane.kubectl(&["label", "secret", "named", &namespace, &offered]);
    link(plane, &json!([{"name": "own"}]));
    write(file, &document(cases, Some("file")));
}

fn write(file: &Path, document: &Value) {
    std::fs::write(file, document.to_string()).expect("it is written");
}

/// Waits until no catalog can be pulled.
async fn catalogs_fail(plane: &'static ControlPlane, cases: &[Case]) {
    for (number, case) in cases.iter().enumerate() {
        let name = format!("secrecy-{number}");
        let image = format!("{}/shelf:v1", case.registry.address);
        let catalog = Catalog::create(plane, &name, &image);
        if case.source == "named" {
            catalog.annotate(policy::PULL_SECRET, Some(case.source));
        }
        catalog.fails(SOON, &[case.said]).await;
    }
}

/// Waits until the bundle of a catalog that anybody may read cannot be pulled.
async fn bundle_fails(scene: &mut Scene, case: &Case) {
    scene.create_namespace();
    scene.grant(&[Bundle::new("1.0.0")]);
    let bundle = format!("{}/bundle:v1", case.registry.address);
    scene.publish_catalog(scene.package.catalog_of(&bundle)).await;
    let extension = scene.install(json!({})).await;
    let is_refused = |found: &Condition| found.message.contains(case.said);
    extension.has("Progressing", "the bundle is refused", is_refused).await;
}

/// Returns what anybody but the registries is told, by place.
async fn told(plane: &ControlPlane, controller: &Controller, dump: &Path) -> Texts {
    let path = dump.to_string_lossy();
    let doctor = plugin::run(plane, &["doctor", "--output=json", "--dump", &path]);
    let mut told = unpacked(dump);
    told.insert("doctor".to_owned(), format!("{doctor:?}"));
    let kinds = "clustercatalogs,clusterextensions,clusterobjectsets,events,configmaps,leases";
    let objects = plane.kubectl(&["get", kinds, "-A", "-o", "yaml"]);
    told.insert("objects".to_owned(), objects);
    told.insert("metrics".to_owned(), controller.metrics().await);
    told.insert("log".to_owned(), controller.log());
    told
}

/// Returns what the plugin says when it has all credentials in a file, by registry.
fn plugin_says(cases: &[Case], file: &Path, registries: &Registries) -> Texts {
    write(file, &document(cases, None));
    let says = cases.iter().map(|case| {
        let image = format!("{}/bundle:v1", case.registry.address);
        let out = Command::new(paths::built("kubectl-olm"))
            .args(["show", &image, "--auth-file"])
            .arg(file)
            .env("CONTAINERS_REGISTRIES_CONF", &registries.file)
            .output()
            .expect("kubectl-olm runs");
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(text.contains(case.said), "{text}");
        (image, text)
    });
    says.collect()
}

/// Each registry was sent what is meant for it, and nobody else was.
fn assert_delivered(cases: &[Case], stranger: &Registry) {
    for case in cases {
        // A bad realm is refused before anything is sent.
        let sent = case.registry.was_sent(&case.secret);
        assert_eq!(sent, case.said != NOT_HTTPS, "{}", case.said);
        let own = &case.registry.address;
        let others = cases.iter().map(|it| &it.registry).chain([stranger]);
        for other in others.filter(|it| it.address != *own) {
            assert!(!other.was_sent(&case.secret), "{} knows", other.address);
        }
    }
}

/// Returns the secrets as they are configured, and as they are meant.
fn secrets(cases: &[Case]) -> impl Iterator<Item = String> {
    cases.iter().flat_map(|case| {
        let decoded = STANDARD.decode(&case.secret).ok();
        let decoded = decoded.and_then(|it| String::from_utf8(it).ok());
        let password = decoded.and_then(|it| Some(it.split_once(':')?.1.to_owned()));
        [case.secret.clone()].into_iter().chain(password)
    })
}

/// Returns the token with which the controller asks the API server.
fn own_token(plane: &ControlPlane, name: &str) -> String {
    let file = plane.addresses.dir.join(format!("{name}-state/kubeconfig"));
    let text = std::fs::read_to_string(file).expect("the controller has a kubeconfig");
    let config: Value = serde_json::from_str(&text).expect("JSON");
    let token = config["users"][0]["user"]["token"].as_str();
    token.expect("a token").to_owned()
}

// deploying.md P22
#[tokio::test(flavor = "multi_thread")]
async fn no_credential_is_anywhere_but_in_requests_to_its_host() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    let stranger = Registry::start(Refusal::Token).await;
    let cases = cases(&stranger).await;
    let registries = Registries::of(plane);
    registries.set(&cases.iter().map(Case::insecure).collect::<String>());
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let file = at("auth.json");
    configure(plane, &cases, &file);
    let flags = [
        format!("--global-pull-secret={SYSTEM_NAMESPACE}/global"),
        format!("--auth-file={}", file.display()),
    ];
    let args = ["--components=catalogs,extensions", "--v=4"];
    let args = [&args[..], &[&flags[0], &flags[1]]].concat();
    let controller = start(plane, "secrecy", &args).await;
    catalogs_fail(plane, &cases).await;
    let mut scene = Scene::empty(cluster.clone(), "secrecy");
    bundle_fails(&mut scene, &cases[1]).await;

    let mut told = told(plane, &controller, &at("dump.tar.gz")).await;
    told.extend(plugin_says(&cases, &at("all.json"), &registries));
    assert!(told["log"].contains(" DEBUG hyper"), "libraries log as well");
    assert_delivered(&cases, &stranger);
    for secret in secrets(&cases).chain([GRANTED.to_owned(), own_token(plane, "secrecy")]) {
        for (place, text) in &told {
            assert!(!text.contains(&secret), "{secret} is in {place}:\n{text}");
        }
    }
    link(plane, &json!([]));
}
