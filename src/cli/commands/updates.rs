//! `kubectl olm updates`: which extensions could be newer, and why they are not.
//!
//! The controller writes the answer into the status of each extension; with `--from-catalogs` it is
//! computed here from the content of the catalogs, for clusters with another controller.

use std::io::Write;

use clap::Args;
use kube::ResourceExt as _;
use olm_api::{ClusterExtension, UpdateStatus};
use olm_core::resolve::{Catalog, CatalogError, CatalogProblem, Selector};
use serde_json::{Value, json};

use crate::cluster::{CatalogAccess, Cluster, ExtensionSnapshot};
use crate::connection::Global;
use crate::output::{self, Format, Outcome, Table, one_line};
use crate::settings::SettingsFlags;

/// Text of a cell without a value.
const NOTHING: &str = "-";

/// Flags of `updates`.
#[derive(Debug, Args)]
pub(crate) struct UpdatesArgs {
    /// Names of extensions; by default all of them
    #[arg(value_name = "NAME")]
    pub(super) names: Vec<String>,
    /// Look into the catalogs instead of the status
    #[arg(long)]
    pub(super) from_catalogs: bool,
    #[command(flatten)]
    pub(super) access: CatalogAccess,
    #[command(flatten)]
    pub(super) settings: SettingsFlags,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(super) output: Format,
}

/// Prints one row for each extension.
pub(crate) async fn run(
    args: UpdatesArgs,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let cluster = Cluster::connect(global, &args.access, &args.settings).await?;
    let extensions = if args.names.is_empty() {
        cluster.extensions().await?
    } else {
        let named = args.names.iter().map(|name| cluster.extension(name));
        futures::future::try_join_all(named).await?
    };
    let assumed = if args.from_catalogs {
        cluster.state().await?.assumed()
    } else {
        args.settings.refuse("--from-catalogs is given")?;
        Vec::new()
    };
    let mut rows = Vec::new();
    for extension in extensions {
        let mut row = Row::of(&extension);
        if args.from_catalogs {
            // One extension that cannot be asked about keeps nothing from the others.
            match looked_up(&cluster, &extension).await {
                Ok(update) => row.update = update,
                Err(error) => {
                    row.update = None;
                    row.error = Some(one_line(&error));
                }
            }
        }
        rows.push(row);
    }
    match args.output {
        Format::Json => output::write_json(out, &answer(&rows, &assumed))?,
        Format::Yaml => output::write_yaml(out, &answer(&rows, &assumed))?,
        Format::Table => table(&rows).write(out)?,
    }
    Ok(if rows.iter().any(|row| row.error.is_some()) { Outcome::Failed } else { Outcome::Done })
}

/// The row of one extension.
struct Row {
    name: String,
    package: String,
    installed: Option<String>,
    update: Option<UpdateStatus>,
    /// Why nothing can be said about an update.
    error: Option<String>,
}

impl Row {
    fn of(extension: &ClusterExtension) -> Self {
        let spec = extension.spec.as_ref();
        let catalog = spec.and_then(|spec| spec.source.catalog.as_ref());
        let status = extension.status.as_ref();
        let install = status.and_then(|status| status.install.as_ref());
        Self {
            name: extension.name_any(),
            package: catalog.map(|catalog| catalog.package_name.clone()).unwrap_or_default(),
            installed: install.map(|install| install.bundle.version.clone()),
            update: status.and_then(|status| status.update.clone()),
            error: None,
        }
    }
}

fn table(rows: &[Row]) -> Table {
    let mut table =
        Table::new(&["NAME", "PACKAGE", "INSTALLED", "NEWEST", "UPDATE", "REASON", "MESSAGE"]);
    for row in rows {
        let update = row.update.as_ref();
        let installed = row.installed.clone();
        let newest = update.map(|update| update.newest.clone());
        // Where nothing newer is known, the installed version is the newest.
        let newest = match row.error {
            Some(_) => None,
            None => newest.or_else(|| installed.clone()),
        };
        let cell = |text: Option<String>| text.unwrap_or_else(|| NOTHING.to_owned());
        table.row(vec![
            row.name.clone(),
            row.package.clone(),
            cell(installed),
            cell(newest),
            cell(update.and_then(|update| update.version.clone())),
            cell(update.map(|update| update.reason.clone())),
            update
                .map(|update| update.message.clone())
                .or_else(|| row.error.clone())
                .unwrap_or_default(),
        ]);
    }
    table
}

fn answer(rows: &[Row], assumed: &[&str]) -> Value {
    let row = |row: &Row| {
        let mut answer = json!({
            "name": row.name, "package": row.package, "installed": row.installed,
            "update": row.update,
        });
        if let Some(error) = &row.error {
            answer["error"] = error.as_str().into();
        }
        answer
    };
    let mut answer = json!({"extensions": rows.iter().map(row).collect::<Vec<_>>()});
    if !assumed.is_empty() {
        answer["assumed"] = json!(assumed);
    }
    answer
}

/// Looks into the catalogs for one extension, and says where the controller says something else.
async fn looked_up(
    cluster: &Cluster,
    extension: &ClusterExtension,
) -> anyhow::Result<Option<UpdateStatus>> {
    let snapshot = cluster.snapshot_of(extension).await?;
    let answer = cluster.answer(extension, &snapshot).await?;
    let said = cluster.said(extension, &snapshot, Some(&answer)).await?;
    if let Some(differs) = said.and_then(|said| said.differs) {
        output::notice(&format!("note: {}: {differs}", extension.name_any()));
    }
    offered(&snapshot, answer.update)
}

/// Returns what could follow the installed bundle of an extension. That nothing does is not known
/// while one of its catalogs cannot be read.
fn offered(
    snapshot: &ExtensionSnapshot,
    update: Option<UpdateStatus>,
) -> anyhow::Result<Option<UpdateStatus>> {
    let (catalogs, question) = (snapshot.catalogs(), &snapshot.question);
    if update.is_none() {
        let selector = Selector::new(question.filter.selector.as_ref())?;
        let read = |catalog: &&Catalog<'_>| {
            !catalog.enabled || catalog.content.is_some() || !selector.matches(&catalog.labels)
        };
        if let Some(unread) = catalogs.iter().find(|catalog| !read(catalog)) {
            let (catalog, problem) = (unread.name.to_owned(), unread.problem.clone());
            let problem = problem.unwrap_or(CatalogProblem::NotCached);
            return Err(CatalogError { catalog, problem }.into());
        }
    }
    Ok(update)
}
