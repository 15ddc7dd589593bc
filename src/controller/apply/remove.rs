//! Removing objects of a revision that goes away.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::ListParams;
use olm_api::keys::{annotation, label};
use olm_core::crd_safety::Resource;
use olm_core::object::Object;
use olm_core::revision::{
    Removal, belongs_to, controller, orphaned, released, removal, removal_kinds, retained,
};
use olm_core::uninstall::{Instances, cannot_stay, is_converted_by_webhook};
use serde_json::{Map, Value, json};

use super::endpoint::{Endpoint, kinds_of};
use super::error::ApplyError;
use crate::cluster::{Kinds, code, join_bounded, message};

/// The most attempts of a removal within one reconcile when it conflicts with writes.
const MAX_ATTEMPTS: usize = 3;
/// The time after a failed clean-up of a CRD before it is touched.
const STUCK_AFTER: SignedDuration = SignedDuration::from_secs(3);
/// Shortest time between two touches.
const TOUCH_EVERY: SignedDuration = SignedDuration::from_secs(5);
/// Instances of a CRD that a message names.
const MAX_NAMED: u32 = 10;
/// Instances of a CRD that are looked at to tell the bundle's own from others; the rest counts as
/// others.
const LOOKED_AT: u32 = 50;
const CRD: &str = "CustomResourceDefinition";

/// Removes objects of a revision as one account.
pub struct Remover {
    pub client: Client,
    pub kinds: Arc<Kinds>,
    /// UID of the revision.
    pub uid: String,
    /// Its `owner-name` label: what stays is known by it, and taken over by a later revision with it.
    pub owner: Option<String>,
    pub crds: Crds,
    /// The revisions in use, by UID: what one of them owns as well is left to it.
    pub heirs: BTreeSet<String>,
}

/// What becomes of the CRDs of a removed revision. One that stays is let go of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crds {
    /// They are removed, and with them their instances: an uninstall.
    Removed,
    /// They stay: an uninstall that keeps the data.
    Kept,
    /// One that has instances, or may have some, stays: nobody asked for an uninstall.
    KeptWithInstances,
}

/// The remaining objects of a group.
#[derive(Debug, Default)]
pub struct Removed {
    /// Objects that are on their way out, as they are now.
    pub remaining: Vec<Object>,
    /// The CRDs that were let go of.
    pub kept: Vec<Kept>,
}

/// A CRD that was let go of and stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub name: String,
    /// Whether its objects are left to a webhook to convert that may go with the revision. Without
    /// one they would be read, and written back, in a version whose schema they do not follow.
    pub needs_conversion: bool,
}

impl Kept {
    fn of(crd: &Object) -> Self {
        Self { name: crd.name().to_owned(), needs_conversion: cannot_stay(crd).is_some() }
    }
}

/// Objects with the label of an extension.
#[derive(Debug, Default)]
pub struct Labelled {
    /// The objects, in the order of an uninstall.
    pub groups: Vec<Vec<Object>>,
    /// Kinds that the account may not list.
    pub unlisted: Vec<&'static str>,
}

/// Parts of an object to be replaced, by their paths.
type Parts = Vec<(&'static str, Value)>;

/// The result for one object.
enum End {
    Gone,
    Remains(Object),
    Kept(Kept),
}

impl Remover {
    /// Deletes those objects of `group` that the revision controls, but for those that an heir owns as
    /// well, and lets go of the others.
    pub async fn remove(&self, group: &[&Object]) -> Result<Removed, ApplyError> {
        let remove = |name: String, at: Endpoint| async move { self.remove_one(&name, &at).await };
        let mut removed = Removed::default();
        for end in self.each("removing", group, remove).await? {
            match end {
                End::Gone => {}
                End::Remains(object) => removed.remaining.push(object),
                End::Kept(crd) => removed.kept.push(crd),
            }
        }
        Ok(removed)
    }

    /// Lets go of a CRD that belongs to one of these revisions and that [`Self::crds`] keeps, for itself
    /// and all other revisions: none that owns it lives on. Returns it, if it was let go of.
    pub async fn keep_data(
        &self,
        owners: &BTreeSet<String>,
        crd: &Object,
    ) -> Result<Option<Kept>, ApplyError> {
        let keep = |name: String, at: Endpoint| async move {
            let kept = rewrite(&at, &name, |live| async move {
                let keeps = belongs_to(&live, owners) && self.keeps(&live).await?;
                let parts = keeps.then(|| self.let_stay(&live));
                Ok(parts.map(|parts| (live, parts)))
            });
            kept.await.map(|kept| kept.as_ref().map(Kept::of))
        };
        Ok(self.each("releasing", &[crd], keep).await?.pop().flatten())
    }

    /// Takes our marks and owner reference off the objects and leaves them. An object that nobody
    /// controls any more is known by its label.
    pub async fn orphan(&self, group: &[&Object]) -> Result<(), ApplyError> {
        let (uid, owner) = (self.uid.as_str(), self.owner.as_deref());
        let release = |name: String, at: Endpoint| async move {
            let released = rewrite(&at, &name, |live| async move {
                let ours = removal(&live, uid, &BTreeSet::new()) != Removal::Gone;
                let parts = let_go(&orphaned(&live, uid));
                Ok((ours || is_left_by(&live, owner)).then_some((live, parts)))
            });
            released.await.map(drop)
        };
        self.each("releasing", group, release).await.map(drop)
    }

    /// Does something to each of these objects whose kind is served, where the object is. Where a kind is
    /// served is looked up again if it no longer is where it was.
    async fn each<T, F: Future<Output = Result<T, kube::Error>>>(
        &self,
        doing: &str,
        objects: &[&Object],
        work: impl Fn(String, Endpoint) -> F,
    ) -> Result<Vec<T>, ApplyError> {
        let find = |object| async move { self.kinds.find_installed(&object).await };
        let kinds = kinds_of(doing, objects, find).await?;
        let work = &work;
        let all = objects.iter().zip(kinds).map(|(object, kind)| async move {
            // A kind that is not served has no objects.
            let Some(kind) = kind else { return Ok(None) };
            let at = Endpoint::new(self.client.clone(), &kind, object.namespace());
            let done = match work(object.name().to_owned(), at).await {
                Err(err) if code(&err) == 404 => {
                    self.kinds.forget_group(object.group());
                    match self.endpoint(object).await {
                        Ok(Some(at)) => work(object.name().to_owned(), at).await.map(Some),
                        answer => answer.map(|_| None),
                    }
                }
                answer => answer.map(Some),
            };
            done.map_err(|err| (object.identity(), err))
        });
        let done = ApplyError::unless_failed(doing, join_bounded(all.collect()).await)?;
        Ok(done.into_iter().flatten().collect())
    }

    /// Lists what carries the label of an extension, as far as the account may list it.
    pub async fn labelled(&self, owner: &str) -> Result<Labelled, ApplyError> {
        let params = ListParams::default().labels(&format!("{}={owner}", label::OWNER_NAME));
        let mut labelled = Labelled::default();
        for kinds in removal_kinds() {
            let mut group = Vec::new();
            for (api_group, kind) in kinds {
                let api_version = match *api_group {
                    "" => "v1".to_owned(),
                    api_group => format!("{api_group}/v1"),
                };
                let sample = json!({"apiVersion": api_version, "kind": kind});
                let Some(sample) = Object::from_value(sample) else { continue };
                let Some(endpoint) = self.endpoint(&sample).await? else { continue };
                match endpoint.list(&params).await {
                    Ok(found) => group.extend(found.into_iter().map(|mut one| {
                        one.0.insert("apiVersion".to_owned(), json!(api_version));
                        one.0.insert("kind".to_owned(), json!(kind));
                        one
                    })),
                    Err(err) if code(&err) == 403 => labelled.unlisted.push(kind),
                    Err(err) => return Err(err.into()),
                }
            }
            labelled.groups.push(group);
        }
        Ok(labelled)
    }

    /// Returns where an object is, if its kind is served.
    async fn endpoint(&self, content: &Object) -> Result<Option<Endpoint>, kube::Error> {
        let kind = self.kinds.find_installed(&content.identity()).await?;
        Ok(kind.map(|kind| Endpoint::new(self.client.clone(), &kind, content.namespace())))
    }

    async fn remove_one(&self, name: &str, endpoint: &Endpoint) -> Result<End, kube::Error> {
        for _ in 0..MAX_ATTEMPTS {
            let Some(live) = endpoint.get_served(name).await? else { return Ok(End::Gone) };
            let answer = match removal(&live, &self.uid, &self.heirs) {
                Removal::Gone => return Ok(End::Gone),
                Removal::Wait => return Ok(End::Remains(live)),
                Removal::Delete if self.keeps(&live).await? => {
                    match endpoint.replace(&live, &self.let_stay(&live)).await {
                        Ok(_) => return Ok(End::Kept(Kept::of(&live))),
                        Err(err) => Err(err),
                    }
                }
                Removal::Delete => endpoint.delete(&live).await,
                Removal::Release => {
                    let parts = [("/metadata/ownerReferences", released(&live, &self.uid).into())];
                    endpoint.replace(&live, &parts).await.map(drop)
                }
            };
            match answer {
                Err(err) if !matches!(code(&err), 404 | 409) => return Err(err),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(endpoint.get_served(name).await?.map_or(End::Gone, End::Remains))
    }

    /// Says whether an object is a CRD that stays instead of being deleted: somebody's data is in it, or
    /// nobody can say that there is none.
    async fn keeps(&self, found: &Object) -> Result<bool, kube::Error> {
        Ok(found.kind() == CRD
            && match self.crds {
                Crds::Removed => false,
                Crds::Kept => true,
                Crds::KeptWithInstances => {
                    self.count(found, &BTreeSet::new()).await?.0 != Instances::Counted(0)
                }
            })
    }

    /// Returns the change of a CRD that stays without its revision, and without the webhook that converts
    /// its objects where they are the same in every version. Where they are not, the webhook stays
    /// named: that objects cannot be read loses nothing, that they are not converted does.
    ///
    /// Source: applying.md 3.9.
    fn let_stay(&self, found: &Object) -> Parts {
        let mut parts = let_go(&retained(found, self.owner.as_deref()));
        if is_converted_by_webhook(found) && cannot_stay(found).is_none() {
            parts.push(("/spec/conversion", json!({"strategy": "None"})));
        }
        parts
    }

    /// Counts the objects of a CRD that none of these owners controls, and those that one does.
    pub async fn count(
        &self,
        crd: &Object,
        owners: &BTreeSet<String>,
    ) -> Result<(Instances, u64), kube::Error> {
        let unknown = |why: &str| Ok((Instances::Unknown(why.to_owned()), 0));
        let Some(instance) = instance_of(crd) else { return unknown("no version is served") };
        let Some(endpoint) = self.endpoint(&instance).await? else {
            return unknown("it is not served");
        };
        let (found, more) = match endpoint.page(&ListParams::default().limit(LOOKED_AT)).await {
            Ok(page) => page,
            // A webhook that converts them and does not answer is a refusal, too.
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404 | 500) => {
                return unknown(&message(&kube::Error::Api(status)));
            }
            Err(err) => return Err(err),
        };
        let own = found.iter().filter(|object| is_controlled(object, owners)).count();
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let theirs = number(found.len() - own).saturating_add(more);
        Ok((Instances::Counted(theirs), number(own)))
    }

    /// Returns whether an object exists and is controlled by one of these owners, as far as the
    /// account may read it.
    pub async fn has(&self, content: &Object, owners: &BTreeSet<String>) -> bool {
        let Ok(Some(endpoint)) = self.endpoint(content).await else { return false };
        let live = endpoint.get(content.name()).await;
        live.is_ok_and(|live| live.is_some_and(|live| is_controlled(&live, owners)))
    }

    /// Touches a CRD whose clean-up has failed for a while. The API server's finalizer controller
    /// can lose a conflict and sleep for minutes with nothing left to do; a write wakes it.
    ///
    /// Source: applying.md 7.2, step 4.
    pub async fn wake_stuck_crd(&self, crd: &Object, now: Timestamp) -> Result<(), kube::Error> {
        let touched = crd.annotation(annotation::WOKEN_AT).and_then(|text| text.parse().ok());
        let recently = touched.is_some_and(|at: Timestamp| now.duration_since(at) < TOUCH_EVERY);
        if recently || !is_stuck(crd, now) {
            return Ok(());
        }
        let Some(endpoint) = self.endpoint(crd).await? else { return Ok(()) };
        let mut annotations = match crd.pointer("/metadata/annotations") {
            Some(Value::Object(annotations)) => annotations.clone(),
            _ => serde_json::Map::new(),
        };
        annotations.insert(annotation::WOKEN_AT.to_owned(), json!(now.to_string()));
        let mut parts = vec![("/metadata/annotations", Value::Object(annotations))];
        if is_converted_by_webhook(crd) && self.is_not_converted(crd).await {
            // Nobody will read these objects any more, in whatever version.
            parts.push(("/spec/conversion", json!({"strategy": "None"})));
        }
        match endpoint.replace(crd, &parts).await {
            Err(err) if !matches!(code(&err), 404 | 409) => Err(err),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Returns whether the objects of a CRD that is being deleted cannot be read because the
    /// webhook that converts them does not answer.
    ///
    /// The API server may only say that its cache of them is not filled, as it cannot be: a page in the
    /// version that is stored, which its clean-up reads too, does not come from there.
    async fn is_not_converted(&self, crd: &Object) -> bool {
        if terminating(crd).is_some_and(is_of_conversion) {
            return true;
        }
        let Some(instance) = instance_of(crd) else { return false };
        let Ok(Some(endpoint)) = self.endpoint(&instance).await else { return false };
        let page = endpoint.page(&ListParams::default().limit(LOOKED_AT)).await;
        matches!(page, Err(kube::Error::Api(status)) if is_of_conversion(&status.message))
    }

    /// Describes what a CRD that is being deleted waits for: up to ten instances and their
    /// finalizers, as far as the account may list them.
    pub async fn instances(&self, crd: &Object) -> String {
        let name = crd.name();
        let unknown = match terminating(crd) {
            Some(text) => format!("waiting for {name}: {text}"),
            None => format!("waiting for {name}"),
        };
        let Some(instance) = instance_of(crd) else { return unknown };
        let Ok(Some(endpoint)) = self.endpoint(&instance).await else { return unknown };
        match endpoint.list(&ListParams::default().limit(MAX_NAMED)).await {
            Ok(found) if !found.is_empty() => {
                let named: Vec<String> = found.iter().map(with_finalizers).collect();
                format!("waiting for {} {name}: {}", found.len(), named.join(", "))
            }
            Ok(_) | Err(_) => unknown,
        }
    }
}

/// Changes an object by what `change` makes of it, anew after a concurrent write. Returns it as it was
/// before; nothing if it is gone or `change` leaves it as it is.
async fn rewrite<F: Future<Output = Result<Option<(Object, Parts)>, kube::Error>>>(
    endpoint: &Endpoint,
    name: &str,
    change: impl Fn(Object) -> F,
) -> Result<Option<Object>, kube::Error> {
    let mut attempt = 1;
    loop {
        let Some(live) = endpoint.get_served(name).await? else { return Ok(None) };
        let Some((live, parts)) = change(live).await? else { return Ok(None) };
        match endpoint.replace(&live, &parts).await {
            Ok(_) => return Ok(Some(live)),
            Err(err) if code(&err) == 409 && attempt < MAX_ATTEMPTS => attempt += 1,
            Err(err) if code(&err) == 404 => return Ok(None),
            Err(err) => return Err(err),
        }
    }
}

/// Returns whether an object without a controller has the labels of an extension.
fn is_left_by(live: &Object, owner: Option<&str>) -> bool {
    let label = live.pointer("/metadata/labels").and_then(Value::as_object);
    let label = label.and_then(|labels| labels.get(label::OWNER_NAME));
    controller(live).is_none()
        && live.annotation(annotation::REVISION).is_some()
        && label.and_then(Value::as_str) == owner
}

/// The parts of the metadata that say whose an object is.
fn let_go(metadata: &Map<String, Value>) -> Parts {
    let part = |key: &str| metadata.get(key).cloned().unwrap_or_default();
    vec![
        ("/metadata/ownerReferences", part("ownerReferences")),
        ("/metadata/labels", part("labels")),
        ("/metadata/annotations", part("annotations")),
    ]
}

fn is_stuck(crd: &Object, now: Timestamp) -> bool {
    let Some(condition) = terminating_condition(crd) else { return false };
    let text = |key: &str| condition.get(key).and_then(Value::as_str);
    let since = text("lastTransitionTime").and_then(|since| since.parse::<Timestamp>().ok());
    text("reason") == Some("InstanceDeletionFailed")
        && since.is_some_and(|since| now.duration_since(since) >= STUCK_AFTER)
}

/// Returns whether a request failed because the webhook that converts the objects did not answer.
fn is_of_conversion(message: &str) -> bool {
    message.contains("conversion webhook")
}

/// Returns the API server's message about the clean-up of a CRD's instances.
fn terminating(crd: &Object) -> Option<&str> {
    let message = terminating_condition(crd)?.get("message")?.as_str()?;
    (!message.is_empty()).then_some(message)
}

fn terminating_condition(crd: &Object) -> Option<&Value> {
    let conditions = crd.pointer("/status/conditions")?.as_array()?;
    conditions
        .iter()
        .find(|condition| condition.get("type").and_then(Value::as_str) == Some("Terminating"))
}

fn is_controlled(object: &Object, owners: &BTreeSet<String>) -> bool {
    controller(object).is_some_and(|controller| owners.contains(&controller.uid))
}

/// An empty instance of a CRD, in the version that its objects are read in, to look its kind up with.
fn instance_of(crd: &Object) -> Option<Object> {
    let Resource { group, version, kind, .. } = Resource::of(crd.pointer("/spec")?).ok()?;
    Object::from_value(json!({"apiVersion": format!("{group}/{version}"), "kind": kind}))
}

fn with_finalizers(object: &Object) -> String {
    format!("{}{}", object.place(), finalizers(object))
}

/// Returns the finalizers that an object waits for while it is being deleted, to be put behind its name.
pub fn finalizers(object: &Object) -> String {
    let finalizers = object.list_at("/metadata/finalizers").filter_map(Value::as_str);
    let finalizers: Vec<&str> = finalizers.collect();
    if finalizers.is_empty() { String::new() } else { format!(" [{}]", finalizers.join(", ")) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rstest::rstest;

    use super::*;
    use crate::cluster::answering::{answering, refusal};

    fn remover(client: Client) -> Remover {
        let kinds = Arc::new(Kinds::new(client.clone()));
        let (uid, owner) = ("u".to_owned(), None);
        Remover { client, kinds, uid, owner, crds: Crds::Removed, heirs: BTreeSet::new() }
    }

    // applying.md 3.9: once in the version of the bundle, and once for the others
    #[tokio::test]
    async fn a_kind_that_is_not_served_is_asked_for_once_for_all_of_its_objects() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let client = answering(move |request| {
            count.fetch_add(1, Ordering::Relaxed);
            match request.uri().path() {
                "/apis" => (200, json!({"kind": "APIGroupList", "groups": []})),
                _ => refusal(404),
            }
        });
        let remover = remover(client);
        let monitors = ["a", "b", "c"].map(|name| {
            let object = json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
                "metadata": {"namespace": "n", "name": name}});
            Object::from_value(object).unwrap()
        });
        let left = remover.remove(&monitors.each_ref()).await.unwrap().remaining;
        assert!(left.is_empty());
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    // applying.md 3.9: the cluster may have been updated since the kind was looked up
    #[tokio::test]
    async fn an_object_is_not_gone_because_its_version_is_no_longer_served() {
        let updated = Arc::new(AtomicUsize::new(0));
        let is_updated = Arc::clone(&updated);
        let client = answering(move |request| {
            let served = ["v1beta1", "v1", ""][is_updated.load(Ordering::Relaxed)];
            let path = request.uri().path();
            if path == "/apis" {
                let version =
                    json!({"groupVersion": format!("policy/{served}"), "version": served});
                let group =
                    json!({"name": "policy", "versions": [version], "preferredVersion": version});
                let groups = if served.is_empty() { json!([]) } else { json!([group]) };
                return (200, json!({"kind": "APIGroupList", "groups": groups}));
            }
            if path == format!("/apis/policy/{served}") {
                let kind = json!({"name": "poddisruptionbudgets", "singularName": "", "verbs": [],
                    "namespaced": true, "kind": "PodDisruptionBudget"});
                return (
                    200,
                    json!({"kind": "APIResourceList", "resources": [kind],
                    "groupVersion": format!("policy/{served}")}),
                );
            }
            if path.starts_with(&format!("/apis/policy/{served}/")) {
                let owner = json!({"kind": "ClusterObjectSet", "name": "e-1", "uid": "u",
                    "apiVersion": "olm.operatorframework.io/v1", "controller": true});
                return (
                    200,
                    json!({"apiVersion": format!("policy/{served}"),
                    "kind": "PodDisruptionBudget", "metadata": {"namespace": "n", "name": "a",
                    "uid": "a", "resourceVersion": "1", "deletionTimestamp": "2026-01-01T00:00:00Z",
                    "ownerReferences": [owner]}}),
                );
            }
            (404, json!("404 page not found"))
        });
        let remover = remover(client);
        let object = json!({"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget",
            "metadata": {"namespace": "n", "name": "a"}});
        let object = Object::from_value(object).unwrap();
        assert_eq!(remover.remove(&[&object]).await.unwrap().remaining.len(), 1);
        updated.store(1, Ordering::Relaxed);
        assert_eq!(remover.remove(&[&object]).await.unwrap().remaining.len(), 1);
        updated.store(2, Ordering::Relaxed);
        assert!(remover.remove(&[&object]).await.unwrap().remaining.is_empty());
        remover.orphan(&[&object]).await.unwrap();
    }

    // applying.md 3.9
    #[rstest]
    #[case::not_converted("None", &["a", "b"], (false, None))]
    #[case::same_schemas("Webhook", &["a", "a"], (false, Some("None")))]
    #[case::other_schemas("Webhook", &["a", "b"], (true, None))]
    #[tokio::test]
    async fn a_crd_that_stays_is_converted_no_more_only_where_its_versions_are_the_same(
        #[case] strategy: &str,
        #[case] schemas: &[&str],
        #[case] (needs_conversion, want): (bool, Option<&str>),
    ) {
        let versions = schemas.iter().enumerate().map(|(index, schema)| {
            json!({"name": format!("v{index}"), "served": true, "schema": {"title": schema}})
        });
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": CRD,
            "metadata": {"name": "as.example.com"},
            "spec": {"versions": versions.collect::<Vec<_>>(), "conversion": {"strategy": strategy}}});
        let crd = Object::from_value(crd).unwrap();
        let name = "as.example.com".to_owned();
        assert_eq!(Kept::of(&crd), Kept { name, needs_conversion });
        let parts = remover(answering(|_| refusal(404))).let_stay(&crd);
        let conversion = parts.iter().find(|(path, _)| *path == "/spec/conversion");
        let strategy = conversion.map(|(_, value)| value["strategy"].as_str().unwrap());
        assert_eq!(strategy, want);
    }
}
