//! Reading the content of a revision: inline objects and those in Secrets.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use olm_api::{ClusterObjectSet, ObjectSourceRef, ObservedPhase};
use olm_core::object::Object;
use olm_core::resolve::GroupVersionKind;
use olm_core::revision::{
    Phase, digest, namespace_of, number, referenced_secrets, reject_duplicates, served_kinds,
    unpack,
};
use serde_json::Value;

use super::error::{RefCause, RefError};
use crate::apply::{ApplyError, ResolvedObject, ResolvedPhase, check_content};
use crate::cluster::{code, join_bounded, message};

/// The content of a revision.
pub struct Content {
    pub phases: Vec<ResolvedPhase>,
    /// Digest of each phase as upstream computes it.
    pub observed: Vec<ObservedPhase>,
}

/// Secrets by namespace and name; `Err` holds why one could not be read.
pub(crate) type Secrets = BTreeMap<(String, String), Result<Secret, kube::Error>>;

impl Content {
    /// Returns the objects in their phases, without protection.
    pub fn plain(&self) -> Vec<Phase> {
        let phases = self.phases.iter();
        phases
            .map(|phase| Phase {
                name: phase.name.clone(),
                objects: phase.objects.iter().map(|one| one.object.clone()).collect(),
            })
            .collect()
    }

    /// Fails on content that no revision may have.
    pub fn check(&self) -> Result<(), ApplyError> {
        reject_duplicates(&self.plain())
            .map_err(|err| ApplyError::InvalidRevision(err.to_string()))?;
        check_content(&self.phases)?;
        Ok(())
    }
}

/// Reads every Secret a revision refers to.
///
/// Secrets of the controller's namespace are read with `own`; those of others with `account`, the
/// client of the revision's identity, so that nobody learns through us what they may not read.
pub async fn read_secrets(
    own: &Client,
    account: &Client,
    set: &ClusterObjectSet,
    system_namespace: &str,
) -> Secrets {
    let wanted = referenced_secrets(&set.spec, system_namespace);
    let reads = wanted.into_iter().map(|(namespace, name)| async move {
        let client = if namespace == system_namespace { own } else { account };
        let api = Api::<Secret>::namespaced(client.clone(), &namespace);
        let secret = api.get(&name).await;
        ((namespace, name), secret)
    });
    join_bounded(reads.collect()).await.into_iter().collect()
}

/// Returns the Secrets that could be changed, as `namespace/name`. What cannot be read is not among
/// them.
pub fn mutable(secrets: &Secrets) -> Vec<String> {
    secrets
        .iter()
        .filter(|(_, secret)| {
            let secret = secret.as_ref();
            secret.is_ok_and(|secret| secret.immutable != Some(true))
        })
        .map(|((namespace, name), _)| format!("{namespace}/{name}"))
        .collect()
}

/// Puts the content of a revision together.
pub fn resolve(
    set: &ClusterObjectSet,
    secrets: &Secrets,
    system_namespace: &str,
) -> Result<Content, RefError> {
    let mut phases = Vec::new();
    let mut observed = Vec::new();
    for phase in &set.spec.phases {
        let mut objects = Vec::new();
        let mut hashed = Vec::new();
        for entry in &phase.objects {
            let object = match (&entry.object, &entry.ref_) {
                (Some(inline), _) => {
                    hashed.push(inline.clone());
                    Object::from_value(inline.clone())
                }
                (None, Some(stored)) => {
                    let object = stored_object(secrets, stored, system_namespace);
                    let object =
                        object.map_err(|cause| RefError { phase: phase.name.clone(), cause })?;
                    let value = Value::Object(object.0);
                    hashed.push(number::through_float(&value));
                    Object::from_value(number::whole_floats_as_integers(&value))
                }
                (None, None) => None,
            };
            let protection = entry
                .collision_protection
                .or(phase.collision_protection)
                .unwrap_or(set.spec.collision_protection);
            objects.extend(object.map(|object| ResolvedObject { object, protection }));
        }
        observed
            .push(ObservedPhase { name: phase.name.clone(), digest: digest(&phase.name, hashed) });
        phases.push(ResolvedPhase { name: phase.name.clone(), objects });
    }
    Ok(Content { phases, observed })
}

/// Puts together what is left of the content of a revision, without protection, and says whether
/// that is all of it. Fails while it is not known what is left.
pub fn salvage(
    set: &ClusterObjectSet,
    secrets: &Secrets,
    system_namespace: &str,
) -> Result<(Vec<Phase>, bool), RefError> {
    let mut left = set.clone();
    let mut whole = true;
    for phase in &mut left.spec.phases {
        let name = phase.name.clone();
        let mut kept = Vec::with_capacity(phase.objects.len());
        for entry in std::mem::take(&mut phase.objects) {
            let stored = entry.ref_.as_ref().filter(|_| entry.object.is_none());
            match stored.map(|stored| stored_object(secrets, stored, system_namespace)) {
                None | Some(Ok(_)) => kept.push(entry),
                Some(Err(RefCause::Lost(cause))) => {
                    tracing::warn!(phase = name, cause, "content is gone");
                    whole = false;
                }
                Some(Err(cause @ RefCause::Unread(_))) => {
                    return Err(RefError { phase: name, cause });
                }
            }
        }
        phase.objects = kept;
    }
    Ok((resolve(&left, secrets, system_namespace)?.plain(), whole))
}

/// Returns the kinds that the CRDs of a revision define, in the versions they serve.
pub async fn defined_kinds(
    client: &Client,
    set: &ClusterObjectSet,
    system_namespace: &str,
) -> Result<BTreeSet<GroupVersionKind>, RefError> {
    let secrets = read_secrets(client, client, set, system_namespace).await;
    let content = resolve(set, &secrets, system_namespace)?;
    Ok(served_kinds(&content.plain()))
}

fn stored_object(
    secrets: &Secrets,
    stored: &ObjectSourceRef,
    system_namespace: &str,
) -> Result<Object, RefCause> {
    let namespace = namespace_of(stored, system_namespace);
    let place = format!("{namespace}/{}", stored.name);
    let secret = match secrets.get(&(namespace, stored.name.clone())) {
        Some(Ok(secret)) => secret,
        Some(Err(err)) => {
            let text = format!("getting Secret {place}: {}", message(err));
            return Err(match code(err) {
                404 => RefCause::Lost(text),
                _ => RefCause::Unread(text),
            });
        }
        None => {
            return Err(RefCause::Unread(format!("getting Secret {place}: not read")));
        }
    };
    let data = secret.data.as_ref().and_then(|data| data.get(&stored.key));
    let bytes = data.ok_or_else(|| {
        RefCause::Lost(format!("key {:?} not found in Secret {place}", stored.key))
    })?;
    unpack(&place, &stored.key, &bytes.0).map_err(|err| RefCause::Lost(err.to_string()))
}
