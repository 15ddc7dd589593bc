//! The cells of a table, and what they are made of.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use olm_api::conditions::{Reason, status, types};
use olm_api::{ClusterExtension, UpdateStatus};
use olm_core::extension::ValidExtension;
use olm_core::extension::holds::reported;
use olm_core::status::find;

use crate::output::Table;

/// Text of a cell without a value.
pub(super) const NOTHING: &str = "-";
/// Columns of a table, all but the age.
pub(super) const HEADERS: [&str; 7] =
    ["NAME", "NAMESPACE", "PACKAGE", "VERSION", "READY", "UPDATE", "HELD BY"];
/// What follows the state of an extension whose catalog calls it deprecated.
const DEPRECATED: &str = " (deprecated)";
/// What follows the state of an extension whose version is not supported.
const UNSUPPORTED: &str = " (unsupported)";

/// `True`, or in one word why not.
pub(super) fn ready(extension: &ClusterExtension) -> &str {
    let seen = extension.status.as_ref();
    match seen.and_then(|seen| find(&seen.conditions, types::READY)) {
        Some(ready) if ready.status == status::TRUE => status::TRUE,
        Some(ready) => &ready.reason,
        None => "Unknown",
    }
}

/// What holds an update, or the rollout that is under way.
pub(super) fn held_by(extension: &ClusterExtension) -> Vec<&'static str> {
    reported(extension).iter().map(|holder| holder.word).collect()
}

pub(super) fn package(extension: &ClusterExtension) -> &str {
    let valid = ValidExtension::of(extension);
    valid.map_or(NOTHING, |valid| valid.filter.package_name.as_str())
}

pub(super) fn installed(extension: &ClusterExtension) -> Option<&str> {
    let status = extension.status.as_ref()?;
    Some(status.install.as_ref()?.bundle.version.as_str())
}

pub(super) fn table(extensions: &[ClusterExtension], now: Timestamp) -> Table {
    let mut table = Table::new(&[&HEADERS[..], &["AGE"]].concat());
    for extension in extensions {
        let mut row = cells(extension);
        let made = extension.creation_timestamp();
        row.push(made.map_or_else(|| NOTHING.to_owned(), |made| span(made.0, now)));
        table.row(row);
    }
    table
}

/// The cells of a row, all but the age.
pub(super) fn cells(extension: &ClusterExtension) -> Vec<String> {
    let nothing = || NOTHING.to_owned();
    let held = held_by(extension).join(",");
    let mut ready = ready(extension).to_owned();
    if deprecated(extension).is_some() {
        ready.push_str(DEPRECATED);
    }
    if support(extension).is_some_and(|found| found.status == status::FALSE) {
        ready.push_str(UNSUPPORTED);
    }
    let spec = extension.spec.as_ref();
    vec![
        extension.name_any(),
        spec.map_or_else(nothing, |spec| spec.namespace.clone()),
        package(extension).to_owned(),
        version(extension),
        ready,
        newer(extension).map_or_else(nothing, str::to_owned),
        if held.is_empty() { nothing() } else { held },
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
    let installed = installed(extension);
    let next = update(extension).filter(|update| is_rolling_out(update));
    match (installed, next.and_then(|next| next.version.as_deref())) {
        (Some(installed), Some(next)) => format!("{installed} -> {next}"),
        (None, Some(next)) => format!("-> {next}"),
        (installed, None) => installed.unwrap_or(NOTHING).to_owned(),
    }
}

/// The version that is offered and not taken.
fn newer(extension: &ClusterExtension) -> Option<&str> {
    let update = update(extension)?;
    if is_rolling_out(update) {
        let newest = Some(&update.newest).filter(|newest| update.version.as_ref() != Some(newest));
        return newest.map(String::as_str);
    }
    Some(update.version.as_ref().unwrap_or(&update.newest))
}

/// What its catalog says of the deprecation of what is followed or installed.
pub(super) fn deprecated(extension: &ClusterExtension) -> Option<&str> {
    let conditions = &extension.status.as_ref()?.conditions;
    let found = find(conditions, types::DEPRECATED)?;
    (found.status == status::TRUE).then_some(&found.message)
}

/// Until when and where its version is supported, as far as that is known.
pub(super) fn support(extension: &ClusterExtension) -> Option<&Condition> {
    find(&extension.status.as_ref()?.conditions, types::SUPPORTED)
}

/// A span as kubectl prints ages: its largest unit.
fn span(from: Timestamp, to: Timestamp) -> String {
    let seconds = to.as_second().saturating_sub(from.as_second()).max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}
