//! `ClusterExtension`: a package to install from the catalogs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, ObjectMeta};
use kube::core::object::HasStatus;
use kube::{CustomResource, KubeSchema, Resource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::schema;

/// One extension to install and keep on the cluster.
///
/// Not derived from [`ClusterExtensionSpec`], because the schema allows an object without `spec`, which
/// must still be readable so that its status can report the missing field (api.md 4.4 row 2).
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Resource)]
#[resource(inherit = "ClusterExtensionSchema")]
pub struct ClusterExtension {
    /// Name, generation, labels and so on.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The desired state; it may be missing.
    #[serde(default)]
    pub spec: Option<ClusterExtensionSpec>,
    /// The observed state, written by the controller only.
    #[serde(default)]
    pub status: Option<ClusterExtensionStatus>,
}

impl ClusterExtension {
    /// Returns an object with this name and spec, without a status.
    pub fn new(name: &str, spec: ClusterExtensionSpec) -> Self {
        Self {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            spec: Some(spec),
            status: None,
        }
    }

    /// Returns the installed bundle from the status, if there is one.
    pub fn installed(&self) -> Option<&BundleMetadata> {
        Some(&self.status.as_ref()?.install.as_ref()?.bundle)
    }

    /// Returns the requested package, if there is one.
    pub fn package(&self) -> Option<&str> {
        Some(&self.spec.as_ref()?.source.catalog.as_ref()?.package_name)
    }

    /// Returns the condition of this type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == type_)
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

impl HasStatus for ClusterExtension {
    type Status = ClusterExtensionStatus;

    fn status(&self) -> Option<&ClusterExtensionStatus> {
        self.status.as_ref()
    }

    fn status_mut(&mut self) -> &mut Option<ClusterExtensionStatus> {
        &mut self.status
    }
}

/// The package to install, the namespace and the service account.
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
    /// The namespace of the extension's namespaced objects, unless the bundle sets another one. It
    /// must exist and cannot be changed. Must be a DNS label (RFC 1123).
    #[schemars(length(max = 63))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("namespace is immutable"))]
    #[x_kube(validation = Rule::new(r#"self.matches("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")"#)
        .message("namespace must be a valid DNS1123 label"))]
    pub namespace: String,

    /// The service account, in the namespace above, that installs, upgrades and removes the
    /// extension: the extension can get no rights that this account lacks. Absent: the controller's
    /// default service account is used; if there is none, nothing is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minProperties" = 1))]
    pub service_account: Option<ServiceAccountReference>,

    /// The source of the content.
    pub source: SourceConfig,

    /// Settings for installs and upgrades.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<InstallConfig>,

    /// Configuration of the bundle, validated against the options that the bundle supports.
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

/// The source of the content of an extension: a union with discriminator `sourceType`.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.sourceType) && self.sourceType == 'Catalog' ? has(self.catalog) : !has(self.catalog)")
    .message("catalog is required when sourceType is Catalog, and forbidden otherwise"))]
pub struct SourceConfig {
    /// The type of source. Only Catalog is supported.
    pub source_type: SourceType,

    /// The package and its allowed versions. Required when sourceType is Catalog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<CatalogFilter>,
}

/// The types of source.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourceType {
    /// Content is chosen from the catalogs of the cluster.
    #[default]
    Catalog,
}

/// Selects the bundles of the catalogs that may be installed.
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
    /// version. A single version is a pin: no other version is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = Rule::new(r#"self.matches("^(\\s*(=||!=|>|<|>=|=>|<=|=<|~|~>|\\^)\\s*(v?(0|[1-9]\\d*|x|X|\\*)(\\.(0|[1-9]\\d*|x|X|\\*))?(\\.(0|[1-9]\\d*|x|X|\\*))?(-([0-9A-Za-z\\-]+(\\.[0-9A-Za-z\\-]+)*))?(\\+([0-9A-Za-z\\-]+(\\.[0-9A-Za-z\\-]+)*))?)\\s*)((?:\\s+|,\\s*|\\s*\\|\\|\\s*)(=||!=|>|<|>=|=>|<=|=<|~|~>|\\^)\\s*(v?(0|[1-9]\\d*|x|X|\\*)(\\.(0|[1-9]\\d*|x|X|\\*))?(\\.(0|[1-9]\\d*|x|X|\\*))?(-([0-9A-Za-z\\-]+(\\.[0-9A-Za-z\\-]+)*))?(\\+([0-9A-Za-z\\-]+(\\.[0-9A-Za-z\\-]+)*))?)\\s*)*$")"#)
        .message("invalid version expression"))]
    pub version: Option<String>,

    /// Channels whose bundles and update paths are used, at most 256. Absent or empty: all
    /// channels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "channels")]
    pub channels: Vec<String>,

    /// Selects catalogs by their labels. Absent or empty: all catalogs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: Option<LabelSelector>,

    /// Whether updates must follow the update paths of the catalog. CatalogProvided: yes.
    /// SelfCertified: any version may follow any other, including downgrades, at the
    /// administrator's risk.
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

/// Whether updates must follow the update paths of the catalog.
#[derive(
    JsonSchema,
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::EnumString,
    strum::VariantNames,
)]
pub enum UpgradeConstraintPolicy {
    /// Only successors in the catalog may follow the installed bundle.
    #[default]
    CatalogProvided,
    /// Any bundle may follow, including downgrades.
    SelfCertified,
}

/// Settings for installs and upgrades.
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
    /// The check for CRD changes that can lose data.
    pub crd_upgrade_safety: CrdUpgradeSafetyConfig,
}

/// The check for CRD changes that can lose data.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CrdUpgradeSafetyConfig {
    /// Strict: CRD changes that can lose data stop the upgrade; also the default if this block is
    /// absent. None: they are applied, and stored objects may become unreadable.
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

/// Configuration of the bundle: a union with discriminator `configType`.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.configType) && self.configType == 'Inline' ?has(self.inline) : !has(self.inline)")
    .message("inline is required when configType is Inline, and forbidden otherwise"))]
pub struct ConfigSource {
    /// The type of configuration. Only Inline is supported.
    pub config_type: ConfigType,

    /// The values, at least one. The supported options depend on the bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::inline_config")]
    pub inline: Option<Map<String, Value>>,
}

/// The types of configuration.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConfigType {
    /// In the ClusterExtension itself.
    #[default]
    Inline,
}

/// The observed state.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterExtensionStatus {
    /// The generation of the object that this status describes. While it differs from
    /// metadata.generation, the latest change has not been processed. -1 before the first
    /// reconcile. For tools such as kstatus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The state of the extension. Installed: whether a bundle is installed. Progressing: whether
    /// the extension is at, or on its way to, the desired state; False means that it waits for a
    /// change by a person. Available: whether the installed objects pass their probes. Deprecated,
    /// PackageDeprecated, ChannelDeprecated, BundleDeprecated: whether the catalog deprecates them.
    /// Ready: a summary of the others, for tools that wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,

    /// The installed bundle; absent if none is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<InstallStatus>,

    /// The revisions that are not archived: the installed one first, then those being rolled
    /// out, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub active_revisions: Vec<RevisionStatus>,

    /// The version that is being rolled out, or a newer one that is available but not installed;
    /// absent if there is neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<UpdateStatus>,
}

/// The installed bundle.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstallStatus {
    /// The installed bundle.
    pub bundle: BundleMetadata,
}

/// Name, version and release of a bundle.
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

    /// The release of the version; a higher release is newer. Empty: the bundle declares that it
    /// has none. Absent: the bundle declares nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20))]
    #[x_kube(validation = Rule::new(r#"self.matches("^$|^(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(\\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*$")"#)
        .message("release must be empty or consist of dot-separated identifiers (numeric without leading zeros, or alphanumeric)"))]
    pub release: Option<String>,
}

/// The version that is being rolled out, or a newer one that is available but not installed.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStatus {
    /// The version that is being rolled out, otherwise the newest one that could follow the
    /// installed one in one step if nothing held it; absent if no update path leads to a newer
    /// version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// The newest version in the selected catalogs, even if no update path leads to it.
    pub newest: String,

    /// Name of the catalog that offers the version, otherwise the newest one.
    pub catalog: String,

    /// RollingOut, or the reason why the version is not installed: Pinned, Paused, NotSuccessor, or
    /// the reason of the hold.
    pub reason: String,

    /// The rollout in progress, or why the version is not installed, and how to install it.
    pub message: String,
}

impl UpdateStatus {
    /// Returns the version that is rolled out or could follow, otherwise the newest one.
    pub fn version(&self) -> &str {
        self.version.as_ref().unwrap_or(&self.newest)
    }
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
