//! The Deployments of the install strategy.
//!
//! Source: rendering.md 4.7.

use olm_api::keys::annotation;
use serde_json::{Map, Value, json};

use super::certificate::called_deployments;
use super::name::{certificate_name, service_name};
use super::{RenderOptions, deployment_config, object, quantity, volume};
use crate::bundle::{Csv, StrategyDeployment};
use crate::object::Object;

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
    csv.deployments.iter().map(|entry| deployment(entry, csv, options)).collect()
}

fn deployment(entry: &StrategyDeployment, csv: &Csv, options: &RenderOptions) -> Object {
    let mut annotations = csv.annotations.clone();
    annotations.extend(entry.template_annotations.clone());
    let targets = options.targets.join(",");
    annotations.insert(annotation::TARGET_NAMESPACES.to_owned(), targets);
    let namespace = options.install_namespace.clone();
    annotations.insert(annotation::OPERATOR_NAMESPACE.to_owned(), namespace);

    let mut metadata = entry.template_metadata.clone();
    metadata.insert("annotations".to_owned(), json!(annotations));
    let mut template = known(&entry.template, &TEMPLATE_KEYS);
    if let Some(Value::Object(pod)) = template.get_mut("spec") {
        quantity::write_as_text(pod);
        if options.certificates.is_some() && called_deployments(csv).contains(&*entry.name) {
            volume::mount(pod, &certificate_name(&service_name(&entry.name)));
        }
    }
    template.insert("metadata".to_owned(), Value::Object(metadata));
    let mut spec = known(&entry.spec, &SPEC_KEYS);
    spec.insert("template".to_owned(), Value::Object(template));
    spec.insert("revisionHistoryLimit".to_owned(), json!(1));

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

fn known(map: &Map<String, Value>, keys: &[&str]) -> Map<String, Value> {
    let mut map = map.clone();
    map.retain(|key, _| keys.contains(&key.as_str()));
    map
}
