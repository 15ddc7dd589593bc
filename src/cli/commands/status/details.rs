//! All about one extension.

use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use olm_api::keys::label;
use olm_core::revision::{Origin, is_of_classic};

use super::columns::ready;
use super::document::{Status, row};
use crate::commands::catalog;
use crate::commands::history::state;
use crate::commands::prelude::*;
use crate::document::{ExtensionRow, Happened};
use crate::offers::Listed;
use crate::output::KeyValues;
use crate::workloads::causes;

const EVENTS: usize = 5;
/// Members that may not be known.
pub(super) const PROVIDES: &str = "provided kinds";
pub(super) const CAUSES: &str = "causes";
pub(super) const LAST_EVENTS: &str = "events";

/// Returns the answer about one extension with all details, for programs, and its revisions.
pub(crate) async fn detailed(
    cluster: &Cluster,
    extension: &ClusterExtension,
) -> anyhow::Result<(Status, Vec<ClusterObjectSet>)> {
    let (client, name) = (cluster.own_client(), &extension.name_any());
    let revisions = cluster.revisions(name).await?;
    let (mut row, mut unknown) = (row(extension), Vec::new());
    let catalog = catalog_of(cluster, &revisions).await.map_err(|error| one_line(&error));
    row.catalog = known(catalog, "catalog", &mut unknown).flatten();
    let params = ListParams::default().labels(&format!("{}={name}", label::OWNER_NAME));
    let crds = Api::<CustomResourceDefinition>::all(client.clone()).list(&params).await;
    let crds = known(crds.map_err(|error| failure(&error)), PROVIDES, &mut unknown);
    row.provides = crds.map(|listed| listed.items.iter().map(kind).collect());
    if ready(&row) != status::TRUE {
        row.causes = known(causes(client, name).await, CAUSES, &mut unknown).unwrap_or_default();
    }
    row.events = known(events(client, extension).await, LAST_EVENTS, &mut unknown);
    Ok((Status { extensions: vec![row], unknown }, revisions))
}

/// Returns what was read; on an error, notes why it is unknown.
fn known<T>(found: Result<T, String>, what: &str, unknown: &mut Vec<Unknown>) -> Option<T> {
    found.map_err(|why| unknown.push(Unknown::new(what, why))).ok()
}

/// Returns the catalog of the installed bundle, as it is now.
async fn catalog_of(
    cluster: &Cluster,
    revisions: &[ClusterObjectSet],
) -> anyhow::Result<Option<Listed>> {
    let mut listed = catalog::list::document(cluster.all_catalogs().await?).catalogs.into_iter();
    let came_from = states(revisions).installed.and_then(|set| Origin::of(set).catalog);
    Ok(listed.find(|it| Some(&it.name) == came_from.as_ref()))
}

/// Returns the latest Events about an extension, the oldest of them first.
async fn events(client: &Client, extension: &ClusterExtension) -> Result<Vec<Happened>, String> {
    // Not those of an earlier extension of the same name.
    let uid = extension.uid().unwrap_or_default();
    let about = format!("involvedObject.kind=ClusterExtension,involvedObject.uid={uid}");
    // Where those about cluster-scoped objects are.
    let api = Api::<Event>::namespaced(client.clone(), "default");
    let listed = api.list(&ListParams::default().fields(&about)).await;
    let mut events = listed.map_err(|error| failure(&error))?.items;
    events.sort_by_key(when);
    let latest = events.split_off(events.len().saturating_sub(EVENTS));
    Ok(latest.iter().map(happened).collect())
}

pub(super) fn happened(event: &Event) -> Happened {
    let count = event.series.as_ref().and_then(|series| series.count).or(event.count);
    Happened {
        last: when(event).to_string(),
        type_: event.type_.clone(),
        reason: event.reason.clone(),
        message: event.message.clone(),
        count: count.unwrap_or(1),
    }
}

/// Returns when an Event was last seen.
fn when(event: &Event) -> Timestamp {
    let series = event.series.as_ref();
    let series = series.and_then(|series| series.last_observed_time.as_ref());
    let micro = series.or(event.event_time.as_ref()).map(|time| time.0);
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let made = event.creation_timestamp().map(|time| time.0);
    last.max(micro).or(made).unwrap_or_default()
}

/// Returns the kind of a CRD with the versions that are served.
fn kind(crd: &CustomResourceDefinition) -> String {
    let served = crd.spec.versions.iter().filter(|version| version.served);
    let served: Vec<_> = served.map(|version| version.name.as_str()).collect();
    let (kind, group) = (&crd.spec.names.kind, &crd.spec.group);
    format!("{kind}.{group} {}", served.join(", "))
}

/// Returns an Event in a line, its time in whole seconds.
fn event_line(event: &Happened) -> String {
    let text = |text: &Option<String>| plain(text.as_deref().unwrap_or_default());
    let last = event.last.parse::<Timestamp>().unwrap_or_default();
    let again = match event.count {
        0 | 1 => String::new(),
        times => format!(" ({times} times)"),
    };
    format!("{last:.0} {}: {}{again}", text(&event.reason), text(&event.message))
}

/// Returns all about an extension, of its answer for programs and its revisions.
pub(super) fn sheet(
    row: &ExtensionRow,
    unknown: &[Unknown],
    revisions: &[ClusterObjectSet],
) -> KeyValues {
    let not_known = |what: &'static str| {
        let found = unknown.iter().filter(move |it| it.what == what);
        found.map(|it| format!("not known: {}", it.why))
    };
    let mut sheet = KeyValues::default();
    sheet.line("Extension", row.name.clone());
    sheet.line("Package", cell(row.package.as_ref()));
    let installed = row.installed.as_ref().map(|it| format!("{} ({})", it.version, it.name));
    sheet.line("Installed", installed.unwrap_or_else(|| "nothing".to_owned()));
    sheet.lines("Namespace", row.namespace.clone());
    sheet.lines("Account", row.service_account.clone());
    let since = row.ready.since.as_ref().map(|since| format!(", since {since}"));
    sheet.line("Ready", format!("{}{}", ready(row), since.unwrap_or_default()));
    // The first line of what is ready says nothing else.
    let (label, from) = if ready(row) == status::TRUE { ("Note", 1) } else { ("Why", 0) };
    let message = row.ready.message.as_deref().unwrap_or_default();
    sheet.lines(label, message.lines().skip(from).map(str::to_owned));
    sheet.lines("Cause", row.causes.iter().cloned().chain(not_known(CAUSES)));
    let update = row.update.as_ref().map(|update| {
        let from = match update.catalog.as_str() {
            "" => String::new(),
            catalog => format!(" from catalog {catalog}"),
        };
        format!("{}{from}, {}: {}", update.version(), update.reason, update.message)
    });
    sheet.lines("Update", update);
    let deprecated = row.deprecated.as_deref().unwrap_or_default();
    sheet.lines("Deprecated", deprecated.lines().map(plain).filter(|line| !line.is_empty()));
    sheet.lines("Support", row.support.as_ref().map(|found| plain(&found.message)));
    sheet.lines("Held by", [row.held_by.join(", ")]);
    sheet.lines("Do", row.todo.clone());
    let revision = |set: &ClusterObjectSet| {
        let version = BundleRecord::of(set).version;
        format!("{} {version} {}", set.name_any(), state(set))
    };
    sheet.lines("Revisions", revisions.iter().rev().map(revision));
    let moved = revisions.last().filter(|set| is_of_classic(set)).map(|_| {
        let name = &row.name;
        format!(
            "as OLM Classic made it; changes of the next version: kubectl olm plan {name} --diff"
        )
    });
    sheet.lines("Content", moved);
    let provides = row.provides.iter().flatten().cloned();
    sheet.lines("Provides", provides.chain(not_known(PROVIDES)));
    let events = row.events.iter().flatten().map(event_line);
    sheet.lines("Events", events.chain(not_known(LAST_EVENTS)));
    sheet
}
