//! A server of webhooks and APIs outside the cluster, which the API server reaches at the address of a
//! Service: those of `local-cluster` are loopback addresses.
//!
//! It allows an object whose `data.verdict` is `yes`, serves any API version without resources, and
//! closes every connection, so that each call uses the current certificate.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::CONNECTION;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::{Json, Router};
use axum_server::tls_rustls::{RustlsConfig, bind_rustls};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};

/// How often the Secret is read; kubelet updates the files in pods in the same way, but slower.
const FOLLOW: Duration = Duration::from_millis(100);

/// The server; it stops when it is dropped.
pub struct Webhook {
    /// The certificate that it presents, as PEM.
    presented: Arc<Mutex<String>>,
    serving: tokio::task::JoinHandle<()>,
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
        let presented = Arc::<Mutex<String>>::default();
        let present = {
            let presented = Arc::clone(&presented);
            move |pem| *presented.lock().unwrap_or_else(PoisonError::into_inner) = pem
        };
        let serving = tokio::spawn(async move {
            // A pod keeps the files of a deleted Secret.
            let read = async || loop {
                if let Some(found) = secrets.get(&name).await.ok().as_ref().and_then(server_config)
                {
                    return found;
                }
                tokio::time::sleep(FOLLOW).await;
            };
            let (pem, first) = read().await;
            let config = RustlsConfig::from_config(first);
            present(pem);
            let routes = Router::new().fallback(answer).into_make_service();
            let server = bind_rustls(address, config.clone()).serve(routes);
            let follower = async {
                loop {
                    let (pem, new) = read().await;
                    tokio::time::sleep(behind.max(FOLLOW)).await;
                    config.reload_from_config(new);
                    present(pem);
                }
            };
            tokio::select! {
                ended = server => ended.expect("the address of a Service is loopback"),
                () = follower => {}
            }
        });
        Self { presented, serving }
    }

    /// Says whether it presents this certificate.
    pub fn presents(&self, certificate: &str) -> bool {
        *self.presented.lock().unwrap_or_else(PoisonError::into_inner) == certificate
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn server_config(secret: &Secret) -> Option<(String, Arc<ServerConfig>)> {
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

async fn answer(asked: Uri, body: Bytes) -> Response {
    let found = if body.is_empty() {
        discovered(asked.path())
    } else {
        serde_json::from_slice(&body).ok().map(|review| reviewed(&review))
    };
    let close = [(CONNECTION, "close")];
    match found {
        Some(found) => (close, Json(found)).into_response(),
        None => (StatusCode::NOT_FOUND, close).into_response(),
    }
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
fn discovered(path: &str) -> Option<Value> {
    let version = path.strip_prefix("/apis/")?;
    Some(json!({"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": version,
        "resources": []}))
}
