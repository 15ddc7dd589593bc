//! Tokens of a registry's token service.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use olm_core::error::quote;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, Response, Url};
use serde::Deserialize;
use tokio::time::Instant;

use super::Session;
use super::error::RequestError;
use super::redirect::{self, Redirects, is_local};
use super::request::{ask, body, transport, url};
use crate::auth::{Credential, SecretString};
use crate::challenge::Challenge;
use crate::limits::MAX_TOKEN_BYTES;
use crate::shown::said;

/// Shortest lifetime of a token, whatever its service says.
const MIN_TOKEN_LIFE: Duration = Duration::from_mins(1);

/// The `Authorization` header, and when it expires.
pub(super) struct Token {
    header: SecretString,
    expires: Instant,
}

#[derive(Deserialize)]
struct Grant {
    token: Option<String>,
    access_token: Option<String>,
    /// Seconds; not above zero where the service says nothing about it.
    expires_in: Option<i64>,
}

impl Session {
    /// Returns the `Authorization` header for a request, or `None` for an anonymous one.
    pub(super) async fn authorization(
        &self,
        scope: Option<&str>,
    ) -> Result<Option<SecretString>, RequestError> {
        if let Some(Credential::RegistryToken(token)) = self.credential() {
            return Ok(Some(bearer(token.expose())));
        }
        match &self.challenge() {
            Challenge::Anonymous => Ok(None),
            Challenge::Basic => Ok(self.basic()),
            Challenge::Bearer { realm, service, .. } => {
                // The lock is held across the request on purpose: layers that are fetched
                // concurrently then request one token, not one each.
                let mut held = self.token.lock().await;
                if let Some(token) = held.as_ref().filter(|it| it.expires > Instant::now()) {
                    return Ok(Some(token.header.clone()));
                }
                let default = self.scope();
                let scope = scope.unwrap_or(&default);
                let grant = self.grant(realm, service.as_deref(), scope).await;
                let token = grant.map_err(|err| RequestError::Token(Box::new(err)))?;
                let header = token.header.clone();
                *held = Some(token);
                Ok(Some(header))
            }
        }
    }

    /// Returns the `Authorization` header with user and password.
    fn basic(&self) -> Option<SecretString> {
        let (username, password) = self.credential()?.login()?;
        let pair = STANDARD.encode(format!("{username}:{}", password.expose()));
        Some(SecretString::new(format!("Basic {pair}")))
    }

    async fn grant(
        &self,
        realm: &str,
        service: Option<&str>,
        scope: &str,
    ) -> Result<Token, RequestError> {
        let mut realm = url(realm)?;
        let refused = |why: &str| {
            let realm = quote(&said(realm.as_str()));
            RequestError::Refused(format!("token realm {realm} is {why}"))
        };
        let plain = realm.scheme() == "http" && self.insecure;
        if realm.scheme() != "https" && !plain {
            return Err(refused("not https"));
        }
        if is_local(&realm) && !is_local(&url(&self.base)?) {
            return Err(refused("on this machine or its local link, and the registry is not"));
        }
        let mut secret = None;
        let response = match self.credential() {
            Some(Credential::IdentityToken { token, .. }) => {
                self.refresh(&realm, service, scope, token).await?
            }
            credential => {
                secret = self.basic();
                // A block, because the writer cannot be sent between threads and must be dropped
                // before the response is awaited.
                {
                    let mut query = realm.query_pairs_mut();
                    if let Some((username, _)) = credential.and_then(Credential::login) {
                        query.append_pair("account", username);
                    }
                    if let Some(service) = service {
                        query.append_pair("service", service);
                    }
                    query.append_pair("scope", scope);
                }
                let (get, secret) = (&Method::GET, secret.as_ref());
                ask(&self.http, get, &realm, &[], secret, Redirects::SameHost).await?
            }
        };
        if !response.status().is_success() {
            return Err(self.refusal(response, secret.as_ref()).await);
        }
        let bytes = body(response, MAX_TOKEN_BYTES).await?;
        let grant: Grant = serde_json::from_slice(&bytes).map_err(|_| RequestError::NoToken)?;
        let mut tokens = [grant.token, grant.access_token].into_iter().flatten();
        let token = tokens.find(|it| !it.is_empty());
        let seconds = grant.expires_in.and_then(|seconds| u64::try_from(seconds).ok());
        let life = Duration::from_secs(seconds.unwrap_or_default()).max(MIN_TOKEN_LIFE);
        Ok(Token {
            header: bearer(&token.ok_or(RequestError::NoToken)?),
            expires: Instant::now().checked_add(life).ok_or(RequestError::NoToken)?,
        })
    }

    async fn refresh(
        &self,
        realm: &Url,
        service: Option<&str>,
        scope: &str,
        token: &SecretString,
    ) -> Result<Response, RequestError> {
        let mut form = realm.clone();
        form.query_pairs_mut()
            .clear()
            .append_pair("grant_type", "refresh_token")
            .append_pair("service", service.unwrap_or_default())
            .append_pair("client_id", "olm-controller")
            .append_pair("scope", scope)
            .append_pair("refresh_token", token.expose());
        let body = form.query().unwrap_or_default().to_owned();
        let request = self
            .http
            .post(realm.clone())
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(body);
        let response = request.send().await.map_err(|err| transport("Post", realm, &err))?;
        let (status, headers) = (response.status(), response.headers());
        match redirect::target(realm, status, headers, Redirects::SameHost)? {
            Some(next) => {
                let why = "a refresh token is sent only once";
                Err(RequestError::redirect(realm, &next, why))
            }
            None => Ok(response),
        }
    }
}

fn bearer(token: &str) -> SecretString {
    SecretString::new(format!("Bearer {token}"))
}
