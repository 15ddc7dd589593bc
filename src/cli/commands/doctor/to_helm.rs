//! The way back to upstream's Helm applier: what an extension installed is controlled by the extension
//! again, as Helm left it, and its revisions go without it.
//!
//! Only while the release says what is installed: upstream would put back an older version.
//! Source: deploying.md 7.3.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, ListParams, Patch};
use kube::{Client, ResourceExt as _};
use olm_api::keys::{annotation, finalizer, label, policy};
use olm_api::{ClusterExtension, ClusterObjectSet};
use olm_core::revision::{BundleRecord, States, states};
use serde_json::{Value, json};

use super::facts::{EXTENSIONS, Facts, REVISIONS, Refusal};
use super::leave::items;
use super::releases::{Left, Releases};
use super::takeover;
use crate::changes;
use crate::managed::{Managed, kinds, of_extensions};

/// What is done to give an extension back.
pub(super) struct GivingBack {
    extension: ClusterExtension,
    revisions: Vec<ClusterObjectSet>,
    /// Objects that its revisions control.
    objects: Vec<Managed>,
}

impl GivingBack {
    /// Finds out what is to be done. `Err` inside is why it cannot be, and the way on.
    pub(super) async fn plan(
        client: &Client,
        facts: &Facts,
        name: &str,
    ) -> anyhow::Result<Result<Self, (String, &'static str)>> {
        let named = |one: &Value| one["metadata"]["name"] == name;
        let extension = items(facts, EXTENSIONS)?.into_iter().find(named);
        let extension =
            extension.with_context(|| format!("there is no ClusterExtension {name:?}"))?;
        let extension: ClusterExtension = serde_json::from_value(extension)?;
        let owned = |one: &Value| one["metadata"]["labels"][label::OWNER_NAME] == name;
        let revisions = items(facts, REVISIONS)?.into_iter().filter(owned);
        let revisions = revisions.map(serde_json::from_value).collect::<Result<Vec<_>, _>>()?;
        let releases = match Releases::list(client).await {
            Ok(releases) => releases,
            Err(Refusal::Absent) => bail!("Secrets are not served here"),
            Err(Refusal::Failed(why)) => bail!("releases of Helm are not known: {why}"),
        };
        let left = releases.of(client, name).await;
        let Left::Release(release) = left.map_err(|why| anyhow::anyhow!(why))? else {
            let why = format!("{name} has no release of Helm any more");
            return Ok(Err((
                why,
                "upstream with ClusterObjectSets (v1.9 or later) goes on with it",
            )));
        };
        let desired = takeover::desired(*release, &extension, None);
        let desired = desired.map_err(|why| anyhow::anyhow!(why))?;
        if let Some(why) = differs(&desired.annotations, &states(&revisions)) {
            return Ok(Err((
                format!("{name}: {why}"),
                "upstream with ClusterObjectSets (v1.9 or later) goes on with it",
            )));
        }
        let (managed, unread) = of_extensions(client, &kinds(client).await?, Some(name)).await;
        if !unread.is_empty() {
            bail!("what {name} installed is not known: {}", unread.join("; "));
        }
        let uids: Vec<String> = revisions.iter().filter_map(kube::ResourceExt::uid).collect();
        let ours = |one: &Managed| {
            one.controller().is_some_and(|(uid, _)| uids.iter().any(|it| it == uid))
        };
        Ok(Ok(Self { extension, objects: managed.into_iter().filter(ours).collect(), revisions }))
    }

    /// Returns what is asked before it is done.
    pub(super) fn question(&self) -> String {
        format!(
            "give {} objects of {} back to Helm, and delete its {} revisions",
            self.objects.len(),
            self.extension.name_any(),
            self.revisions.len()
        )
    }

    /// Does it; what was done already is not done again. The revision that is installed goes last:
    /// while it is there, an interrupted run can be begun again.
    pub(super) async fn carry_out(
        self,
        client: &Client,
        dry_run: bool,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let name = self.extension.name_any();
        let pause = json!({"metadata": {"annotations": {policy::PAUSED: "true"}}});
        let extension = changes::merge(client, &self.extension, pause).await?;
        let uids: Vec<String> = self.revisions.iter().filter_map(kube::ResourceExt::uid).collect();
        for one in &self.objects {
            let change = json!({"metadata": {
                "resourceVersion": one.object.resource_version(),
                "ownerReferences": references(one, &extension, &uids),
                // A number that no revision of a later take-over may meet.
                "annotations": {annotation::REVISION: null},
            }});
            let name = one.object.name_any();
            let api = one.api(client);
            let params = changes::params();
            let written = api.patch(&name, &params, &Patch::Merge(&change)).await;
            written.with_context(|| format!("giving back {}", one.text()))?;
        }
        let content = format!("{}={name},{}", label::OWNER_NAME, label::REVISION_NAME);
        let content = ListParams::default().labels(&content);
        let secrets = Api::<Secret>::all(client.clone()).list_metadata(&content).await;
        for secret in secrets.context("listing the content of revisions")? {
            let namespace = secret.namespace().unwrap_or_default();
            let api = Api::<Secret>::namespaced(client.clone(), &namespace);
            let deleted = api.delete(&secret.name_any(), &DeleteParams::default()).await;
            gone(deleted).with_context(|| format!("deleting Secret {}", secret.name_any()))?;
        }
        let sets = Api::<ClusterObjectSet>::all(client.clone());
        for set in installed_last(&self.revisions) {
            delete(&sets, set).await?;
        }
        if dry_run {
            return Ok(());
        }
        writeln!(out, "ClusterExtension {name}: {} objects are Helm's again", self.objects.len())?;
        writeln!(
            out,
            "ClusterExtension {name}: paused, for when this controller comes back: kubectl olm resume {name}"
        )?;
        Ok(())
    }
}

/// Says why a release does not say what is installed.
fn differs(release: &BTreeMap<String, String>, now: &States<'_>) -> Option<String> {
    let Some(installed) = now.installed else {
        return Some("nothing of it is installed by a revision".to_owned());
    };
    if let Some(rolling) = now.rolling.first() {
        return Some(format!("{} is being rolled out", rolling.name_any()));
    }
    let installed = BundleRecord::of(installed);
    let of = |key: &str| release.get(key).map(String::as_str).unwrap_or_default();
    let (bundle, version) = (of(annotation::BUNDLE_NAME), of(annotation::BUNDLE_VERSION));
    let same = bundle == installed.name && version == installed.version;
    (!same).then(|| {
        format!(
            "its release holds {bundle} {version}, and {} {} is installed",
            installed.name, installed.version
        )
    })
}

/// Returns the owners of an object that is the extension's, and no revision's, again.
fn references(one: &Managed, extension: &ClusterExtension, revisions: &[String]) -> Vec<Value> {
    let uid = extension.uid().unwrap_or_default();
    let others = one.object.owner_references().iter();
    // It may have stayed an owner without being the controller.
    let others = others.filter(|owner| owner.uid != uid && !revisions.contains(&owner.uid));
    let mut references: Vec<Value> = others.map(|owner| json!(owner)).collect();
    references.push(json!({
        "apiVersion": olm_api::API_VERSION, "kind": "ClusterExtension",
        "name": extension.name_any(), "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    }));
    references
}

/// Returns revisions with the one that is installed at the end.
fn installed_last(revisions: &[ClusterObjectSet]) -> Vec<&ClusterObjectSet> {
    let installed = states(revisions).installed.map(kube::ResourceExt::name_any);
    let mut order: Vec<_> = revisions.iter().collect();
    order.sort_by_key(|set| Some(set.name_any()) == installed);
    order
}

/// Takes for deleted what is gone already.
fn gone<T>(deleted: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match deleted {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        deleted => deleted.map(drop),
    }
}

/// Deletes a revision and nothing that it holds.
async fn delete(sets: &Api<ClusterObjectSet>, set: &ClusterObjectSet) -> anyhow::Result<()> {
    let name = set.name_any();
    let others = set.finalizers().iter().filter(|it| *it != finalizer::TEARDOWN);
    let change = json!({"metadata": {"finalizers": others.collect::<Vec<_>>()}});
    let freed = sets.patch(&name, &changes::params(), &Patch::Merge(&change)).await;
    gone(freed).with_context(|| format!("freeing ClusterObjectSet {name}"))?;
    let deleted = sets.delete(&name, &DeleteParams::orphan()).await;
    gone(deleted).with_context(|| format!("deleting ClusterObjectSet {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(number: i64, version: &str, succeeded: bool) -> ClusterObjectSet {
        let status = if succeeded { "True" } else { "False" };
        let set = json!({
            "metadata": {"name": format!("e-{number}"), "annotations": {
                annotation::BUNDLE_NAME: format!("p.v{version}"), annotation::BUNDLE_VERSION: version}},
            "spec": {"lifecycleState": "Active", "revision": number, "collisionProtection": "None"},
            "status": {"conditions": [{"type": "Succeeded", "status": status, "reason": "R",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        });
        serde_json::from_value(set).unwrap()
    }

    // deploying.md P58
    #[test]
    fn a_release_is_gone_back_to_only_while_it_says_what_is_installed() {
        let release = [(annotation::BUNDLE_NAME, "p.v1"), (annotation::BUNDLE_VERSION, "1")];
        let release = release.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let why = |sets: &[ClusterObjectSet]| differs(&release, &states(sets));
        assert_eq!(why(&[set(1, "1", true)]), None);
        let upgraded = "its release holds p.v1 1, and p.v2 2 is installed";
        assert_eq!(why(&[set(1, "2", true)]).as_deref(), Some(upgraded));
        let rolling = [set(1, "1", true), set(2, "2", false)];
        assert_eq!(why(&rolling).as_deref(), Some("e-2 is being rolled out"));
        assert!(why(&[]).is_some());
    }

    // deploying.md 7.3: while the installed revision is there, an interrupted run can be begun again
    #[test]
    fn the_installed_revision_goes_last() {
        let revisions = [set(1, "1", true), set(2, "2", false)];
        let order = installed_last(&revisions);
        let order: Vec<_> = order.iter().map(|set| set.name_any()).collect();
        assert_eq!(order, ["e-2", "e-1"]);
    }
}
