//! Rights of an account, asked one by one.

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::Client;
use kube::api::{Api, PostParams};
use olm_core::rbac::{Account, Permission};
use olm_core::rights::access_review;

use super::request::join_bounded;

/// Asks of each right, in a namespace, whether any authorizer gives it to the account.
pub async fn reviews(
    client: &Client,
    account: &Account,
    rights: &[(&str, &Permission)],
) -> Vec<Result<bool, kube::Error>> {
    let api = Api::<SubjectAccessReview>::all(client.clone());
    let asked = rights.iter().map(|(namespace, right)| {
        let (api, review) = (api.clone(), access_review(account, namespace, right));
        async move {
            let answer = api.create(&PostParams::default(), &review).await?;
            Ok(answer.status.is_some_and(|status| status.allowed))
        }
    });
    join_bounded(asked.collect()).await
}
