//! Managed objects: what is added to the content before it is applied, and removed again.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use olm_api::keys::{annotation, label, manager};
use olm_api::{API_VERSION, ClusterObjectSet};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::object::{Object, is_set, map_in};

use super::adopt::{RevisionOwner, controller, has_owner};
use super::hex;
use super::owner::owner_name;
use crate::go_json;

/// Metadata that the content of a revision must not have, because the API server or we own it.
const FORBIDDEN: [&str; 6] =
    ["uid", "generation", "generateName", "finalizers", "ownerReferences", "resourceVersion"];

/// The kind of revisions.
const REVISION: &str = "ClusterObjectSet";

impl RevisionOwner {
    /// Returns a revision as the owner of its objects, beside these archived ones of its extension.
    pub fn of(set: &ClusterObjectSet, archived: &[ClusterObjectSet]) -> Self {
        Self {
            name: set.metadata.name.clone().unwrap_or_default(),
            uid: set.metadata.uid.clone().unwrap_or_default(),
            revision: set.spec.revision,
            owner_name: owner_name(set).map(str::to_owned),
            archived: archived.iter().filter_map(|set| set.metadata.uid.clone()).collect(),
        }
    }
}

/// Returns the metadata fields of `object` that content must not have. Empty ones say nothing.
///
/// Source: applying.md 3.6, boxcutter `validation/metadata.go`.
pub fn forbidden_metadata(object: &Object) -> Vec<&'static str> {
    let metadata = object.0.get("metadata");
    let has = |key: &&str| metadata.is_some_and(|it| is_set(&it[*key]) && it[*key] != 0);
    FORBIDDEN.into_iter().filter(has).collect()
}

/// Returns what is applied for `content`: with our labels and annotation, owned by the revision,
/// and with the resource version of `live`, if there is one.
///
/// Other owner references of `live` stay, none of them as controller: all revisions of an
/// extension share one field manager, so a reference that is left out would be removed. Those of
/// archived revisions are left out: they may have come back with a write that was decided before
/// the revision released the object, and nobody else would remove them.
///
/// A `ClusterRole` that aggregates others is applied without `rules`, which belong to the
/// aggregation controller, and a CRD without a CA that is not a certificate. A Secret is applied with
/// `stringData` as `data`, which the API server makes of it: a key that a later version drops would stay
/// in `data` otherwise. A `ServiceAccount` keeps the pull secrets that others have added.
/// `blockOwnerDeletion` is false, so that the service account that applies it needs no right on our
/// finalizers.
///
/// Source: applying.md 3.6.
pub fn desired_object(content: &Object, owner: &RevisionOwner, live: Option<&Object>) -> Object {
    let mut object = content.clone();
    object.remove_fields_of_others();
    move_string_data(&mut object);
    if let Some(live) = live {
        keep_pull_secrets(&mut object, live);
    }
    let metadata = object.metadata_mut();
    metadata.retain(|key, _| !FORBIDDEN.contains(&key.as_str()));
    let labels = map_in(metadata, "labels");
    labels.insert(label::MANAGED_BY.to_owned(), label::MANAGED_BY_OLM.into());
    if let Some(name) = &owner.owner_name {
        labels.insert(label::OWNER_NAME.to_owned(), name.as_str().into());
    }
    let annotations = map_in(metadata, "annotations");
    annotations.insert(annotation::REVISION.to_owned(), owner.revision.to_string().into());
    let mut references = other_references(live, owner);
    references.push(reference(owner, true));
    metadata.insert("ownerReferences".to_owned(), references.into());
    if let Some(version) = live.and_then(|live| live.pointer("/metadata/resourceVersion")) {
        // With it, this write fails instead of overwriting one that came between our read and now.
        metadata.insert("resourceVersion".to_owned(), version.clone());
    }
    object
}

/// Moves `stringData` of a Secret into `data`, over what that has; what the API server refuses stays.
fn move_string_data(object: &mut Object) {
    if (object.api_version(), object.kind()) != ("v1", "Secret") {
        return;
    }
    let texts = object.0.get("stringData").and_then(Value::as_object);
    let encoded = texts.and_then(|texts| {
        let encode = |(key, text): (&String, &Value)| {
            Some((key.clone(), Value::from(STANDARD.encode(text.as_str()?))))
        };
        texts.iter().map(encode).collect::<Option<Vec<_>>>()
    });
    let Some(encoded) = encoded else { return };
    let data = match object.0.get("data") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(data)) => data.clone(),
        Some(_) => return,
    };
    object.0.remove("stringData");
    let data = data.into_iter().chain(encoded).collect();
    object.0.insert("data".to_owned(), Value::Object(data));
}

/// Adds to the pull secrets of a `ServiceAccount` those that others have written: only one manager has the
/// list, and OpenShift writes it again, with a new Secret, for as long as its own is missing.
fn keep_pull_secrets(object: &mut Object, live: &Object) {
    let is_account = (object.api_version(), object.kind()) == ("v1", "ServiceAccount");
    let wanted = object.0.get_mut("imagePullSecrets").and_then(Value::as_array_mut);
    let Some(wanted) = wanted.filter(|_| is_account) else { return };
    let is_of_others = |entry: &Value| {
        entry["manager"] != manager::OBJECTS
            && entry.pointer("/fieldsV1/f:imagePullSecrets").is_some()
    };
    if live.list_at("/metadata/managedFields").any(is_of_others) {
        let mut kept: Vec<Value> = live.list_at("/imagePullSecrets").cloned().collect();
        wanted.retain(|secret| !kept.contains(secret));
        kept.append(wanted);
        *wanted = kept;
    }
}

/// Returns the owner references of `live`, which another revision controls, and one of `owner`, which
/// is not among them.
pub fn with_owner(live: &Object, owner: &RevisionOwner) -> Value {
    let mut references = references(live);
    references.push(reference(owner, false));
    references.into()
}

fn reference(owner: &RevisionOwner, controller: bool) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": REVISION,
        "name": owner.name,
        "uid": owner.uid,
        "controller": controller,
        "blockOwnerDeletion": false,
    })
}

/// Returns a hash of everything in a live object that we might have to correct.
///
/// For kinds that have generations, these change with the spec, so the generation, labels,
/// annotations and the controller are enough and a change of the status does not count. For other
/// kinds the resource version is used.
///
/// Source: applying.md 3.6.
pub fn fingerprint(content: &Object, live: &Object) -> String {
    let metadata = |key: &str| {
        live.0.get("metadata").and_then(|metadata| metadata.get(key)).cloned().unwrap_or_default()
    };
    let generation = metadata("generation").as_i64().unwrap_or(0);
    // The API server gives one a generation and never another.
    let is_constant = live.group() == "scheduling.k8s.io" && live.kind() == "PriorityClass";
    let generation = if is_constant { 0 } else { generation };
    // What others add, as the Deployment controller does, is theirs.
    let ours = |member: &str, added: &[&str]| {
        let wanted = content.0.get("metadata").and_then(|metadata| metadata.get(member));
        let wanted = wanted.and_then(Value::as_object);
        let is_ours =
            |key: &str| added.contains(&key) || wanted.is_some_and(|it| it.contains_key(key));
        let mut found = metadata(member);
        if let Value::Object(found) = &mut found {
            found.retain(|key, _| is_ours(key));
        }
        found
    };
    let state = if generation == 0 {
        json!([metadata("uid"), metadata("resourceVersion")])
    } else {
        json!([
            metadata("uid"),
            generation,
            ours("labels", &[label::MANAGED_BY, label::OWNER_NAME]),
            ours("annotations", &[annotation::REVISION]),
            // The references of superseded revisions may come and go.
            controller(live).map(|owner| owner.uid),
        ])
    };
    hex(&Sha256::digest(go_json::to_string(&state)))
}

/// Says whether `tried`, the result of a dry run, equals `live`, ignoring managed fields and the
/// resource version.
///
/// Source: applying.md 3.6, "nothing to change".
pub fn is_unchanged(live: &Object, tried: &Object) -> bool {
    let content = |object: &Object| {
        let mut object = object.clone();
        let metadata = object.metadata_mut();
        metadata.remove("managedFields");
        metadata.remove("resourceVersion");
        object
    };
    content(live) == content(tried)
}

/// Says whether `live`, whose controller is the revision `owner`, is as that revision applied it: with
/// everything that is wanted, value by value. What it wants never changes, so there is nothing else
/// of it to take away. What the API server writes in another form counts as different.
pub fn is_applied(content: &Object, owner: &RevisionOwner, live: &Object) -> bool {
    let stale = owner.archived.iter().any(|uid| has_owner(live, uid));
    let wanted = desired_object(content, owner, Some(live));
    !stale && holds_all(&live.0, &wanted.0)
}

fn holds_all(live: &Map<String, Value>, wanted: &Map<String, Value>) -> bool {
    let mut wanted = wanted.iter();
    wanted.all(|(key, wanted)| live.get(key).is_some_and(|live| holds(live, wanted)))
}

/// Says whether everything that is wanted stands in a live value.
pub(super) fn holds(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => holds_all(live, wanted),
        (Value::Array(live), Value::Array(wanted)) => {
            let mut both = live.iter().zip(wanted);
            live.len() == wanted.len() && both.all(|(live, wanted)| holds(live, wanted))
        }
        _ => live == wanted,
    }
}

/// Returns the owner references of `live` without those of `uid`, for a patch that only
/// releases it.
pub fn released(live: &Object, uid: &str) -> Vec<Value> {
    references(live).into_iter().filter(|reference| reference["uid"] != uid).collect()
}

/// Returns the metadata of `live` for when its revision is removed but the object stays: without
/// our owner reference, revision annotation and labels, and without the reference to its extension
/// that Helm left on it, with which it would go when the extension goes.
///
/// Source: applying.md 3.9 and 7.3.
pub fn orphaned(live: &Object, uid: &str) -> Map<String, Value> {
    unmarked(live, |owner| owner["uid"] != uid)
}

/// Returns the metadata of `live` for when its revision is removed but the object stays for the
/// data it holds: as [`orphaned`], but without any revision, because one that is gone already would let
/// the garbage collector delete it, and marked so that a later revision of the extension `owner` may take
/// it over again.
///
/// Source: applying.md 7.3.
pub fn retained(live: &Object, owner: Option<&str>) -> Map<String, Value> {
    let mut metadata = unmarked(live, |owner| owner["kind"] != REVISION);
    if let Some(owner) = owner {
        map_in(&mut metadata, "labels").insert(label::RETAINED_BY.to_owned(), owner.into());
    }
    metadata
}

fn unmarked(live: &Object, stays: impl Fn(&Value) -> bool) -> Map<String, Value> {
    let mut object = live.clone();
    let mut references = references(live);
    references.retain(|owner| stays(owner) && owner["kind"] != label::OWNER_KIND_EXTENSION);
    let metadata = object.metadata_mut();
    metadata.insert("ownerReferences".to_owned(), references.into());
    let labels = map_in(metadata, "labels");
    for key in [label::OWNER_KIND, label::OWNER_NAME, label::MANAGED_BY, label::BOXCUTTER_MANAGED] {
        labels.remove(key);
    }
    let annotations = map_in(metadata, "annotations");
    for key in [annotation::REVISION, annotation::PACKAGE_NAME, annotation::BUNDLE_VERSION] {
        annotations.remove(key);
    }
    metadata.clone()
}

fn other_references(live: Option<&Object>, owner: &RevisionOwner) -> Vec<Value> {
    let mut others = live.map(|live| released(live, &owner.uid)).unwrap_or_default();
    others.retain(|reference| !owner.archived.iter().any(|archived| reference["uid"] == *archived));
    for other in &mut others {
        if let Value::Object(other) = other
            && other.contains_key("controller")
        {
            other.insert("controller".to_owned(), Value::Bool(false));
        }
    }
    others
}

fn references(live: &Object) -> Vec<Value> {
    live.list_at("/metadata/ownerReferences").cloned().collect()
}
