//! `kubectl olm pause` and `resume`: touch nothing for now, and go on.

use std::io::Write;

use clap::Args;
use kube::ResourceExt as _;
use olm_api::keys::policy;
use olm_core::annotations::is_paused;
use serde_json::{Value, json};

use crate::changes;
use crate::cluster::{CatalogAccess, Cluster};
use crate::connection::Global;
use crate::output::{Outcome, UsageError};
use crate::settings::SettingsFlags;

/// Arguments of `pause` and `resume`.
#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    /// Names of extensions
    #[arg(value_name = "NAME", conflicts_with = "all")]
    names: Vec<String>,
    /// All of them
    #[arg(long)]
    all: bool,
}

/// Pauses extensions, or has them go on.
pub(crate) async fn run(
    args: PauseArgs,
    pause: bool,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    if args.names.is_empty() && !args.all {
        return Err(UsageError("names of extensions, or --all".to_owned()).into());
    }
    let (access, settings) = (CatalogAccess::default(), SettingsFlags::default());
    let cluster = Cluster::connect(global, &access, &settings).await?;
    let extensions = if args.all {
        cluster.extensions().await?
    } else {
        let named = args.names.iter().map(|name| cluster.extension(name));
        futures::future::try_join_all(named).await?
    };
    for extension in extensions {
        let name = extension.name_any();
        if is_paused(extension.annotations()) != pause {
            let word = if pause { json!("true") } else { Value::Null };
            let change = json!({"metadata": {"annotations": {policy::PAUSED: word}}});
            changes::merge(cluster.own_client(), &extension, change).await?;
        }
        if pause {
            writeln!(
                out,
                "{name}: paused; no update and no repair until: kubectl olm resume {name}"
            )?;
        } else {
            writeln!(out, "{name}: goes on")?;
        }
    }
    Ok(Outcome::Done)
}
