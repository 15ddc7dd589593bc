//! Webhook configurations, conversion stanzas, and the Services they call.
//!
//! Source: rendering.md 4.5, 4.9 and 4.10.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::certificate::CertificateProvider;
use super::name::service_name;
use super::{RenderError, RenderOptions, object};
use crate::bundle::{Csv, StrategyDeployment, WebhookDefinition};
use crate::object::Object;

/// The port of a webhook whose definition has none (rendering.md R1).
const DEFAULT_PORT: i64 = 443;

const ADMISSION_VERSION: &str = "admissionregistration.k8s.io/v1";

/// Returns a configuration for each validating webhook.
pub(super) fn validating(csv: &Csv, options: &RenderOptions) -> Vec<Object> {
    let kinds = ["ValidatingAdmissionWebhook", "ValidatingWebhookConfiguration"];
    configurations(csv, options, kinds)
}

/// Returns a configuration for each mutating webhook.
pub(super) fn mutating(csv: &Csv, options: &RenderOptions) -> Vec<Object> {
    let kinds = ["MutatingAdmissionWebhook", "MutatingWebhookConfiguration"];
    configurations(csv, options, kinds)
}

fn configurations(csv: &Csv, options: &RenderOptions, kinds: [&str; 2]) -> Vec<Object> {
    let [definition, configuration] = kinds;
    let wanted = csv.webhooks.iter().filter(|webhook| webhook.kind == definition);
    wanted.map(|webhook| self::configuration(webhook, configuration, options)).collect()
}

fn configuration(webhook: &WebhookDefinition, kind: &str, options: &RenderOptions) -> Object {
    let generated = &webhook.generate_name;
    let name = generated.strip_suffix('-').unwrap_or(generated);
    let mut settings = webhook.settings.clone();
    if kind == "ValidatingWebhookConfiguration" {
        settings.remove("reinvocationPolicy");
    }
    let mut entry = Map::new();
    entry.insert("name".to_owned(), json!(name));
    let path = webhook.webhook_path.as_deref();
    entry.insert("clientConfig".to_owned(), client_config(webhook, path, options));
    entry.extend(settings);
    if let Some(selector) = namespace_selector(&options.targets) {
        entry.insert("namespaceSelector".to_owned(), selector);
    }
    let namespace = &options.install_namespace;
    let mut configuration = object(ADMISSION_VERSION, kind, name, namespace);
    configuration.insert("webhooks".to_owned(), json!([entry]));
    let mut configuration = Object(configuration);
    if let Some(provider) = &options.certificates {
        let service = service_name(&webhook.deployment_name);
        provider.annotate_caller(&mut configuration, &service, namespace);
    }
    configuration
}

/// Returns where and how the API server calls a webhook.
fn client_config(
    webhook: &WebhookDefinition,
    path: Option<&str>,
    options: &RenderOptions,
) -> Value {
    let mut service = Map::new();
    service.insert("namespace".to_owned(), json!(options.install_namespace));
    service.insert("name".to_owned(), json!(service_name(&webhook.deployment_name)));
    if let Some(path) = path {
        service.insert("path".to_owned(), json!(path));
    }
    service.insert("port".to_owned(), json!(port(webhook)));
    let mut config = Map::new();
    config.insert("service".to_owned(), Value::Object(service));
    let provider = options.certificates.as_ref();
    if let Some(bundle) = provider.and_then(CertificateProvider::ca_bundle) {
        config.insert("caBundle".to_owned(), bundle.into());
    }
    Value::Object(config)
}

fn port(webhook: &WebhookDefinition) -> i64 {
    webhook.container_port.unwrap_or(DEFAULT_PORT)
}

/// Limits a webhook to the watched namespaces; cluster-scoped objects still match.
fn namespace_selector(targets: &[String]) -> Option<Value> {
    if matches!(targets, [all] if all.is_empty()) {
        return None;
    }
    Some(json!({ "matchExpressions": [
        { "key": "kubernetes.io/metadata.name", "operator": "In", "values": targets },
    ]}))
}

/// Has a CRD's versions converted by the webhook that is defined for it, if there is one.
pub(super) fn convert(
    mut crd: Object,
    csv: &Csv,
    options: &RenderOptions,
) -> Result<Object, RenderError> {
    let name = crd.name().to_owned();
    let mut definitions = csv
        .webhooks
        .iter()
        .filter(|webhook| webhook.is_conversion() && webhook.conversion_crds.contains(&name));
    let Some(webhook) = definitions.next() else {
        return Ok(crd);
    };
    if definitions.next().is_some() {
        return Err(RenderError::ManyConversions(name));
    }
    if crd.pointer("/spec/preserveUnknownFields") == Some(&Value::Bool(true)) {
        return Err(RenderError::PreservesUnknownFields(name));
    }
    let path = webhook.webhook_path.as_deref().unwrap_or("/");
    let mut stanza = Map::new();
    stanza.insert("clientConfig".to_owned(), client_config(webhook, Some(path), options));
    if let Some(versions) = webhook.settings.get("admissionReviewVersions") {
        stanza.insert("conversionReviewVersions".to_owned(), versions.clone());
    }
    let conversion = json!({ "strategy": "Webhook", "webhook": stanza });
    let spec = crd.0.entry("spec").or_insert_with(|| json!({}));
    if let Value::Object(spec) = spec {
        spec.insert("conversion".to_owned(), conversion);
    }
    if let Some(provider) = &options.certificates {
        let service = service_name(&webhook.deployment_name);
        provider.annotate_caller(&mut crd, &service, &options.install_namespace);
    }
    Ok(crd)
}

/// Returns a Service for each deployment that serves webhooks, conversion included.
pub(super) fn services(csv: &Csv, options: &RenderOptions) -> Result<Vec<Object>, RenderError> {
    let mut services = Vec::new();
    for deployment in &csv.deployments {
        let ports = ports(csv, &deployment.name)?;
        if !ports.is_empty() {
            services.push(service(deployment, &ports, options));
        }
    }
    Ok(services)
}

/// Returns port and target port of each webhook of a deployment, each port once, in order.
fn ports(csv: &Csv, deployment: &str) -> Result<BTreeMap<i64, Value>, RenderError> {
    let mut ports = BTreeMap::new();
    let served = csv.webhooks.iter();
    for webhook in served.filter(|webhook| webhook.deployment_name == deployment) {
        let port = port(webhook);
        let target = webhook.target_port.clone().unwrap_or_else(|| port.into());
        let known = ports.entry(port).or_insert_with(|| target.clone());
        if *known != target {
            return Err(RenderError::PortClash { deployment: deployment.to_owned(), port });
        }
    }
    Ok(ports)
}

fn service(
    deployment: &StrategyDeployment,
    ports: &BTreeMap<i64, Value>,
    options: &RenderOptions,
) -> Object {
    let ports: Vec<Value> = ports
        .iter()
        .map(|(port, target)| {
            json!({ "name": port.to_string(), "port": port, "targetPort": target })
        })
        .collect();
    let mut spec = Map::new();
    spec.insert("ports".to_owned(), ports.into());
    // A Service cannot have label expressions.
    let selector = deployment.spec.get("selector");
    let labels = selector.and_then(|selector| selector.get("matchLabels"));
    if let Some(Value::Object(labels)) = labels.filter(|labels| !is_empty(labels)) {
        spec.insert("selector".to_owned(), Value::Object(labels.clone()));
    }
    let name = service_name(&deployment.name);
    let mut service = object("v1", "Service", &name, &options.install_namespace);
    service.insert("spec".to_owned(), Value::Object(spec));
    let mut service = Object(service);
    if let Some(provider) = &options.certificates {
        provider.annotate_service(&mut service);
    }
    service
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}
