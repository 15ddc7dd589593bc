//! The content of a revision: inline objects and those in Secrets.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use olm_api::{ClusterObjectSet, CollisionProtection, ObjectSourceRef, ObservedPhase};
use olm_core::object::Object;
use olm_core::revision::{Phase, digest, namespace_of, number, referenced_secrets, unpack};
use serde_json::Value;

use super::error::{code, message};
use super::request::join_bounded;

pub struct Content {
    pub phases: Vec<ResolvedPhase>,
    /// Digest of each phase as upstream computes it.
    pub observed: Vec<ObservedPhase>,
}

#[derive(Debug, Clone)]
pub struct ResolvedPhase {
    pub name: String,
    pub objects: Vec<ResolvedObject>,
}

#[derive(Debug, Clone)]
pub struct ResolvedObject {
    /// The content, without what is added when it is applied.
    pub object: Object,
    /// The protection in force for it.
    pub protection: CollisionProtection,
}

/// Secrets by namespace and name; `Err` holds why one could not be read.
pub type Secrets = BTreeMap<(String, String), Result<Secret, kube::Error>>;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("resolving ref in phase {phase:?}: {cause}")]
pub struct RefError {
    pub phase: String,
    pub cause: RefCause,
}

/// Why content in a Secret cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefCause {
    /// It does not exist, or is not the content of a revision: a retry does not help.
    #[error("{0}")]
    Lost(String),
    /// The Secret could not be read, but may exist.
    #[error("{0}")]
    Unread(String),
}

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
}

/// Reads what a revision holds, in its phases, with the rights of one client.
pub async fn content(
    client: &Client,
    set: &ClusterObjectSet,
    system_namespace: &str,
) -> Result<Vec<Phase>, RefError> {
    let secrets = read_secrets(client, client, set, system_namespace).await;
    Ok(resolve(set, &secrets, system_namespace)?.plain())
}

/// Reads every Secret a revision refers to.
///
/// Secrets of the controller's namespace are read with `own`; those of others with `account`, the
/// client of the revision's identity, so that nobody can use the controller to read what they may
/// not read.
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

pub fn stored_object(
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
