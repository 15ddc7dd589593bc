//! Writing revisions, for the reconciler of ClusterExtensions.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, Client, Resource as _, ResourceExt};
use olm_api::keys::{annotation, label, manager, name};
use olm_api::{API_VERSION, ClusterExtension, ClusterObjectSet, LifecycleState};
use olm_cluster::{read_secrets, resolve};
use olm_core::revision::{
    Account, Change, ContentSecret, Desired, Extension, build, check_annotations, compare,
    has_finalizer, is_secret_name, needs_patch, next_number, number_after, orphan_mark, outdated,
    pack, rebuild, recorded_account, referenced_secrets, revision_name,
};
use serde_json::json;

use super::delete::delete_revision;
use super::error::WriteError;
use super::known::KnownRevisions;
use super::list::{is_of, is_owned};
use crate::cluster::{RequestError, as_manager, join_bounded};
use crate::live::{is_as_read, live_metadata};
use crate::reconcile::OwnKind;

/// Returns the revision that counts as newest: one that is being deleted holds nothing any more.
pub fn newest(revisions: &[ClusterObjectSet]) -> Option<&ClusterObjectSet> {
    revisions.iter().rev().find(|set| set.metadata.deletion_timestamp.is_none())
}

impl KnownRevisions {
    /// Says what writing `desired` would do, so that checks can run before anything is written.
    ///
    /// `revisions` comes from [`Self::of`]. Where the content of the newest is stored but not
    /// yet observed, the references are compared, and the content is read where these differ.
    pub async fn plan(
        &self,
        desired: &Desired,
        revisions: &[ClusterObjectSet],
    ) -> Result<Change, WriteError> {
        let Some(newest) = newest(revisions) else { return Ok(Change::Install) };
        let status = newest.status.as_ref();
        let mut observed = status.map(|status| status.observed_phases.clone()).unwrap_or_default();
        if observed.is_empty() {
            let (client, system_namespace) = (&self.client, &self.system_namespace);
            // Content is named after what it is.
            if same_references(system_namespace, desired, newest)? {
                return Ok(Change::Unchanged);
            }
            let secrets = read_secrets(client, client, newest, system_namespace).await;
            match resolve(newest, &secrets, system_namespace) {
                Ok(content) => observed = content.observed,
                Err(_) => return Ok(Change::Upgrade),
            }
        }
        let digests: Vec<(String, String)> =
            observed.into_iter().map(|phase| (phase.name, phase.digest)).collect();
        Ok(compare(desired, Some(newest), &digests))
    }

    /// Fails unless an extension still asks for what it did when it was read. To be asked before a
    /// revision is made, and what it needs: an earlier spec, or a cluster that was set back since, asks
    /// for none.
    pub async fn confirm(&self, extension: &ClusterExtension) -> Result<(), WriteError> {
        let same = is_as_read(&self.client, extension).await;
        if same.map_err(RequestError::doing("getting ClusterExtension"))? {
            return Ok(());
        }
        Err(WriteError::Changed(extension.name_any()))
    }

    /// Makes the newest revision of an extension hold what is desired. Returns all its revisions, if that
    /// takes another one.
    ///
    /// `change` comes from [`Self::plan`] with the same `revisions`. A new revision is written in an
    /// order that survives a crash at any point: content Secrets, ClusterObjectSet, owner references
    /// of the Secrets, and the deletion of archived revisions beyond those that are kept. An unchanged
    /// one is patched where annotations, probes or deadline differ, and its Secrets are completed.
    pub async fn write(
        &self,
        desired: &Desired,
        revisions: &[ClusterObjectSet],
        change: Change,
    ) -> Result<Option<Vec<ClusterObjectSet>>, WriteError> {
        match (change, newest(revisions)) {
            (Change::Unchanged, Some(newest)) => self.keep(desired, newest).await,
            (Change::Unchanged | Change::Install | Change::Upgrade, _) => {
                self.create(desired, revisions).await
            }
        }
    }

    async fn create(
        &self,
        desired: &Desired,
        revisions: &[ClusterObjectSet],
    ) -> Result<Option<Vec<ClusterObjectSet>>, WriteError> {
        let (client, system_namespace) = (&self.client, &self.system_namespace);
        let (number, name) = self.free_number(&desired.extension, revisions).await?;
        let packed = pack(&name, &desired.phases)?;
        let mut set = build(desired, &name, number, &packed, system_namespace);
        check_annotations(set.annotations())?;
        let owner = &desired.extension.name;
        let secrets = packed.secrets.iter();
        let creating = secrets.map(|secret| self.create_secret((&name, owner), secret));
        join_bounded(creating.collect()).await.into_iter().collect::<Result<(), _>>()?;
        // Nothing has this version: what got the name meanwhile is not written over.
        set.metadata.resource_version = Some("1".to_owned());
        // Also if the write fails: it may have been made without an answer.
        self.list_next_time(&desired.extension.uid);
        let set = apply(client, &set).await?;
        tracing::info!(revision = name, "revision created");
        let owning = packed.secrets.iter().map(|secret| self.own_secret(&secret.name, &set));
        join_bounded(owning.collect()).await.into_iter().collect::<Result<(), _>>()?;
        // Last: until the new revision is complete, an old one may be all there is of its content.
        let outdated = outdated(revisions, &set);
        for old in &outdated {
            delete_revision(client, old, false)
                .await
                .map_err(RequestError::doing("deleting archived revision"))?;
            tracing::info!(revision = old.name_any(), "archived revision deleted");
        }
        let gone: Vec<_> = outdated.into_iter().map(ResourceExt::uid).collect();
        let left = revisions.iter().filter(|old| !gone.contains(&old.uid()));
        Ok(Some(left.cloned().chain([set]).collect()))
    }

    /// Returns number and name of the next revision: the first that is free, for a set that is not a
    /// revision of the extension may have such a name.
    ///
    /// # Errors
    /// Fails when one that is a revision of the extension has it: `revisions` are not all of them.
    async fn free_number(
        &self,
        extension: &Extension,
        revisions: &[ClusterObjectSet],
    ) -> Result<(i64, String), WriteError> {
        let mut number = next_number(revisions)?;
        loop {
            let name = revision_name(&extension.name, number)?;
            let taken = self.named(&name).await;
            let taken =
                taken.map_err(RequestError::doing("looking for the name of a new revision"))?;
            let Some(taken) = taken else { return Ok((number, name)) };
            if is_of(&taken, extension) {
                self.list_next_time(&extension.uid);
                return Err(WriteError::Behind(name));
            }
            tracing::warn!(set = name, "not a revision of the extension, its number is skipped");
            number = number_after(number)?;
        }
    }

    async fn keep(
        &self,
        desired: &Desired,
        newest: &ClusterObjectSet,
    ) -> Result<Option<Vec<ClusterObjectSet>>, WriteError> {
        let name = newest.name_any();
        if needs_patch(desired, newest) {
            let mut set = rebuild(desired, newest);
            // One that is gone meanwhile is not made again.
            set.metadata.uid = newest.uid();
            apply(&self.client, &set).await?;
            tracing::info!(revision = name, "revision patched");
        }
        self.complete_content(desired, newest).await?;
        Ok(None)
    }

    /// Records the account of an extension on its revisions that are not done and record another one, so
    /// that they are maintained and removed by an account that exists, whatever holds the next.
    pub async fn record_account(
        &self,
        account: &Account,
        revisions: &mut [ClusterObjectSet],
    ) -> Result<(), RequestError> {
        let api = Api::<ClusterObjectSet>::all(self.client.clone());
        let params = PatchParams::apply(manager::OPERATOR_CONTROLLER);
        for set in revisions.iter_mut().filter(|set| !is_done(set)) {
            if recorded_account(set).is_none_or(|recorded| recorded == *account) {
                continue;
            }
            let patch = json!({"metadata": {"uid": set.uid(), "annotations": {
                annotation::SERVICE_ACCOUNT_NAME: account.name,
                annotation::SERVICE_ACCOUNT_NAMESPACE: account.namespace,
            }}});
            let name = set.name_any();
            let patched = api.patch(&name, &params, &Patch::Merge(patch)).await;
            *set = patched.map_err(RequestError::doing("recording the account of a revision"))?;
            tracing::info!(revision = name, %account, "account of revision changed");
        }
        Ok(())
    }

    /// Returns the revisions whose content is not complete and that are not done: until they are, only
    /// their content says what they installed.
    pub async fn without_content<'a>(
        &self,
        revisions: &'a [ClusterObjectSet],
    ) -> Result<Vec<&'a ClusterObjectSet>, WriteError> {
        let mut found = Vec::new();
        for set in revisions {
            if !is_done(set) && self.lacking(set).await? != Lacking::default() {
                found.push(set);
            }
        }
        Ok(found)
    }

    /// Gives content Secrets of a revision that a crash left without owner their owner, and makes anew
    /// those that are gone, as far as `desired` is what the revision holds.
    pub async fn complete_content(
        &self,
        desired: &Desired,
        set: &ClusterObjectSet,
    ) -> Result<(), WriteError> {
        let Lacking { mut unowned, missing } = self.lacking(set).await?;
        if unowned.is_empty() && missing.is_empty() {
            return Ok(());
        }
        let name = set.name_any();
        let uid = set.metadata.uid.as_deref();
        let live = live_metadata::<ClusterObjectSet>(&self.client, &name, uid).await;
        // The garbage collector deletes what has an owner that does not exist.
        if live.map_err(RequestError::doing("getting ClusterObjectSet"))?.is_none() {
            return Ok(());
        }
        // Compression may differ from that of whoever wrote the revision; then the names differ and
        // the revision keeps reporting what it misses.
        let packed = if missing.is_empty() { None } else { Some(pack(&name, &desired.phases)?) };
        for secret in packed.into_iter().flat_map(|packed| packed.secrets) {
            if missing.contains(&secret.name) {
                self.create_secret((&name, &desired.extension.name), &secret).await?;
                tracing::info!(revision = name, secret = secret.name, "content created again");
                unowned.push(secret.name);
            }
        }
        for secret in unowned {
            self.own_secret(&secret, set).await?;
        }
        Ok(())
    }

    async fn lacking(&self, set: &ClusterObjectSet) -> Result<Lacking, WriteError> {
        let mut lacking = Lacking::default();
        if self.has_content(set).await {
            return Ok(lacking);
        }
        let (revision, namespace) = (set.name_any(), &self.system_namespace);
        let api = Api::<Secret>::namespaced(self.client.clone(), namespace);
        for (place, name) in referenced_secrets(&set.spec, namespace) {
            if place != *namespace || !is_secret_name(&name, &revision) {
                continue;
            }
            let found = api.get_metadata_opt(&name).await;
            match found.map_err(RequestError::doing("getting content Secrets"))? {
                None => lacking.missing.push(name),
                Some(secret)
                    if is_owned(&secret, set.meta())
                        && secret.labels().get(label::REVISION_NAME) == Some(&revision) => {}
                Some(_) => lacking.unowned.push(name),
            }
        }
        Ok(lacking)
    }

    /// Creates a content Secret of a revision of an extension.
    async fn create_secret(
        &self,
        (revision, extension): (&str, &str),
        content: &ContentSecret,
    ) -> Result<(), WriteError> {
        let labels = [(label::REVISION_NAME, revision), (label::OWNER_NAME, extension)];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let data = content.data.iter();
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(content.name.clone()),
                labels: Some(labels.into()),
                ..ObjectMeta::default()
            },
            type_: Some(name::OBJECT_DATA_SECRET_TYPE.to_owned()),
            immutable: Some(true),
            data: Some(data.map(|(key, value)| (key.clone(), ByteString(value.clone()))).collect()),
            ..Secret::default()
        };
        let api = Api::<Secret>::namespaced(self.client.clone(), &self.system_namespace);
        match api.create(&as_manager(manager::OPERATOR_CONTROLLER), &secret).await {
            Ok(_) => Ok(()),
            // Its name is a hash of its content, so what is there is what we want.
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            Err(err) => Err(RequestError::doing("creating content Secret")(err).into()),
        }
    }

    async fn own_secret(&self, secret: &str, set: &ClusterObjectSet) -> Result<(), WriteError> {
        let api = Api::<Secret>::namespaced(self.client.clone(), &self.system_namespace);
        let patch = json!({"metadata": {"ownerReferences": [owner_of_content(set)],
            "labels": {(label::REVISION_NAME): set.name_any()}}});
        api.patch(secret, &PatchParams::apply(manager::OPERATOR_CONTROLLER), &Patch::Merge(patch))
            .await
            .map_err(RequestError::doing("setting owner of content Secret"))?;
        Ok(())
    }
}

/// Names of content Secrets of ours that a revision refers to.
#[derive(Debug, Default, PartialEq)]
struct Lacking {
    /// Those that do not name it as their owner, or not by the label that finds them.
    unowned: Vec<String>,
    /// Those that are not there.
    missing: Vec<String>,
}

/// Says whether a revision is archived and has removed what it installed.
fn is_done(set: &ClusterObjectSet) -> bool {
    set.spec.lifecycle_state == LifecycleState::Archived && !has_finalizer(set)
}

fn same_references(
    system_namespace: &str,
    desired: &Desired,
    newest: &ClusterObjectSet,
) -> Result<bool, WriteError> {
    let name = newest.name_any();
    let packed = pack(&name, &desired.phases)?;
    let built = build(desired, &name, newest.spec.revision, &packed, system_namespace);
    Ok(built.spec.phases == newest.spec.phases
        && built.spec.lifecycle_state == newest.spec.lifecycle_state
        && built.spec.collision_protection == newest.spec.collision_protection)
}

async fn apply(client: &Client, set: &ClusterObjectSet) -> Result<ClusterObjectSet, WriteError> {
    let api = Api::<ClusterObjectSet>::all(client.clone());
    let params = PatchParams::apply(manager::EXTENSION).force();
    let applied = api.patch(&set.name_any(), &params, &Patch::Apply(set)).await;
    Ok(applied.map_err(RequestError::doing("creating new Revision"))?)
}

fn owner_of_content(set: &ClusterObjectSet) -> OwnerReference {
    OwnerReference {
        api_version: API_VERSION.to_owned(),
        kind: "ClusterObjectSet".to_owned(),
        name: set.name_any(),
        uid: set.uid().unwrap_or_default(),
        controller: Some(true),
        // A foreground deletion would take the content away before it is worked off.
        block_owner_deletion: Some(false),
    }
}

/// Writes down that what an extension or a revision installed is to stay: whatever changed on it
/// since it was read, because that may be the finalizer.
pub async fn mark_orphaned<K: OwnKind>(client: &Client, object: &K) -> Result<(), kube::Error> {
    let mark = json!({"metadata": {
        "uid": object.meta().uid,
        "annotations": {annotation::ORPHANED: orphan_mark(object.meta())},
    }});
    let api = Api::<K>::all(client.clone());
    let params = PatchParams::apply(manager::OPERATOR_CONTROLLER);
    api.patch(&object.name_any(), &params, &Patch::Merge(mark)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use http::Method;
    use kube::core::DeserializeGuard;
    use kube::runtime::watcher;
    use olm_api::{ClusterExtensionSpec, CollisionProtection};
    use olm_core::error::Classify as _;
    use olm_core::object::Object;
    use olm_core::revision::Phase;
    use rstest::rstest;
    use serde_json::Value;

    use super::super::known::Feed;
    use super::*;
    use crate::cluster::answering::{NOT_ANSWERED, answering, refusal};

    fn desired() -> Desired {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
        let objects = vec![Object::from_value(object).unwrap()];
        Desired {
            extension: Extension { name: "e".to_owned(), uid: "x".to_owned() },
            phases: vec![Phase { name: "deploy".to_owned(), objects }],
            annotations: BTreeMap::new(),
            probes: Vec::new(),
            deadline_minutes: None,
            collision_protection: CollisionProtection::Prevent,
            migrated_from: None,
        }
    }

    const NAMESPACE: &str = "olmv1-system";

    /// What is desired as the first revision.
    fn revision() -> ClusterObjectSet {
        let packed = pack("e-1", &desired().phases).unwrap();
        let mut set = build(&desired(), "e-1", 1, &packed, NAMESPACE);
        set.metadata.uid = Some("u".to_owned());
        set
    }

    /// The revisions of a cluster, of which the watches have listed that there are none.
    fn known(client: Client) -> (Arc<KnownRevisions>, Feed) {
        let (known, mut feed, _names) = KnownRevisions::new(client, NAMESPACE.to_owned());
        feed.revisions.apply_watcher_event(&watcher::Event::Init);
        feed.revisions.apply_watcher_event(&watcher::Event::InitDone);
        feed.contents.apply_watcher_event(&watcher::Event::Init);
        feed.contents.apply_watcher_event(&watcher::Event::InitDone);
        (known, feed)
    }

    // ours: the watch brings a revision after they were read, and before the next one is named; or the
    // API server has made it, and its answer never came.
    #[rstest]
    #[case::came_meanwhile(true, ["get e-1"].as_slice())]
    #[case::not_answered(false, &["create", "apply e-1"])]
    #[tokio::test]
    async fn a_revision_that_was_not_read_is_listed_and_not_skipped(
        #[case] brought: bool,
        #[case] want: &[&str],
    ) {
        let mut set = revision();
        set.metadata.resource_version = Some("7".to_owned());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (noted, live) = (Arc::clone(&asked), json!(set));
        let client = answering(move |request| {
            let path = request.uri().path();
            let name = path.rsplit('/').next().unwrap_or_default();
            let list = json!({"metadata": {"resourceVersion": "8"}, "items": [live]});
            let (verb, status, answer) = match *request.method() {
                Method::GET if name == "e-1" => ("get e-1", 200, live.clone()),
                Method::GET => ("list", 200, list),
                Method::PATCH if name == "e-1" => ("apply e-1", NOT_ANSWERED, json!({})),
                Method::POST => ("create", 200, json!({"metadata": {"name": "content"}})),
                _ => panic!("{} {path}", request.method()),
            };
            noted.lock().unwrap().push(verb);
            (status, answer)
        });
        let (known, mut feed) = known(client);
        let mut extension = ClusterExtension::new("e", ClusterExtensionSpec::default());
        extension.metadata.uid = Some("x".to_owned());
        let read = known.of(&extension).await.unwrap();
        assert!(read.is_empty());
        if brought {
            feed.revisions.apply_watcher_event(&watcher::Event::Apply(DeserializeGuard(Ok(set))));
        }
        let error = known.write(&desired(), &read, Change::Install).await.unwrap_err();
        assert_eq!(error.is_conflict(), brought, "{error}");
        assert_eq!(*asked.lock().unwrap(), want);
        let names: Vec<_> =
            known.of(&extension).await.unwrap().iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["e-1"]);
        assert_eq!(asked.lock().unwrap().last(), Some(&"list"));
    }

    // applying.md 1.2
    #[tokio::test]
    async fn the_number_of_a_revision_whose_label_was_taken_off_is_not_skipped() {
        let mut set = revision();
        set.metadata.labels = None;
        let live = json!(set);
        let (known, mut feed) = known(answering(move |_| (200, live.clone())));
        feed.revisions.apply_watcher_event(&watcher::Event::Apply(DeserializeGuard(Ok(set))));
        let error = known.free_number(&desired().extension, &[]).await.unwrap_err();
        assert!(matches!(error, WriteError::Behind(name) if name == "e-1"));
    }

    // applying.md 4.5
    #[tokio::test]
    async fn every_revision_that_is_not_done_records_the_account_of_the_extension() {
        let account = |name: &str| Account { namespace: "ns".to_owned(), name: name.to_owned() };
        let set = |name: &str, state: LifecycleState, finalizer: Option<&str>, by: &str| {
            let mut set = revision();
            set.metadata.name = Some(name.to_owned());
            set.spec.lifecycle_state = state;
            set.metadata.finalizers = finalizer.map(|it| vec![it.to_owned()]);
            let recorded = [
                (annotation::SERVICE_ACCOUNT_NAME, by),
                (annotation::SERVICE_ACCOUNT_NAMESPACE, "ns"),
            ];
            set.annotations_mut()
                .extend(recorded.map(|(key, value)| (key.to_owned(), value.to_owned())));
            set
        };
        let held = Some(olm_api::keys::finalizer::TEARDOWN);
        let mut sets = [
            set("e-1", LifecycleState::Archived, None, "old"),
            set("e-2", LifecycleState::Archived, held, "old"),
            set("e-3", LifecycleState::Active, held, "old"),
            set("e-4", LifecycleState::Active, held, "new"),
        ];
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (noted, before) = (Arc::clone(&asked), sets.clone());
        let client = answering(move |request| {
            let name = request.uri().path().rsplit('/').next().unwrap_or_default();
            let mut found = before.iter().find(|set| set.name_any() == name).unwrap().clone();
            noted.lock().unwrap().push(name.to_owned());
            let changed = request.body()["metadata"]["annotations"].clone();
            let changed: BTreeMap<String, String> = serde_json::from_value(changed).unwrap();
            found.annotations_mut().extend(changed);
            (200, json!(found))
        });
        let (known, _feed) = known(client);
        for _ in 0..2 {
            known.record_account(&account("new"), &mut sets).await.unwrap();
            assert_eq!(*asked.lock().unwrap(), ["e-2", "e-3"]);
        }
        let recorded = sets.map(|set| recorded_account(&set).unwrap().name);
        assert_eq!(recorded, ["old", "new", "new", "new"]);
    }

    // ours: content may be lost before its revision got the finalizer
    #[rstest]
    #[case::new(LifecycleState::Active, 1)]
    #[case::done(LifecycleState::Archived, 0)]
    #[tokio::test]
    async fn a_new_revision_misses_its_content_and_an_archived_one_does_not(
        #[case] state: LifecycleState,
        #[case] want: usize,
    ) {
        let (known, _feed) = known(answering(|_| refusal(404)));
        let mut set = revision();
        set.spec.lifecycle_state = state;
        assert_eq!(known.without_content(&[set]).await.unwrap().len(), want);
    }

    // deploying.md 4.1; applying.md 3.3
    #[rstest]
    #[case::missing("u", None, &["POST", "PATCH"])]
    #[case::unowned("u", Some(json!({})), &["PATCH"])]
    #[case::unlabelled("u", Some(json!({"ownerReferences": [owner_of_content(&revision())]})), &["PATCH"])]
    #[case::of_a_backup("another", None, &[])]
    #[tokio::test]
    async fn content_is_owned_and_made_again_for_a_revision_that_exists(
        #[case] live: &'static str,
        #[case] stored: Option<Value>,
        #[case] want: &[&str],
    ) {
        let writes = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&writes);
        let client = answering(move |request| {
            if request.method() != Method::GET {
                noted.lock().unwrap().push(request.method().to_string());
                return (200, json!({"metadata": {"name": "written"}}));
            }
            if !request.uri().path().contains("/secrets/") {
                let one = json!({"metadata": {"name": "e-1", "uid": live}});
                return (200, json!({"metadata": {}, "items": [one]}));
            }
            stored.clone().map_or_else(|| refusal(404), |stored| (200, json!({"metadata": stored})))
        });
        let (known, _feed) = known(client);
        known.complete_content(&desired(), &revision()).await.unwrap();
        assert_eq!(*writes.lock().unwrap(), want);
    }
}
