//! `kubectl olm status`: what is installed, whether it is well, what could be newer and what holds it.
//!
//! Source: plugin.md 1.4.

use std::io::Write;

use clap::Args;
use jiff::Timestamp;
use kube::ResourceExt as _;
use olm_api::conditions::{Reason, status, types};
use olm_api::{ClusterExtension, ClusterObjectSet};
use olm_core::annotations::is_paused;
use olm_core::extension::ValidExtension;
use olm_core::revision::{BundleRecord, has_succeeded};
use olm_core::status::find;
use serde_json::{Value, json};

use crate::cluster::{CatalogAccess, Cluster};
use crate::connection::Global;
use crate::output::{self, Format, KeyValues, Outcome, Table};
use crate::settings::SettingsFlags;

/// Text of a cell without a value.
const NOTHING: &str = "-";

/// Flags of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Names of extensions; by default all of them. One name is answered in full
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Exit with 1 unless all of them are ready
    #[arg(long)]
    check: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Prints a row for each extension, or a sheet about one.
pub(crate) async fn run(
    args: StatusArgs,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let (access, settings) = (CatalogAccess::default(), SettingsFlags::default());
    let cluster = Cluster::connect(global, &access, &settings).await?;
    let extensions = if args.names.is_empty() {
        cluster.extensions().await?
    } else {
        let named = args.names.iter().map(|name| cluster.extension(name));
        futures::future::try_join_all(named).await?
    };
    match (args.output, args.names.as_slice(), extensions.as_slice()) {
        (Format::Json, ..) => output::write_json(out, &document(&extensions))?,
        (Format::Yaml, ..) => output::write_yaml(out, &document(&extensions))?,
        (Format::Table, [name], [extension]) => {
            let revisions = cluster.revisions(name).await?;
            sheet(extension, &revisions).write(out)?;
        }
        (Format::Table, ..) if extensions.is_empty() => {
            output::notice("no ClusterExtensions: kubectl olm install makes one");
        }
        (Format::Table, ..) => table(&extensions, Timestamp::now()).write(out)?,
    }
    let all_ready = extensions
        .iter()
        .all(|extension| ready(extension) == "True");
    Ok(if args.check && !all_ready {
        Outcome::Failed
    } else {
        Outcome::Done
    })
}

/// `True`, or in one word why not.
fn ready(extension: &ClusterExtension) -> &str {
    let conditions = extension.status.as_ref();
    let condition = |type_| conditions.and_then(|status| find(&status.conditions, type_));
    let Some(ready) = condition(types::READY) else {
        return "Unknown";
    };
    if ready.status == status::TRUE {
        return status::TRUE;
    }
    let rights = condition(types::PERMISSIONS);
    match rights.filter(|rights| rights.status == status::FALSE) {
        Some(rights) if ready.reason == Reason::Retrying.as_str() => &rights.reason,
        _ => &ready.reason,
    }
}

/// What holds an update, or the roll-out that is under way.
fn held_by(extension: &ClusterExtension) -> Vec<&'static str> {
    let mut held = Vec::new();
    let seen = extension.status.as_ref();
    let condition = |type_| seen.and_then(|status| find(&status.conditions, type_));
    if is_paused(extension.annotations()) {
        held.push("pause");
    }
    let progressing = condition(types::PROGRESSING).map(|found| found.message.as_str());
    if progressing.is_some_and(|text| text.contains("validating upgrade for CRD")) {
        held.push("crds");
    }
    if condition(types::PERMISSIONS).is_some_and(|it| it.status == status::FALSE) {
        held.push("rights");
    }
    let update = seen.and_then(|status| status.update.as_ref());
    let is = |reason: Reason| update.is_some_and(|update| update.reason == reason.as_str());
    let constraints = [
        Reason::ConstraintInvalid,
        Reason::ConstraintUnmet,
        Reason::ConstraintUnknown,
    ];
    if is(Reason::Pinned) {
        held.push("version");
    } else if is(Reason::NotSuccessor) {
        held.push("catalog");
    } else if is(Reason::OutsideWindow) {
        held.push("window");
    } else if constraints.into_iter().any(is) {
        held.push("constraints");
    } else if update.is_some() && !is(Reason::Paused) {
        held.push("policy");
    }
    held
}

fn package(extension: &ClusterExtension) -> &str {
    let valid = ValidExtension::of(extension);
    valid.map_or(NOTHING, |valid| valid.filter.package_name.as_str())
}

fn installed(extension: &ClusterExtension) -> Option<&str> {
    let status = extension.status.as_ref()?;
    Some(status.install.as_ref()?.bundle.version.as_str())
}

fn table(extensions: &[ClusterExtension], now: Timestamp) -> Table {
    let mut table = Table::new(&[
        "NAME", "PACKAGE", "VERSION", "READY", "UPDATE", "HELD BY", "AGE",
    ]);
    for extension in extensions {
        let update = extension.status.as_ref();
        let update = update.and_then(|status| status.update.as_ref());
        let version = update.map(|update| update.version.as_ref().unwrap_or(&update.newest));
        let held = held_by(extension).join(",");
        let age = extension.creation_timestamp();
        table.row(vec![
            extension.name_any(),
            package(extension).to_owned(),
            installed(extension).unwrap_or(NOTHING).to_owned(),
            ready(extension).to_owned(),
            version.map_or(NOTHING, String::as_str).to_owned(),
            if held.is_empty() {
                NOTHING.to_owned()
            } else {
                held
            },
            age.map_or_else(|| NOTHING.to_owned(), |made| span(made.0, now)),
        ]);
    }
    table
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

fn sheet(extension: &ClusterExtension, revisions: &[ClusterObjectSet]) -> KeyValues {
    let mut sheet = KeyValues::default();
    sheet.line("Extension", extension.name_any());
    sheet.line("Package", package(extension).to_owned());
    let seen = extension.status.as_ref();
    let install = seen.and_then(|status| status.install.as_ref());
    let install =
        install.map(|install| format!("{} ({})", install.bundle.version, install.bundle.name));
    sheet.line("Installed", install.unwrap_or_else(|| "nothing".to_owned()));
    if let Some(spec) = &extension.spec {
        sheet.line("Namespace", spec.namespace.clone());
        let account = spec.service_account.as_ref();
        sheet.lines("Account", account.and_then(|account| account.name.clone()));
    }
    let condition = |type_| seen.and_then(|status| find(&status.conditions, type_));
    let reason = ready(extension);
    sheet.line(
        "Ready",
        match condition(types::READY) {
            Some(found) => format!("{reason}, since {}", found.last_transition_time.0),
            None => reason.to_owned(),
        },
    );
    let not_ready = condition(types::READY).filter(|ready| ready.status != status::TRUE);
    sheet.lines("Why", not_ready.map(|ready| ready.message.clone()));
    let update = seen.and_then(|status| status.update.as_ref());
    sheet.lines(
        "Update",
        update.map(|update| {
            let version = update.version.as_ref().unwrap_or(&update.newest);
            format!(
                "{version} from catalog {}, {}: {}",
                update.catalog, update.reason, update.message
            )
        }),
    );
    let held = held_by(extension);
    sheet.lines("Held by", (!held.is_empty()).then(|| held.join(", ")));
    let todo = todo(extension, &held);
    sheet.lines("Do", todo);
    sheet.lines(
        "Revisions",
        revisions.iter().rev().map(|set| {
            let state = match (set.spec.lifecycle_state, has_succeeded(set)) {
                (olm_api::LifecycleState::Archived, _) => "archived",
                (_, true) => "rolled out",
                (_, false) => "rolling out",
            };
            format!(
                "{} {} {state}",
                set.name_any(),
                BundleRecord::of(set).version
            )
        }),
    );
    sheet
}

/// Commands that lead on.
fn todo(extension: &ClusterExtension, held: &[&str]) -> Vec<String> {
    let name = extension.name_any();
    let of = |held: &&str| match *held {
        "pause" => Some(format!("kubectl olm resume {name}")),
        "rights" => Some(format!(
            "kubectl olm rbac {name} --missing | kubectl apply -f -"
        )),
        "version" | "policy" => Some(format!("kubectl olm upgrade {name}")),
        "catalog" | "constraints" => Some(format!("kubectl olm why {name}")),
        _ => None,
    };
    held.iter().filter_map(of).collect()
}

fn document(extensions: &[ClusterExtension]) -> Value {
    let row = |extension: &ClusterExtension| {
        let seen = extension.status.as_ref();
        let found = seen.and_then(|status| find(&status.conditions, types::READY));
        let install = seen.and_then(|status| status.install.as_ref());
        let spec = extension.spec.as_ref();
        let account = spec.and_then(|spec| spec.service_account.as_ref());
        json!({
            "name": extension.name_any(),
            "package": ValidExtension::of(extension).map(|valid| &valid.filter.package_name),
            "namespace": spec.map(|spec| &spec.namespace),
            "serviceAccount": account.map(|account| &account.name),
            "installed": install.map(|install| &install.bundle),
            "ready": {
                "status": found.map(|found| &found.status),
                "reason": found.map(|_| ready(extension)),
                "message": found.map(|found| &found.message),
                "since": found.map(|found| found.last_transition_time.0.to_string()),
            },
            "update": seen.and_then(|status| status.update.as_ref()),
            "heldBy": held_by(extension),
            "revisions": seen.map(|status| &status.active_revisions),
        })
    };
    let extensions: Vec<_> = extensions.iter().map(row).collect();
    json!({"schema": "olm.status", "schemaVersion": 1, "extensions": extensions, "unknown": []})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extension(value: &Value) -> ClusterExtension {
        serde_json::from_value(value.clone()).unwrap()
    }

    fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({"type": type_, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    fn all() -> Vec<ClusterExtension> {
        let spec = json!({"namespace": "ns", "serviceAccount": {"name": "sa"},
            "source": {"sourceType": "Catalog", "catalog": {"packageName": "quay"}}});
        let made = "2026-01-01T00:00:00Z";
        let installed = json!({"bundle": {"name": "quay.v1", "version": "1.0.0"}});
        let update = |reason: &str| {
            json!({"version": "2.0.0", "newest": "3.0.0", "catalog": "community",
                "reason": reason, "message": "held"})
        };
        [
            json!({"metadata": {"name": "well", "creationTimestamp": made}, "spec": spec,
                "status": {"install": installed,
                    "conditions": [condition("Ready", "True", "Succeeded", "")]}}),
            json!({"metadata": {"name": "held", "creationTimestamp": made,
                    "annotations": {"policy.olm.operatorframework.io/paused": "true"}},
                "spec": spec, "status": {"install": installed, "update": update("NextMajorHeld"),
                    "conditions": [condition("Ready", "True", "Succeeded", "")]}}),
            json!({"metadata": {"name": "poor", "creationTimestamp": made}, "spec": spec,
                "status": {"conditions": [
                    condition("Ready", "False", "Retrying", "lacks rights"),
                    condition("PermissionsSufficient", "False", "PermissionsMissing", "x")]}}),
            json!({"metadata": {"name": "new"}}),
        ]
        .iter()
        .map(extension)
        .collect()
    }

    // plugin.md U33
    #[test]
    fn a_row_says_what_is_installed_and_what_holds_it() {
        let mut out = Vec::new();
        let now = "2026-03-01T00:00:00Z".parse().unwrap();
        table(&all(), now).write(&mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }

    #[test]
    fn a_sheet_says_what_to_do() {
        let mut out = Vec::new();
        sheet(&all()[2], &[]).write(&mut out).unwrap();
        sheet(&all()[1], &[]).write(&mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }
}
