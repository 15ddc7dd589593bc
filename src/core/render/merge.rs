//! One object per identity.
//!
//! Upstream may emit an identity twice and then refuses its revision; bundles that ship an object
//! that is also generated are common. Source: rendering.md 4.12 (R2).

use std::collections::BTreeMap;

use serde_json::Value;

use super::RenderError;
use crate::object::Object;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Generated,
    Manifest,
}

/// Objects in the order they were first seen.
#[derive(Debug, Default)]
pub(super) struct Merged {
    objects: Vec<(Origin, Object)>,
    /// Where each is, by its key.
    positions: BTreeMap<[String; 4], usize>,
}

impl Merged {
    pub(super) fn add_all_generated(&mut self, objects: Vec<Object>) -> Result<(), RenderError> {
        let mut objects = objects.into_iter();
        objects.try_for_each(|object| self.add(Origin::Generated, object))
    }

    pub(super) fn add_manifest(&mut self, object: Object) -> Result<(), RenderError> {
        self.add(Origin::Manifest, object)
    }

    pub(super) fn into_objects(self) -> Vec<Object> {
        self.objects.into_iter().map(|(_, object)| object).collect()
    }

    fn add(&mut self, origin: Origin, object: Object) -> Result<(), RenderError> {
        let is_core = |kind| object.group().is_empty() && object.kind() == kind;
        let (is_account, is_service) = (is_core("ServiceAccount"), is_core("Service"));
        let key = object.key().map(str::to_owned);
        let Some(&position) = self.positions.get(&key) else {
            self.positions.insert(key, self.objects.len());
            self.objects.push((origin, object));
            return Ok(());
        };
        let known = &mut self.objects[position];
        if is_account && known.0 != origin {
            // The author's service account may hold pull secrets; the generated one holds nothing.
            if origin == Origin::Manifest {
                *known = (origin, object);
            }
            return Ok(());
        }
        if is_service && known.0 == Origin::Manifest && origin == Origin::Generated {
            // The generated one points to the webhook server, whatever the author's did.
            *known = (origin, annotated_as(object, &known.1));
            return Ok(());
        }
        if stripped(&known.1) == stripped(&object) {
            return Ok(());
        }
        let (kind, name) = (object.kind(), object.place());
        let text = "bundle contains two different objects of kind";
        Err(RenderError::Refused(format!("{text} {kind} named {name:?}")))
    }
}

/// Adds labels and annotations of `other` where the object has none of the same key.
fn annotated_as(mut object: Object, other: &Object) -> Object {
    for key in ["labels", "annotations"] {
        let Some(Value::Object(theirs)) = other.0.get("metadata").and_then(|meta| meta.get(key))
        else {
            continue;
        };
        let mut merged = theirs.clone();
        if let Some(Value::Object(own)) = object.metadata_mut().remove(key) {
            merged.extend(own);
        }
        if !merged.is_empty() {
            object.metadata_mut().insert(key.to_owned(), Value::Object(merged));
        }
    }
    object
}

/// Returns the object without fields that a cluster would have added.
fn stripped(object: &Object) -> Object {
    let mut object = object.clone();
    object.0.remove("status");
    object.metadata_mut().remove("creationTimestamp");
    object
}
