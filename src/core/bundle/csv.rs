//! The fields of a ClusterServiceVersion that influence the output, and no others.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value};

use super::field::{At, FieldError, ObjectAt};

/// The port of a definition that has none (rendering.md R1).
const DEFAULT_PORT: i64 = 443;

/// Returns the port of a Service: 0 is how Go writes none.
fn port(given: Option<i64>) -> i64 {
    given.filter(|port| *port > 0).unwrap_or(DEFAULT_PORT)
}

/// Names of the install modes.
pub mod mode {
    /// The operator watches every namespace.
    pub const ALL_NAMESPACES: &str = "AllNamespaces";
    /// The operator watches the namespace it runs in.
    pub const OWN_NAMESPACE: &str = "OwnNamespace";
    /// The operator watches one other namespace.
    pub const SINGLE_NAMESPACE: &str = "SingleNamespace";
    /// The operator watches several namespaces.
    pub const MULTI_NAMESPACE: &str = "MultiNamespace";
}

/// The fields of a ClusterServiceVersion that are used.
///
/// Source: rendering.md 1.6.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Csv {
    /// Fields that are only shown to people.
    pub summary: Summary,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// `spec.installModes`, in file order, unknown types included.
    pub install_modes: Vec<InstallMode>,
    /// `spec.install.spec.deployments`, in file order.
    pub deployments: Vec<StrategyDeployment>,
    /// `spec.install.spec.permissions`: rights in the watched namespaces.
    pub permissions: Vec<Permission>,
    /// `spec.install.spec.clusterPermissions`: rights everywhere.
    pub cluster_permissions: Vec<Permission>,
    /// `spec.customresourcedefinitions.owned[].name`, one entry per version.
    pub owned_crds: Vec<String>,
    /// `spec.apiservicedefinitions.owned`, in file order.
    pub api_services: Vec<ApiServiceDefinition>,
    /// `spec.webhookdefinitions`, in file order.
    pub webhooks: Vec<WebhookDefinition>,
}

/// The fields of a ClusterServiceVersion that are only shown to people; no object depends on them.
///
/// A field that is not a string counts as absent, because nothing must fail for it (rendering.md
/// R17).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// `spec.displayName`.
    pub display_name: Option<String>,
    /// `spec.version`.
    pub version: Option<String>,
    /// `spec.provider.name`.
    pub provider: Option<String>,
    /// `spec.minKubeVersion`: judged by resolution, not here.
    pub min_kube_version: Option<String>,
}

impl Summary {
    fn from_manifest(manifest: &Value) -> Self {
        let text = |value: &Value| value.as_str().filter(|it| !it.is_empty()).map(str::to_owned);
        let spec = &manifest["spec"];
        Self {
            display_name: text(&spec["displayName"]),
            version: text(&spec["version"]),
            provider: text(&spec["provider"]["name"]),
            min_kube_version: text(&spec["minKubeVersion"]),
        }
    }
}

/// One entry of `spec.installModes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallMode {
    /// Name of the mode, see [`mode`]; unknown names occur.
    pub mode: String,
    /// Whether the operator supports it.
    pub supported: bool,
}

/// One Deployment of the install strategy.
#[derive(Debug, Clone, PartialEq)]
pub struct StrategyDeployment {
    /// Name of the Deployment.
    pub name: String,
    /// Labels of the Deployment; absent is not the same as empty.
    pub label: Option<BTreeMap<String, String>>,
    /// `spec` of the Deployment as the bundle has it.
    pub spec: Map<String, Value>,
    /// `spec.template.metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
}

impl StrategyDeployment {
    /// Returns the spec of its pods, null when it is absent.
    pub fn pod(&self) -> &Value {
        self.spec.get("template").map_or(&Value::Null, |template| &template["spec"])
    }

    /// Returns the service account that its pods run as.
    pub fn service_account(&self) -> &str {
        let pod = self.pod();
        // The second is the old name of the field, which the API server still reads.
        let keys = ["serviceAccountName", "serviceAccount"].into_iter();
        let mut named = keys.filter_map(|key| pod[key].as_str());
        named.find(|name| !name.is_empty()).unwrap_or("default")
    }
}

/// Rights a service account gets.
///
/// Fields are in the order of upstream's structs, as they are written for hashes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Permission {
    /// `serviceAccountName` as written; may be empty, which means `default`.
    #[serde(rename = "serviceAccountName")]
    pub service_account_name: String,
    /// `rules`; absent is not the same as empty in a hash.
    pub rules: Option<Vec<PolicyRule>>,
}

impl Permission {
    /// Returns the service account that gets the rights.
    pub fn service_account(&self) -> &str {
        if self.service_account_name.is_empty() { "default" } else { &self.service_account_name }
    }
}

/// One RBAC rule; keys that RBAC does not know are dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRule {
    /// `verbs`; absent is not the same as empty in a hash.
    pub verbs: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

/// One entry of `spec.webhookdefinitions`.
#[derive(Debug, Clone, PartialEq)]
pub struct WebhookDefinition {
    /// `type`, for example `ConversionWebhook`.
    pub kind: String,
    /// `generateName`, the name of the webhook.
    pub generate_name: String,
    /// `deploymentName`: the Deployment that serves the webhook.
    pub deployment_name: String,
    /// `conversionCRDs`: names of the CRDs that a conversion webhook converts.
    pub conversion_crds: Vec<String>,
    /// `rules`: what an admission webhook is asked about.
    pub rules: Vec<WebhookRule>,
    /// `containerPort`: the port of the Service.
    pub container_port: Option<i64>,
    /// `targetPort`: the port of the pods, a number or a name.
    pub target_port: Option<Value>,
    /// `webhookPath`: path on the server.
    pub webhook_path: Option<String>,
    /// Fields that a webhook configuration takes over unchanged: `rules`, `failurePolicy` and the
    /// like, each only when present. Keys that the API does not know are dropped.
    pub settings: Map<String, Value>,
}

impl WebhookDefinition {
    /// Says whether this is a conversion webhook.
    pub fn is_conversion(&self) -> bool {
        self.kind == "ConversionWebhook"
    }

    /// Returns where the API server calls it.
    pub fn endpoint(&self) -> Endpoint<'_> {
        let port = port(self.container_port);
        Endpoint { deployment: &self.deployment_name, port, target: self.target_port.as_ref() }
    }
}

/// One entry of `spec.apiservicedefinitions.owned`; there is one for each kind of an API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiServiceDefinition {
    /// `group` of the API.
    pub group: String,
    /// `version` of the API.
    pub version: String,
    /// `name`: the resource of the kind.
    pub resource: String,
    /// `deploymentName`: the Deployment that serves the API.
    pub deployment_name: String,
    /// `containerPort`: the port of the Service and of the pods.
    pub container_port: Option<i64>,
}

impl ApiServiceDefinition {
    /// Returns the name of its APIService.
    pub fn name(&self) -> String {
        format!("{}.{}", self.version, self.group)
    }

    /// Returns where the API server calls it.
    pub fn endpoint(&self) -> Endpoint<'_> {
        let port = port(self.container_port);
        Endpoint { deployment: &self.deployment_name, port, target: None }
    }
}

/// A port at which the API server calls an operator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Endpoint<'a> {
    /// Name of the Deployment.
    pub deployment: &'a str,
    /// The port of the Service.
    pub port: i64,
    /// The port of the pods, a number or a name, where it may be another one.
    pub target: Option<&'a Value>,
}

/// The fields of an admission rule that are validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookRule {
    pub api_groups: Vec<String>,
    pub resources: Vec<String>,
}

impl Csv {
    /// Reads the fields from a manifest; unknown and unused fields are ignored.
    ///
    /// Null counts as absent; a null value in a map of strings becomes the empty string.
    pub(crate) fn from_manifest(manifest: &Value) -> Result<Self, FieldError> {
        let root = At::root(manifest).object()?;
        let metadata = root.field("metadata").object()?;
        let spec = root.field("spec").object()?;
        let strategy = spec.field("install").object()?.field("spec").object()?;
        let crds = spec.field("customresourcedefinitions").object()?;
        let api_services = spec.field("apiservicedefinitions").object()?;
        Ok(Self {
            summary: Summary::from_manifest(manifest),
            name: metadata.field("name").text()?,
            annotations: metadata.field("annotations").string_map()?.unwrap_or_default(),
            install_modes: spec.field("installModes").each(install_mode)?,
            deployments: strategy.field("deployments").each(deployment)?,
            permissions: strategy.field("permissions").each(permission)?,
            cluster_permissions: strategy.field("clusterPermissions").each(permission)?,
            owned_crds: crds.field("owned").each(|crd| crd.field("name").text())?,
            api_services: api_services.field("owned").each(api_service)?,
            webhooks: spec.field("webhookdefinitions").each(webhook)?,
        })
    }

    /// Returns where the API server calls the operator, for webhooks and for API services.
    pub fn endpoints(&self) -> impl Iterator<Item = Endpoint<'_>> {
        let webhooks = self.webhooks.iter().map(WebhookDefinition::endpoint);
        webhooks.chain(self.api_services.iter().map(ApiServiceDefinition::endpoint))
    }

    /// Says whether the bundle supports an install mode.
    pub fn supports(&self, mode: &str) -> bool {
        self.install_modes.iter().any(|entry| entry.supported && entry.mode == mode)
    }

    /// Returns the names of all supported modes, sorted, unknown ones included.
    pub fn supported_modes(&self) -> BTreeSet<&str> {
        self.install_modes
            .iter()
            .filter(|entry| entry.supported)
            .map(|entry| entry.mode.as_str())
            .collect()
    }
}

fn install_mode(at: &ObjectAt<'_>) -> Result<InstallMode, FieldError> {
    Ok(InstallMode { mode: at.field("type").text()?, supported: at.field("supported").bool()? })
}

fn deployment(at: &ObjectAt<'_>) -> Result<StrategyDeployment, FieldError> {
    let spec = at.field("spec").object()?;
    let metadata = spec.field("template").object()?.field("metadata").object()?;
    Ok(StrategyDeployment {
        name: at.field("name").text()?,
        label: at.field("label").string_map()?,
        spec: spec.map(),
        annotations: metadata.field("annotations").string_map()?.unwrap_or_default(),
    })
}

fn permission(at: &ObjectAt<'_>) -> Result<Permission, FieldError> {
    let rules = at.field("rules");
    Ok(Permission {
        service_account_name: at.field("serviceAccountName").text()?,
        rules: rules.value().map(|_| rules.each(policy_rule)).transpose()?,
    })
}

fn policy_rule(at: &ObjectAt<'_>) -> Result<PolicyRule, FieldError> {
    let strings = |key| at.field(key).strings().map(Option::unwrap_or_default);
    Ok(PolicyRule {
        verbs: at.field("verbs").strings()?,
        api_groups: strings("apiGroups")?,
        resources: strings("resources")?,
        resource_names: strings("resourceNames")?,
        non_resource_urls: strings("nonResourceURLs")?,
    })
}

fn api_service(at: &ObjectAt<'_>) -> Result<ApiServiceDefinition, FieldError> {
    Ok(ApiServiceDefinition {
        group: at.field("group").text()?,
        version: at.field("version").text()?,
        resource: at.field("name").text()?,
        deployment_name: at.field("deploymentName").text()?,
        container_port: at.field("containerPort").integer()?,
    })
}

/// Keys of a rule of a webhook configuration.
const RULE_KEYS: [&str; 5] = ["operations", "apiGroups", "apiVersions", "resources", "scope"];

fn webhook(at: &ObjectAt<'_>) -> Result<WebhookDefinition, FieldError> {
    Ok(WebhookDefinition {
        kind: at.field("type").text()?,
        generate_name: at.field("generateName").text()?,
        deployment_name: at.field("deploymentName").text()?,
        conversion_crds: at.field("conversionCRDs").strings()?.unwrap_or_default(),
        rules: at.field("rules").each(|rule| {
            Ok(WebhookRule {
                api_groups: rule.field("apiGroups").strings()?.unwrap_or_default(),
                resources: rule.field("resources").strings()?.unwrap_or_default(),
            })
        })?,
        container_port: at.field("containerPort").integer()?,
        target_port: at.field("targetPort").integer_or_text()?,
        webhook_path: at.field("webhookPath").string()?,
        settings: webhook_settings(at)?,
    })
}

fn webhook_settings(at: &ObjectAt<'_>) -> Result<Map<String, Value>, FieldError> {
    let mut settings = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            settings.insert(key.to_owned(), value);
        }
    };
    let rules = at.field("rules");
    let known = rules.each(|rule| {
        let mut rule = rule.map();
        rule.retain(|key, value| RULE_KEYS.contains(&key.as_str()) && !value.is_null());
        Ok(Value::Object(rule))
    })?;
    put("rules", rules.value().map(|_| Value::Array(known)));
    for key in ["failurePolicy", "matchPolicy", "sideEffects", "reinvocationPolicy"] {
        put(key, at.field(key).string()?.map(Value::from));
    }
    let selector = at.field("objectSelector");
    selector.object()?;
    put("objectSelector", selector.value().cloned());
    put("timeoutSeconds", at.field("timeoutSeconds").integer()?.map(Value::from));
    let versions = at.field("admissionReviewVersions").strings()?;
    put("admissionReviewVersions", versions.map(Value::from));
    Ok(settings)
}
