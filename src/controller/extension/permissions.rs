//! Checks whether the account has the rights for a revision, before it is written.
//!
//! Nobody is asked in a reconcile that writes nothing, unless rights were missing before or the answer
//! for this generation was lost, with the process or with a status that somebody else wrote first.

use kube::ResourceExt as _;
use olm_api::LifecycleState;
use olm_api::conditions::{status, types};
use olm_core::extension::StepRights;
use olm_core::extension::holds::{Judgement, RbacPreflight};
use olm_core::object::Object;
use olm_core::rbac::{Held, outline};
use olm_core::revision::{Change, Desired, OPTIONAL_GROUPS};
use olm_core::settings::MissingOptionalKinds;

use super::Attempt;
use crate::account::review;
use crate::rbac_watch::{Interest, Waiter};

impl Attempt<'_> {
    /// Judges whether the account may write a revision with the `secrets` beside it, keep it and remove
    /// what leaves; `None` where that is not to be known. Has the extension woken as long as rights are missing.
    pub(super) async fn judge_permissions(
        &self,
        (desired, change): (&Desired, Change),
        secrets: Vec<Object>,
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
        let step = StepRights::of(self.extension, desired, secrets, &present);
        let unserved = self.unserved().await;
        let missing = |held: &Held<'_>| step.missing(&unserved, held);
        let judgement = review::judge(&ctx.client, self.account, missing).await;
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

    /// Returns whether no right was missing at the last check for this generation.
    fn had_permissions(&self) -> bool {
        let extension = self.extension.object;
        extension.condition(types::PERMISSIONS).is_some_and(|found| {
            found.status == status::TRUE
                && found.observed_generation == extension.metadata.generation
        })
    }

    /// Returns the objects of the active revisions; nothing of one whose content cannot be read.
    async fn present(&self) -> Vec<Object> {
        let mut present = Vec::new();
        let active = |state| state == LifecycleState::Active;
        for set in self.revisions.iter().filter(|set| active(set.spec.lifecycle_state)) {
            if let Ok(phases) = self.stored(set).await {
                present.extend(phases.iter().flat_map(|phase| &phase.objects).map(outline));
            }
        }
        present
    }

    /// Returns the groups of optional kinds that the cluster does not serve: their objects wait.
    async fn unserved(&self) -> Vec<&'static str> {
        if self.ctx.settings.missing_optional_kinds == MissingOptionalKinds::Fail {
            return Vec::new();
        }
        let name = self.extension.object.name_any();
        self.ctx.discovery.snapshot(&name).await.unserved(OPTIONAL_GROUPS)
    }
}
