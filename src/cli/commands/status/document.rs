//! The answer for programs.

use olm_core::extension::holds::advice;

use super::columns::{deprecated, held_by, ready, ready_condition, support, update};
use crate::document::{ExtensionRow, Ready, Support};
use crate::prelude::*;

/// The installed bundles, their state, and available or held updates: `kubectl olm status`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Status {
    /// The extensions, by name.
    pub(crate) extensions: Vec<ExtensionRow>,
    /// Data that could not be read.
    pub(super) unknown: Vec<Unknown>,
}

/// Returns the answer for programs.
pub(crate) fn document(extensions: &[ClusterExtension]) -> Status {
    Status { extensions: extensions.iter().map(row).collect(), unknown: Vec::new() }
}

fn row(extension: &ClusterExtension) -> ExtensionRow {
    let seen = extension.status.as_ref();
    let found = ready_condition(extension);
    let found = found.as_deref();
    let spec = extension.spec.as_ref();
    let account = spec.and_then(|spec| spec.service_account.as_ref());
    ExtensionRow {
        name: extension.name_any(),
        package: extension.package().map(str::to_owned),
        namespace: spec.map(|spec| spec.namespace.clone()),
        service_account: account.and_then(|account| account.name.clone()),
        installed: extension.installed().cloned(),
        ready: Ready {
            status: found.map(|found| found.status.clone()),
            reason: found.map(|_| ready(extension)),
            message: found.map(|found| found.message.clone()),
            since: found.map(|found| found.last_transition_time.0.to_string()),
        },
        update: update(extension).cloned(),
        deprecated: deprecated(extension).map(str::to_owned),
        support: support(extension).map(|found| Support {
            status: found.status.clone(),
            reason: found.reason.clone(),
            message: found.message.clone(),
        }),
        todo: advice(extension),
        held_by: held_by(extension).into_iter().map(str::to_owned).collect(),
        revisions: seen.map(|status| status.active_revisions.clone()),
        catalog: None,
        provides: None,
        causes: Vec::new(),
        events: None,
    }
}
