//! One object per identity.
//!
//! Upstream may emit an identity twice and its revision is then refused; bundles that ship what is
//! also generated are common. Source: rendering.md 4.12 (R2).

use std::collections::BTreeMap;

use super::RenderError;
use crate::object::Object;

/// Group, kind, namespace and name.
type Key = (String, String, String, String);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Generated,
    Manifest,
}

/// Objects in the order they were first seen.
#[derive(Debug, Default)]
pub(super) struct Merged {
    objects: Vec<(Origin, Object)>,
    positions: BTreeMap<Key, usize>,
}

impl Merged {
    pub(super) fn add_generated(&mut self, object: Object) -> Result<(), RenderError> {
        self.add(Origin::Generated, object)
    }

    pub(super) fn add_manifest(&mut self, object: Object) -> Result<(), RenderError> {
        self.add(Origin::Manifest, object)
    }

    pub(super) fn into_objects(self) -> Vec<Object> {
        let objects = self.objects.into_iter();
        objects.map(|(_, object)| object).collect()
    }

    fn add(&mut self, origin: Origin, object: Object) -> Result<(), RenderError> {
        let identity = object.identity();
        let (group, kind, namespace, name) = identity.key();
        let is_account = group.is_empty() && kind == "ServiceAccount";
        let key = (
            group.to_owned(),
            kind.to_owned(),
            namespace.to_owned(),
            name.to_owned(),
        );
        let Some(&position) = self.positions.get(&key) else {
            self.positions.insert(key, self.objects.len());
            self.objects.push((origin, object));
            return Ok(());
        };
        let known = &mut self.objects[position];
        if is_account && known.0 != origin {
            // The author's account may hold pull secrets; the generated one holds nothing.
            if origin == Origin::Manifest {
                *known = (origin, object);
            }
            return Ok(());
        }
        if stripped(&known.1) == stripped(&object) {
            return Ok(());
        }
        let (_, kind, namespace, name) = key;
        let name = if namespace.is_empty() {
            name
        } else {
            format!("{namespace}/{name}")
        };
        Err(RenderError::Different { kind, name })
    }
}

/// Returns the object without what a cluster would have added.
fn stripped(object: &Object) -> Object {
    let mut object = object.clone();
    object.0.remove("status");
    object.metadata_mut().remove("creationTimestamp");
    object
}
