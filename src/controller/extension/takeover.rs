//! Taking over what upstream's Helm applier installed: its release becomes the first revision, as
//! upstream itself makes it. Nothing is restarted, renamed or deleted.
//!
//! Source: applying.md 2.3.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, PostParams};
use olm_api::keys::{label, policy};
use olm_api::{ClusterExtension, ClusterObjectSet};
use olm_core::helm::{self, Index, Release};
use olm_core::revision::{
    Change, bundle_version, has_succeeded, is_of_classic, is_orphaned, is_rolled_out,
};
use olm_core::status::object_set::migrated;
use olm_core::uninstall::UninstallPolicy;

use super::before::{TakeOverError, of_release};
use super::{Attempt, Context};
use crate::cluster::{RequestError, delete_as_read};
use crate::live::live_metadata;
use crate::revision::controlled_crds;

impl Context {
    /// Returns why an extension that is being deleted and has no revisions has to wait: another
    /// installer installed it, no revision has released its CRDs, and users' objects would go with it
    /// unasked. Where CRDs are to stay, none may go with it, whatever became of a release of Helm.
    pub(super) async fn left_behind(
        &self,
        extension: &ClusterExtension,
    ) -> Result<Option<String>, TakeOverError> {
        let policy = UninstallPolicy::chosen(extension.annotations(), &[], self.uninstall);
        let (name, secrets) = (extension.name_any(), self.helm_secrets());
        if policy == UninstallPolicy::Delete || is_orphaned(&extension.metadata) {
            return Ok(None);
        }
        let earlier = self.before.earlier.of(&self.client, extension).await?;
        if policy != UninstallPolicy::RetainCrds
            && earlier.is_empty()
            && !self.before.helm.has(&secrets, &name, false).await?
        {
            return Ok(None);
        }
        let (earlier, uids): (Vec<_>, Vec<_>) =
            earlier.into_iter().map(|one| (one.name.unwrap_or_default(), one.uid)).unzip();
        let owners = uids.into_iter().flatten().chain(extension.uid()).collect();
        let crds = controlled_crds(&self.client, &owners).await?;
        Ok((!crds.is_empty()).then(|| helm::not_taken_over(&name, &earlier, &crds)))
    }

    /// Returns whether another installer has installed an extension, of which no first revision stands
    /// yet. What cannot be read counts.
    pub(super) async fn is_not_taken_over(
        &self,
        extension: &ClusterExtension,
        revisions: &[ClusterObjectSet],
    ) -> bool {
        let (name, secrets) = (extension.name_any(), self.helm_secrets());
        match revisions {
            [] => {}
            [only] => return is_migrated(only) && !has_succeeded(only),
            _ => return false,
        }
        let found = async {
            // A release may have gone since they were listed.
            let helm = &self.before.helm;
            if helm.has(&secrets, &name, false).await? && helm.is_there(&secrets, &name).await? {
                return Ok::<_, RequestError>(true);
            }
            Ok(!self.before.earlier.of(&self.client, extension).await?.is_empty())
        };
        found.await.unwrap_or(true)
    }

    fn helm_secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.system_namespace)
    }
}

impl Attempt<'_> {
    /// Makes the first revision of an extension that Helm installed. Returns the revisions, if there
    /// is something to be made.
    pub(super) async fn take_over(&self) -> Result<Option<Vec<ClusterObjectSet>>, TakeOverError> {
        let made = match self.revisions {
            [] => {
                let Some(made) = self.made_of_release().await? else {
                    return self.reject_earlier().await;
                };
                made
            }
            [only] if is_migrated(only) && !has_succeeded(only) => only.clone(),
            _ => return Ok(None),
        };
        // It is what runs: its rollout was Helm's.
        let mut status = made.status.clone().unwrap_or_default();
        migrated(is_of_classic(&made)).put(
            &mut status.conditions,
            made.metadata.generation,
            Timestamp::now(),
        );
        let made = ClusterObjectSet { status: Some(status), ..made };
        let api = Api::<ClusterObjectSet>::all(self.ctx.client.clone());
        let written = api.replace_status(&made.name_any(), &PostParams::default(), &made).await;
        let made = written.map_err(RequestError::doing("writing the status of a revision"))?;
        let revisions = vec![made];
        self.ctx.revisions.wrote(self.extension.object, &revisions);
        Ok(Some(revisions))
    }

    /// Removes the release once another version of the bundle is rolled out: until then, upstream can go
    /// on with it.
    pub(super) async fn drop_release(
        &self,
        newest: &ClusterObjectSet,
    ) -> Result<(), TakeOverError> {
        let ctx = self.ctx;
        let name = self.extension.object.name_any();
        let secrets = ctx.helm_secrets();
        if !is_rolled_out(self.revisions)
            || !ctx.before.helm.has(&secrets, &name, false).await?
            || !self.is_past_release(newest).await?
        {
            return Ok(());
        }
        // Nothing is removed by a copy that may be old: a backup may be from before this revision.
        let (set, uid) = (newest.name_any(), newest.metadata.uid.as_deref());
        let live = live_metadata::<ClusterObjectSet>(&ctx.client, &set, uid).await;
        if live.map_err(RequestError::doing("getting ClusterObjectSet"))?.is_none() {
            return Ok(());
        }
        // The other chunks are owned by the index.
        let found = secrets.list_metadata(&of_release(&name)).await;
        for index in found.map_err(RequestError::doing("listing a Helm release"))?.items {
            let deleted = delete_as_read(&secrets, &index, DeleteParams::background(), false).await;
            deleted.map_err(RequestError::doing("removing a Helm release"))?;
        }
        ctx.before.helm.forget(&name);
        tracing::info!("Helm release removed");
        Ok(())
    }

    /// Returns whether the newest revision is of another version than the release, by the revision that
    /// was made of it, or by itself once that has left the history.
    async fn is_past_release(&self, newest: &ClusterObjectSet) -> Result<bool, TakeOverError> {
        if let Some(taken) = self.revisions.iter().find(|set| is_migrated(set)) {
            return Ok(bundle_version(taken) != bundle_version(newest));
        }
        let release = self.release().await?;
        Ok(release.is_some_and(|release| release.version() != bundle_version(newest)))
    }

    /// Fails if revisions of an earlier release hold the installed objects.
    async fn reject_earlier(&self) -> Result<Option<Vec<ClusterObjectSet>>, TakeOverError> {
        let ctx = self.ctx;
        let earlier = ctx.before.earlier.of(&ctx.client, self.extension.object).await?;
        if earlier.is_empty() {
            return Ok(None);
        }
        let names = earlier.into_iter().filter_map(|one| one.name).collect();
        Err(TakeOverError::Earlier { names })
    }

    async fn made_of_release(&self) -> Result<Option<ClusterObjectSet>, TakeOverError> {
        let ctx = self.ctx;
        let name = self.extension.object.name_any();
        // What OLM Classic installed is handed over in this form while this process leads.
        let asks = self.extension.object.annotations().contains_key(policy::ADOPT);
        if !ctx.before.helm.has(&ctx.helm_secrets(), &name, asks).await? {
            return Ok(None);
        }
        let Some(release) = self.release().await? else { return Ok(None) };
        let secret = release.secret.clone();
        let desired = release.desired(self.extension, self.account)?;
        ctx.revisions.confirm(self.extension.object).await?;
        let made = ctx.revisions.write(&desired, &[], Change::Install).await?;
        tracing::info!(release = secret, "Helm release taken over");
        Ok(made.and_then(|mut made| made.pop()))
    }

    /// Reads the release that counts.
    async fn release(&self) -> Result<Option<Release>, TakeOverError> {
        let secrets = self.ctx.helm_secrets();
        let name = self.extension.object.name_any();
        let listed = secrets.list(&of_release(&name)).await;
        let listed = listed.map_err(RequestError::doing("listing a Helm release"))?;
        let mut indexes = Vec::new();
        let is_index = |secret: &&Secret| secret.type_.as_deref() == Some(helm::INDEX_TYPE);
        for secret in listed.items.iter().filter(is_index) {
            indexes.push(Index::read(secret)?);
        }
        let Some(index) = helm::current(indexes) else { return Ok(None) };
        let mut others = Vec::with_capacity(index.others.len());
        for other in &index.others {
            let found = secrets.get(other).await;
            let found = found.map_err(RequestError::doing("reading a chunk of a Helm release"))?;
            others.push(helm::chunk(&found)?);
        }
        Ok(Some(index.release(&others)?))
    }
}

fn is_migrated(set: &ClusterObjectSet) -> bool {
    set.labels().contains_key(label::MIGRATED_FROM_HELM) || is_of_classic(set)
}
