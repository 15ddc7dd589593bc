//! A server of webhooks and APIs outside the cluster, which the API server reaches at the address of a
//! Service: those of `local-cluster` are loopback addresses.
//!
//! It allows an object whose `data.verdict` is `yes`, serves any API version without resources, and
//! closes every connection, so that each call uses the current certificate.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

/// How often the Secret is read; kubelet updates the files in pods in the same way, but slower.
const FOLLOW: Duration = Duration::from_millis(100);
/// Longest time that a client may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A certificate as PEM, and what is served with it.
type Current = (String, Arc<ServerConfig>);
type Config = Arc<Mutex<Option<Current>>>;

/// The server; it stops when it is dropped.
pub struct Webhook {
    address: SocketAddr,
    config: Config,
    ended: Arc<AtomicBool>,
    follower: tokio::task::JoinHandle<()>,
}

impl Webhook {
    /// Listens on `address` with the certificate in the Secret `name`, whatever it is at the time, but for
    /// a new one, which is used so long after it was read.
    pub fn serve(
        address: SocketAddr,
        secrets: Api<Secret>,
        name: String,
        behind: Duration,
    ) -> Self {
        let listener = TcpListener::bind(address).expect("the address of a Service is loopback");
        let ended = Arc::new(AtomicBool::new(false));
        let config = Config::default();
        let follower = tokio::spawn({
            let config = Arc::clone(&config);
            async move {
                loop {
                    // A pod keeps the files of a deleted Secret.
                    if let Ok(secret) = secrets.get(&name).await
                        && let Some(new) = server_config(&secret)
                    {
                        let has_one =
                            config.lock().unwrap_or_else(PoisonError::into_inner).is_some();
                        tokio::time::sleep(if has_one { behind } else { Duration::ZERO }).await;
                        *config.lock().unwrap_or_else(PoisonError::into_inner) = Some(new);
                    }
                    tokio::time::sleep(FOLLOW).await;
                }
            }
        });
        let (ending, serving) = (Arc::clone(&ended), Arc::clone(&config));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ending.load(Ordering::SeqCst) {
                    return;
                }
                let current = serving.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if let (Ok(stream), Some((_, current))) = (stream, current) {
                    // A client that closes the connection is not a failure of the server.
                    std::thread::spawn(move || drop(answer(stream, current)));
                }
            }
        });
        Self { address, config, ended, follower }
    }

    /// Says whether it presents this certificate.
    pub fn presents(&self, certificate: &str) -> bool {
        let current = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().is_some_and(|(pem, _)| pem == certificate)
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        self.follower.abort();
        // Wakes up the listener.
        let _ = TcpStream::connect(self.address);
    }
}

fn server_config(secret: &Secret) -> Option<Current> {
    let data = secret.data.as_ref()?;
    let pem = &data.get("tls.crt")?.0;
    let chain = CertificateDer::from_pem_slice(pem).ok()?;
    let key = PrivateKeyDer::from_pem_slice(&data.get("tls.key")?.0).ok()?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .ok()?
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .ok()?;
    Some((String::from_utf8_lossy(pem).into_owned(), Arc::new(config)))
}

fn answer(stream: TcpStream, config: Arc<ServerConfig>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let connection = ServerConnection::new(config).map_err(std::io::Error::other)?;
    let mut reader = BufReader::new(StreamOwned::new(connection, stream));
    let (target, body) = read_request(&mut reader)?;
    let found = if body.is_empty() {
        discovered(&target)
    } else {
        Some(reviewed(&serde_json::from_slice(&body).map_err(std::io::Error::other)?))
    };
    let status = if found.is_some() { "200 OK" } else { "404 Not Found" };
    let body = found.unwrap_or_default().to_string();
    let mut stream = reader.into_inner();
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    )?;
    stream.conn.send_close_notify();
    stream.flush()
}

fn reviewed(review: &Value) -> Value {
    let allowed = review["request"]["object"]["data"]["verdict"] == "yes";
    let mut response = json!({"uid": review["request"]["uid"], "allowed": allowed});
    if !allowed {
        response["status"] = json!({"message": "the verdict is not yes"});
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

/// Returns the resources of an API version: none.
fn discovered(target: &str) -> Option<Value> {
    let path = target.split('?').next()?;
    let version = path.strip_prefix("/apis/")?;
    Some(json!({"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": version,
        "resources": []}))
}

/// Reads what is asked for, and the body.
fn read_request(
    reader: &mut BufReader<StreamOwned<ServerConnection, TcpStream>>,
) -> std::io::Result<(String, Vec<u8>)> {
    let mut asked = String::new();
    reader.read_line(&mut asked)?;
    let target = asked.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().map_err(std::io::Error::other)?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok((target, body))
}
