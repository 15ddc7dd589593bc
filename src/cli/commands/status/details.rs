//! All about one extension.

use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use olm_api::keys::label;
use olm_core::extension::holds::advice;
use olm_core::revision::{Origin, is_of_classic};

use super::columns::{deprecated, held_by, ready, ready_condition, support, update};
use super::document::{Status, document};
use crate::commands::catalog;
use crate::commands::history::state;
use crate::document::Happened;
use crate::offers::Listed;
use crate::output::KeyValues;
use crate::prelude::*;
use crate::workloads::causes;

const EVENTS: usize = 5;

/// Further data that is shown for a single extension.
pub(super) struct Details {
    pub(super) revisions: Vec<ClusterObjectSet>,
    /// The catalog of the installed bundle, or why it is not known.
    pub(super) catalog: Result<Option<Listed>, String>,
    /// The kinds it installed, or why they are not known.
    pub(super) provides: Result<Vec<String>, String>,
    /// The reasons why its workloads are not ready, or why these are unknown.
    pub(super) causes: Result<Vec<String>, String>,
    /// The latest, the oldest of them first; or why they are not known.
    pub(super) events: Result<Vec<Event>, String>,
}

impl Details {
    pub(super) async fn read(
        cluster: &Cluster,
        extension: &ClusterExtension,
    ) -> anyhow::Result<Self> {
        let name = &extension.name_any();
        // Not those of an earlier extension of the same name.
        let uid = extension.uid().unwrap_or_default();
        let about = format!("involvedObject.kind=ClusterExtension,involvedObject.uid={uid}");
        let params = ListParams::default().fields(&about);
        // Where those about cluster-scoped objects are.
        let api = Api::<Event>::namespaced(cluster.own_client().clone(), "default");
        let events = api.list(&params).await.map_err(|error| failure(&error)).map(|listed| {
            let mut events = listed.items;
            events.sort_by_key(when);
            events.split_off(events.len().saturating_sub(EVENTS))
        });
        let params = ListParams::default().labels(&format!("{}={name}", label::OWNER_NAME));
        let api = Api::<CustomResourceDefinition>::all(cluster.own_client().clone());
        let provides = api.list(&params).await.map_err(|error| failure(&error));
        let provides = provides.map(|listed| listed.items.iter().map(kind).collect());
        let revisions = cluster.revisions(name).await?;
        let origin = states(&revisions).installed.map(Origin::of);
        let catalog = match cluster.all_catalogs().await {
            Ok(catalogs) => {
                let mut listed = catalog::list::document(catalogs).catalogs.into_iter();
                let came_from = origin.and_then(|origin| origin.catalog);
                Ok(listed.find(|it| Some(&it.name) == came_from.as_ref()))
            }
            Err(error) => Err(one_line(&error)),
        };
        let causes = match ready(extension).as_str() {
            status::TRUE => Ok(Vec::new()),
            _ => causes(cluster.own_client(), name).await,
        };
        Ok(Self { revisions, catalog, provides, causes, events })
    }

    /// Adds to the document of the one extension.
    pub(super) fn add_to(&self, document: &mut Status) {
        let event = |event: &Event| Happened {
            last: when(event).to_string(),
            type_: event.type_.clone(),
            reason: event.reason.clone(),
            message: event.message.clone(),
            count: times(event),
        };
        let Some(row) = document.extensions.first_mut() else { return };
        let unknown = &mut document.unknown;
        row.catalog = known(&self.catalog, "catalog", unknown).cloned().flatten();
        row.provides = known(&self.provides, "provided kinds", unknown).cloned();
        row.causes = known(&self.causes, "causes", unknown).cloned().unwrap_or_default();
        let events = known(&self.events, "events", unknown);
        row.events = events.map(|events| events.iter().map(event).collect());
    }

    fn event_lines(&self) -> Vec<String> {
        let line = |event: &Event| {
            let text = |text: &Option<String>| plain(text.as_deref().unwrap_or_default());
            let again = match times(event) {
                0 | 1 => String::new(),
                times => format!(" ({times} times)"),
            };
            let (reason, message) = (text(&event.reason), text(&event.message));
            format!("{:.0} {reason}: {message}{again}", when(event))
        };
        match &self.events {
            Ok(events) => events.iter().map(line).collect(),
            Err(why) => not_known(why),
        }
    }
}

/// Returns the answer about one extension with all details, for programs.
pub(crate) async fn detailed(
    cluster: &Cluster,
    extension: &ClusterExtension,
) -> anyhow::Result<Status> {
    let details = Details::read(cluster, extension).await?;
    let mut document = document(std::slice::from_ref(extension));
    details.add_to(&mut document);
    Ok(document)
}

/// Returns the value; on an error, notes why it is unknown.
fn known<'a, T>(
    found: &'a Result<T, String>,
    what: &str,
    unknown: &mut Vec<Unknown>,
) -> Option<&'a T> {
    found.as_ref().map_err(|why| unknown.push(Unknown::new(what, why))).ok()
}

fn not_known(why: &str) -> Vec<String> {
    vec![format!("not known: {why}")]
}

/// Returns the kind of a CRD with the versions that are served.
fn kind(crd: &CustomResourceDefinition) -> String {
    let served = crd.spec.versions.iter().filter(|version| version.served);
    let served: Vec<_> = served.map(|version| version.name.as_str()).collect();
    let (kind, group) = (&crd.spec.names.kind, &crd.spec.group);
    format!("{kind}.{group} {}", served.join(", "))
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

fn times(event: &Event) -> i32 {
    event.series.as_ref().and_then(|series| series.count).or(event.count).unwrap_or(1)
}

pub(super) fn sheet(extension: &ClusterExtension, details: &Details) -> KeyValues {
    let mut sheet = KeyValues::default();
    sheet.line("Extension", extension.name_any());
    sheet.line("Package", cell(extension.package()));
    let installed = extension.installed().map(|it| format!("{} ({})", it.version, it.name));
    sheet.line("Installed", installed.unwrap_or_else(|| "nothing".to_owned()));
    if let Some(spec) = &extension.spec {
        sheet.line("Namespace", spec.namespace.clone());
        let account = spec.service_account.as_ref();
        sheet.lines("Account", account.and_then(|account| account.name.clone()));
    }
    let (condition, reason) = (ready_condition(extension), ready(extension));
    let condition = condition.as_deref();
    sheet.line(
        "Ready",
        match condition {
            Some(found) => format!("{reason}, since {}", found.last_transition_time.0),
            None => reason,
        },
    );
    let message = condition.map_or("", |ready| ready.message.as_str());
    let is_ready = condition.is_some_and(|ready| ready.status == status::TRUE);
    // The first line of what is ready says nothing else.
    let (label, from) = if is_ready { ("Note", 1) } else { ("Why", 0) };
    sheet.lines(label, message.lines().skip(from).map(str::to_owned));
    sheet.lines("Cause", details.causes.clone().unwrap_or_else(|why| not_known(&why)));
    sheet.lines(
        "Update",
        update(extension).map(|update| {
            let from = match update.catalog.as_str() {
                "" => String::new(),
                catalog => format!(" from catalog {catalog}"),
            };
            format!("{}{from}, {}: {}", update.version(), update.reason, update.message)
        }),
    );
    let deprecated = deprecated(extension).unwrap_or_default();
    sheet.lines("Deprecated", deprecated.lines().map(plain).filter(|line| !line.is_empty()));
    sheet.lines("Support", support(extension).map(|found| plain(&found.message)));
    let held = held_by(extension);
    sheet.lines("Held by", (!held.is_empty()).then(|| held.join(", ")));
    sheet.lines("Do", advice(extension));
    sheet.lines(
        "Revisions",
        details.revisions.iter().rev().map(|set| {
            let version = BundleRecord::of(set).version;
            format!("{} {version} {}", set.name_any(), state(set))
        }),
    );
    let moved = details.revisions.last().filter(|set| is_of_classic(set)).map(|_| {
        let name = extension.name_any();
        format!(
            "as OLM Classic made it; changes of the next version: kubectl olm plan {name} --diff"
        )
    });
    sheet.lines("Content", moved);
    sheet.lines("Provides", details.provides.clone().unwrap_or_else(|why| not_known(&why)));
    sheet.lines("Events", details.event_lines());
    sheet
}
