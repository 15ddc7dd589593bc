//! What operators are told and tell: OpenShift's proxies, and OperatorConditions.

use kube::Client;
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
