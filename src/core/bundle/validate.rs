//! The static validators: what must hold of a bundle before objects are made from it.
//!
//! Order, conditions and texts are upstream's. Source: rendering.md section 5; operator-controller
//! `internal/operator-controller/rukpak/render/registryv1/validators`.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use super::{Bundle, WebhookDefinition, mode};
use crate::error::quote;
use crate::object::Object;

/// Everything the validators found, one line each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", findings.join("\n"))]
pub struct ValidationError {
    /// The findings, in the order of the validators.
    pub findings: Vec<String>,
}

/// Kinds a bundle may ship beside its ClusterServiceVersion and custom resource definitions, and
/// whether their objects live in a namespace.
///
/// The group is never compared, as upstream: a custom resource whose kind is in the table passes.
/// VerticalPodAutoscaler is namespaced here, which upstream gets wrong (rendering.md R9).
/// Source: operator-registry `pkg/lib/bundle/supported_resources.go`.
pub fn supported_kind(kind: &str) -> Option<bool> {
    let namespaced = "Service ServiceAccount Role RoleBinding Secret ConfigMap PodDisruptionBudget \
        NetworkPolicy PrometheusRule ServiceMonitor PodMonitor VerticalPodAutoscaler";
    let cluster = "ClusterRole ClusterRoleBinding PriorityClass ConsoleYAMLSample \
        ConsoleQuickStart ConsoleCLIDownload ConsoleLink ConsolePlugin";
    let listed = |kinds: &str| kinds.split(' ').any(|it| it == kind);
    if listed(namespaced) { Some(true) } else { listed(cluster).then_some(false) }
}

/// Most findings that are reported: a bundle may have one for every few bytes.
const MAX_FINDINGS: usize = 1_000;

/// Runs every validator and reports every finding.
pub fn validate(bundle: &Bundle) -> Result<(), ValidationError> {
    #[rustfmt::skip]
    let validators = [
        unique_deployments, deployment_names, unique_crds, owned_crds_exist, package_name,
        conversion_install_modes, webhook_deployments_exist, unique_webhooks, webhook_names,
        one_conversion_per_crd, converted_crds_are_owned, webhook_rules, supported_manifests,
        api_services,
    ];
    let findings = validators.iter().flat_map(|validator| validator(bundle));
    let findings: Vec<String> = findings.take(MAX_FINDINGS).collect();
    if findings.is_empty() { Ok(()) } else { Err(ValidationError { findings }) }
}

fn deployments(bundle: &Bundle) -> impl Iterator<Item = &str> {
    bundle.csv.deployments.iter().map(|entry| entry.name.as_str())
}

fn unique_deployments(bundle: &Bundle) -> Vec<String> {
    let names = deployments(bundle).duplicates().sorted();
    let text = "cluster service version contains duplicate strategy deployment spec";
    names.map(|name| format!("{text} '{name}'")).collect()
}

fn deployment_names(bundle: &Bundle) -> Vec<String> {
    let faulty = |name: &str| {
        let faults = subdomain_faults(name).join(", ");
        let text = "invalid cluster service version strategy deployment name";
        (!faults.is_empty()).then(|| format!("{text} '{name}': {faults}"))
    };
    deployments(bundle).sorted().dedup().filter_map(faulty).collect()
}

fn unique_crds(bundle: &Bundle) -> Vec<String> {
    let names = bundle.crds.iter().map(Object::name).duplicates().sorted();
    let text = "bundle contains duplicate custom resource definition";
    names.map(|name| format!("{text} '{name}'")).collect()
}

fn owned_crds_exist(bundle: &Bundle) -> Vec<String> {
    let shipped: BTreeSet<&str> = bundle.crds.iter().map(Object::name).collect();
    let owned: BTreeSet<&str> = bundle.csv.owned_crds.iter().map(String::as_str).collect();
    let text = "cluster service definition references owned custom resource definition";
    let missing = owned.difference(&shipped);
    missing.map(|name| format!("{text} '{name}' not found in bundle")).collect()
}

fn package_name(bundle: &Bundle) -> Vec<String> {
    if bundle.package.is_empty() { vec!["package name is empty".to_owned()] } else { Vec::new() }
}

fn conversions(bundle: &Bundle) -> impl Iterator<Item = &WebhookDefinition> {
    bundle.csv.webhooks.iter().filter(|webhook| webhook.is_conversion())
}

fn conversion_install_modes(bundle: &Bundle) -> Vec<String> {
    let modes: Vec<&str> = bundle.csv.supported_modes().into_iter().collect();
    if modes == [mode::ALL_NAMESPACES] {
        return Vec::new();
    }
    let modes = modes.join(" ");
    let text = "conversion webhooks are only supported for bundles that only support AllNamespaces \
                install mode";
    let names = conversions(bundle).map(|webhook| quote(&webhook.generate_name));
    let fault = |name| {
        let what = format!("bundle contains conversion webhook {name}");
        format!("{what} and supports install modes [{modes}] - {text}")
    };
    names.map(fault).collect()
}

fn webhook_deployments_exist(bundle: &Bundle) -> Vec<String> {
    let text = "references non-existent deployment";
    let known: BTreeSet<&str> = deployments(bundle).collect();
    (bundle.csv.webhooks.iter())
        .filter(|webhook| !known.contains(webhook.deployment_name.as_str()))
        .map(|webhook| (&webhook.deployment_name, &webhook.kind, &webhook.generate_name))
        .sorted()
        .map(|(deployment, kind, name)| {
            format!("webhook of type '{kind}' with name '{name}' {text} '{deployment}'")
        })
        .collect()
}

/// Returns types and names of the webhooks.
fn webhooks(bundle: &Bundle) -> impl Iterator<Item = (&str, &str)> {
    bundle.csv.webhooks.iter().map(|it| (it.kind.as_str(), it.generate_name.as_str()))
}

fn unique_webhooks(bundle: &Bundle) -> Vec<String> {
    let names = webhooks(bundle).duplicates().sorted();
    names.map(|(kind, name)| format!("duplicate webhook '{name}' of type '{kind}'")).collect()
}

fn webhook_names(bundle: &Bundle) -> Vec<String> {
    let faulty = |(kind, name): (&str, &str)| {
        let faults = subdomain_faults(name).join(",");
        (!faults.is_empty())
            .then(|| format!("webhook of type '{kind}' has invalid name '{name}': {faults}"))
    };
    webhooks(bundle).sorted().dedup().filter_map(faulty).collect()
}

fn one_conversion_per_crd(bundle: &Bundle) -> Vec<String> {
    let text = "reference same custom resource definition";
    let mut by_crd: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for webhook in conversions(bundle) {
        for crd in &webhook.conversion_crds {
            by_crd.entry(crd).or_default().push(&webhook.generate_name);
        }
    }
    by_crd
        .into_iter()
        .filter(|(_, names)| names.len() > 1)
        .map(|(crd, names)| {
            let names = names.into_iter().sorted().dedup().join(",");
            format!("conversion webhooks [{names}] {text} '{crd}'")
        })
        .collect()
}

fn converted_crds_are_owned(bundle: &Bundle) -> Vec<String> {
    let text = "references custom resource definition";
    let owned: BTreeSet<&str> = bundle.csv.owned_crds.iter().map(String::as_str).collect();
    conversions(bundle)
        .flat_map(|webhook| {
            let crds = webhook.conversion_crds.iter().map(String::as_str);
            crds.filter(|crd| !owned.contains(crd)).map(|crd| (webhook.generate_name.as_str(), crd))
        })
        .sorted()
        .dedup()
        .map(|(name, crd)| format!("conversion webhook '{name}' {text} '{crd}' not owned bundle"))
        .collect()
}

fn webhook_rules(bundle: &Bundle) -> Vec<String> {
    let mut findings = Vec::new();
    let admission = bundle.csv.webhooks.iter();
    for webhook in admission.filter(|webhook| !webhook.is_conversion()) {
        let forbidden = format!(
            "webhook {} contains forbidden rule: admission webhook rules cannot reference",
            quote(&webhook.generate_name)
        );
        for rule in &webhook.rules {
            for group in &rule.api_groups {
                match group.as_str() {
                    "*" | olm_api::GROUP => {
                        findings.push(format!("{forbidden} API group {}", quote(group)));
                    }
                    "admissionregistration.k8s.io" => {
                        let resources = rule.resources.iter();
                        let protected = resources.filter(|name| is_protected_resource(name));
                        findings.extend(protected.map(|name| {
                            let (name, group) = (quote(name), quote(group));
                            format!("{forbidden} resource {name} for API group {group}")
                        }));
                    }
                    _ => {}
                }
            }
        }
    }
    findings
}

fn is_protected_resource(name: &str) -> bool {
    let name = name.to_lowercase();
    let kinds = ["*", "mutatingwebhookconfiguration", "validatingwebhookconfiguration"];
    kinds.contains(&name.as_str())
        || name.strip_suffix('s').is_some_and(|kind| kinds[1..].contains(&kind))
}

fn supported_manifests(bundle: &Bundle) -> Vec<String> {
    let unsupported = (bundle.others.iter()).filter(|other| supported_kind(other.kind()).is_none());
    unsupported
        .map(|other| {
            let (name, kind) = (quote(other.name()), quote(other.kind()));
            format!("unsupported resource {name} with kind {kind}")
        })
        .collect()
}

/// The API server keeps an APIService of its own for each version of a CRD.
fn api_services(bundle: &Bundle) -> Vec<String> {
    let known: BTreeSet<&str> = deployments(bundle).collect();
    let versions = bundle.crds.iter().rev().flat_map(|crd| {
        let versions = crd.list_at("/spec/versions").filter_map(|it| it["name"].as_str());
        versions.map(|version| ((crd.text_at("/spec/group"), version), crd.name()))
    });
    let defined: BTreeMap<_, _> = versions.collect();
    let mut findings = BTreeSet::new();
    for definition in &bundle.csv.api_services {
        let (name, deployment) = (definition.name(), definition.deployment_name.as_str());
        let faults = subdomain_faults(&name);
        if !faults.is_empty() {
            findings.insert(format!("invalid name of API service '{name}': {}", faults.join(", ")));
        }
        if !known.contains(deployment) {
            findings.insert(format!(
                "API service '{name}' references non-existent deployment '{deployment}'"
            ));
        }
        let crd = defined.get(&(definition.group.as_str(), definition.version.as_str()));
        findings.extend(crd.map(|crd| {
            format!(
                "API service '{name}' has group and version of custom resource definition '{crd}'"
            )
        }));
    }
    findings.into_iter().collect()
}

/// The most bytes of a DNS-1123 subdomain.
pub const MAX_SUBDOMAIN_BYTES: usize = 253;

/// Kubernetes' text for a DNS-1123 subdomain with characters in the wrong places.
pub(crate) const SUBDOMAIN_FORM: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
     '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used \
     for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Says whether a name is a DNS-1123 subdomain.
pub fn is_subdomain(name: &str) -> bool {
    subdomain_faults(name).is_empty()
}

/// Returns why a name is not a DNS-1123 subdomain, sorted.
fn subdomain_faults(name: &str) -> Vec<&'static str> {
    let mut faults = Vec::new();
    if !name.split('.').all(is_label) {
        faults.push(SUBDOMAIN_FORM);
    }
    if name.len() > MAX_SUBDOMAIN_BYTES {
        faults.push("must be no more than 253 characters");
    }
    faults
}

/// Says whether a text has the characters of a DNS-1123 label, however long it is.
pub(crate) fn is_label(label: &str) -> bool {
    let outer = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = label.as_bytes();
    bytes.first().is_some_and(outer)
        && bytes.last().is_some_and(outer)
        && bytes.iter().all(|byte| outer(byte) || *byte == b'-')
}
