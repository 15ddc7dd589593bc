//! The settings from the flags, and the ConfigMap in which the plugin reads them.
//!
//! Source: plugin.md 5.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Error};
use olm_api::keys::{manager, name};
use olm_core::render::ProxyVariables;
use olm_core::settings::{ControllerSettings, FeatureGate, KEY};
use serde_json::json;
use strum::IntoEnumIterator as _;

use crate::args::Args;
use crate::cluster::{Repeated, Sentence};

/// The interval of comparisons of the ConfigMap, which may have been changed.
const INTERVAL: Duration = Duration::from_hours(1);
/// The same after a failure.
const RETRY: Duration = Duration::from_mins(5);

/// Returns the settings of a controller with these flags and environment variables.
pub fn of(args: &Args, variable: impl Fn(&str) -> Option<String>) -> ControllerSettings {
    let gates = FeatureGate::iter().map(|gate| (gate.name().to_owned(), args.is_on(gate)));
    ControllerSettings {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        default_upgrade_policy: args.default_upgrade_policy,
        catalog_unavailability_policy: args.catalog_unavailability_policy,
        constraint_providers: args.constraint_providers.clone(),
        default_service_account: args.default_service_account.clone(),
        forbidden_service_accounts: args.forbidden_service_accounts.as_ref().map(|it| it.0.clone()),
        named_service_account: args.named_service_account,
        webhook_certificates: args.certificates(),
        missing_optional_kinds: args.missing_optional_kinds,
        require_approval: args.require_approval,
        crd_safety_compat: args.crd_safety_compat,
        rbac_preflight: args.rbac_preflight,
        platform_version: args.platform_version,
        infer_platform_version: args.infer_platform_version,
        default_cluster_proxy: args.default_cluster_proxy,
        default_operator_conditions: args.default_operator_conditions,
        default_user_roles: args.default_user_roles,
        operator_proxy: match &args.operator_proxy[..] {
            [] => ProxyVariables::of_environment(variable),
            given => ProxyVariables::joined(given),
        },
        feature_gates: gates.collect::<BTreeMap<_, _>>(),
    }
}

/// Keeps the ConfigMap as the settings are, until `shutdown`.
///
/// It is part of the manifests and never created here: where it does not exist, or may not be
/// written, the log says so, and the plugin says which settings it assumes.
pub async fn publish(
    client: Client,
    namespace: String,
    settings: ControllerSettings,
    shutdown: impl Future<Output = ()>,
) {
    let settings = settings.to_yaml();
    let mut shutdown = std::pin::pin!(shutdown);
    let mut failure = Repeated::default();
    loop {
        let pause = match publish_once(&client, &namespace, &settings).await {
            Ok(()) => {
                failure.over();
                INTERVAL
            }
            Err(error) => {
                failure.log(Sentence(&error).to_string(), "settings not published");
                RETRY
            }
        };
        tokio::select! {
            () = &mut shutdown => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Writes the ConfigMap unless it has this text already.
async fn publish_once(client: &Client, namespace: &str, settings: &str) -> Result<(), Error> {
    let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let data = api.get(name::CONTROLLER_CONFIG).await?.data.unwrap_or_default();
    if data.get(KEY).is_some_and(|text| text == settings) {
        return Ok(());
    }
    let params = PatchParams::apply(manager::OPERATOR_CONTROLLER);
    let patch = Patch::Merge(json!({ "data": { KEY: settings } }));
    api.patch(name::CONTROLLER_CONFIG, &params, &patch).await?;
    tracing::info!(namespace, "settings published");
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// The plugin assumes these where it cannot read them.
    #[test]
    fn a_controller_without_flags_decides_by_the_defaults() {
        let settings = of(&Args::try_parse_from(["olm-controller"]).unwrap(), |_| None);
        let defaults = ControllerSettings::default();
        for gate in FeatureGate::iter() {
            assert_eq!(settings.is_on(gate), defaults.is_on(gate), "{gate:?}");
        }
        let with_gates = ControllerSettings {
            version: settings.version.clone(),
            constraint_providers: settings.constraint_providers.clone(),
            feature_gates: settings.feature_gates.clone(),
            ..defaults
        };
        assert_eq!(settings, with_gates);
    }

    #[test]
    fn each_flag_has_its_member() {
        let args = [
            "olm-controller",
            "--default-upgrade-policy=PatchOnly",
            "--catalog-unavailability-policy=Strict",
            "--constraint-providers=clusterextensions,csvs",
            "--default-service-account=system/default",
            "--forbidden-service-accounts=system/*,other/a",
            "--named-service-account=ignore",
            "--webhook-certificates=service-ca",
            "--missing-optional-kinds=fail",
            "--require-approval",
            "--crd-safety-compat",
            "--rbac-preflight=report",
            "--default-cluster-proxy",
            "--default-operator-conditions",
            "--default-user-roles=create",
            "--operator-proxy=HTTPS_PROXY=proxy",
            "--operator-proxy=NO_PROXY=example.com",
            "--feature-gates=ConstraintChecking=false",
        ];
        let settings = of(&Args::try_parse_from(args).unwrap(), |_| Some("else".to_owned()));
        let text = settings.to_yaml();
        let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
        insta::assert_snapshot!(text);
    }
}
