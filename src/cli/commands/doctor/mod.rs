//! `kubectl olm doctor`: whether a cluster is fit for extensions, and an archive for whoever helps.
//!
//! Everything is read with the caller's own rights, in [`facts`]; [`checks`] judges it, [`dump`]
//! packs it. Source: plugin.md 1.4.

mod checks;
mod dump;
mod facts;
mod releases;
mod takeover;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cluster::Cluster;
use crate::connection::Global;
use crate::document::Document as _;
use crate::managed::{kinds, of_extensions};
use crate::output::{self, Format, Outcome, Table, formats};
use facts::Facts;

/// Flags of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// With --dump: extensions to pack; by default all of them
    #[arg(value_name = "NAME", requires = "dump")]
    names: Vec<String>,
    /// Write a support bundle, with logs and events, to this tar.gz
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_parser = formats(&[]), default_value_t)]
    output: Format,
}

/// Flags of `migrate from-upstream`.
#[derive(Debug, Args)]
pub(crate) struct FromUpstreamArgs {
    /// Output format
    #[arg(short, long, value_parser = formats(&[]), default_value_t)]
    output: Format,
}

/// How well something is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr, Serialize, JsonSchema,
)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
enum Level {
    Ok,
    Warning,
    Unknown,
    Problem,
}

/// Whether a cluster is fit for extensions: `kubectl olm doctor`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Diagnosis {
    /// What was checked.
    rows: Vec<Row>,
}

/// What was found about one subject.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Row {
    level: Level,
    /// `controller`, `catalogs` and so on.
    subject: &'static str,
    /// What was found.
    text: String,
    /// The way out; empty where nothing is to be done.
    hint: String,
}

impl Row {
    fn new(level: Level, subject: &'static str, text: impl Into<String>) -> Self {
        Self { level, subject, text: text.into(), hint: String::new() }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }
}

/// Prints a row for each check; exit code 1 with a problem, else 3 with something not known.
pub(crate) async fn run(
    args: DoctorArgs,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let client = Cluster::client(global).await?;
    let facts = Facts::read(&client).await;
    let answer = Diagnosis { rows: checks::all(&facts) };
    if let Some(path) = &args.dump {
        dump::write(path, &args.names, &facts, &answer, &client).await?;
        output::notice(&format!("note: {} is written", path.display()));
    }
    print(&answer, args.output, out)
}

/// Judges the cluster before a takeover.
pub(crate) async fn from_upstream(
    args: &FromUpstreamArgs,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let client = Cluster::client(global).await?;
    let facts = Facts::read(&client).await;
    let (managed, unread) = of_extensions(&client, &kinds(&client).await?, None).await;
    let mut rows = takeover::rows(&client, &facts, &managed).await;
    rows.extend(unread.into_iter().map(|what| Row::new(Level::Unknown, "objects", what)));
    print(&Diagnosis { rows }, args.output, out)
}

fn print(answer: &Diagnosis, format: Format, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    match format {
        Format::Table => table(&answer.rows).write(out)?,
        format => answer.write(format, out)?,
    }
    Ok(match answer.rows.iter().map(|row| row.level).max() {
        Some(Level::Problem) => Outcome::Failed,
        Some(Level::Unknown) => Outcome::Unknown,
        _ => Outcome::Done,
    })
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&["LEVEL", "SUBJECT", "FINDING"]);
    for row in rows {
        let level: &str = row.level.into();
        let text = match row.hint.as_str() {
            "" => row.text.clone(),
            hint => format!("{} (hint: {hint})", row.text),
        };
        table.row(vec![level.to_owned(), row.subject.to_owned(), text]);
    }
    table
}
