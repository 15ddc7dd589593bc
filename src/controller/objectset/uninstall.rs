//! Decides whether a deleted revision may be torn down: not while users' objects would be deleted
//! with its CRDs without consent.
//!
//! Source: applying.md 7.3.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::ResourceExt;
use olm_api::{ClusterObjectSet, LifecycleState};
use olm_cluster::{Unread, content, crds};
use olm_core::error::Chain;
use olm_core::object::Object;
use olm_core::revision::{
    Outcome, asked_uninstall_policies, extension_reference, is_revision, owner_name,
};
use olm_core::uninstall::{self, Instances, UninstallPolicy, cannot_stay};
use tokio::time::Instant;

use super::per_revision::{Counts, Numbers};
use super::{Attempt, Context, ObjectSetError};
use crate::account::{impersonating, require};
use crate::apply::{Crds, Remover};
use crate::cluster::{MAX_AGE, RequestError};
use crate::revision::controlled_crds;

/// The interval of counts of the objects that an uninstall waits for; they cannot be watched.
const BLOCKED_LOOK: Duration = Duration::from_secs(30);
/// The time for which a count of none by the account is valid.
const REMEMBERED: Duration = Duration::from_mins(1);
/// The interval of counts until the numbers are recent enough.
const COUNTED_AGAIN: Duration = Duration::from_secs(10);

/// Why a removal waits: what is reported, and the time of the next count.
type Block = (Outcome, Duration);
/// How many objects there are of each CRD, and why the account could not count them, where the API server's
/// own numbers are used.
type Counted = (BTreeMap<String, Instances>, Option<String>);

/// Puts what the API server has stored in the place of what the account could not count, but for the
/// bundle's own.
fn complete(counted: &mut BTreeMap<String, Instances>, stored: &Numbers, own: &Numbers) {
    for (crd, instances) in counted {
        if let (Instances::Unknown(_), Some(count)) = (&*instances, stored.get(crd)) {
            let own = own.get(crd).copied().unwrap_or_default();
            *instances = Instances::Counted(count.saturating_sub(own));
        }
    }
}

/// Returns what is reported while none have been known for less time than numbers may be old, and when
/// they are read again.
fn aging(why: &str, known: Duration) -> Option<Block> {
    let left = MAX_AGE.saturating_sub(known);
    let text = format!(
        "no instances of its CRDs are known, but the account cannot count them ({why}); the API \
         server's own numbers may be two minutes old and are read again for {} s",
        left.as_secs()
    );
    (!left.is_zero()).then(|| (Outcome::Removing(text), left.min(COUNTED_AGAIN)))
}

/// Returns what the bundles of an extension ask for: that of the revision that goes, and those in use,
/// because a CRD that has users' objects may be of each of them.
fn asked_policies(set: &ClusterObjectSet, siblings: &[ClusterObjectSet]) -> Vec<UninstallPolicy> {
    let in_use = |one: &&ClusterObjectSet| one.spec.lifecycle_state == LifecycleState::Active;
    let asking = siblings.iter().filter(in_use).chain([set]);
    asking.flat_map(|one| asked_uninstall_policies(one.annotations())).collect()
}

/// Returns the reason of a block, with the one why the account could not count.
fn by_own_numbers(text: String, why: Option<&str>) -> String {
    let Some(why) = why else { return text };
    format!(
        "{text}; these are the API server's own numbers, which may be two minutes old, because the \
         account cannot count them ({why})"
    )
}

fn is_some(instances: &Instances) -> bool {
    matches!(instances, Instances::Counted(1..))
}

impl Attempt<'_> {
    /// Returns what becomes of the CRDs of the revision that is being deleted, and of their objects.
    pub(super) fn uninstall_policy(&self, siblings: &[ClusterObjectSet]) -> UninstallPolicy {
        let Self { ctx, set, extension } = *self;
        let recorded = set.annotations();
        let asked = asked_policies(set, siblings);
        let default = ctx.settings.uninstall;
        let names_one = extension_reference(&set.metadata).is_some();
        match extension.extension() {
            Some(extension) => UninstallPolicy::chosen(extension.annotations(), &asked, default),
            // It may have been a revision, until it lost its label or its owner.
            None if names_one || is_revision(&set.metadata, set.spec.revision) => {
                UninstallPolicy::without_extension(recorded, &asked, default)
            }
            None => UninstallPolicy::chosen(recorded, &asked, default),
        }
    }

    /// Returns the reason that blocks the removal of every revision of an extension, so that either
    /// all are removed or none, and the time of the next check.
    pub(super) async fn uninstall_block(
        &self,
        policy: UninstallPolicy,
        siblings: &[ClusterObjectSet],
    ) -> Result<Option<Block>, ObjectSetError> {
        if policy == UninstallPolicy::Delete {
            return Ok(None);
        }
        let (crds, owners) = self.installed_crds(siblings).await?;
        let blocked = |text| (Outcome::Blocked(text), BLOCKED_LOOK);
        if policy == UninstallPolicy::RetainCrds {
            return Ok(crds.iter().find_map(cannot_stay).map(blocked));
        }
        if crds.is_empty() {
            return Ok(None);
        }
        let (counted, own) = self.count_as_account(&crds, &owners).await?;
        let uid = self.set.uid().unwrap_or_default();
        let (counted, why) = match self.ctx.count_again(&uid, &crds, counted, &own).await {
            Ok(counted) => counted,
            Err(block) => return Ok(block),
        };
        let name = self.extension.extension().map(ResourceExt::name_any);
        let text = uninstall::blocked(name.as_deref(), &counted);
        if text.is_none() {
            self.ctx.remember_zero(&uid, &crds, own).await;
        }
        Ok(text.map(|text| blocked(by_own_numbers(text, why.as_deref()))))
    }

    /// Counts the objects of CRDs as the account of a revision, as far as it may: those of others, and
    /// the bundle's own.
    async fn count_as_account(
        &self,
        crds: &[Object],
        owners: &BTreeSet<String>,
    ) -> Result<(BTreeMap<String, Instances>, Numbers), ObjectSetError> {
        let names = || crds.iter().map(|crd| crd.name().to_owned());
        let remover = match self.as_account(Crds::Removed).await {
            Ok(remover) => remover,
            Err(error) => {
                let unknown = Instances::Unknown(Chain(&error).to_string());
                return Ok((names().map(|crd| (crd, unknown.clone())).collect(), Numbers::new()));
            }
        };
        let counts = crds.iter().map(|crd| remover.count(crd, owners));
        let counts = futures::future::try_join_all(counts).await;
        let counts = counts.map_err(RequestError::doing("counting instances of a CRD"))?;
        let (counted, mut own): (BTreeMap<_, _>, Numbers) = names()
            .zip(counts)
            .map(|(crd, (theirs, own))| ((crd.clone(), theirs), (crd, own)))
            .unzip();
        let unknown: Vec<&Object> = crds
            .iter()
            .filter(|crd| matches!(counted.get(crd.name()), Some(Instances::Unknown(_))))
            .collect();
        if !unknown.is_empty() {
            own.extend(self.own_instances(&remover, &unknown, owners).await);
        }
        Ok((counted, own))
    }

    /// Counts those objects of CRDs that a revision names itself, that are there and its own. An account
    /// that may list none of them may read these.
    async fn own_instances(
        &self,
        remover: &Remover,
        crds: &[&Object],
        owners: &BTreeSet<String>,
    ) -> Numbers {
        let Self { ctx, set, .. } = *self;
        let mut own = Numbers::new();
        let content = content(&ctx.client, set, &ctx.settings.system_namespace).await;
        for object in content.iter().flatten().flat_map(|phase| &phase.objects) {
            let of_it = |crd: &&&Object| {
                crd.text_at("/spec/group") == object.group()
                    && crd.text_at("/spec/names/kind") == object.kind()
            };
            if let Some(crd) = crds.iter().find(of_it)
                && remover.has(object, owners).await
            {
                *own.entry(crd.name().to_owned()).or_default() += 1;
            }
        }
        own
    }

    /// Returns what removes objects of the revision as its account, which exists.
    pub(super) async fn as_account(&self, crds: Crds) -> Result<Remover, ObjectSetError> {
        let Self { ctx, set, .. } = *self;
        let account = self.identity().await?;
        require(&ctx.client, &account).await?;
        Ok(Remover {
            client: impersonating(&ctx.client, &account)?,
            kinds: ctx.kinds.clone(),
            uid: set.uid().unwrap_or_default(),
            owner: owner_name(set).map(str::to_owned),
            crds,
            heirs: BTreeSet::new(),
        })
    }

    /// Returns the CRDs that an extension or its revisions control and that are not being deleted, and
    /// the UIDs of those owners. They are read as the controller: neither a lost account nor
    /// lost content nor a lost label hides one.
    pub(super) async fn installed_crds(
        &self,
        siblings: &[ClusterObjectSet],
    ) -> Result<(Vec<Object>, BTreeSet<String>), ObjectSetError> {
        let Self { ctx, set, extension } = *self;
        let owners: BTreeSet<String> = siblings
            .iter()
            .chain([set])
            .filter_map(ResourceExt::uid)
            .chain(extension.extension().and_then(ResourceExt::uid))
            .collect();
        let crds = ctx.crds_of(&owners).await?;
        Ok((crds, owners))
    }
}

impl Context {
    /// Remembers that there were none but the bundle's own, and the API server's own numbers, which may
    /// be older than that.
    async fn remember_zero(&self, uid: &str, crds: &[Object], own: Numbers) {
        let stored = match self.kept.counts.get(uid) {
            Some(Counts::Zero { stored, .. }) => stored,
            Some(Counts::Unknown(_)) | None => self.stored(crds).await,
        };
        self.kept.counts.put(uid, Some(Counts::Zero { at: Instant::now(), own, stored }));
    }

    /// Returns the number of objects of CRDs according to the API server's metrics, as far as it
    /// has them.
    async fn stored(&self, crds: &[Object]) -> Numbers {
        let stored = self.stored_objects.read(&self.client).await;
        let count = |crd: &Object| {
            let (plural, group) = crd.name().split_once('.')?;
            let count = stored.get(&(group.to_owned(), plural.to_owned()))?;
            Some((crd.name().to_owned(), *count))
        };
        crds.iter().filter_map(count).collect()
    }

    /// Counts anew what the account could not: by what it counted a moment ago, unless the API server's
    /// own numbers have changed since, else by these, which may be a while old. They show no content.
    ///
    /// # Errors
    /// Where there are none: whether that has to be counted again, because the numbers may be too old.
    async fn count_again(
        &self,
        uid: &str,
        crds: &[Object],
        mut counted: BTreeMap<String, Instances>,
        own: &Numbers,
    ) -> Result<Counted, Option<Block>> {
        let unknown = |instances: &Instances| matches!(instances, Instances::Unknown(_));
        let Some(Instances::Unknown(why)) = counted.values().find(|it| unknown(it)).cloned() else {
            if counted.values().any(is_some) {
                self.kept.counts.put(uid, None);
            }
            return Ok((counted, None));
        };
        let now = Instant::now();
        let before = self.kept.counts.get(uid);
        let mut stored = self.stored(crds).await;
        let since = match before {
            Some(Counts::Zero { at, own, stored: then }) if now.duration_since(at) < REMEMBERED => {
                stored.retain(|crd, count| then.get(crd) != Some(count));
                complete(&mut counted, &stored, &own);
                if !counted.values().any(is_some) {
                    return Err(None);
                }
                now
            }
            Some(Counts::Unknown(since)) => since,
            Some(Counts::Zero { .. }) | None => now,
        };
        complete(&mut counted, &stored, own);
        let empty = counted.values().all(|it| *it == Instances::Counted(0));
        // An old zero counts when there was nothing else for as long as numbers may be old.
        let since = if empty { since } else { now };
        self.kept.counts.put(uid, Some(Counts::Unknown(since)));
        if let Some(block) = aging(&why, now.duration_since(since)).filter(|_| empty) {
            return Err(Some(block));
        }
        let completed = !counted.values().any(unknown);
        Ok((counted, completed.then_some(why)))
    }

    /// Reads the CRDs that one of these owners controls and that are not being deleted.
    pub(super) async fn crds_of(
        &self,
        owners: &BTreeSet<String>,
    ) -> Result<Vec<Object>, ObjectSetError> {
        let names = controlled_crds(&self.client, owners).await?;
        // As they are: what no struct knows yet counts when their versions are compared.
        let read = crds(&self.client, names).await;
        let read = read.map_err(|Unread(name, error)| {
            RequestError::doing(format!("getting CRD {name}"))(error)
        })?;
        Ok(read.into_values().filter_map(Object::from_value).collect())
    }
}

#[cfg(test)]
mod tests {
    use olm_api::keys::{annotation, property};
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    // applying.md 7.3
    #[rstest]
    #[case::at_first(0, Some(10))]
    #[case::shortly_before_the_end(146, Some(4))]
    #[case::long_enough(150, None)]
    #[case::long_ago(200, None)]
    fn numbers_are_read_again_until_they_are_recent_and_no_longer(
        #[case] known: u64,
        #[case] next: Option<u64>,
    ) {
        let found = aging("forbidden", Duration::from_secs(known));
        assert_eq!(found.map(|(_, next)| next), next.map(Duration::from_secs));
    }

    // applying.md 7.3
    #[rstest]
    #[case::rolling_out_without(&[("RetainCRDs", "Active"), ("", "Active")], &["RetainCRDs"])]
    #[case::rolling_out_with_another(
        &[("BlockIfInstances", "Active"), ("RetainCRDs", "Active")],
        &["BlockIfInstances", "RetainCRDs"]
    )]
    #[case::replaced(&[("RetainCRDs", "Archived"), ("", "Active")], &[])]
    fn every_bundle_in_use_is_asked(#[case] given: &[(&str, &str)], #[case] want: &[&str]) {
        let sets: Vec<ClusterObjectSet> = (1..)
            .zip(given)
            .map(|(number, (word, state))| {
                let property =
                    json!([{"type": property::UNINSTALL_POLICY, "value": word}]).to_string();
                serde_json::from_value(json!({
                    "metadata": {"name": format!("e-{number}"), "uid": format!("u{number}"),
                        "annotations": {annotation::PROPERTIES: property}},
                    "spec": {"revision": number, "lifecycleState": state,
                        "collisionProtection": "Prevent"}}))
                .unwrap()
            })
            .collect();
        let (last, others) = sets.split_last().unwrap();
        let asked = asked_policies(last, others);
        assert_eq!(asked.into_iter().map(<&str>::from).collect::<Vec<_>>(), want);
    }

    // ours: the API server's own numbers may be of objects that are gone
    #[test]
    fn a_block_says_why_the_account_could_not_count() {
        let blocked = |why| by_own_numbers("1 instance of foos".to_owned(), why);
        assert_eq!(blocked(None), "1 instance of foos");
        assert_eq!(
            blocked(Some("service account \"a\" not found in namespace \"n\"")),
            "1 instance of foos; these are the API server's own numbers, which may be two minutes \
             old, because the account cannot count them (service account \"a\" not found in \
             namespace \"n\")"
        );
    }

    fn unknown() -> Instances {
        Instances::Unknown("forbidden".to_owned())
    }

    // applying.md 7.3
    #[rstest]
    #[case::own(unknown(), Some(2), 2, Instances::Counted(0))]
    #[case::own_and_others(unknown(), Some(3), 2, Instances::Counted(1))]
    #[case::own_since(unknown(), Some(0), 2, Instances::Counted(0))]
    #[case::no_number(unknown(), None, 2, unknown())]
    #[case::counted_by_the_account(Instances::Counted(1), Some(0), 0, Instances::Counted(1))]
    fn the_bundles_own_objects_are_not_those_of_users(
        #[case] instances: Instances,
        #[case] stored: Option<u64>,
        #[case] own: u64,
        #[case] want: Instances,
    ) {
        let crd = || "foos.example.com".to_owned();
        let mut counted = BTreeMap::from([(crd(), instances)]);
        let stored = stored.map(|count| (crd(), count)).into_iter().collect();
        complete(&mut counted, &stored, &Numbers::from([(crd(), own)]));
        assert_eq!(counted, BTreeMap::from([(crd(), want)]));
    }
}
