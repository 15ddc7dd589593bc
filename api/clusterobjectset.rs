//! `ClusterObjectSet`: one revision of the objects of an extension.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

/// The largest number of a revision, that of 32 bits. Ten digits leave room for the next number in
/// every integer type, and no extension has that many revisions.
pub const MAX_REVISION: i64 = 2_147_483_647;

impl ClusterObjectSet {
    /// Returns an annotation, if the revision has it.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Returns the condition of this type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == type_)
    }
}

/// The objects of one revision and how they are rolled out.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "olm.operatorframework.io",
    version = "v1",
    kind = "ClusterObjectSet",
    plural = "clusterobjectsets",
    singular = "clusterobjectset",
    status = "ClusterObjectSetStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "ClusterObjectSet is one revision of the objects of an extension. Its phases are applied one after the other; when a later revision has been rolled out, earlier ones are archived, and objects that only they contain are removed.",
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Available')].status"
    ),
    printcolumn(
        name = "Progressing",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Progressing')].status"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type=='Ready')].message"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterObjectSetSpec {
    /// Active: the objects are applied and kept. Archived: objects that no later revision took over
    /// are removed; this cannot be undone.
    #[x_kube(validation = Rule::new("oldSelf == 'Active' || oldSelf == 'Archived' && oldSelf == self")
        .message("cannot un-archive"))]
    pub lifecycle_state: LifecycleState,

    /// Number of the revision, counted from 1 for each extension. Cannot be changed.
    #[schemars(range(min = 1, max = MAX_REVISION))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("revision is immutable"))]
    pub revision: i64,

    /// The objects, in groups that are applied one after the other: a phase begins when all objects
    /// of the previous one pass their probes. At most 20; cannot be changed once set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    #[x_kube(validation = Rule::new("self == oldSelf || oldSelf.size() == 0")
        .message("phases is immutable"))]
    pub phases: Vec<Phase>,

    /// Minutes after which a rollout that has not finished is reported as failed, 10 to 720.
    /// Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 720))]
    pub progress_deadline_minutes: Option<i32>,

    /// Checks that decide whether objects are ready. Each applies to every phase and to the
    /// objects it selects; objects selected by none are ready once applied. At most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 20))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub progression_probes: Vec<ProgressionProbe>,

    /// Whether existing objects are taken over, unless a phase or an object sets its own value.
    /// Cannot be changed.
    #[x_kube(validation = Rule::new("self == oldSelf").message("collisionProtection is immutable"))]
    pub collision_protection: CollisionProtection,
}

/// Whether a revision is kept or retired.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LifecycleState {
    /// Objects are applied and kept.
    #[default]
    Active,
    /// Objects that no later revision took over are removed.
    Archived,
}

/// Whether existing objects are taken over.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CollisionProtection {
    /// Never taken over.
    #[default]
    Prevent,
    /// Taken over if they have no controller.
    IfNoController,
    /// Always taken over.
    None,
}

/// Objects that are applied together.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Phase {
    /// Name of the phase, unique in the revision. Must be a DNS label (RFC 1123).
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new("!format.dns1123Label().validate(self).hasValue()")
        .message("the value must consist of only lowercase alphanumeric characters and hyphens, and must start and end with an alphanumeric character."))]
    pub name: String,

    /// The objects, in no particular order. At most 50.
    #[schemars(length(max = 50))]
    pub objects: Vec<PhaseObject>,

    /// Whether existing objects are taken over, unless an object sets its own value. Absent: the
    /// value of the revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_protection: Option<CollisionProtection>,
}

/// One object: inline, or in a Secret.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.object),has(self.ref)].filter(x,x==true).size() == 1")
    .message("exactly one of the fields in [object ref] must be set"))]
pub struct PhaseObject {
    /// The object itself, with apiVersion, kind and metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::embedded_object")]
    pub object: Option<Value>,

    /// The reference to the stored object.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub ref_: Option<ObjectSourceRef>,

    /// Prevent: only objects that this revision, or an earlier one of the same extension, created
    /// are managed. IfNoController: objects without a controller are taken over as well. None:
    /// every object is taken over, even from another controller, which may then revert changes.
    /// Absent: the value of the phase, otherwise of the revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_protection: Option<CollisionProtection>,
}

/// Reference to a stored object: one key of a Secret, as JSON, possibly gzip-compressed.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSourceRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// Namespace of the Secret. Absent or empty: the namespace of the controller.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub namespace: String,

    /// Key in the Secret's data.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// Checks for the objects of one selector.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgressionProbe {
    /// Selects the objects to check.
    pub selector: ObjectSelector,

    /// The assertions, all of which must hold for each object. At most 20.
    #[schemars(length(min = 1, max = 20))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub assertions: Vec<Assertion>,
}

/// Selects the objects to check: a union with discriminator `type`.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.type == 'GroupKind' ?has(self.groupKind) : !has(self.groupKind)")
    .message("groupKind is required when type is GroupKind, and forbidden otherwise"))]
#[x_kube(validation = Rule::new("self.type == 'Label' ?has(self.label) : !has(self.label)")
    .message("label is required when type is Label, and forbidden otherwise"))]
pub struct ObjectSelector {
    /// The type of selection: by group and kind, or by label.
    #[serde(rename = "type")]
    pub type_: SelectorType,

    /// Group and kind of the objects. Required when type is GroupKind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_kind: Option<GroupKind>,

    /// Labels of the objects, by exactly one of matchLabels and matchExpressions. Required when
    /// type is Label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    #[x_kube(validation = Rule::new("(has(self.matchExpressions) && !has(self.matchLabels)) || (!has(self.matchExpressions) && has(self.matchLabels))")
        .message("exactly one of matchLabels or matchExpressions must be set"))]
    pub label: Option<LabelSelector>,
}

/// The types of selection.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SelectorType {
    /// By group and kind.
    #[default]
    GroupKind,
    /// By label.
    Label,
}

/// Group and kind of an object.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupKind {
    /// API group, empty for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
}

/// One check: a union with discriminator `type`.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.type == 'ConditionEqual' ?has(self.conditionEqual) : !has(self.conditionEqual)")
    .message("conditionEqual is required when type is ConditionEqual, and forbidden otherwise"))]
#[x_kube(validation = Rule::new("self.type == 'FieldsEqual' ?has(self.fieldsEqual) : !has(self.fieldsEqual)")
    .message("fieldsEqual is required when type is FieldsEqual, and forbidden otherwise"))]
#[x_kube(validation = Rule::new("self.type == 'FieldValue' ?has(self.fieldValue) : !has(self.fieldValue)")
    .message("fieldValue is required when type is FieldValue, and forbidden otherwise"))]
pub struct Assertion {
    /// The type of check.
    #[serde(rename = "type")]
    pub type_: AssertionType,

    /// A condition has a status. Required when type is ConditionEqual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition_equal: Option<ConditionEqualProbe>,

    /// Two fields are equal. Required when type is FieldsEqual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields_equal: Option<FieldsEqualProbe>,

    /// A field has a value. Required when type is FieldValue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_value: Option<FieldValueProbe>,
}

/// The types of check.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AssertionType {
    /// A condition has a status.
    #[default]
    ConditionEqual,
    /// Two fields are equal.
    FieldsEqual,
    /// A field has a value.
    FieldValue,
}

/// Holds when a condition of the object has a status.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionEqualProbe {
    /// Type of the condition.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 200))]
    pub type_: String,

    /// The required status.
    pub status: ConditionEqualStatus,
}

/// The statuses that can be required of a condition.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConditionEqualStatus {
    /// `True`.
    #[default]
    True,
    /// `False`.
    False,
}

/// Holds when two fields of the object are equal.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldsEqualProbe {
    /// Path of one field, names joined by dots.
    #[schemars(length(min = 1, max = 200))]
    #[x_kube(validation = Rule::new(r"self.matches('^[a-zA-Z0-9]+(?:\\.[a-zA-Z0-9]+)*$')")
        .message(r#"must contain a valid field path. valid fields contain upper or lower-case alphanumeric characters separated by the "." character."#))]
    pub field_a: String,

    /// Path of the other field, names joined by dots.
    #[schemars(length(min = 1, max = 200))]
    #[x_kube(validation = Rule::new(r"self.matches('^[a-zA-Z0-9]+(?:\\.[a-zA-Z0-9]+)*$')")
        .message(r#"must contain a valid field path. valid fields contain upper or lower-case alphanumeric characters separated by the "." character."#))]
    pub field_b: String,
}

/// Holds when a field of the object has a value.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldValueProbe {
    /// Path of the field, names joined by dots.
    #[schemars(length(min = 1, max = 200))]
    #[x_kube(validation = Rule::new(r"self.matches('^[a-zA-Z0-9]+(?:\\.[a-zA-Z0-9]+)*$')")
        .message(r#"must contain a valid field path. valid fields contain upper or lower-case alphanumeric characters separated by the "." character."#))]
    pub field_path: String,

    /// The required value.
    #[schemars(length(min = 1, max = 200))]
    pub value: String,
}

/// The observed state.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterObjectSetStatus {
    /// The generation of the object that this status describes. While it differs from
    /// metadata.generation, the latest change has not been processed. -1 before the first
    /// reconcile. For tools such as kstatus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The state of the revision. Progressing: whether it is being rolled out, has been rolled out,
    /// or waits for a change by a person. Available: whether its objects pass their probes.
    /// Succeeded: whether it was rolled out completely at least once; it is never reset.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,

    /// The digest of each phase when it was first read, to detect later changes of the content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    #[x_kube(validation = Rule::new("self == oldSelf || oldSelf.size() == 0")
        .message("observedPhases is immutable"))]
    pub observed_phases: Vec<ObservedPhase>,
}

/// The digest of a phase when it was first read.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedPhase {
    /// Name of the phase.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new("!format.dns1123Label().validate(self).hasValue()")
        .message("the value must consist of only lowercase alphanumeric characters and hyphens, and must start and end with an alphanumeric character."))]
    pub name: String,

    /// Digest of its objects, algorithm and hexadecimal value joined by a colon.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]+:[a-f0-9]+$')")
        .message("digest must be in the format '<algorithm>:<hex>'"))]
    pub digest: String,
}
