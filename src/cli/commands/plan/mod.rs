//! `kubectl olm plan`: what would change, and what stands in the way.
//!
//! Source: plugin.md 1.5.

mod gather;
mod text;

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use kube::ResourceExt as _;
use olm_api::ClusterExtension;
use olm_core::plan::Plan;
use olm_core::yaml;

use crate::cluster::{CatalogAccess, Cluster};
use crate::connection::Global;
use crate::output::{Outcome, notice, write_json, write_yaml};
use crate::settings::SettingsFlags;
use crate::web;
pub(crate) use gather::{Missing, back, make};
pub(crate) use text::{page, short, write as show};

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// Name of the extension
    #[arg(value_name = "NAME", required_unless_present = "file")]
    name: Option<String>,
    /// Of an extension that is not there yet, or as it is to be: the file with it
    #[arg(short, long, value_name = "FILE", conflicts_with = "name")]
    file: Option<PathBuf>,
    /// Plan for the version, or the range of versions, that is asked for
    #[arg(long, value_name = "RANGE")]
    to: Option<String>,
    /// Show each field that changes; what Secrets hold is masked
    #[arg(long)]
    diff: bool,
    #[command(flatten)]
    access: CatalogAccess,
    #[command(flatten)]
    settings: SettingsFlags,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// How the plan is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    #[default]
    Table,
    /// One JSON document
    Json,
    /// One YAML document
    Yaml,
    /// A page in one file, with each field that changes
    Html,
}

/// Makes the plan and prints it.
pub(crate) async fn run(
    args: PlanArgs,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let cluster = Cluster::connect(global, &args.access, &args.settings).await?;
    let extension = match (&args.file, &args.name) {
        (Some(file), _) => read(file)?,
        (None, name) => {
            cluster
                .extension(name.as_deref().unwrap_or_default())
                .await?
        }
    };
    let plan = match make(&cluster, &extension, args.to.as_deref()).await {
        Ok(plan) => plan,
        Err(missing) => return Ok(missing.say(&extension.name_any())),
    };
    match args.output {
        Output::Json => write_json(out, &serde_json::to_value(&plan)?)?,
        Output::Yaml => write_yaml(out, &serde_json::to_value(&plan)?)?,
        Output::Html => out.write_all(web::plan(page(&plan))?.as_bytes())?,
        Output::Table => {
            text::write(&plan, out)?;
            if args.diff {
                text::write_fields(&plan, out)?;
            }
        }
    }
    Ok(outcome(&plan))
}

impl Missing {
    /// Says why there is no plan.
    pub(crate) fn say(&self, extension: &str) -> Outcome {
        notice(&format!("error: {extension}: {}", self.why));
        if self.outcome == Outcome::Failed {
            notice(&format!(
                "hint: kubectl olm why {extension} says what leads where"
            ));
        }
        self.outcome
    }
}

/// Held or without effect is no; not known and nothing else in the way is not known.
fn outcome(plan: &Plan) -> Outcome {
    if plan.is_empty() || !plan.held_by.is_empty() {
        Outcome::Failed
    } else if plan.unknown.is_empty() {
        Outcome::Done
    } else {
        Outcome::Unknown
    }
}

fn read(file: &PathBuf) -> anyhow::Result<ClusterExtension> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {shown}"))?;
    let mut documents = yaml::to_json(&text).with_context(|| format!("reading {shown}"))?;
    documents.retain(|document| document["kind"] == "ClusterExtension");
    let [document] = documents.as_slice() else {
        anyhow::bail!("{shown} does not hold one ClusterExtension");
    };
    serde_json::from_value(document.clone()).with_context(|| format!("reading {shown}"))
}
