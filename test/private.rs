//! A registry that asks for credentials: the distribution project's, with a password file or with a
//! token service, which is here.
//!
//! Who has no credentials gets a token too, as from public token services; it allows nothing.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header::AUTHORIZATION};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use olm_image::auth::{Credential, Credentials, SecretString};
use olm_image::built::BuiltImage;
use olm_image::keyring::{Keyring, Source};
use olm_image::push::PushOptions;
use rcgen::{KeyPair, PKCS_ED25519, SigningKey as _};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::cluster::{KILL_WITH_PARENT, free_address};
use crate::{images, paths};

/// The one who may push and pull.
pub const USER: &str = "team";
/// The password of [`USER`]; no other text in a log or a status looks like it.
pub const PASSWORD: &str = "right-5f0c91";
/// The line of the password file: bcrypt, which is all that the registry reads.
const HTPASSWD: &str = "team:$2b$04$abcdefghijklmnopqrstuuoFKij2VUFKO9Ifmyt3cjbZjuuaKwliu\n";
const ISSUER: &str = "issuer";
const SERVICE: &str = "service";
const START: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// How a registry asks for credentials.
enum Auth<'a> {
    /// Name and password with each request.
    Basic,
    /// The same over TLS, with this certificate and key.
    BasicOverTls(&'a Path, &'a Path),
    /// A token of this service, signed with a key of this set.
    Token(SocketAddr, &'a Path),
}

/// The registry; it stops when it is dropped.
pub struct PrivateRegistry {
    /// Host and port.
    pub address: String,
    plain_http: bool,
    process: Child,
    _folder: tempfile::TempDir,
    tokens: Option<JoinHandle<()>>,
}

impl PrivateRegistry {
    /// Starts a registry over plain HTTP that asks for name and password.
    pub fn basic() -> Self {
        Self::start(folder(), &Auth::Basic)
    }

    /// Starts one over TLS, with this certificate and key.
    pub fn basic_over_tls(certificate: &Path, key: &Path) -> Self {
        Self::start(folder(), &Auth::BasicOverTls(certificate, key))
    }

    /// Starts one over plain HTTP that asks for a token.
    pub async fn token() -> Self {
        let folder = folder();
        let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        let public = URL_SAFE_NO_PAD.encode(key.public_key_raw());
        let keys = json!({"keys": [{
            "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": "key", "x": public,
        }]});
        let set = folder.path().join("keys.json");
        std::fs::write(&set, keys.to_string()).expect("the keys are written");
        let routes = Router::new().route("/token", get(grant)).with_state(Arc::new(key));
        let (address, tokens) = serve(routes).await;
        let mut registry = Self::start(folder, &Auth::Token(address, &set));
        registry.tokens = Some(tokens);
        registry
    }

    fn start(folder: tempfile::TempDir, auth: &Auth<'_>) -> Self {
        let at = |name: &str| folder.path().join(name);
        let address = free_address();
        std::fs::write(at("htpasswd"), HTPASSWD).expect("the password file is written");
        let mut config = json!({
            "version": "0.1",
            "log": {"level": "warn"},
            "storage": {"filesystem": {"rootdirectory": at("storage")}},
            "http": {"addr": address, "secret": "s"},
            "auth": {"htpasswd": {"realm": "r", "path": at("htpasswd")}},
        });
        match auth {
            Auth::Basic => {}
            Auth::BasicOverTls(certificate, key) => {
                config["http"]["tls"] = json!({"certificate": certificate, "key": key});
            }
            Auth::Token(tokens, keys) => {
                config["auth"] = json!({"token": {
                    "realm": format!("http://{tokens}/token"),
                    "service": SERVICE, "issuer": ISSUER, "jwks": keys,
                }});
            }
        }
        // JSON is YAML.
        std::fs::write(at("config.yml"), config.to_string()).expect("the configuration is written");
        let log = std::fs::File::create(at("log")).expect("a log file");
        let process = Command::new("sh")
            .args(["-c", KILL_WITH_PARENT])
            .arg(at("pid"))
            .arg(paths::local_cluster())
            .arg("registry")
            .arg(at("config.yml"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the registry starts; build it with `make local-cluster`");
        let deadline = Instant::now() + START;
        while TcpStream::connect(&address).is_err() {
            let log = std::fs::read_to_string(at("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "the registry is not up:\n{log}");
            std::thread::sleep(POLL);
        }
        Self {
            plain_http: !matches!(auth, Auth::BasicOverTls(..)),
            address,
            process,
            _folder: folder,
            tokens: None,
        }
    }

    /// Pushes an image as `name:tag` and returns its reference by digest.
    pub async fn push(&self, name: &str, image: &BuiltImage) -> String {
        let basic =
            Credential::Basic { username: USER.to_owned(), password: SecretString::new(PASSWORD) };
        let mut credentials = Credentials::default();
        credentials.insert(&self.address, basic);
        let mut source = Source::default();
        source.add("the password file", credentials);
        let keyring = Keyring::new([source]);
        let options = PushOptions { plain_http: self.plain_http, keyring };
        images::send_with(&format!("{}/{name}", self.address), image, &options).await
    }

    /// Returns the entry of a registries.conf that allows plain HTTP.
    pub fn entry(&self) -> String {
        format!("[[registry]]\nlocation = \"{}\"\ninsecure = true\n", self.address)
    }

    /// Returns the document of a Secret with this password for this registry.
    pub fn document(&self, password: &str) -> Value {
        let auth = STANDARD.encode(format!("{USER}:{password}"));
        json!({"auths": {&self.address: {"auth": auth}}})
    }
}

impl Drop for PrivateRegistry {
    fn drop(&mut self) {
        if let Some(tokens) = &self.tokens {
            tokens.abort();
        }
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Serves these routes at an address of their own.
pub async fn serve(routes: Router) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let serving = async move { axum::serve(listener, routes).await.expect("it is served") };
    (address, tokio::spawn(serving))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Answers a request for a token as the specification of the distribution project says.
async fn grant(
    State(key): State<Arc<KeyPair>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> (StatusCode, String) {
    let known = STANDARD.encode(format!("{USER}:{PASSWORD}"));
    let given = headers.get(AUTHORIZATION).map(|it| it.to_str());
    let may = match given {
        None => false,
        Some(Ok(given)) if given == format!("Basic {known}") => true,
        Some(_) => {
            let errors = json!({"errors": [{
                "code": "UNAUTHORIZED", "message": "incorrect username or password",
            }]});
            return (StatusCode::UNAUTHORIZED, errors.to_string());
        }
    };
    let access: Vec<Value> = if may {
        let query = query.unwrap_or_default();
        let url = reqwest::Url::parse(&format!("http://x/?{query}")).expect("a URL");
        let scopes = url.query_pairs().filter(|(name, _)| name == "scope");
        scopes.filter_map(|(_, scope)| allowed(&scope)).collect()
    } else {
        Vec::new()
    };
    let now = Timestamp::now().as_second();
    let claims = json!({
        "iss": ISSUER, "sub": "", "aud": SERVICE, "jti": "1", "access": access,
        "nbf": now - 10, "iat": now, "exp": now + 300,
    });
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let header = json!({"alg": "EdDSA", "typ": "JWT", "kid": "key"});
    let signed = format!("{}.{}", part(&header), part(&claims));
    let signature = key.sign(signed.as_bytes()).expect("a signature");
    let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature));
    (StatusCode::OK, json!({"token": token, "expires_in": 300}).to_string())
}

/// Reads `repository:<name>:<action>,<action>`.
fn allowed(scope: &str) -> Option<Value> {
    let (rest, actions) = scope.rsplit_once(':')?;
    let (type_, name) = rest.split_once(':')?;
    let actions: Vec<_> = actions.split(',').collect();
    Some(json!({"type": type_, "name": name, "actions": actions}))
}
