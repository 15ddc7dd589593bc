//! `kubectl olm doctor`: whether a cluster is fit for extensions, and an archive for whoever helps.
//!
//! Everything is read with the caller's own rights, in [`facts`]; [`checks`] judges it, [`dump`]
//! packs it. Source: plugin.md 1.4.

mod checks;
mod dump;
mod facts;
mod takeover;

use crate::commands::prelude::*;
use crate::managed::{kinds, of_extensions};
use crate::verb;
use facts::Facts;

/// Flags of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// With --dump: extensions to pack; by default all of them
    #[arg(value_name = "NAME", requires = "dump", value_parser = verb::extension())]
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

/// The severity of a finding.
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

/// The state of a cluster for extensions: `kubectl olm doctor`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Diagnosis {
    /// The checks.
    rows: Vec<Row>,
}

/// The result for one subject.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Row {
    level: Level,
    /// `controller`, `catalogs` and so on.
    subject: &'static str,
    /// The result.
    text: String,
    /// The way out; empty where nothing is to be done.
    hint: String,
}

impl Row {
    /// Makes a row whose subject is not named yet.
    fn new(level: Level, text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { level, subject: "", text: text.into(), hint: hint.into() }
    }

    fn ok(text: impl Into<String>) -> Self {
        Self::new(Level::Ok, text, "")
    }

    fn warning(text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Level::Warning, text, hint)
    }

    fn unknown(text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Level::Unknown, text, hint)
    }

    fn problem(text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Level::Problem, text, hint)
    }
}

/// Returns the rows of what was found about a subject.
fn about(subject: &'static str, found: impl IntoIterator<Item = Row>) -> impl Iterator<Item = Row> {
    found.into_iter().map(move |row| Row { subject, ..row })
}

/// Prints a row for each check; exit code 1 with a problem, else 3 with something not known.
pub(crate) async fn run(args: DoctorArgs, global: &Global, out: &mut dyn Write) -> Ended {
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
) -> Ended {
    let client = Cluster::client(global).await?;
    let facts = Facts::read(&client).await;
    let (managed, unread) = of_extensions(&client, &kinds(&client).await?, None).await;
    let mut rows = takeover::rows(&client, &facts, &managed).await;
    rows.extend(about("objects", not_listed(&unread)));
    print(&Diagnosis { rows }, args.output, out)
}

/// Returns one row for all kinds whose objects could not be listed.
fn not_listed(unread: &[String]) -> Option<Row> {
    let (first, others) = unread.split_first()?;
    let others = match others.len() {
        0 => String::new(),
        number => format!("; nor those of {}", counted(number, "other kind")),
    };
    let text = format!("not every object of extensions is known: {first}{others}");
    Some(Row::unknown(text, Failure::way_out(first).unwrap_or_default()))
}

fn print(answer: &Diagnosis, format: Format, out: &mut dyn Write) -> Ended {
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
