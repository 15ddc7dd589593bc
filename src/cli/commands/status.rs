//! `kubectl olm status`: what is installed, whether it is well, what could be newer and what holds it.
//!
//! Source: plugin.md 1.4.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, ObjectList, WatchEvent, WatchParams};
use kube::{Client, ResourceExt as _};
use olm_api::conditions::{Reason, status, types};
use olm_api::keys::{annotation, label};
use olm_api::{BundleMetadata, ClusterExtension, ClusterObjectSet, RevisionStatus, UpdateStatus};
use olm_core::extension::ValidExtension;
use olm_core::extension::holds::{advice, reported};
use olm_core::revision::{BundleRecord, Origin, states};
use olm_core::status::find;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cluster::{CatalogAccess, Cluster};
use crate::commands::catalog;
use crate::commands::history::state;
use crate::commands::tree;
use crate::connection::Global;
use crate::document::{Document as _, Unknown};
use crate::graph::plain;
use crate::managed::failure;
use crate::offers::Listed;
use crate::output::{self, Format, KeyValues, Outcome, Table, one_line};
use crate::settings::SettingsFlags;

/// Text of a cell without a value.
const NOTHING: &str = "-";
/// Columns of a table, all but the age.
const HEADERS: [&str; 7] =
    ["NAME", "NAMESPACE", "PACKAGE", "VERSION", "READY", "UPDATE", "HELD BY"];
/// What follows the state of an extension whose catalog calls it deprecated.
const DEPRECATED: &str = " (deprecated)";
/// Events that are shown.
const EVENTS: usize = 5;

/// Flags of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Names of extensions; by default all of them. One name shows all details
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Label selector
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "names")]
    selector: Option<String>,
    /// Exit with 1 unless all of them are ready
    #[arg(long)]
    check: bool,
    /// Watch, and print a row for each change
    #[arg(short, long, conflicts_with = "check")]
    watch: bool,
    /// Show only extensions whose operators watch this namespace
    #[arg(long, value_name = "NAMESPACE")]
    watching: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// How the answer is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    #[default]
    Table,
    /// One JSON document
    Json,
    /// One YAML document
    Yaml,
    /// Names, for kubectl
    Name,
    /// Phases and objects, with health and drift
    Tree,
}

/// Prints a row for each extension, or a sheet about one.
pub(crate) async fn run(
    args: StatusArgs,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let (access, settings) = (CatalogAccess::default(), SettingsFlags::default());
    let cluster = Cluster::connect(global, &access, &settings).await?;
    let mut extensions = if args.names.is_empty() {
        list(cluster.own_client(), &args).await?.items
    } else {
        let named = args.names.iter().map(|name| cluster.extension(name));
        futures::future::try_join_all(named).await?
    };
    extensions.sort_by_key(ClusterExtension::name_any);
    let namespace = global.namespace.as_deref();
    extensions.retain(|extension| is_in(extension, namespace));
    if let Some(namespace) = &args.watching {
        let watching = watching(cluster.own_client(), namespace).await?;
        extensions.retain(|extension| watching.contains(&extension.name_any()));
    }
    if args.watch {
        return watch(cluster.own_client(), &args, namespace, out).await;
    }
    let one = match (args.names.as_slice(), extensions.as_slice()) {
        ([_], [extension])
            if matches!(args.output, Output::Table | Output::Json | Output::Yaml) =>
        {
            Some(Details::read(&cluster, extension).await?)
        }
        _ => None,
    };
    let whole = || {
        let mut document = document(&extensions);
        if let Some(details) = &one {
            details.add_to(&mut document);
        }
        document
    };
    match (args.output, &one, extensions.as_slice()) {
        (Output::Json, ..) => whole().write(Format::Json, out)?,
        (Output::Yaml, ..) => whole().write(Format::Yaml, out)?,
        (Output::Name, ..) => {
            for extension in &extensions {
                let (name, group) = (extension.name_any(), olm_api::GROUP);
                writeln!(out, "clusterextension.{group}/{name}")?;
            }
        }
        (Output::Tree, ..) => {
            for extension in &extensions {
                tree::write(&cluster, extension, out).await?;
            }
        }
        (Output::Table, Some(details), [extension]) => {
            sheet(extension, details).write(out)?;
        }
        (Output::Table, ..) if extensions.is_empty() => {
            let all = args.selector.is_none() && args.watching.is_none() && namespace.is_none();
            output::notice(if all {
                "no ClusterExtensions: kubectl olm install makes one"
            } else {
                "no ClusterExtension matches"
            });
        }
        (Output::Table, ..) => table(&extensions, Timestamp::now()).write(out)?,
    }
    let all_ready = extensions.iter().all(|extension| ready(extension) == "True");
    Ok(if args.check && !all_ready { Outcome::Failed } else { Outcome::Done })
}

/// What is shown of a single extension besides.
struct Details {
    revisions: Vec<ClusterObjectSet>,
    /// The catalog that what is installed came from, or why it is not known.
    catalog: Result<Option<Listed>, String>,
    /// The kinds it installed, or why they are not known.
    provides: Result<Vec<String>, String>,
    /// The latest, the oldest of them first; or why they are not known.
    events: Result<Vec<Event>, String>,
}

impl Details {
    async fn read(cluster: &Cluster, extension: &ClusterExtension) -> anyhow::Result<Self> {
        let name = &extension.name_any();
        // Not those of an earlier extension of the same name.
        let uid = extension.uid().unwrap_or_default();
        let about = format!("involvedObject.kind=ClusterExtension,involvedObject.uid={uid}");
        let params = ListParams::default().fields(&about);
        // Where those about cluster-scoped objects are.
        let api = Api::<Event>::namespaced(cluster.own_client().clone(), "default");
        let events = match api.list(&params).await {
            Ok(listed) => {
                let mut events = listed.items;
                events.sort_by_key(when);
                Ok(events.split_off(events.len().saturating_sub(EVENTS)))
            }
            Err(error) => Err(failure(&error)),
        };
        let params = ListParams::default().labels(&format!("{}={name}", label::OWNER_NAME));
        let api = Api::<CustomResourceDefinition>::all(cluster.own_client().clone());
        let provides = match api.list(&params).await {
            Ok(listed) => Ok(listed.items.iter().map(kind).collect()),
            Err(error) => Err(failure(&error)),
        };
        let revisions = cluster.revisions(name).await?;
        let origin = states(&revisions).installed.map(Origin::of);
        let catalog = match Cluster::catalogs(cluster.own_client()).await {
            Ok(catalogs) => {
                let mut listed = catalog::list::document(&catalogs).catalogs.into_iter();
                let came_from = origin.and_then(|origin| origin.catalog);
                Ok(listed.find(|it| Some(&it.name) == came_from.as_ref()))
            }
            Err(error) => Err(one_line(&error)),
        };
        Ok(Self { revisions, catalog, provides, events })
    }

    /// Adds to the document of the one extension.
    fn add_to(&self, document: &mut Status) {
        let event = |event: &Event| Happened {
            last: when(event).to_string(),
            type_: event.type_.clone(),
            reason: event.reason.clone(),
            message: event.message.clone(),
            count: times(event),
        };
        let mut unknown = |what: &str, why: &String| document.unknown.push(Unknown::new(what, why));
        let Some(row) = document.extensions.first_mut() else {
            return;
        };
        match &self.catalog {
            Ok(catalog) => row.catalog.clone_from(catalog),
            Err(why) => unknown("catalog", why),
        }
        match &self.provides {
            Ok(kinds) => row.provides = Some(kinds.clone()),
            Err(why) => unknown("provided kinds", why),
        }
        match &self.events {
            Ok(events) => row.events = Some(events.iter().map(event).collect()),
            Err(why) => unknown("events", why),
        }
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

/// When an Event was last seen.
fn when(event: &Event) -> Timestamp {
    let series = event.series.as_ref();
    let series = series.and_then(|series| series.last_observed_time.as_ref());
    let micro = series.or(event.event_time.as_ref()).map(|time| time.0);
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let made = event.creation_timestamp().map(|time| time.0);
    last.max(micro).or(made).unwrap_or_default()
}

fn times(event: &Event) -> i32 {
    let series = event.series.as_ref().and_then(|series| series.count);
    series.or(event.count).unwrap_or(1)
}

/// Lists the extensions that are asked for by their labels, or all.
async fn list(client: &Client, args: &StatusArgs) -> anyhow::Result<ObjectList<ClusterExtension>> {
    let mut params = ListParams::default();
    params.label_selector.clone_from(&args.selector);
    let api = Api::<ClusterExtension>::all(client.clone());
    let listed = api.list(&params).await;
    listed.context("listing ClusterExtensions")
}

/// Prints a row for each extension, and another one whenever it changes.
async fn watch(
    client: &Client,
    args: &StatusArgs,
    namespace: Option<&str>,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let api = Api::<ClusterExtension>::all(client.clone());
    let mut told = Told::default();
    loop {
        let listed = list(client, args).await?;
        let version = listed.metadata.resource_version.unwrap_or_default();
        for extension in &listed.items {
            if is_in(extension, namespace) && shown(client, extension, args).await? {
                told.tell(extension, args, out)?;
            }
        }
        let params =
            WatchParams { label_selector: args.selector.clone(), ..WatchParams::default() };
        let events = api.watch(&params, &version).await;
        let mut events = events.context("watching ClusterExtensions")?.boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(WatchEvent::Added(extension) | WatchEvent::Modified(extension)) => {
                    if is_in(&extension, namespace) && shown(client, &extension, args).await? {
                        told.tell(&extension, args, out)?;
                    }
                }
                Ok(WatchEvent::Deleted(extension)) => {
                    let name = extension.name_any();
                    if told.rows.remove(&name).is_some() {
                        writeln!(out, "{name}  deleted")?;
                        out.flush()?;
                    }
                }
                Ok(WatchEvent::Bookmark(_)) => {}
                // It is listed anew.
                Ok(WatchEvent::Error(_)) | Err(_) => break,
            }
        }
    }
}

/// Says whether an extension is among those that are asked for.
async fn shown(
    client: &Client,
    extension: &ClusterExtension,
    args: &StatusArgs,
) -> anyhow::Result<bool> {
    let name = extension.name_any();
    if !args.names.is_empty() && !args.names.contains(&name) {
        return Ok(false);
    }
    let Some(namespace) = &args.watching else {
        return Ok(true);
    };
    // An upgrade may change what it watches.
    Ok(watching(client, namespace).await?.contains(&name))
}

/// Says whether an extension installs into the namespace that is asked for.
fn is_in(extension: &ClusterExtension, namespace: Option<&str>) -> bool {
    let of = extension.spec.as_ref().map(|spec| spec.namespace.as_str());
    namespace.is_none_or(|namespace| of == Some(namespace))
}

/// The rows that were printed, by name, and how wide their columns are.
#[derive(Default)]
struct Told {
    rows: BTreeMap<String, String>,
    widths: Vec<usize>,
}

impl Told {
    /// Prints the row of an extension if it is another one than before; a header before the first,
    /// and again where a column has become wider.
    fn tell(
        &mut self,
        extension: &ClusterExtension,
        args: &StatusArgs,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let one = std::slice::from_ref(extension);
        let cells = cells(extension);
        let row = match args.output {
            Output::Json => serde_json::to_string(&document(one).headed()?)?,
            _ => cells.join("  "),
        };
        let name = extension.name_any();
        if self.rows.get(&name) == Some(&row) {
            return Ok(());
        }
        if args.output == Output::Json {
            writeln!(out, "{row}")?;
        } else {
            self.write(&cells, out)?;
        }
        out.flush()?;
        self.rows.insert(name, row);
        Ok(())
    }

    fn write(&mut self, cells: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
        let headers = HEADERS.map(str::to_owned);
        let begins = self.widths.is_empty();
        self.widths.resize(headers.len(), 0);
        let mut wider = begins;
        for ((width, header), cell) in self.widths.iter_mut().zip(&headers).zip(cells) {
            let needed = cell.chars().count().max(header.len());
            wider |= needed > *width;
            *width = needed.max(*width);
        }
        for line in wider.then_some(&headers[..]).into_iter().chain([cells]) {
            let padded =
                line.iter().zip(&self.widths).map(|(cell, &width)| format!("{cell:width$}"));
            writeln!(out, "{}", padded.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

/// Returns the extensions whose operators watch a namespace, by what their Deployments are told.
async fn watching(client: &Client, namespace: &str) -> anyhow::Result<BTreeSet<String>> {
    let api = Api::<Deployment>::all(client.clone());
    let listed = api.list(&ListParams::default().labels(label::OWNER_NAME)).await;
    let listed = listed.context("listing Deployments")?;
    let watch = listed.items.iter().filter(|one| {
        let template = one.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
        let annotations = template.and_then(|template| template.annotations.as_ref());
        let targets = annotations.and_then(|all| all.get(annotation::TARGET_NAMESPACES));
        // Without a name all namespaces are.
        targets.is_some_and(|targets| {
            targets.is_empty() || targets.split(',').any(|target| target == namespace)
        })
    });
    Ok(watch.filter_map(|one| one.labels().get(label::OWNER_NAME).cloned()).collect())
}

/// `True`, or in one word why not.
fn ready(extension: &ClusterExtension) -> &str {
    let seen = extension.status.as_ref();
    match seen.and_then(|seen| find(&seen.conditions, types::READY)) {
        Some(ready) if ready.status == status::TRUE => status::TRUE,
        Some(ready) => &ready.reason,
        None => "Unknown",
    }
}

/// What holds an update, or the rollout that is under way.
fn held_by(extension: &ClusterExtension) -> Vec<&'static str> {
    reported(extension).iter().map(|holder| holder.word).collect()
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
fn cells(extension: &ClusterExtension) -> Vec<String> {
    let nothing = || NOTHING.to_owned();
    let held = held_by(extension).join(",");
    let mut ready = ready(extension).to_owned();
    if deprecated(extension).is_some() {
        ready.push_str(DEPRECATED);
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

fn update(extension: &ClusterExtension) -> Option<&UpdateStatus> {
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
fn deprecated(extension: &ClusterExtension) -> Option<&str> {
    let conditions = &extension.status.as_ref()?.conditions;
    let found = find(conditions, types::DEPRECATED)?;
    (found.status == status::TRUE).then_some(&found.message)
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

fn sheet(extension: &ClusterExtension, details: &Details) -> KeyValues {
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
    sheet.lines(
        "Update",
        update(extension).map(|update| {
            let version = update.version.as_ref().unwrap_or(&update.newest);
            let from = match update.catalog.as_str() {
                "" => String::new(),
                catalog => format!(" from catalog {catalog}"),
            };
            format!("{version}{from}, {}: {}", update.reason, update.message)
        }),
    );
    let deprecated = deprecated(extension).unwrap_or_default();
    sheet.lines("Deprecated", deprecated.lines().map(plain).filter(|line| !line.is_empty()));
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
    let provides = details.provides.clone();
    sheet.lines("Provides", provides.unwrap_or_else(|why| not_known(&why)));
    sheet.lines("Events", details.event_lines());
    sheet
}

/// What is installed, whether it is well, what could be newer and what holds it: `kubectl olm status`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Status {
    /// The extensions, by name.
    pub(crate) extensions: Vec<Row>,
    /// What could not be read.
    unknown: Vec<Unknown>,
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
    catalog: Option<Listed>,
    /// The kinds that it installed, with the versions that are served; only of a single extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    provides: Option<Vec<String>>,
    /// The last Events about it; only of a single extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Vec<Happened>>,
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

/// An Event about an extension.
#[derive(Debug, Serialize, JsonSchema)]
struct Happened {
    /// When it was last seen.
    last: String,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    type_: Option<String>,
    /// What happened, in one word.
    reason: Option<String>,
    /// What happened.
    message: Option<String>,
    /// How often.
    count: i32,
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
        todo: advice(extension),
        held_by: held_by(extension),
        revisions: seen.map(|status| status.active_revisions.clone()),
        catalog: None,
        provides: None,
        events: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

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
                    condition("Ready", "False", "PermissionsMissing", "lacks rights"),
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
        let set: ClusterObjectSet = serde_json::from_value(json!({
            "metadata": {"name": "held-1"},
            "spec": {"revision": 1, "lifecycleState": "Active", "collisionProtection": "Prevent"},
            "status": {"conditions": [condition("Succeeded", "True", "Succeeded", "")]},
        }))
        .unwrap();
        let event: Event = serde_json::from_value(json!({"metadata": {}, "involvedObject": {},
            "reason": "UpgradeAvailable", "message": "2.0.0\nis available",
            "eventTime": "2026-01-01T00:00:00.000000Z", "series": {"count": 3}}))
        .unwrap();
        let details = Details {
            revisions: vec![set],
            catalog: Ok(None),
            provides: Ok(vec!["Quay.a.io v1".to_owned()]),
            events: Ok(vec![event]),
        };
        let none = Details {
            revisions: Vec::new(),
            catalog: Err("you may not list them".to_owned()),
            provides: Err("you may not list them".to_owned()),
            events: Err("you may not list them".to_owned()),
        };
        sheet(&all()[2], &none).write(&mut out).unwrap();
        sheet(&all()[1], &details).write(&mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }
}
