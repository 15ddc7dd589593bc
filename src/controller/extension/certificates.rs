//! The certificates of webhooks and API services in the life of an extension: who issues them, and when.

use std::time::Duration;

use jiff::Timestamp;
use kube::runtime::events::EventType;
use kube::{Client, ResourceExt as _};
use olm_api::conditions::Reason;
use olm_core::error::Chain;
use olm_core::extension::recorded_issuer;
use olm_core::render::{
    CertificateNeeds, CertificateProvider, CertificateRequest, CertificateSource, Served,
    choose_certificates,
};
use olm_core::revision::Extension;
use olm_core::rights::OPENSHIFT;

use super::Attempt;
use super::context::LIMIT;
use crate::backoff::jittered;
use crate::certificates::{PendingIssue, Upkeep};
use crate::cluster::RequestError;
use crate::owned::OwnedError;
use crate::reconcile::within;

/// Where cert-manager's Certificates are served.
const CERT_MANAGER: &str = "cert-manager.io/v1";
/// The interval of checks of certificates that the account may not watch.
const POLL: Duration = Duration::from_mins(1);
/// Soonest that certificates are looked at again.
const SOONEST: Duration = Duration::from_secs(1);

/// The source of the certificates of a bundle.
pub(super) enum Certificates {
    /// The bundle has neither webhooks nor API services.
    Unneeded,
    /// Somebody else issues them.
    Foreign(CertificateSource),
    /// The controller issues them.
    Ours(Box<PendingIssue>),
    /// The controller is to issue them, and the account may not read those that are there.
    Denied(Box<OwnedError>),
}

impl Certificates {
    /// Returns the provider for rendering.
    pub(super) fn provider(&self) -> Option<CertificateProvider> {
        match self {
            Self::Unneeded => None,
            Self::Foreign(source) => Some((*source).into()),
            Self::Ours(prepared) => {
                let source = CertificateSource::SelfSigned;
                Some(CertificateProvider { source, ca_bundle: prepared.bundle() })
            }
            // What is rendered tells what else the account lacks; it is not written.
            Self::Denied(_) => Some(CertificateSource::SelfSigned.into()),
        }
    }

    /// Returns whether the controller issues them.
    pub(super) fn are_ours(&self) -> bool {
        matches!(self, Self::Ours(_) | Self::Denied(_))
    }
}

/// Asks what the cluster offers.
async fn served(client: &Client) -> Result<Served, OwnedError> {
    let failed = |err| RequestError::doing("asking which APIs are served")(err);
    let groups = client.list_api_groups().await.map_err(failed)?.groups;
    let is_served = |name: &str| groups.iter().any(|group| group.name == name);
    let (group, _) = CERT_MANAGER.split_once('/').unwrap_or_default();
    let cert_manager = is_served(group)
        && match client.list_api_group_resources(CERT_MANAGER).await {
            Ok(list) => list.resources.iter().any(|resource| resource.kind == "Certificate"),
            Err(kube::Error::Api(status)) if status.code == 404 => false,
            Err(err) => return Err(failed(err).into()),
        };
    Ok(Served { openshift: is_served(OPENSHIFT), cert_manager })
}

impl Attempt<'_> {
    /// Chooses who issues certificates, and prepares them if it is the controller.
    pub(super) async fn choose_certificates(
        &self,
        needs: &CertificateNeeds,
    ) -> Result<Certificates, OwnedError> {
        if needs.requests.is_empty() {
            return Ok(Certificates::Unneeded);
        }
        let asked = self.ctx.settings.certificates();
        let recorded = recorded_issuer(self.revisions);
        let served = match asked.or(recorded) {
            Some(_) => Served::default(),
            None => served(&self.ctx.client).await?,
        };
        let source = choose_certificates(asked, recorded, served, needs);
        self.certificates_of(Some(source), &needs.requests).await
    }

    /// Prepares the certificates of a source, if the controller issues them.
    pub(super) async fn certificates_of(
        &self,
        source: Option<CertificateSource>,
        requests: &[CertificateRequest],
    ) -> Result<Certificates, OwnedError> {
        Ok(match source {
            None => Certificates::Unneeded,
            Some(source @ (CertificateSource::CertManager | CertificateSource::ServiceCa)) => {
                Certificates::Foreign(source)
            }
            Some(CertificateSource::SelfSigned) => {
                let (owner, now) = (self.owner(), Timestamp::now());
                let prepared = self.ctx.issuer.prepare(&owner, self.account, requests, now);
                match prepared.await {
                    Ok(prepared) => Certificates::Ours(Box::new(prepared)),
                    Err(error) if error.is_of_account() => Certificates::Denied(Box::new(error)),
                    Err(error) => return Err(error),
                }
            }
        })
    }

    /// Issues what the next revision needs before that revision is written, so that it is there
    /// before its pods start. Returns when to look again.
    pub(super) async fn issue_certificates(
        &self,
        certificates: Certificates,
        published: bool,
    ) -> Result<Option<Duration>, OwnedError> {
        let prepared = match certificates {
            Certificates::Ours(prepared) => prepared,
            Certificates::Denied(error) => return Err(*error),
            Certificates::Unneeded | Certificates::Foreign(_) => return Ok(None),
        };
        let (issuer, owner, now) = (&self.ctx.issuer, self.owner(), Timestamp::now());
        let kept = issuer.issue(&owner, self.account, *prepared, published, now).await?;
        Ok(self.follow_up(kept, SOONEST).await)
    }

    /// Removes certificates of ours that nothing needs any more, if there are any: at once where
    /// another source takes over and would find their names taken, else when the revision without
    /// them is rolled out. Says whether it did.
    pub(super) async fn retire_unneeded(
        &self,
        provider: Option<&CertificateProvider>,
        needed: &[CertificateRequest],
        rolled_out: bool,
    ) -> Result<bool, OwnedError> {
        if recorded_issuer(self.revisions) != Some(CertificateSource::SelfSigned) {
            return Ok(false);
        }
        let needed = match provider.map(|it| it.source) {
            Some(CertificateSource::CertManager | CertificateSource::ServiceCa) => &[],
            Some(CertificateSource::SelfSigned) | None if rolled_out => needed,
            Some(CertificateSource::SelfSigned) | None => return Ok(false),
        };
        let owner = self.owner();
        self.ctx.issuer.retire(&owner, self.account, needed).await?;
        Ok(true)
    }

    /// Has the CA come back if its Secret is gone while the extension is being deleted.
    pub(super) async fn restore_authority(&self) {
        if recorded_issuer(self.revisions) != Some(CertificateSource::SelfSigned) {
            return;
        }
        let owner = self.owner();
        let restoring = self.ctx.issuer.restore(&owner, Timestamp::now());
        if let Err(error) = within(LIMIT, restoring).await {
            tracing::warn!(error = %Chain(&error), "CA of webhooks not written again");
        }
    }

    /// Keeps what was issued before although nothing could be resolved or rendered. Returns when to
    /// look again.
    pub(super) async fn keep_certificates(&self) -> Option<Duration> {
        if recorded_issuer(self.revisions) != Some(CertificateSource::SelfSigned) {
            return None;
        }
        let owner = self.owner();
        let keeping = self.ctx.issuer.keep(&owner, self.account, Timestamp::now());
        match within(LIMIT, Box::pin(keeping)).await {
            // What is due besides takes a reconcile that gets further.
            Ok(kept) => self.follow_up(kept, POLL).await,
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "certificates of webhooks not kept");
                Some(POLL)
            }
        }
    }

    /// Publishes what happened to certificates. Returns when to look at them again.
    async fn follow_up(&self, kept: Upkeep, soonest: Duration) -> Option<Duration> {
        for event in kept.events {
            let (type_, reason) = if event.is_warning {
                (EventType::Warning, Reason::CertificateReplaced)
            } else {
                (EventType::Normal, Reason::CertificateIssued)
            };
            let (reconciler, extension) = (&self.ctx.reconciler, self.extension.object);
            reconciler.publish(extension, type_, reason, event.note).await;
        }
        let due = kept.next.map(|next| {
            let left = next.duration_since(Timestamp::now());
            // A little more, so that the moment has passed for certain when we look.
            let left = Duration::try_from(left).unwrap_or_default() + SOONEST;
            left.max(soonest)
        });
        let polls = self.ctx.issuer.polls(&self.extension.object.name_any());
        due.into_iter().chain(polls.then(|| jittered(POLL))).min()
    }

    fn owner(&self) -> Extension {
        Extension::of(self.extension.object)
    }
}
