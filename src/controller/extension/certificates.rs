//! The certificates of webhooks in the life of an extension: who issues them, and when.

use std::time::Duration;

use jiff::Timestamp;
use kube::runtime::events::EventType;
use kube::{Client, ResourceExt as _};
use olm_api::keys::policy;
use olm_api::{ClusterExtension, ClusterObjectSet};
use olm_core::error::Chain;
use olm_core::render::{
    CertificateNeeds, CertificateProvider, CertificateRequest, CertificateSource, Served,
    choose_certificates,
};
use olm_core::revision::{self, Account, Extension};

use super::Context;
use super::pass::Pass;
use crate::apply::Answer;
use crate::backoff::jittered;
use crate::certificates::{CertificateError, Kept, Prepared};

/// The group that tells OpenShift from other clusters.
const OPENSHIFT: &str = "config.openshift.io";
/// Where cert-manager's Certificates are served.
const CERT_MANAGER: &str = "cert-manager.io/v1";
/// How often certificates are looked at that the account may not watch.
const POLL: Duration = Duration::from_mins(1);
/// Soonest that certificates are looked at again.
const SOONEST: Duration = Duration::from_secs(1);

/// Where the certificates of a bundle's webhooks come from.
pub(super) enum Certificates {
    /// The bundle has no webhooks.
    Unneeded,
    /// Somebody else issues them.
    Foreign(CertificateProvider),
    /// The controller issues them.
    Ours(Box<Prepared>),
}

impl Certificates {
    /// Chooses the source, and prepares it if it is the controller.
    pub(super) async fn choose(
        ctx: &Context,
        owner: &Extension,
        account: &Account,
        needs: &CertificateNeeds,
        revisions: &[ClusterObjectSet],
    ) -> Result<Self, CertificateError> {
        if needs.requests.is_empty() {
            return Ok(Self::Unneeded);
        }
        let asked = ctx.settings.certificates;
        let recorded = recorded(revisions);
        let served = match asked.or(recorded) {
            Some(_) => Served::default(),
            None => served(&ctx.client).await?,
        };
        Ok(match choose_certificates(asked, recorded, served, needs) {
            CertificateSource::CertManager => Self::Foreign(CertificateProvider::CertManager),
            CertificateSource::ServiceCa => Self::Foreign(CertificateProvider::ServiceCa),
            CertificateSource::SelfSigned => {
                let now = Timestamp::now();
                let prepared = ctx.issuer.prepare(owner, account, &needs.requests, now);
                Self::Ours(Box::new(prepared.await?))
            }
        })
    }

    /// Returns what rendering needs of the source.
    pub(super) fn provider(&self) -> Option<CertificateProvider> {
        match self {
            Self::Unneeded => None,
            Self::Foreign(provider) => Some(provider.clone()),
            Self::Ours(prepared) => Some(CertificateProvider::SelfSigned {
                ca_bundle: prepared.bundle(),
            }),
        }
    }
}

/// Returns the source recorded last.
pub(super) fn recorded(revisions: &[ClusterObjectSet]) -> Option<CertificateSource> {
    let mut newest_first = revisions.iter().rev();
    newest_first.find_map(|revision| {
        let text = revision.annotations().get(policy::WEBHOOK_CERTIFICATES)?;
        text.parse().ok()
    })
}

/// Asks what the cluster offers.
async fn served(client: &Client) -> Result<Served, CertificateError> {
    let failed = |err| CertificateError::Own("asking which APIs are served", Answer(err));
    let groups = client.list_api_groups().await.map_err(failed)?.groups;
    let is_served = |name: &str| groups.iter().any(|group| group.name == name);
    let (group, _) = CERT_MANAGER.split_once('/').unwrap_or_default();
    let cert_manager = if is_served(group) {
        match client.list_api_group_resources(CERT_MANAGER).await {
            Ok(list) => list
                .resources
                .iter()
                .any(|resource| resource.kind == "Certificate"),
            Err(kube::Error::Api(status)) if status.code == 404 => false,
            Err(err) => return Err(failed(err)),
        }
    } else {
        false
    };
    Ok(Served {
        openshift: is_served(OPENSHIFT),
        cert_manager,
    })
}

impl Pass {
    /// Issues what the next revision needs before that revision is written, so that it is there
    /// before its pods start.
    pub(super) async fn issue_certificates(
        &mut self,
        extension: &ClusterExtension,
        account: &Account,
        certificates: Certificates,
        published: bool,
        ctx: &Context,
    ) -> Result<(), CertificateError> {
        let Certificates::Ours(prepared) = certificates else {
            return Ok(());
        };
        let owner = owner(extension);
        let now = Timestamp::now();
        let issued = ctx.issuer.issue(&owner, account, *prepared, published, now);
        let kept = issued.await?;
        self.certificates_kept = true;
        self.note_certificates(extension, kept, SOONEST, ctx).await;
        Ok(())
    }

    /// Removes certificates that nothing needs any more: at once where another source takes over
    /// and would find their names taken, else when the revision without them is rolled out.
    pub(super) async fn retire_certificates(
        &mut self,
        extension: &ClusterExtension,
        account: &Account,
        wanted: Option<&[CertificateRequest]>,
        rolled_out: bool,
        ctx: &Context,
    ) -> Result<(), CertificateError> {
        let replaced = wanted.is_none();
        if replaced || rolled_out {
            let wanted = wanted.unwrap_or_default();
            ctx.issuer
                .retire(&owner(extension), account, wanted)
                .await?;
            self.certificates_kept = true;
        }
        Ok(())
    }

    /// Keeps what was issued before although nothing could be resolved or rendered.
    pub(super) async fn keep_certificates(
        &mut self,
        extension: &ClusterExtension,
        account: &Account,
        revisions: &[ClusterObjectSet],
        ctx: &Context,
    ) {
        let ours = recorded(revisions) == Some(CertificateSource::SelfSigned);
        if self.certificates_kept || !ours {
            return;
        }
        let now = Timestamp::now();
        match ctx.issuer.keep(&owner(extension), account, now).await {
            // What is due besides takes a pass that gets further.
            Ok(kept) => self.note_certificates(extension, kept, POLL, ctx).await,
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "certificates of webhooks not kept");
                self.look_again_within(POLL);
            }
        }
    }

    async fn note_certificates(
        &mut self,
        extension: &ClusterExtension,
        kept: Kept,
        soonest: Duration,
        ctx: &Context,
    ) {
        for said in kept.said {
            let (type_, reason) = if said.is_warning {
                (EventType::Warning, "CertificateReplaced")
            } else {
                (EventType::Normal, "CertificateIssued")
            };
            ctx.tell(extension, type_, reason, said.note).await;
        }
        if let Some(next) = kept.next {
            let left = next.duration_since(Timestamp::now());
            // A little more, so that the moment has passed for certain when we look.
            let left = Duration::try_from(left).unwrap_or_default() + SOONEST;
            self.look_again_within(left.max(soonest));
        }
        if ctx.issuer.polls(&extension.name_any()) {
            self.look_again_within(jittered(POLL));
        }
    }

    fn look_again_within(&mut self, delay: Duration) {
        let planned = self.look_again.unwrap_or(delay);
        self.look_again = Some(planned.min(delay));
    }
}

/// Says whether the newest revision is rolled out, and none besides is under way.
pub(super) fn is_rolled_out(revisions: &[ClusterObjectSet]) -> bool {
    revision::states(revisions).rolling.is_empty()
        && revisions.last().is_some_and(revision::has_succeeded)
}

/// Returns the extension as revisions know it.
pub(super) fn owner(extension: &ClusterExtension) -> Extension {
    Extension {
        name: extension.name_any(),
        uid: extension.metadata.uid.clone().unwrap_or_default(),
    }
}
