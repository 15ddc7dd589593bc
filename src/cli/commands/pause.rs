//! `kubectl olm pause` and `resume`: switch updates and drift repair off, and on again.

use std::fmt::Debug;

use kube::Resource;
use kube::core::ClusterResourceScope;
use olm_cluster::join_bounded;
use olm_core::annotations::is_paused;

use crate::commands::prelude::*;
use crate::output::Written;
use crate::verb::{self, Rehearsal};

/// The prefix of names of catalogs.
const CATALOG: &str = "catalog/";

#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    /// Names of extensions; catalog/NAME is a catalog
    #[arg(value_name = "NAME", value_parser = verb::extension(), conflicts_with = "all")]
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
        let catalogs = args.names.iter().filter_map(|name| catalog_of(name));
        let catalogs = catalogs.map(|name| Cluster::catalog(cluster.own_client(), name)).collect();
        let extensions = args.names.iter().filter(|name| catalog_of(name).is_none());
        let extensions: Vec<_> = extensions.cloned().collect();
        let catalogs = join_bounded(catalogs).await.into_iter();
        (cluster.named(&extensions).await?, catalogs.collect::<anyhow::Result<_>>()?)
    };
    let switch = Switch { client: cluster.own_client(), pause, is_dry: global.dry_run.is_some() };
    for extension in &extensions {
        changes::refuse_deleted(extension)?;
        switch.yields(extension)?;
    }
    for catalog in &catalogs {
        switch.yields(catalog)?;
    }
    for extension in &extensions {
        switch.set(extension, ("", "no update and no repair"), out).await?;
    }
    for catalog in &catalogs {
        switch.set(catalog, (CATALOG, "no newer content"), out).await?;
    }
    Ok(Outcome::Done)
}

/// Returns the name of the catalog, if it is one.
fn catalog_of(name: &str) -> Option<&str> {
    name.strip_prefix(CATALOG).or_else(|| verb::name_behind(verb::CATALOG, name))
}

/// What is done to each of the objects.
struct Switch<'a> {
    client: &'a Client,
    pause: bool,
    is_dry: bool,
}

impl Switch<'_> {
    /// Returns the change of the annotation, if it has to be changed.
    fn change(&self, object: &impl kube::ResourceExt) -> Option<Value> {
        let word = if self.pause { json!("true") } else { Value::Null };
        (is_paused(object.annotations()) != self.pause)
            .then(|| json!({"metadata": {"annotations": {policy::PAUSED: word}}}))
    }

    fn yields<K: Resource<DynamicType = ()>>(&self, object: &K) -> anyhow::Result<()> {
        let change = self.change(object);
        change.map_or(Ok(()), |change| changes::yields(object, &change, self.is_dry))
    }

    /// Writes or removes the annotation, and prints the effect: resumed, or paused with what is skipped
    /// meanwhile.
    async fn set<K>(
        &self,
        object: &K,
        (prefix, skipped): (&str, &str),
        out: &mut Written<'_>,
    ) -> anyhow::Result<()>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
        K: Clone + Debug + Serialize + DeserializeOwned,
    {
        let (name, change) = (format!("{prefix}{}", object.name_any()), self.change(object));
        let effect = match (self.pause, &change) {
            (true, _) => format!("paused; {skipped} until: kubectl olm resume {name}"),
            (false, Some(_)) => "resumed".to_owned(),
            (false, None) => "is not paused".to_owned(),
        };
        match change {
            Some(change) => out.object(&changes::merge(self.client, object, change).await?)?,
            None => out.object(object)?,
        }
        Ok(writeln!(out, "{name}: {effect}")?)
    }
}
