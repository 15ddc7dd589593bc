//! `kubectl olm pause` and `resume`: switch updates and drift repair off, and on again.

use std::fmt::Debug;
use std::io::Write;

use clap::Args;
use futures::future::try_join_all;
use kube::core::ClusterResourceScope;
use kube::{Client, Resource, ResourceExt as _};
use olm_api::keys::policy;
use olm_core::annotations::is_paused;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::changes;
use crate::cluster::Cluster;
use crate::connection::Global;
use crate::output::{Outcome, UsageError};
use crate::verb::{OnCluster, Rehearsal};

/// What names a catalog among extensions.
const CATALOG: &str = "catalog/";

/// Arguments of `pause` and `resume`.
#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    /// Names of extensions; catalog/NAME is a catalog
    #[arg(value_name = "NAME", conflicts_with = "all")]
    names: Vec<String>,
    /// All extensions and catalogs
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    rehearsal: Rehearsal,
}

/// Pauses or resumes extensions and catalogs.
pub(crate) async fn run(
    args: PauseArgs,
    pause: bool,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    if args.names.is_empty() && !args.all {
        let usage = "names of extensions, catalog/NAME for catalogs, or --all";
        return Err(UsageError(usage.to_owned()).into());
    }
    let (global, out) = (&args.rehearsal.of(global), &mut args.rehearsal.written(out));
    let cluster = OnCluster::default().connect(global).await?;
    if pause {
        cluster.heeds(policy::PAUSED).await?;
    }
    let (extensions, catalogs) = if args.all {
        (cluster.extensions().await?, Cluster::catalogs(cluster.own_client()).await?)
    } else {
        // All are read before one is changed: an unknown name changes nothing.
        let (catalogs, extensions): (Vec<_>, Vec<_>) =
            args.names.iter().partition(|name| name.starts_with(CATALOG));
        let extensions = extensions.into_iter().map(|name| cluster.extension(name));
        let names = catalogs.into_iter().map(|name| &name[CATALOG.len()..]);
        let catalogs = names.map(|name| Cluster::catalog(cluster.own_client(), name));
        (try_join_all(extensions).await?, try_join_all(catalogs).await?)
    };
    let client = cluster.own_client();
    for extension in &extensions {
        yields(extension, pause, global)?;
    }
    for catalog in &catalogs {
        yields(catalog, pause, global)?;
    }
    for extension in &extensions {
        out.object(&set(client, extension, pause).await?)?;
        let name = extension.name_any();
        let meanwhile = "no update and no repair";
        say(out, &name, pause.then_some(meanwhile))?;
    }
    for catalog in &catalogs {
        out.object(&set(client, catalog, pause).await?)?;
        let name = format!("{CATALOG}{}", catalog.name_any());
        say(out, &name, pause.then_some("serves what it serves, takes nothing newer"))?;
    }
    Ok(Outcome::Done)
}

/// Writes or removes the annotation. Returns the object as it is then.
async fn set<K>(client: &Client, object: &K, pause: bool) -> anyhow::Result<K>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
    K: Clone + Debug + DeserializeOwned,
{
    match change(object, pause) {
        Some(change) => changes::merge(client, object, change).await,
        None => Ok(object.clone()),
    }
}

/// Returns the change of the annotation, if it has to be changed.
fn change<K: Resource<DynamicType = ()>>(object: &K, pause: bool) -> Option<Value> {
    let word = if pause { json!("true") } else { Value::Null };
    (is_paused(object.annotations()) != pause)
        .then(|| json!({"metadata": {"annotations": {policy::PAUSED: word}}}))
}

fn yields<K: Resource<DynamicType = ()>>(
    object: &K,
    pause: bool,
    global: &Global,
) -> anyhow::Result<()> {
    match change(object, pause) {
        Some(change) => changes::yields(object, &change, global.dry_run.is_some()),
        None => Ok(()),
    }
}

/// Says what happens from now on; while it is paused, what does not.
fn say(out: &mut dyn Write, name: &str, meanwhile: Option<&str>) -> std::io::Result<()> {
    match meanwhile {
        Some(meanwhile) => {
            writeln!(out, "{name}: paused; {meanwhile} until: kubectl olm resume {name}")
        }
        None => writeln!(out, "{name}: resumed"),
    }
}
