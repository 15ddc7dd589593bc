//! Authorization of the metrics: the API server authenticates the token and reviews the rights of
//! its user.
//!
//! Verdicts are kept for a while, so that a scraper costs two questions a minute and not two a
//! scrape. Texts are those of controller-runtime (`pkg/metrics/filters`). Source: deploying.md 5.1.

use std::hash::Hash;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use k8s_openapi::api::authentication::v1::{
    TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo,
};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, PostParams};
use olm_core::error::Chain;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use crate::cluster::{Failure, ended_after};
use crate::recent::Recent;
use crate::telemetry::Metrics;

/// The time for which a permission is cached.
const ALLOWED: Duration = Duration::from_mins(1);
/// The time for which a refusal is cached, including that of a token.
const REFUSED: Duration = Duration::from_secs(30);
/// Verdicts of one kind that are kept.
const ROOM: usize = 1024;
/// Questions under way at the same time.
const AT_ONCE: usize = 4;
/// The time limit of a review.
const LIMIT: Duration = Duration::from_secs(10);

type Hashed = [u8; 32];

/// Answers that are kept for a while, at most [`ROOM`] of them.
#[derive(Default)]
struct Cache<K, V>(Recent<K, (Instant, V), ROOM, 0>);

impl<K: Hash + Eq, V: Clone> Cache<K, V> {
    fn get(&self, key: &K, now: Instant) -> Option<V> {
        let (until, value) = self.0.get(key)?;
        (now < until).then_some(value)
    }

    fn keep(&self, key: K, value: V, until: Instant) {
        self.0.put(key, (until, value), 0);
    }
}

/// Asks the API server who sends a request and whether they may.
pub struct Reviewer {
    client: Client,
    metrics: Metrics,
    /// Tokens with their paths.
    allowed: Cache<Hashed, ()>,
    /// Apart, so that a flood of tokens of nobody takes the place of no other.
    refused: Cache<Hashed, Refusal>,
    /// Held while the API server is asked. A token with its path has one of them, so that many scrapes at once
    /// ask once.
    asking: [tokio::sync::Mutex<()>; AT_ONCE],
}

type Refusal = (StatusCode, String);

fn unauthorized() -> Refusal {
    (StatusCode::UNAUTHORIZED, "Unauthorized".to_owned())
}

/// A question has no answer.
#[derive(Debug, thiserror::Error)]
enum ReviewError {
    #[error(transparent)]
    Request(#[from] Failure),
    #[error("the API server could not check the token: {0}")]
    Check(String),
}

impl Reviewer {
    /// Returns who asks with the rights of `client`.
    pub fn new(client: Client, metrics: Metrics) -> Self {
        Self {
            client,
            metrics,
            allowed: Cache::default(),
            refused: Cache::default(),
            asking: Default::default(),
        }
    }

    async fn check(&self, headers: &HeaderMap, path: &str) -> Result<(), Refusal> {
        let token = bearer(headers).ok_or_else(unauthorized)?;
        let asked: Hashed = Sha256::digest(format!("{path}\n{token}")).into();
        if let Some(verdict) = self.kept(&asked) {
            return verdict;
        }
        let _turn = self.asking[usize::from(asked[0]) % AT_ONCE].lock().await;
        // Another request may have asked meanwhile.
        if let Some(verdict) = self.kept(&asked) {
            return verdict;
        }
        let verdict = self.review(token, path).await;
        let now = Instant::now();
        match &verdict {
            Ok(()) => self.allowed.keep(asked, (), now + ALLOWED),
            Err((StatusCode::INTERNAL_SERVER_ERROR, _)) => {}
            Err(refusal) => self.refused.keep(asked, refusal.clone(), now + REFUSED),
        }
        verdict
    }

    fn kept(&self, asked: &Hashed) -> Option<Result<(), Refusal>> {
        let now = Instant::now();
        let allowed = self.allowed.get(asked, now).map(Ok);
        allowed.or_else(|| self.refused.get(asked, now).map(Err))
    }

    /// Asks whose token it is, and whether they may get the path.
    async fn review(&self, token: &str, path: &str) -> Result<(), Refusal> {
        let user = self.whose(token).await.map_err(|error| {
            tracing::warn!(error = %Chain(&error), "the user of this token is not known");
            (StatusCode::INTERNAL_SERVER_ERROR, "Authentication failed".to_owned())
        })?;
        let user = user.ok_or_else(unauthorized)?;
        let name = user.username.clone().unwrap_or_default();
        let spec = SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(path.to_owned()),
                verb: Some("get".to_owned()),
            }),
            ..SubjectAccessReviewSpec::default()
        };
        let question = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        match self.ask(&question).await {
            Ok(answer) if answer.status.as_ref().is_some_and(|status| status.allowed) => Ok(()),
            Ok(_) => Err((StatusCode::FORBIDDEN, format!("Authorization denied for user {name}"))),
            Err(error) => {
                tracing::warn!(user = name, error = %Chain(&error), "whether the user may read metrics is not known");
                let text = format!("Authorization for user {name} failed");
                Err((StatusCode::INTERNAL_SERVER_ERROR, text))
            }
        }
    }

    async fn whose(&self, token: &str) -> Result<Option<UserInfo>, ReviewError> {
        let question = TokenReview {
            spec: TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() },
            ..TokenReview::default()
        };
        let status = self.ask(&question).await?.status.unwrap_or_default();
        match status {
            TokenReviewStatus { authenticated: Some(true), user, .. } => Ok(user),
            // A token that is none has an error, too; only without a verdict nothing is known.
            TokenReviewStatus { authenticated: None, error: Some(error), .. }
                if !error.contains("invalid bearer token") =>
            {
                Err(ReviewError::Check(error))
            }
            _ => Ok(None),
        }
    }

    async fn ask<K>(&self, question: &K) -> Result<K, ReviewError>
    where
        K: kube::Resource<DynamicType = ()>
            + Clone
            + Serialize
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let api = Api::<K>::all(self.client.clone());
        let asked = PostParams::default();
        Ok(ended_after(LIMIT, api.create(&asked, question)).await?)
    }
}

/// Answers only who may read what is asked for.
pub(super) async fn guard(
    State(reviewer): State<std::sync::Arc<Reviewer>>,
    request: Request,
    next: Next,
) -> Response {
    let checked = reviewer.check(request.headers(), request.uri().path()).await;
    reviewer.metrics.metrics_requested(match &checked {
        Ok(()) => "ok",
        Err((StatusCode::UNAUTHORIZED, _)) => "unauthorized",
        Err((StatusCode::FORBIDDEN, _)) => "denied",
        Err(_) => "error",
    });
    match checked {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::token("Bearer abc", Some("abc"))]
    #[case::other_case("bearer  abc ", Some("abc"))]
    #[case::no_token("Bearer ", None)]
    #[case::no_scheme("abc", None)]
    #[case::password("Basic YTpi", None)]
    fn a_token_is_found_in_its_header(#[case] value: &str, #[case] token: Option<&str>) {
        let value = HeaderValue::from_str(value).unwrap();
        let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
        assert_eq!(bearer(&headers), token);
        assert_eq!(bearer(&HeaderMap::new()), None);
    }

    // deploying.md P36
    #[test]
    fn verdicts_are_kept_for_a_while_and_are_not_many() {
        let cache = Cache::<usize, char>::default();
        let now = Instant::now();
        let second = Duration::from_secs(1);
        cache.keep(usize::MAX, 'x', now + second);
        assert_eq!(cache.get(&usize::MAX, now), Some('x'));
        assert_eq!(cache.get(&usize::MAX, now + second), None);
        for (key, later) in (0..2 * ROOM).zip(2..) {
            cache.keep(key, 'y', now + second * later);
        }
        let kept = (0..2 * ROOM).filter(|key| cache.get(key, now).is_some());
        assert!(kept.eq(ROOM..2 * ROOM), "the first to end goes");
    }
}
