//! Requests that write: blobs and manifests.
//!
//! Source: OCI distribution specification 1.1, "Push".

use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::{Method, RequestBuilder, Response, Url};

use super::Session;
use super::error::RequestError;
use super::redirect::{self, Redirects, is_same_host};
use super::request::{transport, url};
use crate::digest::Digest;

impl Session {
    /// Uploads a blob, unless the registry has it.
    pub(crate) async fn push_blob(&self, bytes: &[u8]) -> Result<(), RequestError> {
        let digest = Digest::sha256(bytes).to_string();
        let blob = self.within(&format!("blobs/{digest}"))?;
        match self.call(Method::HEAD, &blob, |request| request).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        let uploads = self.within("blobs/uploads/")?;
        let empty = |request: RequestBuilder| request.header(CONTENT_LENGTH, "0");
        let begun = self.call(Method::POST, &uploads, empty).await?;
        let upload = redirect::location(&uploads, begun.headers(), Redirects::AnyHost)?;
        let unnamed = "registry did not name a URL for the upload";
        let mut upload = upload.ok_or_else(|| RequestError::Refused(unnamed.to_owned()))?;
        upload.query_pairs_mut().append_pair("digest", &digest);
        let content = |request: RequestBuilder| {
            request.header(CONTENT_TYPE, "application/octet-stream").body(bytes.to_vec())
        };
        let sent = self.call(Method::PUT, &upload, content).await;
        sent.map(drop).map_err(|error| about(error, &format!("blob {digest}"), bytes))
    }

    /// Uploads a manifest as `version`, a tag or its digest.
    pub(crate) async fn push_manifest(
        &self,
        version: &str,
        bytes: &[u8],
        media_type: &str,
    ) -> Result<(), RequestError> {
        let manifest = self.within(&format!("manifests/{version}"))?;
        let content =
            |request: RequestBuilder| request.header(CONTENT_TYPE, media_type).body(bytes.to_vec());
        let sent = self.call(Method::PUT, &manifest, content).await;
        sent.map(drop).map_err(|error| about(error, &format!("manifest {version}"), bytes))
    }

    /// Returns the digest that a tag names, if there is one.
    pub(crate) async fn tagged(&self, tag: &str) -> Result<Option<Digest>, RequestError> {
        match self.manifest(tag, None).await {
            Ok(found) => Ok(Some(found.digest)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn within(&self, path: &str) -> Result<Url, RequestError> {
        url(&format!("{}/v2/{}/{path}", self.base, self.repository))
    }

    /// Sends one request that may write, once. Credentials are sent to the registry only; a blob
    /// that is redirected exists.
    async fn call(
        &self,
        method: Method,
        at: &Url,
        with: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Response, RequestError> {
        let authorization = if is_same_host(at, &url(&self.base)?) {
            self.authorization(None).await?
        } else {
            None
        };
        let mut request = with(self.http.request(method.clone(), at.clone()));
        if let Some(secret) = &authorization {
            request = request.header(reqwest::header::AUTHORIZATION, secret.expose());
        }
        let name = match method {
            Method::HEAD => "Head",
            Method::POST => "Post",
            _ => "Put",
        };
        let response = request.send().await.map_err(|error| transport(name, at, &error))?;
        let status = response.status();
        let exists = method == Method::HEAD && status.is_redirection();
        if status.is_success() || exists {
            return Ok(response);
        }
        Err(self.refusal(response, authorization.as_ref()).await)
    }
}

/// Adds a note about the sent data: a registry may close the connection if it is too large.
fn about(cause: RequestError, what: &str, bytes: &[u8]) -> RequestError {
    let note = format!("{what}, {} bytes", bytes.len());
    RequestError::Explained { cause: Box::new(cause), note }
}
