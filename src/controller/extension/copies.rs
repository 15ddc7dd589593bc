//! Copies of pull secrets in the life of an extension: made before its pods start, kept, and removed
//! when nothing needs them.

use std::time::Duration;

use olm_api::keys::annotation;
use olm_core::error::Chain;
use olm_core::extension::recorded_copies;
use olm_core::revision::Extension;

use super::Attempt;
use super::context::LIMIT;
use crate::backoff::jittered;
use crate::cluster::RequestError;
use crate::owned::OwnedError;
use crate::pull_secrets::{Offered, Recipient};
use crate::reconcile::within;
use crate::revision::newest;

/// The interval of checks of copies that the account may not watch, or that could not be
/// maintained.
const POLL: Duration = Duration::from_mins(1);

impl Attempt<'_> {
    /// Reads which of the Secrets that the extension names are copied for it.
    pub(super) async fn offered_pull_secrets(&self) -> Result<Offered, RequestError> {
        self.ctx.pull_secrets.offered(&self.extension.pull_secrets()).await
    }

    /// Returns whether the newest revision records the same copies.
    pub(super) fn records(&self, offered: &Offered) -> bool {
        let newest = newest(self.revisions);
        let recorded = newest.and_then(|set| set.annotation(annotation::COPIED_PULL_SECRETS));
        recorded == offered.record().as_deref()
    }

    /// Brings the copies up to date, and removes those of Secrets that are not offered any more; of
    /// Secrets that are not named any more when the revision without them is rolled out. Returns when
    /// to look again.
    pub(super) async fn copy_pull_secrets(
        &self,
        offered: &Offered,
        rolled_out: bool,
    ) -> Result<Option<Duration>, OwnedError> {
        let pull_secrets = &self.ctx.pull_secrets;
        let owner = Extension::of(self.extension.object);
        let namespace = &self.extension.spec.namespace;
        let to = Recipient { owner: &owner, account: self.account, namespace };
        pull_secrets.copy(to, offered).await?;
        let named = self.extension.pull_secrets();
        let mut surplus: Vec<_> = recorded_copies(self.revisions).into_iter().collect();
        surplus.retain(|name| !offered.has(name) && (rolled_out || named.contains(*name)));
        pull_secrets.retire(to, &surplus).await?;
        Ok(pull_secrets.polls(&owner.name).then(|| jittered(POLL)))
    }

    /// Keeps the copies of the installed bundle although no revision could be made or judged. Returns when
    /// to look again.
    pub(super) async fn keep_pull_secrets(&self) -> Option<Duration> {
        let recorded = recorded_copies(self.revisions);
        if recorded.is_empty() {
            return None;
        }
        let mut names = self.extension.pull_secrets();
        names.retain(|name| recorded.contains(name.as_str()));
        let keeping = async {
            let offered = self.ctx.pull_secrets.offered(&names).await?;
            self.copy_pull_secrets(&offered, false).await
        };
        match within(LIMIT, Box::pin(keeping)).await {
            Ok(next) => next,
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "copies of pull secrets not kept");
                Some(POLL)
            }
        }
    }
}
