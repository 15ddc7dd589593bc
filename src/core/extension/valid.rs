//! A spec that was read once, and need not be asked again whether its parts are there.

use std::collections::BTreeSet;

use olm_api::{CatalogFilter, ClusterExtension, ClusterExtensionSpec};
use serde_json::Value;

use crate::config;

/// A ClusterExtension whose spec says what to install.
///
/// The schema makes both parts required; an object that was stored before it did may lack them.
#[derive(Debug, Clone, Copy)]
pub struct ValidExtension<'a> {
    /// The object as it was read.
    pub object: &'a ClusterExtension,
    pub spec: &'a ClusterExtensionSpec,
    /// Which package, and which of its versions.
    pub filter: &'a CatalogFilter,
}

impl<'a> ValidExtension<'a> {
    /// Returns `None` where the spec is missing, or names no package.
    pub fn of(object: &'a ClusterExtension) -> Option<Self> {
        let spec = object.spec.as_ref()?;
        let filter = spec.source.catalog.as_ref()?;
        Some(Self { object, spec, filter })
    }

    /// Returns the configuration of the bundle, where there is one.
    pub fn inline_config(&self) -> Option<Value> {
        let inline = self.spec.config.as_ref()?.inline.clone()?;
        Some(Value::Object(inline))
    }

    /// Returns the names of the Secrets that its configuration has the operator's pods pull with.
    pub fn pull_secrets(&self) -> BTreeSet<String> {
        config::pull_secrets(self.inline_config().as_ref())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_spec_is_whole_or_refused() {
        let of = |source: Value| json!({"namespace": "ns", "source": source});
        let none = json!({"sourceType": "Catalog"});
        let whole = json!({"sourceType": "Catalog", "catalog": {"packageName": "p"}});
        for (spec, valid) in [(Value::Null, false), (of(none), false), (of(whole), true)] {
            let object = json!({"metadata": {"name": "e"}, "spec": spec});
            let object: ClusterExtension = serde_json::from_value(object).unwrap();
            assert_eq!(ValidExtension::of(&object).is_some(), valid);
        }
    }
}
