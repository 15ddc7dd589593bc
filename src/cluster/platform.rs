//! What of the cluster decides about a step: OpenShift's proxies, OperatorConditions, the label of the
//! install namespace.

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
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

/// Says whether each step of an extension in a namespace has to be approved by its plan: everywhere, or
/// by the label of the namespace.
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
