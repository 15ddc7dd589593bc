//! Clients that act as a service account.
//!
//! In goes the controller's own client, out come clients whose every request carries the
//! impersonation headers of one account. They share the controller's connections. No group is
//! sent: the API server then adds the three groups of a service account itself, and the controller
//! needs no right to impersonate groups.

mod guard;
mod review;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

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
pub use review::{Known, Reviews, held};

const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");

/// Most accounts whose clients are kept; then the one that was not used for longest goes.
const MAX_CLIENTS: usize = 1024;

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

/// Makes and keeps clients that act as service accounts.
pub struct Accounts {
    controller: Client,
    clients: Mutex<HashMap<Account, Kept>>,
}

/// A client, and when it was last asked for.
struct Kept {
    client: Client,
    used: Instant,
}

impl Accounts {
    /// Returns a maker of clients on top of the controller's own.
    ///
    /// That client must not retry by itself (`cluster::connect` sees to that).
    pub fn new(controller: Client) -> Self {
        Self { controller, clients: Mutex::default() }
    }

    /// Returns a client that acts as `account` and as nobody else.
    ///
    /// The API server answers for an account that no longer exists as long as bindings for it
    /// remain, so callers look first, with [`Accounts::require`].
    pub fn client(&self, account: &Account) -> Result<Client, AccountError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let used = Instant::now();
        if let Some(kept) = clients.get_mut(account) {
            kept.used = used;
            return Ok(kept.client.clone());
        }
        let client = impersonating(&self.controller, account)?;
        if clients.len() >= MAX_CLIENTS {
            let unused = clients.iter().min_by_key(|(_, kept)| kept.used);
            unused.map(|(account, _)| account.clone()).and_then(|account| clients.remove(&account));
        }
        let kept = Kept { client: client.clone(), used };
        clients.insert(account.clone(), kept);
        Ok(client)
    }

    pub async fn require(&self, account: &Account) -> Result<(), AccountError> {
        let api = Api::<ServiceAccount>::namespaced(self.controller.clone(), &account.namespace);
        match api.get_metadata_opt(&account.name).await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(AccountError::NotFound(account.clone())),
            Err(err) => Err(AccountError::Lookup(ApiError(err))),
        }
    }
}

/// Asks the API server whom it takes us for; empty if it does not say.
pub async fn user(client: &Client) -> Result<String, kube::Error> {
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

/// Returns a client that acts as `account` and as nobody else.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_client_that_was_not_used_for_longest_goes() {
        let config = kube::Config::new(http::Uri::from_static("http://localhost"));
        let accounts = Accounts::new(Client::try_from(config).unwrap());
        let account =
            |index: usize| Account { namespace: "ns".to_owned(), name: format!("account-{index}") };
        for index in 0..MAX_CLIENTS {
            accounts.client(&account(index)).unwrap();
        }
        accounts.client(&account(0)).unwrap();
        accounts.client(&account(MAX_CLIENTS)).unwrap();
        let kept = accounts.clients.lock().unwrap();
        assert_eq!(kept.len(), MAX_CLIENTS);
        assert!(kept.contains_key(&account(0)) && kept.contains_key(&account(MAX_CLIENTS)));
        assert!(!kept.contains_key(&account(1)));
    }
}
