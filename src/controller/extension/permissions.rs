//! Whether the account may do what a revision takes, asked before it is written.
//!
//! Nobody is asked in a reconcile that writes nothing, unless rights were missing before or the answer
//! for this generation was lost, with the process or with a status that somebody else wrote first.

use kube::ResourceExt as _;
use olm_api::conditions::{status, types};
use olm_api::{ClusterObjectSet, LifecycleState};
use olm_cluster::content;
use olm_core::extension::StepRights;
use olm_core::extension::holds::{Judgement, RbacPreflight};
use olm_core::object::Object;
use olm_core::rbac::{Held, outline};
use olm_core::render::CertificateRequest;
use olm_core::revision::{Change, Desired, OPTIONAL_GROUPS};
use olm_core::status::find;

use super::Attempt;
use crate::account::Known;
use crate::rbac_watch::{Interest, Waiter};

impl Attempt<'_> {
    /// Asks what the account may do where a bundle goes that is not there yet, while it is pulled. What
    /// it lacks then is asked for again.
    pub(super) async fn begin_review(&self, newest: Option<&ClusterObjectSet>) -> Known {
        match (newest, self.ctx.settings.rbac_preflight) {
            (None, RbacPreflight::Enforce | RbacPreflight::Report) => {
                let namespace = &self.extension.spec.namespace;
                self.ctx.reviews.begin(self.account, namespace).await
            }
            (Some(_), _) | (None, RbacPreflight::Off) => Known::default(),
        }
    }

    /// Judges whether the account may write a revision, keep it and remove what leaves; `None`
    /// where that is not to be known. Has the extension woken as long as rights are missing.
    pub(super) async fn judge_permissions(
        &self,
        (desired, change): (&Desired, Change),
        certificates: &[CertificateRequest],
        known: Known,
    ) -> Option<Judgement> {
        let ctx = self.ctx;
        let asked = match ctx.settings.rbac_preflight {
            RbacPreflight::Off => false,
            RbacPreflight::Enforce | RbacPreflight::Report => {
                change != Change::Unchanged || !self.had_permissions()
            }
        };
        if !asked {
            return None;
        }
        let present = self.present().await;
        let step = StepRights::of(self.extension, desired, certificates, &present);
        let unserved = self.unserved().await;
        let missing = |held: &Held<'_>| step.missing(&unserved, held);
        let judgement = ctx.reviews.judge(self.account, known, missing).await;
        let waiter = Waiter::Extension(self.extension.object.name_any());
        if judgement.missing.is_empty() {
            ctx.rbac.forget(&waiter);
        } else {
            let interest =
                Interest { accounts: vec![self.account.clone()], roles: judgement.roles.clone() };
            ctx.rbac.wait(waiter, interest);
        }
        Some(judgement)
    }

    /// Says whether no right was missing when somebody looked for this generation.
    fn had_permissions(&self) -> bool {
        let extension = self.extension.object;
        let status = extension.status.as_ref();
        let found = status.and_then(|status| find(&status.conditions, types::PERMISSIONS));
        found.is_some_and(|found| {
            found.status == status::TRUE
                && found.observed_generation == extension.metadata.generation
        })
    }

    /// Returns what the active revisions have; nothing of one whose content cannot be read.
    async fn present(&self) -> Vec<Object> {
        let ctx = self.ctx;
        let mut present = Vec::new();
        let active = |state| state == LifecycleState::Active;
        for set in self.revisions.iter().filter(|set| active(set.spec.lifecycle_state)) {
            let namespace = &ctx.settings.system_namespace;
            let Ok(phases) = content(&ctx.client, set, namespace).await else {
                continue;
            };
            present.extend(phases.iter().flat_map(|phase| &phase.objects).map(outline));
        }
        present
    }

    /// Returns the groups of optional kinds that the cluster does not serve: their objects wait.
    async fn unserved(&self) -> Vec<&'static str> {
        if !self.ctx.settings.defer_optional_kinds {
            return Vec::new();
        }
        let name = self.extension.object.name_any();
        let environment = self.ctx.discovery.snapshot(&name, false).await;
        environment.unserved(OPTIONAL_GROUPS)
    }
}
