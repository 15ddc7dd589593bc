//! `kubectl olm doctor`: whether a cluster is fit for extensions, and an archive for whoever helps.
//!
//! Everything is read with the caller's own rights, in [`facts`]; [`checks`] judges it, [`dump`]
//! packs it. Source: plugin.md 1.4.

mod checks;
mod dump;
mod facts;
mod leave;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::connection::Global;
use crate::output::{self, Format, Outcome, Table};
use facts::Facts;

/// Flags of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// With --dump: extensions to pack; by default all of them
    #[arg(value_name = "NAME", requires = "dump")]
    names: Vec<String>,
    /// Also pack what was read, with logs and events, into this tar.gz
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,
    /// Remove from all statuses what upstream would keep although it is not true any more, and say
    /// which extensions have a way back to it
    #[arg(long, conflicts_with = "dump")]
    leave: bool,
    /// With --leave: do not ask
    #[arg(long, requires = "leave")]
    yes: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// How well something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
enum Level {
    Ok,
    Warning,
    Unknown,
    Problem,
}

/// What was found about one subject.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    level: Level,
    /// `controller`, `catalogs` and so on.
    subject: &'static str,
    text: String,
    /// The way out; empty where nothing is to be done.
    hint: String,
}

impl Row {
    fn new(level: Level, subject: &'static str, text: impl Into<String>) -> Self {
        Self {
            level,
            subject,
            text: text.into(),
            hint: String::new(),
        }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: hint.into(),
            ..self
        }
    }

    fn to_json(&self) -> Value {
        let level: &str = self.level.into();
        json!({"level": level, "subject": self.subject, "text": self.text, "hint": self.hint})
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
    if args.leave {
        return leave::leave(&client, &facts, args.yes, out).await;
    }
    let rows = checks::all(&facts);
    let answer = json!({"rows": rows.iter().map(Row::to_json).collect::<Vec<_>>()});
    if let Some(path) = &args.dump {
        dump::write(path, &args.names, &facts, &answer, &client).await?;
        output::notice(&format!("note: {} is written", path.display()));
    }
    match args.output {
        Format::Json => output::write_json(out, &answer)?,
        Format::Yaml => output::write_yaml(out, &answer)?,
        Format::Table => table(&rows).write(out)?,
    }
    Ok(match rows.iter().map(|row| row.level).max() {
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
