//! The cells of a table.

use olm_api::UpdateStatus;
use olm_api::conditions::Reason;

use super::document::row;
use crate::commands::prelude::*;
use crate::document::ExtensionRow;
use crate::output::age;

/// Columns of a table, all but the age.
pub(super) const HEADERS: [&str; 7] =
    ["NAME", "NAMESPACE", "PACKAGE", "VERSION", "READY", "UPDATE", "HELD BY"];
/// The suffix of the state of a deprecated extension.
const DEPRECATED: &str = " (deprecated)";
/// The suffix of the state of an extension whose version is not supported.
const UNSUPPORTED: &str = " (unsupported)";

/// `True`, or in one word why not.
pub(super) fn ready(row: &ExtensionRow) -> &str {
    row.ready.reason.as_deref().unwrap_or("Unknown")
}

pub(super) fn table(extensions: &[ClusterExtension], now: Timestamp) -> Table {
    let mut table = Table::new(&[&HEADERS[..], &["AGE"]].concat());
    for extension in extensions {
        let mut cells = cells(&row(extension));
        let made = extension.creation_timestamp();
        cells.push(cell(made.map(|made| age(made.0, now))));
        table.row(cells);
    }
    table
}

/// The cells of a row, all but the age.
pub(super) fn cells(row: &ExtensionRow) -> Vec<String> {
    let held = Some(row.held_by.join(",")).filter(|held| !held.is_empty());
    let mut ready = ready(row).to_owned();
    if row.deprecated.is_some() {
        ready.push_str(DEPRECATED);
    }
    if row.support.as_ref().is_some_and(|found| found.status == status::FALSE) {
        ready.push_str(UNSUPPORTED);
    }
    vec![
        row.name.clone(),
        cell(row.namespace.as_ref()),
        cell(row.package.as_ref()),
        version(row),
        ready,
        cell(row.update.as_ref().and_then(newer)),
        cell(held),
    ]
}

fn is_rolling_out(update: &UpdateStatus) -> bool {
    update.reason == Reason::RollingOut.as_str()
}

/// The installed version, and the one that is being rolled out in its place.
fn version(row: &ExtensionRow) -> String {
    let installed = row.installed.as_ref().map(|it| it.version.as_str());
    let next = row.update.as_ref().filter(|update| is_rolling_out(update));
    match (installed, next.and_then(|next| next.version.as_deref())) {
        (Some(installed), Some(next)) => format!("{installed} -> {next}"),
        (None, Some(next)) => format!("-> {next}"),
        (installed, None) => cell(installed),
    }
}

/// The version that is offered and not taken.
fn newer(update: &UpdateStatus) -> Option<&str> {
    if is_rolling_out(update) {
        let newest = Some(&update.newest).filter(|newest| update.version.as_ref() != Some(newest));
        return newest.map(String::as_str);
    }
    Some(update.version())
}
