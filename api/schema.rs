//! Schemas that cannot be derived: embedded Kubernetes types and free-form objects.

use schemars::{Schema, SchemaGenerator, json_schema};

/// Schema of a list of `metav1.Condition`, a map keyed by `type`.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "Condition is one aspect of the current state of the object.",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When status last changed; reason and message do not count.",
                },
                "message": {
                    "type": "string",
                    "maxLength": 32768,
                    "description": "What happened, for people. May be empty.",
                },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                    "description": "The metadata.generation this condition was computed from. \
                        If it is lower than the current one, the condition is out of date.",
                },
                "reason": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                    "description": "Why the condition has this status, one CamelCase word for programs.",
                },
                "status": {
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                    "description": "True, False or Unknown.",
                },
                "type": {
                    "type": "string",
                    "maxLength": 316,
                    "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                    "description": "Which aspect this is, in CamelCase.",
                },
            },
        },
    })
}

/// Schema of a `metav1.LabelSelector`, replaced as a whole by server-side apply.
pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchExpressions": {
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "description": "Requirements on labels; all must hold.",
                "items": {
                    "type": "object",
                    "description": "A requirement on one label.",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {
                            "type": "string",
                            "description": "The label the requirement is about.",
                        },
                        "operator": {
                            "type": "string",
                            "description": "In, NotIn, Exists or DoesNotExist.",
                        },
                        "values": {
                            "type": "array",
                            "items": {"type": "string"},
                            "x-kubernetes-list-type": "atomic",
                            "description": "Values of the label. \
                                Needed by In and NotIn, forbidden for Exists and DoesNotExist.",
                        },
                    },
                },
            },
            "matchLabels": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Labels and the value each must have; all must hold.",
            },
        },
    })
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
