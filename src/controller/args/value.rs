//! Types of the values of flags.

use std::error::Error;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use jiff::SignedDuration;
use olm_core::guard::AccountPattern;
use olm_core::revision::{NotNamespaced, namespaced};
use olm_core::settings::FeatureGate;
use strum::{IntoEnumIterator as _, VariantNames};

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

/// Where the certificate of our own listeners comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ServingCertificates {
    /// From files.
    Files,
    /// Issued by this program.
    SelfSigned,
    /// Nowhere: plain HTTP, and no metrics.
    None,
}

/// Which versions, suites and curves of TLS are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TlsProfile {
    /// TLS 1.3.
    Modern,
    /// TLS 1.2 and 1.3.
    Intermediate,
    /// The same here: what else it has is not supported.
    Old,
    /// The settings of other flags.
    Custom,
    /// The settings of OpenShift's `APIServer` `cluster`.
    Cluster,
}

/// Handling of an uninstall whose account no longer works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UninstallFallback {
    /// The garbage collector removes the objects, unordered.
    Gc,
    /// The uninstall waits for the account.
    Wait,
}

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The address of a server, or that it does not listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    /// The server is not started.
    Off,
    /// The address; port 0 lets the system choose.
    At(SocketAddr),
}

/// A Lease or a ConfigMap, written `<namespace>/<name>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectName {
    pub namespace: String,
    pub name: String,
}

/// Patterns of service accounts, joined by commas; none at all is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountPatterns(pub Vec<AccountPattern>);

/// A feature gate of upstream and whether it is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateSetting {
    pub name: String,
    pub on: bool,
}

/// Those of one flag.
pub type Gates = Vec<GateSetting>;

/// Gates of upstream that are settings here.
pub(super) const BOXCUTTER_GATE: &str = "BoxcutterRuntime";
pub(super) const CERT_MANAGER_GATE: &str = "WebhookProviderCertManager";
pub(super) const SERVICE_CA_GATE: &str = "WebhookProviderOpenshiftServiceCA";

/// Gates of upstream that switch on what does not exist here.
pub(super) const GATES_WITHOUT_EFFECT: [(&str, &str); 6] = [
    ("AllAlpha", "each gate is set by its name"),
    ("AllBeta", "each gate is set by its name"),
    ("GraphQLCatalogQueries", "there is no GraphQL endpoint"),
    ("HelmChartSupport", "bundles are not Helm charts"),
    (
        "PreflightPermissions",
        "--rbac-preflight decides what is done about missing rights, enforce by default",
    ),
    ("SyntheticPermissions", "an extension is installed as a service account"),
];

/// The flags of klog that upstream has beside `--logtostderr` and `--v`.
pub(super) const KLOG: &str = include_str!("klog.txt");

impl FromStr for ObjectName {
    type Err = NotNamespaced;

    fn from_str(text: &str) -> Result<Self, NotNamespaced> {
        let (namespace, name) = namespaced(text)?;
        Ok(Self { namespace, name })
    }
}

impl FromStr for AccountPatterns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim);
        Ok(Self(parts.filter(|part| !part.is_empty()).map(str::parse).collect::<Result<_, _>>()?))
    }
}

impl GateSetting {
    /// Returns whether upstream or OpenShift had the gate when this was written.
    pub(super) fn is_known(&self) -> bool {
        let others = GATES_WITHOUT_EFFECT.map(|(name, _)| name);
        let others = others.into_iter().chain([BOXCUTTER_GATE, CERT_MANAGER_GATE, SERVICE_CA_GATE]);
        FeatureGate::iter().map(FeatureGate::name).chain(others).any(|name| name == self.name)
    }
}

impl FromStr for GateSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) =
            text.split_once('=').ok_or_else(|| "expected <name>=true|false".to_owned())?;
        // The words of Go, as upstream reads them.
        let on = match value.trim() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
            "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
            _ => return Err(format!("{name}: expected true or false, found {value:?}")),
        };
        Ok(Self { name: name.trim().to_owned(), on })
    }
}

/// Reads feature gates joined by commas; empty parts count for nothing, as in Go.
pub(super) fn gates(text: &str) -> Result<Gates, String> {
    text.split(',').filter(|part| !part.trim().is_empty()).map(str::parse).collect()
}

/// Takes the words that stand for the variants of `T`.
pub(super) fn words<T>() -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err: Error + Send + Sync + 'static> + VariantNames + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(T::VARIANTS.iter().copied()).try_map(|word| word.parse())
}

/// Reads a listen address as Go programs take it: `:8443`, `127.0.0.1:0`, or `0` for none.
pub(super) fn listen_address(text: &str) -> Result<Listen, String> {
    if text == "0" || text.is_empty() {
        return Ok(Listen::Off);
    }
    let full = if text.starts_with(':') { format!("[::]{text}") } else { text.to_owned() };
    full.parse()
        .map(Listen::At)
        .map_err(|_| format!("expected an address such as :8443 or 127.0.0.1:0, found {text:?}"))
}

/// Reads a duration above zero as Go prints it, for example `1h30m`, `10s`, `500ms`; at most the 292
/// years that Go knows.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let read = text.parse::<SignedDuration>().ok();
    let read = read.and_then(|duration| Duration::try_from(duration).ok());
    read.filter(|duration| !duration.is_zero() && i64::try_from(duration.as_nanos()).is_ok())
        .ok_or_else(|| format!("expected a duration such as 10m or 1h30m, found {text:?}"))
}

/// Reads a number of bytes above zero, with or without a unit: `8GiB`, `512Mi`, `65536`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit: Option<u64> = match unit {
        "" => Some(1),
        "Ki" | "KiB" => Some(1 << 10),
        "Mi" | "MiB" => Some(1 << 20),
        "Gi" | "GiB" => Some(1 << 30),
        _ => None,
    };
    let read = number.parse::<u64>().ok().zip(unit);
    read.and_then(|(number, unit)| number.checked_mul(unit))
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| format!("expected a size such as 8GiB or 512MiB, found {text:?}"))
}
