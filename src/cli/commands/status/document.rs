//! The answer for programs; what people read is made of it.

use olm_api::conditions::Reason;
use olm_core::extension::holds::{advice, awaited, reported};

use crate::commands::prelude::*;
use crate::document::{ExtensionRow, Ready, Support};

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

pub(super) fn row(extension: &ClusterExtension) -> ExtensionRow {
    let seen = extension.status.as_ref();
    let spec = extension.spec.as_ref();
    let account = spec.and_then(|spec| spec.service_account.as_ref());
    let deprecated = extension.condition(types::DEPRECATED);
    let deprecated = deprecated.filter(|found| found.status == status::TRUE);
    ExtensionRow {
        name: extension.name_any(),
        package: extension.package().map(str::to_owned),
        namespace: spec.map(|spec| spec.namespace.clone()),
        service_account: account.and_then(|account| account.name.clone()),
        installed: extension.installed().cloned(),
        ready: ready(extension),
        update: awaited(extension).cloned(),
        deprecated: deprecated.map(|found| found.message.clone()),
        support: extension.condition(types::SUPPORTED).map(|found| Support {
            status: found.status.clone(),
            reason: found.reason.clone(),
            message: found.message.clone(),
        }),
        todo: advice(extension),
        held_by: reported(extension).iter().map(|holder| holder.word.to_owned()).collect(),
        revisions: seen.map(|status| status.active_revisions.clone()),
        catalog: None,
        provides: None,
        causes: Vec::new(),
        events: None,
    }
}

/// Returns condition `Ready`; in place of one about an earlier generation, that it is reconciled.
fn ready(extension: &ClusterExtension) -> Ready {
    let members = extension.condition(types::READY).map(|found| {
        let since = found.last_transition_time.0.to_string();
        if found.observed_generation != extension.metadata.generation {
            let message = "the latest change has not been processed yet";
            return [status::FALSE, Reason::Reconciling.as_str(), message, &since]
                .map(str::to_owned);
        }
        let is_ready = found.status == status::TRUE;
        let word = if is_ready { &found.status } else { &found.reason };
        [&found.status, word, &found.message, &since].map(String::clone)
    });
    let [status, reason, message, since] = members.map(|it| it.map(Some)).unwrap_or_default();
    Ready { status, reason, message, since }
}
