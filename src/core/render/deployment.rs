//! The Deployments of the install strategy.
//!
//! Source: rendering.md 4.7.

use std::collections::BTreeSet;

use olm_api::keys::annotation;
use serde_json::{Value, json};

use super::certificate::called_deployments;
use super::name::{certificate_name, service_name};
use super::{RenderOptions, deployment_config, object, quantity, volume};
use crate::bundle::{Csv, StrategyDeployment};
use crate::object::{Object, map_in};

/// Keys of a Deployment's `spec`; server-side apply refuses others (rendering.md R14).
#[rustfmt::skip]
const SPEC_KEYS: [&str; 8] = [
    "minReadySeconds", "paused", "progressDeadlineSeconds", "replicas", "revisionHistoryLimit",
    "selector", "strategy", "template",
];

/// Keys of a pod template.
const TEMPLATE_KEYS: [&str; 2] = ["metadata", "spec"];

/// Returns the Deployments in the order of the ClusterServiceVersion.
///
/// Pods carry every annotation of the ClusterServiceVersion unless they set it themselves, because
/// operators read them through the downward API, and on top the namespaces they watch and run in.
pub(super) fn deployments(csv: &Csv, options: &RenderOptions) -> Vec<Object> {
    let called =
        if options.certificates.is_some() { called_deployments(csv) } else { BTreeSet::new() };
    let made = |entry: &StrategyDeployment| {
        deployment(entry, csv, options, called.contains(entry.name.as_str()))
    };
    csv.deployments.iter().map(made).collect()
}

fn deployment(
    entry: &StrategyDeployment,
    csv: &Csv,
    options: &RenderOptions,
    has_certificate: bool,
) -> Object {
    let mut annotations = csv.annotations.clone();
    annotations.extend(entry.annotations.clone());
    let targets = options.targets.join(",");
    annotations.insert(annotation::TARGET_NAMESPACES.to_owned(), targets);
    let namespace = options.install_namespace.clone();
    annotations.insert(annotation::OPERATOR_NAMESPACE.to_owned(), namespace);

    let mut spec = entry.spec.clone();
    spec.retain(|key, _| SPEC_KEYS.contains(&key.as_str()));
    spec.insert("revisionHistoryLimit".to_owned(), json!(1));
    let template = map_in(&mut spec, "template");
    template.retain(|key, _| TEMPLATE_KEYS.contains(&key.as_str()));
    map_in(template, "metadata").insert("annotations".to_owned(), json!(annotations));
    if let Some(pod) = template.get_mut("spec") {
        quantity::write_as_text(pod);
        if let Value::Object(pod) = pod
            && has_certificate
        {
            volume::mount(pod, &certificate_name(&service_name(&entry.name)));
        }
    }

    let deployment = object("apps/v1", "Deployment", &entry.name, &options.install_namespace);
    let mut deployment = deployment.with("spec", spec);
    if let Some(labels) = &entry.label {
        let metadata = deployment.metadata_mut();
        metadata.insert("labels".to_owned(), json!(labels));
    }
    if let Some(config) = &options.deployment {
        deployment_config::apply(&mut deployment, config);
    }
    deployment
}
