//! Webhook configurations and conversion stanzas.
//!
//! Source: rendering.md 4.5 and 4.9.

use serde_json::{Map, Value, json};

use super::certificate::CertificateProvider;
use super::name::service_name;
use super::{RenderError, RenderOptions, object};
use crate::bundle::{Csv, WebhookDefinition};
use crate::object::Object;

const ADMISSION_VERSION: &str = "admissionregistration.k8s.io/v1";

/// Returns a configuration for each admission webhook, first for those that validate.
pub(super) fn configurations(csv: &Csv, options: &RenderOptions) -> Vec<Object> {
    let of = |definition: &str, kind: &str| -> Vec<Object> {
        let wanted = csv.webhooks.iter().filter(|webhook| webhook.kind == definition);
        wanted.map(|webhook| configuration(webhook, kind, options)).collect()
    };
    let mut all = of("ValidatingAdmissionWebhook", "ValidatingWebhookConfiguration");
    all.extend(of("MutatingAdmissionWebhook", "MutatingWebhookConfiguration"));
    all
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
    let configuration = object(ADMISSION_VERSION, kind, name, namespace);
    let mut configuration = configuration.with("webhooks", json!([entry]));
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
    let (namespace, name) = (&options.install_namespace, service_name(&webhook.deployment_name));
    let port = webhook.endpoint().port;
    let mut config = json!({ "service": { "namespace": namespace, "name": name, "port": port } });
    if let Some(path) = path {
        config["service"]["path"] = json!(path);
    }
    let provider = options.certificates.as_ref();
    if let Some(bundle) = provider.and_then(CertificateProvider::ca_bundle) {
        config["caBundle"] = bundle.into();
    }
    config
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
    let Some(webhook) = definitions.next() else { return Ok(crd) };
    if definitions.next().is_some() {
        let text = "is referenced by multiple conversion webhook definitions";
        return Err(RenderError::Refused(format!("custom resource definition '{name}' {text}")));
    }
    if crd.pointer("/spec/preserveUnknownFields") == Some(&Value::Bool(true)) {
        // The API server calls no conversion webhook then.
        return Err(RenderError::Refused(format!(
            "custom resource definition '{name}' must have .spec.preserveUnknownFields set to false to \
             let API Server call webhook to do the conversion"
        )));
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
