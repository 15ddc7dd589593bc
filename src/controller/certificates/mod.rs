//! Certificates for webhook servers, issued by the controller itself.
//!
//! Each extension that needs them has one CA, in a Secret of the controller's namespace, and one
//! certificate for each Deployment that serves webhooks, in a Secret beside it, written as the
//! account of the extension. Callers learn the CA through the rendered objects, so that a change
//! of CA is a new revision: it names old and new together, servers get certificates of the new CA
//! once that revision is rolled out, and the old CA goes when no server can show it any more. A
//! new certificate of the same CA changes no revision and restarts no pod.
//!
//! The Secrets are all the state there is. Whatever of them is lost is made anew; the CA of
//! certificates that servers still show stays trusted meanwhile, read from beside them.
//!
//! Source: rendering.md 4.11.

mod leaf;
mod secret;
mod state;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use futures::channel::mpsc;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;
use olm_api::keys::label;
use olm_core::error::Chain;
use olm_core::render::CertificateRequest;
use olm_core::revision::{Account, Extension};

use crate::account::impersonating;
use crate::by_key::ByKey;
use crate::cluster::{RequestError, Target, Watches};
use crate::owned::{OwnedError, delete, is_owned};
use crate::x509::{Data, leaf_due};
use leaf::{Leaf, RenewReason, Verdict, judge};
use secret::{LeafSecret, authority_name, is_authority_of, store_authority};
use state::{State, is_same_secret};

/// Something worth an Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateEvent {
    /// Whether a person may have to act.
    pub is_warning: bool,
    /// One sentence.
    pub note: String,
}

/// The result of maintaining certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Upkeep {
    pub events: Vec<CertificateEvent>,
    pub next: Option<Timestamp>,
}

/// An authority that is not written yet, with the certificates found.
pub struct PendingIssue {
    state: State,
    /// The Secret it was read from, or takes the place of.
    stored: Option<Secret>,
    changed: bool,
    leaves: Vec<ServingCert>,
    events: Vec<CertificateEvent>,
}

/// A certificate that is asked for, and what is there.
struct ServingCert {
    request: CertificateRequest,
    secret: Option<Secret>,
    leaf: Result<Leaf, RenewReason>,
}

impl PendingIssue {
    /// Returns the certificates that callers are to trust, as PEM.
    pub fn bundle(&self) -> String {
        self.state.authority.bundle()
    }
}

/// Issues and keeps the certificates of webhook servers.
pub struct Issuer {
    client: Client,
    watches: Watches,
    system_namespace: String,
    /// The content of the Secret of each CA as it was last seen, by the UID of its extension.
    seen: ByKey<Data>,
}

impl Issuer {
    /// Returns the issuer and the names of extensions whose certificates were touched.
    ///
    /// `client` must not retry by itself. Must be called within a tokio runtime.
    pub fn new(client: Client, system_namespace: String) -> (Self, mpsc::Receiver<String>) {
        let (watches, woken) = Watches::new(client.clone());
        let issuer = Self { watches, system_namespace, client, seen: ByKey::default() };
        (issuer, woken)
    }

    fn authorities(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.system_namespace)
    }

    /// Reads the CA of an extension. Whose its Secret is comes before what is in it: one of
    /// somebody else is an error and stays as it is.
    async fn stored(&self, owner: &Extension) -> Result<Option<Secret>, OwnedError> {
        let name = authority_name(&owner.name);
        let found = self.authorities().get_opt(&name).await;
        match found.map_err(RequestError::doing("getting the CA of webhooks"))? {
            Some(secret) if !is_authority_of(&secret, owner) => Err(OwnedError::Foreign {
                what: "the CA of its webhooks",
                namespace: self.system_namespace.clone(),
                name,
            }),
            found => {
                let data = found.as_ref().and_then(|secret| secret.data.clone());
                if data.is_some() {
                    self.seen.put(&owner.uid, data);
                }
                Ok(found)
            }
        }
    }

    /// Writes the CA of an extension that is being deleted again as it was, if its Secret is gone: a
    /// foreground deletion takes it at once, and callers of the webhooks trust no other.
    pub async fn restore(&self, owner: &Extension, now: Timestamp) -> Result<(), OwnedError> {
        if self.stored(owner).await?.is_some() {
            return Ok(());
        }
        let Some(Ok(state)) = self.seen.get(&owner.uid).map(|data| State::parse(&data, now)) else {
            return Ok(());
        };
        store_authority(&self.authorities(), owner, &state, None).await?;
        tracing::info!("CA of webhooks written again");
        Ok(())
    }

    pub fn forget(&self, owner: &Extension) {
        self.seen.put(&owner.uid, None);
    }

    /// Reads the CA of an extension in order to remove it; a Secret of somebody else is left alone.
    async fn removable(&self, owner: &Extension) -> Result<Option<Secret>, OwnedError> {
        match self.stored(owner).await {
            Err(error @ OwnedError::Foreign { .. }) => {
                tracing::info!(error = %Chain(&error), "left alone");
                Ok(None)
            }
            found => found,
        }
    }

    /// Reads what an extension has, and makes in memory what it lacks. Nothing is written, so that
    /// a bundle that cannot be rendered leaves nothing behind.
    pub async fn prepare(
        &self,
        owner: &Extension,
        account: &Account,
        requests: &[CertificateRequest],
        now: Timestamp,
    ) -> Result<PendingIssue, OwnedError> {
        let stored = self.stored(owner).await?;
        let leaves = self.live(owner, account, requests).await?;
        let mut events = Vec::new();
        let read = stored.as_ref().map(|secret| {
            let data = secret.data.clone().unwrap_or_default();
            State::parse(&data, now).map_err(|why| (why, state::issued(&data)))
        });
        let (mut state, mut changed) = match read {
            Some(Ok(state)) => (state, false),
            Some(Err((why, issued))) => {
                let note = format!("the CA of webhooks could not be used and is replaced: {why}");
                events.push(CertificateEvent { is_warning: true, note });
                (State { issued, ..State::new(shown_cas(&leaves, now), now)? }, true)
            }
            None => (State::new(shown_cas(&leaves, now), now)?, true),
        };
        let found: Vec<_> = leaves.iter().map(|live| live.leaf.as_ref().ok()).collect();
        changed |= state.advance(&found, now)?;
        // One that lost its owner, or has one of the same name that is gone, is taken over before
        // the garbage collector comes.
        changed |= stored.as_ref().is_some_and(|it| !is_owned(it, owner));
        Ok(PendingIssue { state, stored, changed, leaves, events })
    }

    /// Writes the CA, then every certificate that is missing, unusable or due. `published` says
    /// whether every caller trusts the newest CA.
    pub async fn issue(
        &self,
        owner: &Extension,
        account: &Account,
        mut prepared: PendingIssue,
        published: bool,
        now: Timestamp,
    ) -> Result<Upkeep, OwnedError> {
        let requests: Vec<_> = prepared.leaves.iter().map(|live| live.request.clone()).collect();
        // Recorded first, so that what is issued is also removed, whatever happens in between.
        prepared.changed |= prepared.state.record(&requests);
        if prepared.changed {
            let old = prepared.stored.as_ref();
            store_authority(&self.authorities(), owner, &prepared.state, old).await?;
            self.seen.put(&owner.uid, Some(prepared.state.data()));
            tracing::info!("CA of webhooks written");
        }
        let mut events = prepared.events;
        let mut next = Vec::new();
        let client = impersonating(&self.client, account)?;
        for live in &prepared.leaves {
            let authority = &prepared.state.authority;
            let names = &live.request.dns_names;
            let due = match judge(&live.leaf, authority, names, published, now) {
                Verdict::Keep(due) => due,
                Verdict::Issue(why) => {
                    let signer = authority.signer(published);
                    let secret = LeafSecret { client: &client, owner, request: &live.request };
                    let issued = signer.issue(names, &live.request.secret, now)?;
                    secret.write(&issued, live.secret.as_ref()).await?;
                    events.push(issuance(&live.request, why));
                    leaf_due(issued.validity, 0.0)
                }
            };
            next.push(due);
        }
        let found: Vec<_> = prepared.leaves.iter().map(|live| live.leaf.as_ref().ok()).collect();
        next.push(prepared.state.next(&found));
        self.watch(owner, account, &client, &requests);
        Ok(Upkeep { events, next: next.into_iter().min() })
    }

    /// Keeps the certificates that were issued before, without asking for others and without
    /// changing the CA: what has to go on while nothing can be resolved or rendered.
    pub async fn keep(
        &self,
        owner: &Extension,
        account: &Account,
        now: Timestamp,
    ) -> Result<Upkeep, OwnedError> {
        let Some(stored) = self.stored(owner).await? else { return Ok(Upkeep::default()) };
        let data = stored.data.clone().unwrap_or_default();
        let Ok(state) = State::parse(&data, now) else { return Ok(Upkeep::default()) };
        let prepared = PendingIssue {
            leaves: self.live(owner, account, &state.issued).await?,
            state,
            stored: Some(stored),
            changed: false,
            events: Vec::new(),
        };
        self.issue(owner, account, prepared, false, now).await
    }

    /// Removes every certificate that is recorded but not among `wanted`; without any wanted one
    /// also the CA.
    pub async fn retire(
        &self,
        owner: &Extension,
        account: &Account,
        wanted: &[CertificateRequest],
    ) -> Result<(), OwnedError> {
        let Some(stored) = self.removable(owner).await? else {
            self.watches.release(&owner.name);
            return Ok(());
        };
        let data = stored.data.clone().unwrap_or_default();
        let is_wanted =
            |one: &CertificateRequest| wanted.iter().any(|wanted| is_same_secret(wanted, one));
        let issued = state::issued(&data);
        let (kept, obsolete): (Vec<_>, Vec<_>) = issued.into_iter().partition(is_wanted);
        if !obsolete.is_empty() {
            let client = impersonating(&self.client, account)?;
            for request in &obsolete {
                let secret = LeafSecret { client: &client, owner, request };
                let secret_name = &request.secret;
                match secret.remove().await {
                    Err(err) if err.is_of_account() => {
                        let error = Chain(&err).to_string();
                        tracing::warn!(secret_name, error, "left to the garbage collector");
                    }
                    done => {
                        done?;
                        tracing::info!(secret_name, "certificate of a webhook removed");
                    }
                }
            }
        }
        if wanted.is_empty() {
            self.watches.release(&owner.name);
            return self.remove_authority(owner, &stored).await;
        }
        if obsolete.is_empty() {
            return Ok(());
        }
        // One that cannot be read is replaced, with its record, by the next reconcile.
        if let Ok(state) = State::parse(&data, Timestamp::now()) {
            let state = State { issued: kept, ..state };
            store_authority(&self.authorities(), owner, &state, Some(&stored)).await?;
        }
        Ok(())
    }

    async fn remove_authority(&self, owner: &Extension, stored: &Secret) -> Result<(), OwnedError> {
        let removed = delete(&self.authorities(), stored).await;
        removed.map_err(RequestError::doing("deleting the CA of webhooks"))?;
        self.forget(owner);
        tracing::info!("CA of webhooks removed");
        Ok(())
    }

    /// Removes everything at the end of an extension. What its account may not remove is left to
    /// the garbage collector.
    pub async fn remove(
        &self,
        owner: &Extension,
        account: Option<&Account>,
    ) -> Result<(), OwnedError> {
        if let Some(account) = account {
            match self.retire(owner, account, &[]).await {
                Err(err) if err.is_of_account() => {
                    let error = Chain(&err).to_string();
                    tracing::warn!(error, "certificates are left to the garbage collector");
                }
                done => return done,
            }
        }
        self.watches.release(&owner.name);
        match self.removable(owner).await? {
            Some(stored) => self.remove_authority(owner, &stored).await,
            None => Ok(()),
        }
    }

    /// Returns whether touched certificates of an extension go unnoticed.
    pub fn polls(&self, extension: &str) -> bool {
        self.watches.polls(extension)
    }

    async fn live(
        &self,
        owner: &Extension,
        account: &Account,
        requests: &[CertificateRequest],
    ) -> Result<Vec<ServingCert>, OwnedError> {
        let client = impersonating(&self.client, account)?;
        let mut leaves = Vec::with_capacity(requests.len());
        for request in requests {
            let secret = LeafSecret { client: &client, owner, request }.read().await?;
            let leaf = match &secret {
                None => Err(RenewReason::Missing),
                Some(secret) => {
                    let data = secret.data.clone().unwrap_or_default();
                    Leaf::parse(&data).map_err(RenewReason::Unusable)
                }
            };
            leaves.push(ServingCert { request: request.clone(), secret, leaf });
        }
        Ok(leaves)
    }

    fn watch(
        &self,
        owner: &Extension,
        account: &Account,
        client: &Client,
        requests: &[CertificateRequest],
    ) {
        let mut names = BTreeMap::<_, BTreeSet<_>>::new();
        for request in requests {
            names.entry(request.namespace.clone()).or_default().insert(request.secret.clone());
        }
        let targets = names.into_iter().map(|(namespace, names)| Target::secrets(namespace, names));
        let selector = format!("{}={}", label::OWNER_NAME, owner.name);
        self.watches.ensure(&owner.name, account, client, &selector, targets.collect());
    }
}

fn issuance(request: &CertificateRequest, why: RenewReason) -> CertificateEvent {
    let CertificateRequest { namespace, secret, .. } = request;
    tracing::info!(namespace, secret, %why, "certificate of a webhook issued");
    CertificateEvent {
        is_warning: matches!(why, RenewReason::Unusable(_)),
        note: format!("certificate of a webhook issued into Secret {namespace}/{secret}: {why}"),
    }
}

/// Returns the CAs of certificates that servers show although the CA of the extension is not
/// known: it was lost, or another source issued them.
fn shown_cas(leaves: &[ServingCert], now: Timestamp) -> Vec<String> {
    let mut cas: Vec<String> = leaves
        .iter()
        .filter_map(|live| live.leaf.as_ref().ok()?.trusted_ca(&live.request.dns_names, now))
        .collect();
    cas.sort();
    cas.dedup();
    cas
}
