//! Removing objects of a revision that goes away.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use olm_api::keys::annotation;
use olm_core::object::Object;
use olm_core::revision::{Removal, orphaned, released, removal};
use serde_json::{Value, json};

use super::at_once;
use super::endpoint::Endpoint;
use super::error::{ApplyError, code};
use super::kinds::Kinds;

/// How often a removal that met a concurrent write is decided anew within one pass.
const MAX_ATTEMPTS: usize = 3;
/// How long a CRD is left alone after its clean-up failed before it is touched.
const STUCK_AFTER: SignedDuration = SignedDuration::from_secs(3);
/// Shortest time between two touches.
const TOUCH_EVERY: SignedDuration = SignedDuration::from_secs(5);
/// Instances of a CRD that a message names.
const MAX_NAMED: u32 = 10;

/// Removes objects as one account.
pub struct Remover {
    /// Client of the account.
    pub client: Client,
    /// Kinds the cluster serves.
    pub kinds: Arc<Kinds>,
}

/// What is left of a group of objects.
#[derive(Debug, Default)]
pub struct Removed {
    /// Objects that are on their way out, as they are now.
    pub remaining: Vec<Object>,
}

impl Removed {
    /// Says whether nothing is left.
    pub fn is_done(&self) -> bool {
        self.remaining.is_empty()
    }
}

impl Remover {
    /// Deletes those objects of `group` that the revision with this UID controls, and lets go of
    /// the others.
    pub async fn remove(&self, uid: &str, group: &[&Object]) -> Result<Removed, ApplyError> {
        let removals = group.iter().map(|content| self.remove_one(uid, content));
        let answers = at_once(removals.collect()).await;
        let mut removed = Removed::default();
        let mut errors = Vec::new();
        for answer in answers {
            match answer {
                Ok(remaining) => removed.remaining.extend(remaining),
                Err(err) => errors.push(err),
            }
        }
        if errors.is_empty() {
            return Ok(removed);
        }
        Err(ApplyError::from_answers(&errors))
    }

    /// Takes our marks and owner reference off the objects and leaves them.
    pub async fn orphan(&self, uid: &str, group: &[&Object]) -> Result<(), ApplyError> {
        for content in group {
            self.orphan_one(uid, content).await?;
        }
        Ok(())
    }

    async fn endpoint(&self, content: &Object) -> Result<Option<Endpoint>, kube::Error> {
        let kind = self.kinds.find(content).await?;
        Ok(kind.map(|kind| Endpoint::new(self.client.clone(), &kind, content.namespace())))
    }

    /// Returns the object if it is still there and ours.
    async fn remove_one(&self, uid: &str, content: &Object) -> Result<Option<Object>, kube::Error> {
        // A kind that is not served has no objects.
        let Some(endpoint) = self.endpoint(content).await? else {
            return Ok(None);
        };
        let mut live = endpoint.get(content.name()).await?;
        for _ in 0..MAX_ATTEMPTS {
            let answer = match (removal(live.as_ref(), uid), &live) {
                (Removal::Gone, _) | (_, None) => return Ok(None),
                (Removal::Wait, Some(_)) => return Ok(live),
                (Removal::Delete, Some(found)) => endpoint.delete(found).await,
                (Removal::Release, Some(found)) => {
                    let parts = [("ownerReferences", released(found, uid).into())];
                    endpoint.replace_metadata(found, &parts).await.map(|_| ())
                }
            };
            match answer {
                Ok(()) => {}
                Err(err) if matches!(code(&err), 404 | 409) => {}
                Err(err) => return Err(err),
            }
            live = endpoint.get(content.name()).await?;
        }
        Ok(live)
    }

    async fn orphan_one(&self, uid: &str, content: &Object) -> Result<(), kube::Error> {
        let Some(endpoint) = self.endpoint(content).await? else {
            return Ok(());
        };
        let mut attempt = 1;
        loop {
            let Some(live) = endpoint.get(content.name()).await? else {
                return Ok(());
            };
            if matches!(removal(Some(&live), uid), Removal::Gone) && !is_marked(&live) {
                return Ok(());
            }
            let metadata = orphaned(&live, uid);
            let parts: Vec<(&str, Value)> = ["ownerReferences", "labels", "annotations"]
                .into_iter()
                .map(|key| (key, metadata.get(key).cloned().unwrap_or_default()))
                .collect();
            match endpoint.replace_metadata(&live, &parts).await {
                Ok(_) => return Ok(()),
                Err(err) if code(&err) == 409 && attempt < MAX_ATTEMPTS => attempt += 1,
                Err(err) if code(&err) == 404 => return Ok(()),
                Err(err) => return Err(err),
            }
        }
    }

    /// Touches a CRD whose clean-up has failed for a while. The API server's finalizer controller
    /// can lose a conflict and sleep for minutes with nothing left to do; a write wakes it.
    ///
    /// Source: applying.md 7.2, step 4.
    pub async fn wake_stuck_crd(&self, crd: &Object, now: Timestamp) -> Result<(), kube::Error> {
        let touched = crd
            .annotation(annotation::WOKEN_AT)
            .and_then(|text| text.parse().ok());
        let recently = touched.is_some_and(|at: Timestamp| now.duration_since(at) < TOUCH_EVERY);
        if recently || !is_stuck(crd, now) {
            return Ok(());
        }
        let Some(endpoint) = self.endpoint(crd).await? else {
            return Ok(());
        };
        let mut annotations = match crd.pointer("/metadata/annotations") {
            Some(Value::Object(annotations)) => annotations.clone(),
            _ => serde_json::Map::new(),
        };
        annotations.insert(annotation::WOKEN_AT.to_owned(), json!(now.to_string()));
        let parts = [("annotations", Value::Object(annotations))];
        match endpoint.replace_metadata(crd, &parts).await {
            Err(err) if !matches!(code(&err), 404 | 409) => Err(err),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Describes what a CRD that is being deleted waits for: up to ten instances and their
    /// finalizers, as far as the account may list them.
    pub async fn instances(&self, crd: &Object) -> String {
        let name = crd.name();
        let unknown = match terminating(crd) {
            Some(text) => format!("waiting for {name}: {text}"),
            None => format!("waiting for {name}"),
        };
        let Some(instance) = instance_of(crd) else {
            return unknown;
        };
        let Ok(Some(endpoint)) = self.endpoint(&instance).await else {
            return unknown;
        };
        match endpoint.list(MAX_NAMED).await {
            Ok(found) if !found.is_empty() => {
                let named: Vec<String> = found.iter().map(with_finalizers).collect();
                format!("waiting for {} {name}: {}", found.len(), named.join(", "))
            }
            Ok(_) | Err(_) => unknown,
        }
    }
}

fn is_marked(live: &Object) -> bool {
    live.annotation(annotation::REVISION).is_some()
}

fn is_stuck(crd: &Object, now: Timestamp) -> bool {
    let Some(condition) = terminating_condition(crd) else {
        return false;
    };
    let text = |key: &str| condition.get(key).and_then(Value::as_str);
    let since = text("lastTransitionTime").and_then(|since| since.parse::<Timestamp>().ok());
    text("reason") == Some("InstanceDeletionFailed")
        && since.is_some_and(|since| now.duration_since(since) >= STUCK_AFTER)
}

/// What the API server says about the clean-up of a CRD's instances.
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

/// An empty instance of the first served version of a CRD, to look its kind up with.
fn instance_of(crd: &Object) -> Option<Object> {
    let group = crd.pointer("/spec/group")?.as_str()?;
    let kind = crd.pointer("/spec/names/kind")?.as_str()?;
    let versions = crd.pointer("/spec/versions")?.as_array()?;
    let served = versions
        .iter()
        .find(|version| version.get("served") == Some(&Value::Bool(true)))?;
    let version = served.get("name")?.as_str()?;
    Object::from_value(json!({"apiVersion": format!("{group}/{version}"), "kind": kind}))
}

fn with_finalizers(object: &Object) -> String {
    let finalizers: Vec<&str> = object
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let place = match object.namespace() {
        "" => object.name().to_owned(),
        namespace => format!("{namespace}/{}", object.name()),
    };
    if finalizers.is_empty() {
        return place;
    }
    format!("{place} [{}]", finalizers.join(", "))
}
