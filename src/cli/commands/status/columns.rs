//! The cells of a table, and what they are made of.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use olm_api::UpdateStatus;
use olm_api::conditions::Reason;
use olm_core::extension::holds::reported;

use crate::output::age;
use crate::prelude::*;

/// Columns of a table, all but the age.
pub(super) const HEADERS: [&str; 7] =
    ["NAME", "NAMESPACE", "PACKAGE", "VERSION", "READY", "UPDATE", "HELD BY"];
/// The suffix of the state of a deprecated extension.
const DEPRECATED: &str = " (deprecated)";
/// The suffix of the state of an extension whose version is not supported.
const UNSUPPORTED: &str = " (unsupported)";

/// Returns condition `Ready`; in place of one about an earlier generation, that it is reconciled.
pub(super) fn ready_condition(extension: &ClusterExtension) -> Option<Cow<'_, Condition>> {
    let ready = extension.condition(types::READY)?;
    if ready.observed_generation == extension.metadata.generation {
        return Some(Cow::Borrowed(ready));
    }
    Some(Cow::Owned(Condition {
        status: status::FALSE.to_owned(),
        reason: Reason::Reconciling.to_string(),
        message: "the latest change has not been processed yet".to_owned(),
        ..ready.clone()
    }))
}

/// `True`, or in one word why not.
pub(super) fn ready(extension: &ClusterExtension) -> String {
    match ready_condition(extension).map(Cow::into_owned) {
        Some(ready) if ready.status == status::TRUE => ready.status,
        Some(ready) => ready.reason,
        None => "Unknown".to_owned(),
    }
}

/// The holds of an update, or the rollout in progress.
pub(super) fn held_by(extension: &ClusterExtension) -> Vec<&'static str> {
    reported(extension).iter().map(|holder| holder.word).collect()
}

pub(super) fn table(extensions: &[ClusterExtension], now: Timestamp) -> Table {
    let mut table = Table::new(&[&HEADERS[..], &["AGE"]].concat());
    for extension in extensions {
        let mut row = cells(extension);
        let made = extension.creation_timestamp();
        row.push(cell(made.map(|made| age(made.0, now))));
        table.row(row);
    }
    table
}

/// The cells of a row, all but the age.
pub(super) fn cells(extension: &ClusterExtension) -> Vec<String> {
    let held = Some(held_by(extension).join(",")).filter(|held| !held.is_empty());
    let mut ready = ready(extension);
    if deprecated(extension).is_some() {
        ready.push_str(DEPRECATED);
    }
    if support(extension).is_some_and(|found| found.status == status::FALSE) {
        ready.push_str(UNSUPPORTED);
    }
    let spec = extension.spec.as_ref();
    vec![
        extension.name_any(),
        cell(spec.map(|spec| &spec.namespace)),
        cell(extension.package()),
        version(extension),
        ready,
        cell(newer(extension)),
        cell(held),
    ]
}

pub(super) fn update(extension: &ClusterExtension) -> Option<&UpdateStatus> {
    extension.status.as_ref()?.update.as_ref()
}

fn is_rolling_out(update: &UpdateStatus) -> bool {
    update.reason == Reason::RollingOut.as_str()
}

/// The installed version, and the one that is being rolled out in its place.
fn version(extension: &ClusterExtension) -> String {
    let installed = extension.installed().map(|it| it.version.as_str());
    let next = update(extension).filter(|update| is_rolling_out(update));
    match (installed, next.and_then(|next| next.version.as_deref())) {
        (Some(installed), Some(next)) => format!("{installed} -> {next}"),
        (None, Some(next)) => format!("-> {next}"),
        (installed, None) => cell(installed),
    }
}

/// The version that is offered and not taken.
fn newer(extension: &ClusterExtension) -> Option<&str> {
    let update = update(extension)?;
    if is_rolling_out(update) {
        let newest = Some(&update.newest).filter(|newest| update.version.as_ref() != Some(newest));
        return newest.map(String::as_str);
    }
    Some(update.version())
}

/// The deprecation messages of the catalog for the package, the channels or the installed bundle.
pub(super) fn deprecated(extension: &ClusterExtension) -> Option<&str> {
    let found = extension.condition(types::DEPRECATED)?;
    (found.status == status::TRUE).then_some(&found.message)
}

/// Until when and where its version is supported, as far as that is known.
pub(super) fn support(extension: &ClusterExtension) -> Option<&Condition> {
    extension.condition(types::SUPPORTED)
}
