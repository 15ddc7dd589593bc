//! Revisions that are rolled out and have not changed since, be it in an earlier process.
//!
//! In which state every object of a revision was found applied and ready is written down below
//! `--cache-path`, so that neither a controller that starts again nor a call for nothing reads what
//! the watches list anyway. A record counts for exactly what it was made from, and for objects in
//! exactly that state; all else is read. Only names, versions and digests are in it.
//!
//! Source: applying.md 3.5.

use std::collections::BTreeSet;

use kube::{Client, ResourceExt};
use olm_api::{ClusterObjectSet, LifecycleState};
use olm_core::revision::{Account, has_finalizer, has_succeeded, owner_name};
use olm_image::{BundleFiles, Digest};

use super::Context;
use super::enact::{rolled_out, watch};
use super::ended::Settled;
use crate::apply::Record;
use crate::revision::known_siblings;
use crate::version::BUILD;

/// The one file of a record.
const FILE: &str = "objects.json";

impl Context {
    /// Returns the result of the reconcile of a revision if it is unchanged since it was recorded;
    /// changed objects are left to be read.
    pub(super) async fn still_settled(
        &self,
        set: &ClusterObjectSet,
        account: (&Account, &Client),
    ) -> Option<Settled> {
        let (uid, name) = (set.uid()?, set.name_any());
        let basis = self.basis(set, account.0).await?;
        let (cache, owner) = (self.settings.settled.clone(), uid.clone());
        let read = tokio::task::spawn_blocking(move || cache.load(&owner, &basis));
        let files = read.await.ok()?.ok()??;
        let record: Record = serde_json::from_slice(files.get(FILE)?).ok()?;
        let objects = record.objects();
        if objects.len() != object_count(set) {
            return None;
        }
        let identities = objects.iter().map(|(object, _)| (*object).clone());
        watch(self, set, account, identities.collect()).await;
        self.watches.listed(&name).await;
        let seen = self.watches.seen(&name);
        let mut same = true;
        for (object, ready) in objects {
            let kind = self.kinds.find(object).await.ok().flatten();
            let version = kind.and_then(|kind| seen.version(&kind, object));
            same &= version.is_some() && version == ready;
        }
        self.applied.restore(&uid, record);
        let (siblings, _) = self.siblings(set).await.ok()?;
        same.then(|| rolled_out(self, set, siblings, Vec::new()))
    }

    /// Writes down that all of a revision is applied and ready.
    pub(super) async fn note_settled(&self, set: &ClusterObjectSet, account: &Account) {
        let (Some(uid), Some(basis)) = (set.uid(), self.basis(set, account).await) else { return };
        let generation = set.metadata.generation.unwrap_or_default();
        let record = self.applied.record_of((&uid, generation), object_count(set));
        let Some(record) = record.and_then(|record| serde_json::to_vec(&record).ok()) else {
            return;
        };
        let (cache, files) =
            (self.settings.settled.clone(), BundleFiles::from([(FILE.to_owned(), record)]));
        let written = tokio::task::spawn_blocking(move || {
            if cache.load(&uid, &basis)?.as_ref() == Some(&files) {
                return Ok(());
            }
            cache.store(&uid, &basis, &files)?;
            cache.retain(&uid, &[basis])
        });
        if let Ok(Err(error)) = written.await {
            tracing::debug!(%error, "settled state not recorded");
        }
    }

    /// Forgets what was written down about revisions that are gone.
    pub(super) async fn forget_settled(&self) {
        if crate::cluster::is_complete(&self.revisions).await {
            let revisions = self.revisions.state();
            let uids = revisions.iter().filter_map(|set| set.uid()).collect();
            let cache = self.settings.settled.clone();
            let removed = tokio::task::spawn_blocking(move || cache.retain_owners(&uids));
            if let Ok(Err(error)) = removed.await {
                tracing::debug!(%error, "records of removed revisions remain");
            }
        }
    }

    /// Returns a value for everything except the objects that the result for a revision depended
    /// on; nothing if it has not succeeded, or its content may have changed.
    async fn basis(&self, set: &ClusterObjectSet, account: &Account) -> Option<Digest> {
        let phases = &set.status.as_ref()?.observed_phases;
        if !has_succeeded(set) || !has_finalizer(set) || phases.is_empty() {
            return None;
        }
        let siblings = known_siblings(&self.revisions, set)?;
        let archived =
            siblings.iter().filter(|set| set.spec.lifecycle_state == LifecycleState::Archived);
        let archived: BTreeSet<_> = archived.filter_map(ResourceExt::uid).collect();
        let basis = (
            BUILD.to_string(),
            (set.uid(), owner_name(set), account.user()),
            (self.contents.origin_listed(set).await?, phases, archived),
        );
        Some(Digest::sha256(&serde_json::to_vec(&basis).ok()?))
    }
}

fn object_count(set: &ClusterObjectSet) -> usize {
    set.spec.phases.iter().map(|phase| phase.objects.len()).sum()
}
