//! The Services in front of what the API server calls: webhooks and API services.
//!
//! Source: rendering.md 4.10.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::name::service_name;
use super::{RenderError, RenderOptions, object};
use crate::bundle::{Csv, Endpoint, StrategyDeployment};
use crate::object::Object;

/// Returns a Service for each deployment that the API server calls.
pub(super) fn services(csv: &Csv, options: &RenderOptions) -> Result<Vec<Object>, RenderError> {
    // Port and target port of each endpoint, each port once, in order (rendering.md R18).
    let mut ports = BTreeMap::<&str, BTreeMap<i64, Value>>::new();
    for Endpoint { deployment, port, target } in csv.endpoints() {
        let target = target.cloned().unwrap_or_else(|| port.into());
        let known = ports.entry(deployment).or_default();
        let known = known.entry(port).or_insert_with(|| target.clone());
        if *known != target {
            return Err(RenderError::Refused(format!(
                "webhooks or API services of deployment '{deployment}' use port {port} with different \
                 target ports"
            )));
        }
    }
    let served = |deployment: &StrategyDeployment| {
        Some(service(deployment, ports.get(deployment.name.as_str())?, options))
    };
    Ok(csv.deployments.iter().filter_map(served).collect())
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
    let labels = selector.and_then(|selector| selector.get("matchLabels")?.as_object());
    if let Some(labels) = labels.filter(|labels| !labels.is_empty()) {
        spec.insert("selector".to_owned(), labels.clone().into());
    }
    let name = service_name(&deployment.name);
    let service = object("v1", "Service", &name, &options.install_namespace);
    let mut service = service.with("spec", spec);
    if let Some(provider) = &options.certificates {
        provider.annotate_service(&mut service);
    }
    service
}
