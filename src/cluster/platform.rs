//! State of the cluster that affects a step: OpenShift's proxies, OperatorConditions, the label of
//! the install namespace, pull secrets of the controller's namespace.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::ListParams;
use kube::{Api, Client};
use olm_api::keys::label;
use olm_core::extension;
use olm_core::render::{OPERATOR_CONDITION_API, OPERATOR_CONDITIONS};
use serde_json::Value;

use super::request::read;

/// A list, because the controller may list and watch it, as for its own proxies.
const PROXY: &str = "/apis/config.openshift.io/v1/proxies?fieldSelector=metadata.name%3Dcluster";

/// Reads the list with the `Proxy` of the cluster, if it has one; `None` where the kind is not served.
pub async fn proxies(client: &Client) -> Result<Option<Value>, kube::Error> {
    read(client, PROXY).await
}

/// Reads the `OperatorCondition` of an operator, if there is one.
pub async fn operator_condition(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<Value>, kube::Error> {
    let path = format!(
        "/apis/{OPERATOR_CONDITION_API}/namespaces/{namespace}/{OPERATOR_CONDITIONS}/{name}"
    );
    read(client, &path).await
}

/// Returns whether each step of an extension in a namespace requires approval of its plan:
/// everywhere, or because of the label of the namespace.
pub async fn requires_approval(
    client: &Client,
    everywhere: bool,
    namespace: &str,
) -> Result<bool, kube::Error> {
    if everywhere {
        return Ok(true);
    }
    let found = Api::<Namespace>::all(client.clone()).get_metadata_opt(namespace).await?;
    let labels = found.as_ref().and_then(|namespace| namespace.metadata.labels.as_ref());
    Ok(extension::requires_approval(everywhere, labels))
}

/// Returns which of these Secrets the controller copies for the pods of operators: those that are
/// labelled for it in its namespace.
pub async fn copied_pull_secrets(
    client: &Client,
    namespace: &str,
    names: &BTreeSet<String>,
) -> Result<BTreeSet<String>, kube::Error> {
    let labelled = ListParams::default().labels(&format!("{}=true", label::OPERATOR_PULL_SECRET));
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    let found = secrets.list_metadata(&labelled).await?.items.into_iter();
    let found = found.filter_map(|secret| secret.metadata.name);
    Ok(found.filter(|name| names.contains(name)).collect())
}
