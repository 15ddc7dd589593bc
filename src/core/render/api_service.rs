//! APIServices, and what lets the servers behind them judge who calls.
//!
//! Names and values are those of OLM Classic. Source: rendering.md 4.13.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::certificate::CertificateProvider;
use super::name::service_name;
use super::{RenderOptions, object, rbac};
use crate::bundle::{ApiServiceDefinition, Csv};
use crate::object::Object;

/// Order of the groups in discovery, and of the versions of a group.
const PRIORITIES: [i64; 2] = [2000, 15];
/// Lets a server ask whose a token is and what its owner may do.
const DELEGATOR: &str = "system:auth-delegator";
/// Lets a server read which front proxies it may believe, and where that is written.
pub(crate) const READER: (&str, &str) =
    ("kube-system", "extension-apiserver-authentication-reader");

/// Returns an APIService for each definition; those of one API are equal.
pub(super) fn api_services(csv: &Csv, options: &RenderOptions) -> Vec<Object> {
    csv.api_services.iter().map(|definition| api_service(definition, options)).collect()
}

fn api_service(definition: &ApiServiceDefinition, options: &RenderOptions) -> Object {
    let endpoint = definition.endpoint();
    let (service, namespace) = (service_name(endpoint.deployment), &options.install_namespace);
    let [group_priority, version_priority] = PRIORITIES;
    let mut spec = json!({
        "group": definition.group,
        "version": definition.version,
        "groupPriorityMinimum": group_priority,
        "versionPriority": version_priority,
        "service": { "namespace": namespace, "name": service, "port": endpoint.port },
    });
    let provider = options.certificates.as_ref();
    if let Some(bundle) = provider.and_then(CertificateProvider::ca_bundle) {
        spec["caBundle"] = Value::String(bundle);
    }
    let api = object("apiregistration.k8s.io/v1", "APIService", &definition.name(), "");
    let mut api = api.with("spec", spec);
    if let Some(provider) = provider {
        provider.annotate_caller(&mut api, &service, namespace);
    }
    api
}

/// Returns the name of the binding to [`READER`] of the account behind a Service.
pub(crate) fn reader_name(service: &str) -> String {
    format!("{service}-auth-reader")
}

/// Returns the bindings of the account of each deployment that serves an API.
pub fn bindings(csv: &Csv, namespace: &str) -> Vec<Object> {
    let serving: BTreeSet<_> = csv.api_services.iter().map(|it| &it.deployment_name).collect();
    csv.deployments
        .iter()
        .filter(|deployment| serving.contains(&deployment.name))
        .flat_map(|deployment| {
            let service = service_name(&deployment.name);
            let ((place, reader), delegates) = (READER, format!("{service}-{DELEGATOR}"));
            let bound =
                |at, role| rbac::binding(at, role, namespace, [deployment.service_account()]);
            [bound(("", &delegates), DELEGATOR), bound((place, &reader_name(&service)), reader)]
        })
        .collect()
}
