//! The answer for programs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use olm_api::conditions::types;
use olm_api::{BundleMetadata, ClusterExtension, RevisionStatus, UpdateStatus};
use olm_core::extension::ValidExtension;
use olm_core::extension::holds::advice;
use olm_core::status::find;
use schemars::JsonSchema;
use serde::Serialize;

use super::columns::{deprecated, held_by, ready, support, update};
use crate::document::Unknown;
use crate::offers::Listed;

/// What is installed, whether it is well, what could be newer and what holds it: `kubectl olm status`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Status {
    /// The extensions, by name.
    pub(crate) extensions: Vec<Row>,
    /// What could not be read.
    pub(super) unknown: Vec<Unknown>,
}

/// An extension.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    /// Its name.
    name: String,
    /// The package that it installs.
    package: Option<String>,
    /// The namespace that it installs into.
    namespace: Option<String>,
    /// The account that it is installed by.
    service_account: Option<String>,
    /// The installed bundle.
    installed: Option<BundleMetadata>,
    /// Whether it is well.
    ready: Ready,
    /// The version that is being rolled out, or a newer one that is offered and not taken.
    update: Option<UpdateStatus>,
    /// What its catalog says of the deprecation of what is followed or installed.
    deprecated: Option<String>,
    /// Until when and where the installed version is supported, as far as its catalog tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    support: Option<Support>,
    /// What holds the update, or the rollout that is under way, a word each.
    held_by: Vec<&'static str>,
    /// Commands that lead on.
    #[serde(rename = "do")]
    todo: Vec<String>,
    /// Its revisions that are not archived.
    revisions: Option<Vec<RevisionStatus>>,
    /// The catalog that the installed bundle came from, as it is now; only of a single extension, and
    /// absent where it is gone or not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) catalog: Option<Listed>,
    /// The kinds that it installed, with the versions that are served; only of a single extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) provides: Option<Vec<String>>,
    /// What keeps its workloads from being ready; only of a single extension.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) causes: Vec<String>,
    /// The last Events about it; only of a single extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) events: Option<Vec<Happened>>,
}

/// Condition `Ready`; its members are null before there is one.
#[derive(Debug, Serialize, JsonSchema)]
struct Ready {
    /// `True`, `False` or `Unknown`.
    status: Option<String>,
    /// `True`, or why not in one word.
    reason: Option<String>,
    /// Why not, and what leads on.
    message: Option<String>,
    /// Since when it is so.
    since: Option<String>,
}

/// Condition `Supported`.
#[derive(Debug, Serialize, JsonSchema)]
struct Support {
    /// `True` or `False`.
    status: String,
    /// Why, in one word.
    reason: String,
    /// The phase of support, and the platforms.
    message: String,
}

impl From<&Condition> for Support {
    fn from(found: &Condition) -> Self {
        let (status, reason) = (found.status.clone(), found.reason.clone());
        Self { status, reason, message: found.message.clone() }
    }
}

/// An Event about an extension.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Happened {
    /// When it was last seen.
    pub(super) last: String,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub(super) type_: Option<String>,
    /// What happened, in one word.
    pub(super) reason: Option<String>,
    /// What happened.
    pub(super) message: Option<String>,
    /// How often.
    pub(super) count: i32,
}

/// Returns the answer for programs.
pub(crate) fn document(extensions: &[ClusterExtension]) -> Status {
    Status { extensions: extensions.iter().map(row).collect(), unknown: Vec::new() }
}

fn row(extension: &ClusterExtension) -> Row {
    let seen = extension.status.as_ref();
    let found = seen.and_then(|status| find(&status.conditions, types::READY));
    let spec = extension.spec.as_ref();
    let account = spec.and_then(|spec| spec.service_account.as_ref());
    let package = |valid: ValidExtension<'_>| valid.filter.package_name.clone();
    Row {
        name: extension.name_any(),
        package: ValidExtension::of(extension).map(package),
        namespace: spec.map(|spec| spec.namespace.clone()),
        service_account: account.and_then(|account| account.name.clone()),
        installed: seen.and_then(|status| Some(status.install.as_ref()?.bundle.clone())),
        ready: Ready {
            status: found.map(|found| found.status.clone()),
            reason: found.map(|_| ready(extension).to_owned()),
            message: found.map(|found| found.message.clone()),
            since: found.map(|found| found.last_transition_time.0.to_string()),
        },
        update: update(extension).cloned(),
        deprecated: deprecated(extension).map(str::to_owned),
        support: support(extension).map(Support::from),
        todo: advice(extension),
        held_by: held_by(extension),
        revisions: seen.map(|status| status.active_revisions.clone()),
        catalog: None,
        provides: None,
        causes: Vec::new(),
        events: None,
    }
}
