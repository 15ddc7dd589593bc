//! Requests manifests and blobs from one registry.
//!
//! Implemented here with `reqwest`: `oci-client` reads manifests, tokens and error responses without a
//! limit, follows redirects from `https` to `http`, hides `Retry-After` and the registry's own error
//! code, turns a failed token request into an anonymous one, and supports neither identity tokens nor
//! client certificates.
//!
//! Source: OCI distribution specification 1.1, catalogs.md 5.3, 8.3.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_RANGE, CONTENT_TYPE, HeaderName, RANGE};
use reqwest::{Client, Method, Response, StatusCode};
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

use crate::auth::{Credential, SecretString};
use crate::challenge::Challenge;
use crate::digest::Digest;
use crate::limits::MAX_MANIFEST_BYTES;
use crate::manifest::{self, Descriptor};
use crate::registries::Endpoint;

mod access;
mod error;
mod redirect;
mod request;
mod token;
#[cfg(any(test, feature = "push"))]
mod upload;

pub(crate) use access::Access;
pub use error::RequestError;
use redirect::{Redirects, is_same_host};
use request::{answer, ask, body, transport, url};

/// A broken download is resumed if at least this many bytes arrived since the last time ...
const RESUME_BYTES: u64 = 1 << 20;
/// ... or if it lasted at least this long.
const RESUME_TIME: Duration = Duration::from_mins(1);

/// A manifest as the registry sent it.
#[derive(Debug, Clone)]
pub(crate) struct RawManifest {
    pub(crate) bytes: Vec<u8>,
    pub(crate) content_type: Option<String>,
    pub(crate) digest: Digest,
}

/// A connection to one repository of one registry, with its credentials.
pub(crate) struct Session {
    http: Client,
    /// URL of the registry: scheme and host.
    base: String,
    repository: String,
    actions: &'static str,
    insecure: bool,
    access: Access,
    /// What the ping has asked for, or the first request of the repository where that was nothing.
    challenge: RwLock<Challenge>,
    token: Mutex<Option<token::Token>>,
}

impl Session {
    /// Finds out how the registry of `endpoint` is reached and which authentication it requires.
    ///
    /// HTTPS comes first; plain HTTP is tried only where the endpoint is configured insecure.
    pub(crate) async fn open(
        http: Client,
        endpoint: &Endpoint,
        access: Access,
    ) -> Result<Self, RequestError> {
        let host = match endpoint.image.registry() {
            // The host name of Docker Hub's registry differs from its name in references.
            "docker.io" => "registry-1.docker.io",
            other => other,
        };
        let mut answer = ping(&http, &format!("https://{host}")).await;
        let mut base = format!("https://{host}");
        if answer.is_err() && endpoint.insecure {
            base = format!("http://{host}");
            answer = ping(&http, &base).await;
        }
        Ok(Self {
            http,
            repository: endpoint.image.repository().to_owned(),
            actions: "pull",
            insecure: endpoint.insecure,
            challenge: RwLock::new(answer.map_err(|error| access.explain(error, &base))?),
            access,
            base,
            token: Mutex::new(None),
        })
    }

    /// Has tokens allow pushes, too.
    #[cfg(any(test, feature = "push"))]
    pub(crate) fn pushing(self) -> Self {
        Self { actions: "pull,push", ..self }
    }

    /// Asks whether a manifest of `version`, a tag or a digest, exists. Registries that count pulls do not
    /// count HEAD requests; GET follows where HEAD is refused, because only its answer tells why.
    ///
    /// The answer may come from another host, because nothing of it is used.
    pub(crate) async fn probe(&self, version: &str) -> Result<(), RequestError> {
        let path = format!("manifests/{version}");
        let headers = [(ACCEPT, manifest::ACCEPT.join(", "))];
        let asked = self.ask(&Method::HEAD, &path, &headers, Redirects::AnyHost).await;
        match asked.as_ref().err().and_then(RequestError::status) {
            Some(400..=428 | 430..=499 | 501) => {
                self.ask(&Method::GET, &path, &headers, Redirects::AnyHost).await.map(drop)
            }
            _ => asked.map(drop),
        }
    }

    /// Returns the manifest of `version`, a tag or a digest. One whose digest is known may come from
    /// another host. The digest is computed: the one that registries send is optional, and with some it is
    /// that of the index the manifest is from.
    pub(crate) async fn manifest(
        &self,
        version: &str,
        expected: Option<&Digest>,
    ) -> Result<RawManifest, RequestError> {
        let path = format!("manifests/{version}");
        let accept = manifest::ACCEPT.join(", ");
        let headers = [(ACCEPT, accept)];
        let allowed = expected.map_or(Redirects::SameHost, |_| Redirects::AnyHost);
        let response = self.ask(&Method::GET, &path, &headers, allowed).await?;
        let content_type = response.headers().get(CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok().map(str::to_owned));
        let bytes = body(response, MAX_MANIFEST_BYTES).await?;
        let digest = match expected {
            Some(expected) => Digest::of(expected.algorithm(), &bytes),
            None => Digest::sha256(&bytes),
        };
        if let Some(expected) = expected.filter(|expected| **expected != digest) {
            return Err(RequestError::digest(&digest, expected));
        }
        Ok(RawManifest { bytes, content_type, digest })
    }

    /// Returns a small blob, with its digest and size checked.
    pub(crate) async fn small_blob(&self, blob: &Descriptor) -> Result<Vec<u8>, RequestError> {
        if blob.size > MAX_MANIFEST_BYTES {
            return Err(RequestError::too_large(MAX_MANIFEST_BYTES));
        }
        let path = format!("blobs/{}", blob.digest);
        let response = self.ask(&Method::GET, &path, &[], Redirects::AnyHost).await?;
        let bytes = body(response, blob.size).await?;
        check(blob, bytes.len() as u64, &Digest::of(blob.digest.algorithm(), &bytes))?;
        Ok(bytes)
    }

    /// Sends the bytes of a blob into `sink`, at most as many as its descriptor says, and resumes
    /// broken downloads. The receiver checks size and digest with [`check`].
    pub(crate) async fn stream(
        &self,
        blob: &Descriptor,
        sink: mpsc::Sender<Vec<u8>>,
    ) -> Result<(), RequestError> {
        let path = format!("blobs/{}", blob.digest);
        let (mut received, mut resumed) = (0, false);
        loop {
            let (since, began) = (received, Instant::now());
            // Some registries refuse a range without an end.
            let range = format!("bytes={received}-{}", blob.size.saturating_sub(1));
            let headers: &[_] = if received == 0 { &[] } else { &[(RANGE, range)] };
            let response = self.ask(&Method::GET, &path, headers, Redirects::AnyHost).await?;
            if received > 0 && !continues(&response, received) {
                let text = "registry did not resume the interrupted download";
                return Err(RequestError::Refused(text.to_owned()));
            }
            let (broken, is_cut) = match self.pump(response, blob, &mut received, &sink).await {
                // All of it came before the connection broke.
                Err(RequestError::Transport { .. }) if received == blob.size => return Ok(()),
                Err(broken @ RequestError::Transport { .. }) => (broken, true),
                Ok(()) if received < blob.size => (RequestError::size(received, blob.size), false),
                other => return other,
            };
            let little = received - since < RESUME_BYTES && began.elapsed() < RESUME_TIME;
            // A connection that is cut is resumed once in any case.
            if little && (resumed || !is_cut || received == 0) {
                return Err(broken);
            }
            resumed = true;
            tracing::debug!(digest = %blob.digest, received, "resuming an interrupted download");
        }
    }

    async fn pump(
        &self,
        mut response: Response,
        blob: &Descriptor,
        received: &mut u64,
        sink: &mpsc::Sender<Vec<u8>>,
    ) -> Result<(), RequestError> {
        let url = response.url().clone();
        while let Some(chunk) =
            response.chunk().await.map_err(|err| transport("Get", &url, &err))?
        {
            *received += chunk.len() as u64;
            if *received > blob.size {
                return Err(RequestError::size(*received, blob.size));
            }
            sink.send(chunk.to_vec()).await.map_err(|_| RequestError::Stopped)?;
        }
        Ok(())
    }

    fn credential(&self) -> Option<&Credential> {
        self.access.choice.credential.as_ref()
    }

    async fn ask(
        &self,
        method: &Method,
        path: &str,
        headers: &[(HeaderName, String)],
        allowed: Redirects,
    ) -> Result<Response, RequestError> {
        let asked = async {
            let url = url(&format!("{}/v2/{}/{path}", self.base, self.repository))?;
            let mut scope = None;
            loop {
                let token = self.authorization(scope.as_deref()).await?;
                let sent = token.as_ref();
                let response = ask(&self.http, method, &url, headers, sent, allowed).await?;
                if response.status().is_success() {
                    return Ok(response);
                }
                // The token may have expired, or the registry requires a wider one; one retry is
                // enough. A host that only stores the blobs cannot ask for another token, and for a
                // token that is configured there is no other.
                if response.status() == StatusCode::UNAUTHORIZED
                    && scope.is_none()
                    && !matches!(self.credential(), Some(Credential::RegistryToken(_)))
                    && is_same_host(&url, response.url())
                {
                    let asked = Challenge::read(response.headers());
                    let is_first = self.is_first(&asked);
                    if let Challenge::Bearer { scope: wanted, .. } = asked {
                        self.token.lock().await.take();
                        scope = Some(wanted.unwrap_or_else(|| self.scope()));
                        continue;
                    }
                    if is_first {
                        scope = Some(self.scope());
                        continue;
                    }
                }
                return Err(self.refusal(response, sent).await);
            }
        };
        // Boxed, because it is a part of every pull.
        Box::pin(asked).await.map_err(|error| self.access.explain(error, &self.base))
    }

    /// Keeps a challenge if there was none yet: where some repositories are public, the ping need not
    /// ask for anything. Returns whether it is kept.
    fn is_first(&self, asked: &Challenge) -> bool {
        let mut known = self.challenge.write().unwrap_or_else(PoisonError::into_inner);
        let is_first = *known == Challenge::Anonymous && *asked != Challenge::Anonymous;
        if is_first {
            known.clone_from(asked);
        }
        is_first
    }

    fn challenge(&self) -> Challenge {
        self.challenge.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Turns a response to a request with this `Authorization` header into an error.
    async fn refusal(&self, response: Response, header: Option<&SecretString>) -> RequestError {
        let token = header.and_then(|it| it.expose().split(' ').nth(1));
        let own = self.credential().map(Credential::secrets).unwrap_or_default();
        let secrets: Vec<_> = token.into_iter().chain(own).collect();
        answer(response, &secrets).await
    }

    fn scope(&self) -> String {
        format!("repository:{}:{}", self.repository, self.actions)
    }
}

/// Compares what arrived with the descriptor.
pub(crate) fn check(blob: &Descriptor, size: u64, digest: &Digest) -> Result<(), RequestError> {
    if size != blob.size {
        return Err(RequestError::size(size, blob.size));
    }
    if *digest != blob.digest {
        return Err(RequestError::digest(digest, &blob.digest));
    }
    Ok(())
}

/// Returns whether a registry responds, and which authentication it requires.
async fn ping(http: &Client, base: &str) -> Result<Challenge, RequestError> {
    let url = url(&format!("{base}/v2/"))?;
    let response = ask(http, &Method::GET, &url, &[], None, Redirects::SameHost).await?;
    match response.status() {
        StatusCode::OK | StatusCode::UNAUTHORIZED => Ok(Challenge::read(response.headers())),
        _ => Err(answer(response, &[]).await),
    }
}

fn continues(response: &Response, offset: u64) -> bool {
    let range = response.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
    response.status() == StatusCode::PARTIAL_CONTENT
        && range.is_some_and(|it| it.starts_with(&format!("bytes {offset}-")))
}
