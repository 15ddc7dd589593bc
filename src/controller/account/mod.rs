//! Clients that act as a service account.
//!
//! In goes the controller's own client, out come clients whose every request carries the
//! impersonation headers of one account. They share the controller's connections. No group is
//! sent: the API server then adds the three groups of a service account itself, and the controller
//! needs no right to impersonate groups.

mod guard;
pub mod review;

use http::{HeaderName, HeaderValue, Request};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::client::Body;
use kube::{Api, Client};
use olm_core::error::{Classify, Disposition};
use olm_core::revision::Account;

use crate::cluster::{ApiError, MAX_RIGHTS_DELAY, retry_after};

pub use guard::{Guard, GuardError};
pub use review::held;

const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");

/// Why nothing can be done as an account.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    #[error("service account {:?} not found in namespace {:?}", .0.name, .0.namespace)]
    NotFound(Account),
    #[error("error getting service account")]
    Lookup(#[source] ApiError),
    #[error("service account {0} cannot be impersonated")]
    Name(Account),
}

impl Classify for AccountError {
    fn disposition(&self) -> Disposition {
        match self {
            // The account may be made, or the controller's rights repaired, at any time.
            Self::NotFound(_) => Disposition::RetryWithin(MAX_RIGHTS_DELAY),
            Self::Lookup(error) => retry_after(&error.0)
                .map_or(Disposition::RetryWithin(MAX_RIGHTS_DELAY), Disposition::RetryAfter),
            Self::Name(_) => Disposition::Terminal(olm_api::conditions::Reason::Blocked),
        }
    }
}

/// Fails unless an account exists. The API server answers for one that no longer does as long as
/// bindings for it remain, so callers of [`impersonating`] look first.
pub async fn require(controller: &Client, account: &Account) -> Result<(), AccountError> {
    let api = Api::<ServiceAccount>::namespaced(controller.clone(), &account.namespace);
    match api.get_metadata_opt(&account.name).await {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(AccountError::NotFound(account.clone())),
        Err(err) => Err(AccountError::Lookup(ApiError(err))),
    }
}

/// Asks the API server whom it takes us for; empty if it does not say.
async fn user(client: &Client) -> Result<String, kube::Error> {
    let review = Api::<SelfSubjectReview>::all(client.clone())
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await?;
    let user = review.status.and_then(|status| status.user_info);
    Ok(user.and_then(|user| user.username).unwrap_or_default())
}

/// Returns the account that we are; nothing if that is not a service account.
pub async fn own(client: &Client) -> Result<Option<Account>, kube::Error> {
    let name = user(client).await?;
    tracing::debug!(user = name, "known to the API server as");
    Ok(Account::of_user(&name))
}

/// Returns a client that acts as `account` and as nobody else, on top of the controller's own, which must
/// not retry by itself (`cluster::connect` sees to that).
pub fn impersonating(controller: &Client, account: &Account) -> Result<Client, AccountError> {
    let user =
        HeaderValue::try_from(account.user()).map_err(|_| AccountError::Name(account.clone()))?;
    let controller = controller.clone();
    let service = tower::service_fn(move |mut request: Request<Body>| {
        request.headers_mut().insert(IMPERSONATE_USER, user.clone());
        let controller = controller.clone();
        async move { controller.send(request).await }
    });
    Ok(Client::new(service, account.namespace.clone()))
}
