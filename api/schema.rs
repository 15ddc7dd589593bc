//! Schemas that cannot be derived: embedded Kubernetes types and free-form objects.

use schemars::{Schema, SchemaGenerator, json_schema};

/// Schema of a list of `metav1.Condition`, a map keyed by `type`.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    read(include_str!("schema/conditions.json"))
}

/// Schema of a `metav1.LabelSelector`, replaced as a whole by server-side apply.
pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    read(include_str!("schema/label_selector.json"))
}

/// Schema of a free-form object with at least one property.
pub(crate) fn inline_config(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "minProperties": 1,
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// Schema of an embedded Kubernetes object.
pub(crate) fn embedded_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// Schema of a whole number of minutes, at least one, without an upper bound.
pub(crate) fn minutes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 1})
}

#[expect(clippy::expect_used, reason = "every generated CRD reads these files")]
fn read(schema: &str) -> Schema {
    serde_json::from_str(schema).expect("the file is a schema")
}
