//! `kubectl olm pause` and `resume`: switch updates and drift repair off, and on again.

use std::fmt::Debug;

use futures::future::try_join_all;
use kube::Resource;
use kube::core::ClusterResourceScope;
use olm_core::annotations::is_paused;

use crate::prelude::*;
use crate::verb::Rehearsal;

/// The prefix of names of catalogs.
const CATALOG: &str = "catalog/";

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
) -> Ended {
    if args.names.is_empty() && !args.all {
        return usage("names of extensions, catalog/NAME for catalogs, or --all");
    }
    let (global, out) = &mut args.rehearsal.begin(global, out);
    let cluster = OnCluster::default().connect(global).await?;
    if pause {
        cluster.heeds(policy::PAUSED).await?;
    }
    let (extensions, catalogs) = if args.all {
        let mut extensions = cluster.extensions().await?;
        extensions.retain(|extension| extension.metadata.deletion_timestamp.is_none());
        (extensions, cluster.all_catalogs().await?.to_vec())
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
        changes::refuse_deleted(extension)?;
        yields(extension, pause, global)?;
    }
    for catalog in &catalogs {
        yields(catalog, pause, global)?;
    }
    for extension in &extensions {
        out.object(&set(client, extension, pause).await?)?;
        let name = extension.name_any();
        say(
            out,
            &name,
            change(extension, pause).is_some(),
            pause.then_some("no update and no repair"),
        )?;
    }
    for catalog in &catalogs {
        out.object(&set(client, catalog, pause).await?)?;
        let name = format!("{CATALOG}{}", catalog.name_any());
        say(out, &name, change(catalog, pause).is_some(), pause.then_some("no newer content"))?;
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

/// Prints the effect: resumed, or paused with the skipped actions.
fn say(
    out: &mut dyn Write,
    name: &str,
    changed: bool,
    meanwhile: Option<&str>,
) -> std::io::Result<()> {
    match meanwhile {
        Some(meanwhile) => {
            writeln!(out, "{name}: paused; {meanwhile} until: kubectl olm resume {name}")
        }
        None if changed => writeln!(out, "{name}: resumed"),
        None => writeln!(out, "{name}: is not paused"),
    }
}
