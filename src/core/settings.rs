//! What a controller decides by besides the cluster and its catalogs: its flags, in the form in
//! which it publishes them and the plugin reads them.
//!
//! The form is a YAML mapping, in key [`KEY`] of ConfigMap
//! [`CONTROLLER_CONFIG`](olm_api::keys::name::CONTROLLER_CONFIG). Members are only ever added, and a
//! member that is missing has the default of its flag.
//!
//! Source: plugin.md 5.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{EnumString, VariantNames};

use crate::config::Features;
use crate::crd_safety::Rules;
use crate::extension::Defaults;
use crate::extension::holds::RbacPreflight;
use crate::gate::MinorRelease;
use crate::guard::{AccountPattern, Reserved};
use crate::render::{Additions, CertificateSource, ProxyVariables, UserRoles};
use crate::resolve::{Dependencies, Options, Unavailability, UpdatePolicy};
use crate::revision::{Account, AccountRule};
use crate::yaml;

/// How to put the controller's manifests back.
pub const REINSTALL: &str = "kubectl apply --server-side -f install.yaml (on OpenShift, openshift.yaml); \
                             a release of Helm: helm upgrade RELEASE CHART --reset-then-reuse-values";

/// Key of the ConfigMap whose value is the document.
pub const KEY: &str = "settings.yaml";
/// Version of the form that this program writes and reads.
const SCHEMA_VERSION: u32 = 1;

/// What the flags of a controller say, each member named after its flag.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag without a value")]
pub struct ControllerSettings {
    /// Version of the controller; empty if no controller wrote this.
    pub version: String,
    /// What an automatic update may change where no annotation says it.
    pub default_upgrade_policy: UpdatePolicy,
    /// How a selected catalog that cannot be read is treated.
    pub catalog_unavailability_policy: Unavailability,
    /// What counts as installed when declared dependencies are judged.
    pub constraint_providers: Vec<ConstraintProvider>,
    /// The service account of extensions that name none.
    pub default_service_account: Option<Account>,
    /// The service accounts that no extension may use; absent, those of `kube-system` and of the
    /// controller's namespace.
    pub forbidden_service_accounts: Option<Vec<AccountPattern>>,
    /// Whether the service account that an extension names is used.
    pub named_service_account: NamedServiceAccount,
    /// Who issues the certificates of webhook servers.
    pub webhook_certificates: WebhookCertificates,
    /// What happens to objects of optional kinds that the cluster does not serve.
    pub missing_optional_kinds: MissingOptionalKinds,
    /// Whether every step of every extension has to be approved by its plan.
    pub require_approval: bool,
    /// Whether upgrades of CRDs are judged exactly as upstream does.
    pub crd_safety_compat: bool,
    /// What is done about rights that an account lacks.
    pub rbac_preflight: RbacPreflight,
    /// The OpenShift release that is judged by where there is no `ClusterVersion`.
    pub platform_version: Option<MinorRelease>,
    /// Whether that is taken from the version of Kubernetes.
    pub infer_platform_version: bool,
    /// Whether operators get proxies where no annotation says it.
    pub default_cluster_proxy: bool,
    /// Whether operators get an OperatorCondition where no annotation says it.
    pub default_operator_conditions: bool,
    /// Roles for users of what operators provide, where no annotation says it.
    pub default_user_roles: UserRoles,
    /// The proxies that operators get where there is no `Proxy`.
    pub operator_proxy: ProxyVariables,
    /// Whether each feature gate with an effect is on, by its name.
    pub feature_gates: BTreeMap<String, bool>,
}

/// What meets declared dependencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, EnumString, VariantNames)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ConstraintProvider {
    /// Installed ClusterExtensions; they always count.
    ClusterExtensions,
    /// ClusterServiceVersions of OLM Classic that succeeded.
    Csvs,
}

/// Whether `spec.serviceAccount` is used.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, EnumString, VariantNames,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum NamedServiceAccount {
    /// The service account that an extension names does the work.
    #[default]
    Use,
    /// The field is ignored, as upstream v1.11 does.
    Ignore,
}

/// Who issues the certificates of webhook servers.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, EnumString, VariantNames,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum WebhookCertificates {
    /// The service CA on OpenShift, cert-manager where it is served, else the controller itself; an
    /// extension keeps what its first revision had.
    #[default]
    Auto,
    /// cert-manager.
    CertManager,
    /// The service CA of OpenShift.
    ServiceCa,
    /// The controller itself.
    SelfSigned,
    /// Nobody: bundles with webhooks are refused.
    None,
}

/// What happens to objects of optional kinds that the cluster does not serve.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, EnumString, VariantNames,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum MissingOptionalKinds {
    /// They are left out and reported until the kind is served.
    #[default]
    Defer,
    /// They are errors like any other missing kind.
    Fail,
}

/// A feature gate of upstream that has an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumIter, strum::IntoStaticStr)]
pub enum FeatureGate {
    /// Whether catalogs are served by package too.
    #[strum(serialize = "APIV1MetasHandler")]
    ApiV1MetasHandler,
    /// Whether the release of a bundle counts.
    BundleReleaseSupport,
    /// Whether declared dependencies are checked; bundles that declare some are refused otherwise.
    ConstraintChecking,
    /// Whether the configuration may change Deployments.
    DeploymentConfig,
    /// Whether install modes SingleNamespace and OwnNamespace are offered.
    SingleOwnNamespaceInstallSupport,
}

/// Why a document does not hold settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(String);

impl FeatureGate {
    /// Returns the name that flags and documents use.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns whether the gate is on by default.
    pub fn is_on_by_default(self) -> bool {
        self != Self::BundleReleaseSupport
    }
}

impl ControllerSettings {
    /// Reads a document as [`Self::to_yaml`] writes it; unknown members are ignored.
    ///
    /// # Errors
    ///
    /// Fails if the text is not one YAML mapping, if the form is another one, and if a member has a
    /// value of another type or an unknown word.
    pub fn from_yaml(text: &str) -> Result<Self, SettingsError> {
        let documents = yaml::to_json(text).map_err(|error| SettingsError(error.to_string()))?;
        let [document @ Value::Object(members)] = documents.as_slice() else {
            return Err(SettingsError("must be one mapping".to_owned()));
        };
        // Another form may have other members and other words.
        if let Some(version) = members.get("schemaVersion").filter(|it| **it != SCHEMA_VERSION) {
            return Err(SettingsError(format!(
                "schemaVersion {version} is not supported: this version reads {SCHEMA_VERSION}"
            )));
        }
        serde_path_to_error::deserialize(document)
            .map_err(|error| SettingsError(format!("{}: {}", error.path(), error.inner())))
    }

    /// Writes the document; equal settings give equal texts.
    pub fn to_yaml(&self) -> String {
        let mut document = serde_json::to_value(self).unwrap_or_default();
        document["schemaVersion"] = SCHEMA_VERSION.into();
        yaml::to_yaml(&document)
    }

    /// Says whether a feature gate is on.
    pub fn is_on(&self, gate: FeatureGate) -> bool {
        self.feature_gates.get(gate.name()).copied().unwrap_or_else(|| gate.is_on_by_default())
    }

    /// Returns how resolution behaves where annotations say nothing.
    pub fn resolution(&self) -> Options {
        Options {
            release_support: self.is_on(FeatureGate::BundleReleaseSupport),
            unavailability: self.catalog_unavailability_policy,
            updates: self.default_upgrade_policy,
            closed_until: None,
            dependencies: if self.is_on(FeatureGate::ConstraintChecking) {
                Dependencies::Check
            } else {
                Dependencies::Refuse
            },
            pins_releases: true,
        }
    }

    /// Returns what counts where the annotations of an extension say nothing.
    pub fn defaults(&self) -> Defaults {
        Defaults {
            updates: self.default_upgrade_policy,
            additions: Additions {
                cluster_proxy: self.default_cluster_proxy,
                operator_conditions: self.default_operator_conditions,
                user_roles: self.default_user_roles,
                create_namespace: false,
            },
        }
    }

    /// Returns what a configuration may say, and which bundles are accepted.
    pub fn features(&self) -> Features {
        Features {
            single_own_namespace: self.is_on(FeatureGate::SingleOwnNamespaceInstallSupport),
            deployment_config: self.is_on(FeatureGate::DeploymentConfig),
            webhooks: self.webhook_certificates != WebhookCertificates::None,
        }
    }

    /// Returns who is to issue the certificates of webhook servers; with `None` it is left to what
    /// the cluster offers, or nobody does.
    pub fn certificates(&self) -> Option<CertificateSource> {
        match self.webhook_certificates {
            WebhookCertificates::Auto | WebhookCertificates::None => None,
            WebhookCertificates::CertManager => Some(CertificateSource::CertManager),
            WebhookCertificates::ServiceCa => Some(CertificateSource::ServiceCa),
            WebhookCertificates::SelfSigned => Some(CertificateSource::SelfSigned),
        }
    }

    /// Returns which service account an extension is installed with.
    pub fn accounts(&self) -> AccountRule {
        AccountRule {
            default: self.default_service_account.clone(),
            ignore_named: self.named_service_account == NamedServiceAccount::Ignore,
        }
    }

    /// Returns which service accounts nothing is installed with, where the controller runs in this
    /// namespace.
    pub fn reserved(&self, namespace: &str) -> Reserved {
        let by_default = || ["kube-system", namespace].map(AccountPattern::all_of).to_vec();
        Reserved {
            patterns: self.forbidden_service_accounts.clone().unwrap_or_else(by_default),
            default: self.default_service_account.clone(),
        }
    }

    /// Returns which changes of CRDs are let pass.
    pub fn crd_rules(&self) -> Rules {
        if self.crd_safety_compat { Rules::Upstream } else { Rules::Loosenings }
    }

    /// Returns whether bundles that OLM Classic installed can meet declared dependencies.
    pub fn counts_classic(&self) -> bool {
        self.constraint_providers.contains(&ConstraintProvider::Csvs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Chain;
    use crate::fixture::cases;

    const CASES: &str = include_str!("testdata/cases.yaml");

    #[test]
    fn what_is_written_is_read() {
        let settings = ControllerSettings {
            version: "0.3.0".to_owned(),
            default_upgrade_policy: UpdatePolicy::Any,
            catalog_unavailability_policy: Unavailability::BestEffort,
            constraint_providers: vec![
                ConstraintProvider::ClusterExtensions,
                ConstraintProvider::Csvs,
            ],
            default_service_account: Some("olmv1-system/default".parse().unwrap()),
            forbidden_service_accounts: Some(vec!["a/*".parse().unwrap(), "b/c".parse().unwrap()]),
            named_service_account: NamedServiceAccount::Ignore,
            webhook_certificates: WebhookCertificates::SelfSigned,
            missing_optional_kinds: MissingOptionalKinds::Fail,
            require_approval: true,
            crd_safety_compat: true,
            platform_version: Some(MinorRelease::new(4, 20)),
            infer_platform_version: true,
            default_cluster_proxy: true,
            default_operator_conditions: true,
            default_user_roles: UserRoles::Aggregate,
            operator_proxy: "NO_PROXY=example.com".parse().unwrap(),
            feature_gates: BTreeMap::from([("ConstraintChecking".to_owned(), false)]),
            ..ControllerSettings::default()
        };
        let text = settings.to_yaml();
        insta::assert_snapshot!(text);
        assert_eq!(ControllerSettings::from_yaml(&text), Ok(settings));
    }

    #[test]
    fn what_is_missing_is_as_by_default_and_what_is_unknown_is_ignored() {
        let settings = ControllerSettings::from_yaml("requireQuorum: true\n").unwrap();
        assert_eq!(settings, ControllerSettings::default());
        let ours = Options { pins_releases: true, ..Options::default() };
        assert_eq!(settings.resolution(), ours);
        assert_eq!(settings.features(), Features::default());
        assert_eq!(settings.defaults(), Defaults::default());
        assert_eq!(settings.accounts(), AccountRule::default());
    }

    // deploying.md 6
    #[test]
    fn accounts_of_the_system_are_reserved_unless_others_are() {
        let reserved = |settings: &ControllerSettings, account: &str| {
            settings.reserved("system").check(&account.parse().unwrap(), None).is_err()
        };
        let mut settings = ControllerSettings::default();
        for (account, want) in [("kube-system/a", true), ("system/a", true), ("a/b", false)] {
            assert_eq!(reserved(&settings, account), want, "{account}");
        }
        settings.forbidden_service_accounts = Some(vec!["a/b".parse().unwrap()]);
        for (account, want) in [("kube-system/a", false), ("a/b", true), ("a/c", false)] {
            assert_eq!(reserved(&settings, account), want, "{account}");
        }
    }

    #[test]
    fn each_gate_has_its_effect() {
        let text = "featureGates: {BundleReleaseSupport: true, ConstraintChecking: false, \
                    DeploymentConfig: false, SingleOwnNamespaceInstallSupport: false}\n\
                    webhookCertificates: none\n";
        let settings = ControllerSettings::from_yaml(text).unwrap();
        let options = settings.resolution();
        assert!(options.release_support);
        assert_eq!(options.dependencies, Dependencies::Refuse);
        let features = settings.features();
        assert!(!features.deployment_config && !features.single_own_namespace);
        assert!(!features.webhooks);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, want) in cases::<(&str, &str)>(CASES, "what_is_wrong_is_named") {
            let error = ControllerSettings::from_yaml(text).unwrap_err();
            assert_eq!(Chain(&error).to_string(), want);
        }
    }
}
