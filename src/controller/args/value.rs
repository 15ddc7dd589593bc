//! What the flags take, each parsed into a type of its own.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use olm_core::guard::AccountPattern;

/// A part of the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Component {
    /// Unpacks and serves ClusterCatalogs.
    Catalogs,
    /// Installs ClusterExtensions and applies ClusterObjectSets.
    Extensions,
    /// Keeps the `ClusterOperator` `olm`.
    Gate,
}

/// How the rights of a service account are taken on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AccountAuth {
    /// Impersonation headers on the controller's own credentials.
    Impersonate,
    /// Tokens requested for the account.
    Token,
}

/// What happens while the policies on who may name an account are not in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AccountPolicyChoice {
    /// Nothing new is installed.
    Require,
    /// The log and a metric say so.
    Warn,
    /// Nobody looks.
    Off,
}

/// Whether `spec.serviceAccount` is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NamedAccount {
    /// The account an extension names does the work.
    Use,
    /// The field is ignored, as upstream v1.11 does.
    Ignore,
}

/// What an automatic upgrade may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UpgradePolicy {
    /// The minor or patch version.
    #[value(name = "MinorOnly")]
    MinorOnly,
    /// Any version the catalog offers as a successor.
    #[value(name = "Any")]
    Any,
}

/// What happens when a selected catalog cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CatalogPolicy {
    /// Nothing is resolved, as upstream.
    #[value(name = "Strict")]
    Strict,
    /// The others are used when the missing one cannot change the answer.
    #[value(name = "Provable")]
    Provable,
    /// The others are used unless the missing one has a higher priority.
    #[value(name = "BestEffort")]
    BestEffort,
}

/// What meets declared dependencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ConstraintProvider {
    /// Installed `ClusterExtensions`; they always count.
    #[value(name = "clusterextensions")]
    ClusterExtensions,
    /// `ClusterServiceVersions` of OLM Classic that succeeded.
    #[value(name = "csvs")]
    Csvs,
}

/// What happens to an uninstall whose account no longer works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UninstallFallback {
    /// The garbage collector removes the objects, unordered.
    Gc,
    /// The uninstall waits for the account.
    Wait,
}

/// What happens to objects of optional kinds the cluster does not serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MissingKinds {
    /// They are left out and reported until the kind is served.
    Defer,
    /// They are errors like any other missing kind.
    Fail,
}

/// Who issues the certificates of webhook servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WebhookCertificates {
    /// The service CA on OpenShift, cert-manager where it is served, else the controller itself;
    /// an extension keeps what its first revision had.
    Auto,
    /// cert-manager.
    CertManager,
    /// The service CA of OpenShift.
    ServiceCa,
    /// The controller itself.
    SelfSigned,
}

/// Whether the verdict of the gate is written to `ClusterOperator` `olm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ManageClusterOperator {
    /// Unless another operator already does.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Where a server listens, or that it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    /// The server is not started.
    Off,
    /// The address; port 0 lets the system choose.
    At(SocketAddr),
}

/// A service account, written `<namespace>/<name>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountName {
    /// Namespace of the account.
    pub namespace: String,
    /// Name of the account.
    pub name: String,
}

/// A Lease, written `<namespace>/<name>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseName {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Patterns of service accounts, joined by commas; none at all is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountPatterns(pub Vec<AccountPattern>);

/// A feature gate of upstream and whether it is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureGate {
    /// Name of the gate.
    pub name: String,
    /// Whether it is on.
    pub on: bool,
}

/// Gates of upstream v1.11, both halves.
const GATES: [&str; 11] = [
    "APIV1MetasHandler",
    "BoxcutterRuntime",
    "BundleReleaseSupport",
    "ConstraintChecking",
    "DeploymentConfig",
    "GraphQLCatalogQueries",
    "HelmChartSupport",
    "PreflightPermissions",
    "SingleOwnNamespaceInstallSupport",
    "WebhookProviderCertManager",
    "WebhookProviderOpenshiftServiceCA",
];

impl FromStr for AccountName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (namespace, name) = namespaced(text)?;
        Ok(Self { namespace, name })
    }
}

impl FromStr for LeaseName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (namespace, name) = namespaced(text)?;
        Ok(Self { namespace, name })
    }
}

/// Splits `<namespace>/<name>`.
fn namespaced(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name))
            if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
        {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("expected <namespace>/<name>".to_owned()),
    }
}

impl FromStr for AccountPatterns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim);
        let patterns = parts.filter(|part| !part.is_empty()).map(str::parse);
        Ok(Self(patterns.collect::<Result<_, _>>()?))
    }
}

impl FromStr for FeatureGate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| "expected <name>=true|false".to_owned())?;
        let on: bool = value
            .parse()
            .map_err(|_| format!("{name}: expected true or false, found {value:?}"))?;
        if !GATES.contains(&name) {
            return Err(format!(
                "unknown feature gate {name:?}; known are {}",
                GATES.join(", ")
            ));
        }
        if name == "BoxcutterRuntime" && !on {
            return Err("BoxcutterRuntime cannot be switched off: there is no Helm runtime".into());
        }
        Ok(Self {
            name: name.to_owned(),
            on,
        })
    }
}

/// Reads a listen address as Go programs take it: `:8443`, `127.0.0.1:0`, or `0` for none.
pub(super) fn listen_address(text: &str) -> Result<Listen, String> {
    if text == "0" || text.is_empty() {
        return Ok(Listen::Off);
    }
    let full = if text.starts_with(':') {
        format!("0.0.0.0{text}")
    } else {
        text.to_owned()
    };
    full.parse()
        .map(Listen::At)
        .map_err(|_| format!("expected an address such as :8443 or 127.0.0.1:0, found {text:?}"))
}

/// Reads a duration as Go prints it, for example `1h30m`, `10s`, `500ms`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("expected a duration such as 10m or 1h30m, found {text:?}");
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest
            .find(|character: char| !character.is_ascii_digit())
            .filter(|&digits| digits > 0)
            .ok_or_else(bad)?;
        let number: u32 = rest[..digits].parse().map_err(|_| bad())?;
        let after = &rest[digits..];
        let letters = after
            .find(|character: char| character.is_ascii_digit())
            .unwrap_or(after.len());
        let unit = match &after[..letters] {
            "h" => Duration::from_hours(1),
            "m" => Duration::from_mins(1),
            "s" => Duration::from_secs(1),
            "ms" => Duration::from_millis(1),
            _ => return Err(bad()),
        };
        total = unit
            .checked_mul(number)
            .and_then(|part| total.checked_add(part))
            .ok_or_else(bad)?;
        rest = &after[letters..];
    }
    if total.is_zero() {
        return Err(bad());
    }
    Ok(total)
}
