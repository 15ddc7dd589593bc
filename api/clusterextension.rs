//! `ClusterExtension`: which package is to be installed, from where, and as whom.

use std::borrow::Cow;

use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, ObjectMeta};
use kube::core::crd::v1::CustomResourceExt;
use kube::core::object::HasStatus;
use kube::core::{ApiResource, Resource};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::schema;

/// One extension to install and keep on the cluster.
///
/// Written by hand rather than derived because the schema admits an object without `spec`, which
/// must still be readable so that its status can say what is missing (api.md 4.4 row 2).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ClusterExtension {
    /// Name, generation, labels and so on.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The desired state; absent only when the author left it out.
    #[serde(default)]
    pub spec: Option<ClusterExtensionSpec>,
    /// The observed state, written by the controller alone.
    #[serde(default)]
    pub status: Option<ClusterExtensionStatus>,
}

impl ClusterExtension {
    /// Makes an object with this name and spec and no status.
    pub fn new(name: &str, spec: ClusterExtensionSpec) -> Self {
        Self {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            spec: Some(spec),
            status: None,
        }
    }
}

impl Serialize for ClusterExtension {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            api_version: &'static str,
            kind: &'static str,
            metadata: &'a ObjectMeta,
            #[serde(skip_serializing_if = "Option::is_none")]
            spec: Option<&'a ClusterExtensionSpec>,
            #[serde(skip_serializing_if = "Option::is_none")]
            status: Option<&'a ClusterExtensionStatus>,
        }
        Wire {
            api_version: crate::API_VERSION,
            kind: "ClusterExtension",
            metadata: &self.metadata,
            spec: self.spec.as_ref(),
            status: self.status.as_ref(),
        }
        .serialize(serializer)
    }
}

impl Resource for ClusterExtension {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn group((): &()) -> Cow<'_, str> {
        crate::GROUP.into()
    }

    fn kind((): &()) -> Cow<'_, str> {
        "ClusterExtension".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        crate::VERSION.into()
    }

    fn api_version((): &()) -> Cow<'_, str> {
        crate::API_VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "clusterextensions".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl HasStatus for ClusterExtension {
    type Status = ClusterExtensionStatus;

    fn status(&self) -> Option<&ClusterExtensionStatus> {
        self.status.as_ref()
    }

    fn status_mut(&mut self) -> &mut Option<ClusterExtensionStatus> {
        &mut self.status
    }
}

impl CustomResourceExt for ClusterExtension {
    fn crd() -> CustomResourceDefinition {
        ClusterExtensionSchema::crd()
    }

    fn crd_name() -> &'static str {
        ClusterExtensionSchema::crd_name()
    }

    fn api_resource() -> ApiResource {
        ClusterExtensionSchema::api_resource()
    }

    fn shortnames() -> &'static [&'static str] {
        ClusterExtensionSchema::shortnames()
    }
}

/// What is to be installed, where and as whom.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "olm.operatorframework.io",
    version = "v1",
    kind = "ClusterExtension",
    root = "ClusterExtensionSchema",
    plural = "clusterextensions",
    singular = "clusterextension",
    status = "ClusterExtensionStatus",
    doc = "ClusterExtension installs one package from a catalog and keeps it installed.",
    printcolumn(
        name = "Installed Bundle",
        type_ = "string",
        json_path = ".status.install.bundle.name"
    ),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.install.bundle.version"),
    printcolumn(
        name = "Installed",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Installed')].status"
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
    printcolumn(name = "Update", type_ = "string", json_path = ".status.update.version"),
    printcolumn(
        name = "Message",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type=='Ready')].message"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterExtensionSpec {
    /// The namespace that namespaced objects of the extension go to unless the bundle says
    /// otherwise. It must exist and cannot be changed. Must be a DNS label (RFC 1123).
    #[schemars(length(max = 63))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("namespace is immutable"))]
    #[x_kube(validation = Rule::new(r#"self.matches("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")"#)
        .message("namespace must be a valid DNS1123 label"))]
    pub namespace: String,

    /// The service account, in the namespace above, that installs, upgrades and removes the
    /// extension: its rights bound what the extension can get. When absent, the controller's
    /// default service account is used; when there is none either, nothing is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minProperties" = 1))]
    pub service_account: Option<ServiceAccountReference>,

    /// Where the content comes from.
    pub source: SourceConfig,

    /// How an install or upgrade is carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<InstallConfig>,

    /// Configuration of the bundle, checked against what the bundle accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<ConfigSource>,

    /// Minutes after which a rollout that has not finished is reported as failed, 10 to 720.
    /// Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 720))]
    pub progress_deadline_minutes: Option<i32>,
}

/// The service account that acts for an extension.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceAccountReference {
    /// Name of the account. It may be removed and then set to another one, but not changed in
    /// one step. Must be a DNS subdomain (RFC 1123).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("name is immutable once set but may be cleared"))]
    #[x_kube(validation = Rule::new(r#"self.matches("^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")"#)
        .message("name must be a valid DNS1123 subdomain. It must contain only lowercase alphanumeric characters, hyphens (-) or periods (.), start and end with an alphanumeric character, and be no longer than 253 characters"))]
    pub name: Option<String>,
}

/// Where the content of an extension comes from: a union told apart by `sourceType`.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.sourceType) && self.sourceType == 'Catalog' ? has(self.catalog) : !has(self.catalog)")
    .message("catalog is required when sourceType is Catalog, and forbidden otherwise"))]
pub struct SourceConfig {
    /// The kind of source; only Catalog exists.
    pub source_type: SourceType,

    /// Which package, and which of its versions. Required when sourceType is Catalog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<CatalogFilter>,
}

/// The kinds of source.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourceType {
    /// Content is chosen from the catalogs of the cluster.
    #[default]
    Catalog,
}

/// Which bundles of the catalogs may be installed.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogFilter {
    /// Name of the package. Cannot be changed. Must be a DNS subdomain (RFC 1123).
    #[schemars(length(max = 253))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("packageName is immutable"))]
    #[x_kube(validation = Rule::new(r#"self.matches("^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")"#)
        .message("packageName must be a valid DNS1123 subdomain. It must contain only lowercase alphanumeric characters, hyphens (-) or periods (.), start and end with an alphanumeric character, and be no longer than 253 characters"))]
    pub package_name: String,

    /// A version, or a range of versions such as ">=1.2.0, <2.0.0", "~1.2" or "1.x". Absent: any
    /// version. A version is a pin: nothing else is ever installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = Rule::new(r#"self.matches("^(\\s*(=||!=|>|<|>=|=>|<=|=<|~|~>|\\^)\\s*(v?(0|[1-9]\\d*|x|X|\\*)(\\.(0|[1-9]\\d*|x|X|\\*))?(\\.(0|[1-9]\\d*|x|X|\\*))?(-([0-9A-Za-z\\-]+(\\.[0-9A-Za-z\\-]+)*))?(\\+([0-9A-Za-z\\-]+(\\.[0-9A-Za-z\\-]+)*))?)\\s*)((?:\\s+|,\\s*|\\s*\\|\\|\\s*)(=||!=|>|<|>=|=>|<=|=<|~|~>|\\^)\\s*(v?(0|[1-9]\\d*|x|X|\\*)(\\.(0|[1-9]\\d*|x|X|\\*))?(\\.(0|[1-9]\\d*|x|X|\\*))?(-([0-9A-Za-z\\-]+(\\.[0-9A-Za-z\\-]+)*))?(\\+([0-9A-Za-z\\-]+(\\.[0-9A-Za-z\\-]+)*))?)\\s*)*$")"#)
        .message("invalid version expression"))]
    pub version: Option<String>,

    /// Channels whose bundles and update paths count, at most 256. Absent or empty: all channels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "channels")]
    pub channels: Vec<String>,

    /// Which catalogs count, by their labels. Absent or empty: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: Option<LabelSelector>,

    /// Whether updates must follow the paths of the catalog. CatalogProvided: yes. SelfCertified:
    /// any version may follow any other, downgrades included, at the administrator's risk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "CatalogProvided"))]
    pub upgrade_constraint_policy: Option<UpgradeConstraintPolicy>,
}

fn channels(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": 256,
        "items": {
            "type": "string",
            "maxLength": 253,
            "x-kubernetes-validations": [{
                "message": "channels entries must be valid DNS1123 subdomains",
                "rule": r#"self.matches("^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")"#,
            }],
        },
    })
}

/// Whether updates must follow the paths of the catalog.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpgradeConstraintPolicy {
    /// Only successors named by the catalog follow the installed bundle.
    #[default]
    CatalogProvided,
    /// Any bundle may follow, downgrades included.
    SelfCertified,
}

/// How an install or upgrade is carried out.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.preflight)")
    .message("at least one of [preflight] are required when install is specified"))]
pub struct InstallConfig {
    /// Checks that run before anything is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preflight: Option<PreflightConfig>,
}

/// Checks that run before anything is applied.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.crdUpgradeSafety)")
    .message("at least one of [crdUpgradeSafety] are required when preflight is specified"))]
pub struct PreflightConfig {
    /// Whether changes of CRDs that can lose data stop an upgrade.
    pub crd_upgrade_safety: CrdUpgradeSafetyConfig,
}

/// Whether changes of CRDs that can lose data stop an upgrade.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CrdUpgradeSafetyConfig {
    /// Strict: such changes stop the upgrade, as when this block is absent. None: they are
    /// applied, and stored objects may become unreadable.
    pub enforcement: CrdUpgradeSafetyEnforcement,
}

/// Whether the CRD check stops an upgrade.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CrdUpgradeSafetyEnforcement {
    /// The check does not run.
    None,
    /// A finding stops the upgrade.
    #[default]
    Strict,
}

/// Configuration of the bundle: a union told apart by `configType`.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.configType) && self.configType == 'Inline' ?has(self.inline) : !has(self.inline)")
    .message("inline is required when configType is Inline, and forbidden otherwise"))]
pub struct ConfigSource {
    /// Where the configuration is; only Inline exists.
    pub config_type: ConfigType,

    /// The values themselves, at least one. What is accepted depends on the bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::inline_config")]
    pub inline: Option<Map<String, Value>>,
}

/// Where the configuration of a bundle is.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConfigType {
    /// In the ClusterExtension itself.
    #[default]
    Inline,
}

/// What the controller found and did.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterExtensionStatus {
    /// The generation that this status is about: while it is not that of the object, the latest
    /// change has not been acted on; -1 before the first. For tools that read nothing else, as
    /// kstatus does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The state of the extension. Installed: whether a bundle is installed. Progressing: whether
    /// the extension is at, or on its way to, the desired state; False means that it waits for
    /// somebody. Available: whether what is installed works. Deprecated, PackageDeprecated,
    /// ChannelDeprecated, BundleDeprecated: what the catalog discourages. Ready: all of the above
    /// in one, for tools that wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,

    /// What is installed; absent when nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<InstallStatus>,

    /// The revisions that are not archived: the installed one first, then those being rolled
    /// out, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub active_revisions: Vec<RevisionStatus>,

    /// The version that is being rolled out, or a newer one that is offered and not taken; absent
    /// when there is neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<UpdateStatus>,
}

/// What is installed.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstallStatus {
    /// The installed bundle.
    pub bundle: BundleMetadata,
}

/// What identifies a bundle.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleMetadata {
    /// Name of the bundle in its catalog. Must be a DNS subdomain (RFC 1123).
    #[x_kube(validation = Rule::new(r#"self.matches("^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")"#)
        .message("packageName must be a valid DNS1123 subdomain. It must contain only lowercase alphanumeric characters, hyphens (-) or periods (.), start and end with an alphanumeric character, and be no longer than 253 characters"))]
    pub name: String,

    /// Semantic version of the bundle.
    #[x_kube(validation = Rule::new(r#"self.matches("^([0-9]+)(\\.[0-9]+)?(\\.[0-9]+)?(-([-0-9A-Za-z]+(\\.[-0-9A-Za-z]+)*))?(\\+([-0-9A-Za-z]+(-\\.[-0-9A-Za-z]+)*))?")"#)
        .message("version must be well-formed semver"))]
    pub version: String,

    /// Which publication of the version this is, higher ones being newer. Empty: the bundle says
    /// that it has none. Absent: it says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20))]
    #[x_kube(validation = Rule::new(r#"self.matches("^$|^(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(\\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*$")"#)
        .message("release must be empty or consist of dot-separated identifiers (numeric without leading zeros, or alphanumeric)"))]
    pub release: Option<String>,
}

/// The version that is being rolled out, or a newer one that is offered and not taken.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStatus {
    /// The version that is being rolled out, else the newest one that could follow the installed one
    /// in one step if nothing held it; absent when no update path leads to anything newer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// The newest version the selected catalogs have, whether a path leads to it or not.
    pub newest: String,

    /// Name of the catalog that offers the version, or else the newest one.
    pub catalog: String,

    /// RollingOut, or why it is not taken, in one word: Pinned, Paused, NotSuccessor, or the reason
    /// for which it is held.
    pub reason: String,

    /// What is rolled out, or why it is not taken, and what to do about it.
    pub message: String,
}

/// One revision that is not archived.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RevisionStatus {
    /// Name of the ClusterObjectSet.
    pub name: String,

    /// Copies of the revision's Progressing and Available conditions while it is being rolled
    /// out; absent once it has succeeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
