//! `kubectl olm delete`: which of the users' objects would go with an extension, and its removal.

mod deletion;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::PartialObjectMeta;
use olm_core::annotations::REMOVAL_BLOCKED;
use olm_core::error::first_of;
use olm_core::resolve::ProviderOrigin;
use olm_core::uninstall::BLOCKED;

use super::crd_migrate;
use super::rbac::made::{self, account_of, shared_with};
use crate::commands::prelude::*;
use crate::connection::DryRun;
use crate::limit::patiently;
use crate::verb;
use crate::waiting::{self, Look};

/// Objects that are counted of a CRD; beyond it is said that there are more.
const MOST: u32 = 500;
/// Names that are shown of each namespace.
const NAMES: usize = 5;

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct DeleteArgs {
    /// Names of the extensions
    #[arg(value_name = "NAME", value_parser = verb::extension(), required = true)]
    names: Vec<String>,
    /// Keep CRDs and their objects
    #[arg(long)]
    retain_crds: bool,
    /// Delete the objects of its CRDs too
    #[arg(long, conflicts_with = "retain_crds")]
    delete_data: bool,
    /// Keep everything it installed, without owner
    #[arg(long, conflicts_with_all = ["retain_crds", "delete_data"])]
    orphan: bool,
    /// First delete the extensions that depend on it, and theirs
    #[arg(long, conflicts_with_all = ["orphan", "no_wait"])]
    cascade: bool,
    /// Also delete its service account, and the roles and bindings that `rbac` and `install`
    /// created for it, unless another extension has the same account
    #[arg(long, conflicts_with_all = ["orphan", "no_wait"])]
    with_account: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    wait: Wait,
}

impl DeleteArgs {
    /// Returns the decision about users' data, as the value of annotation `uninstall`.
    fn decision(&self) -> Option<&'static str> {
        match (self.retain_crds, self.delete_data) {
            (true, _) => Some("RetainCRDs"),
            (_, true) => Some("Delete"),
            _ => None,
        }
    }

    /// Returns the command that deletes an extension with the same decision.
    fn by_kubectl(&self, name: &str) -> String {
        let delete = format!("kubectl delete clusterextensions {name}");
        match self.decision() {
            Some(word) => format!(
                "kubectl annotate --overwrite clusterextensions {name} {}={word} && {delete}",
                policy::UNINSTALL
            ),
            None if self.orphan => format!("{delete} --cascade=orphan"),
            None => delete,
        }
    }

    /// Returns the commands that delete the extensions though objects of their CRDs exist.
    fn way_out(&self, upstream: bool) -> String {
        let names = self.names.join(" ");
        if upstream {
            return format!("kubectl delete clusterextensions {names} deletes these objects, too");
        }
        let flags = [(self.cascade, " --cascade"), (self.with_account, " --with-account")];
        let flags: String = flags.iter().filter(|(given, _)| *given).map(|it| it.1).collect();
        format!(
            "kubectl olm delete {names}{flags} --retain-crds keeps them, --delete-data deletes them"
        )
    }

    fn params(&self) -> DeleteParams {
        if self.orphan { DeleteParams::orphan() } else { DeleteParams::background() }
    }
}

/// Names by namespace, which is empty for cluster-scoped objects.
type Names = BTreeMap<String, BTreeSet<String>>;

/// Shows what would go, asks, deletes and waits.
pub(crate) async fn run(args: DeleteArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let (global, out) = &mut args.confirm.rehearsal.begin(global, out);
    let cluster = OnCluster::default().connect(global).await?;
    if args.decision().is_some() {
        cluster.heeds(policy::UNINSTALL).await?;
    }
    let going = going(&cluster, &args).await?;
    let (mut extensions, mut in_the_way) = (Vec::new(), false);
    for name in &going {
        let extension = cluster.extension(name).await?;
        let rights = rights(&cluster, &extension, &going, args.with_account).await?;
        in_the_way |= show(&cluster, &extension, out).await?;
        if args.with_account && !rights.is_empty() {
            let named: Vec<_> = rights.iter().map(Managed::named).collect();
            writeln!(out, "  its account: {}", named.join(", "))?;
        }
        show_dependents(&cluster, &extension, &going, out).await?;
        extensions.push((extension, rights));
    }
    if in_the_way && args.decision().is_none() && !args.orphan {
        writeln!(out, "nothing is deleted: objects of its CRDs exist or may exist")?;
        notice(&format!("hint: {}", args.way_out(cluster.settings().await?.upstream)));
        return Ok(Outcome::Failed);
    }
    if global.dry_run == Some(DryRun::Client) {
        extensions.iter().try_for_each(|(extension, _)| out.object(extension))?;
        return Ok(Outcome::Done);
    }
    for (extension, _) in &extensions {
        let command = args.by_kubectl(&extension.name_any());
        changes::yields_to(extension, &json!(null), &command, global.dry_run.is_some())?;
    }
    let question = match going.as_slice() {
        [only] => format!("Delete extension {only}?"),
        several => format!("Delete extensions {}?", several.join(", ")),
    };
    args.confirm.agreed(&question, "--yes confirms it, --dry-run shows it")?;
    let client = cluster.own_client();
    let api = Api::<ClusterExtension>::all(client.clone());
    for (extension, rights) in &extensions {
        deletion::delete(client, extension, args.decision(), args.params()).await?;
        out.object(extension)?;
        if !args.wait.is_wanted(global) {
            writeln!(out, "{} is being deleted", extension.name_any())?;
            continue;
        }
        let outcome = wait(&api, extension, &args, out).await?;
        if outcome != Outcome::Done {
            return Ok(outcome);
        }
        if args.with_account {
            for one in rights {
                let deleted = made::delete(client, one).await;
                deleted.with_context(|| format!("deleting {}", one.text()))?;
                let ApiResource { api_version, kind, .. } = &one.resource;
                let metadata = &one.object.metadata;
                let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
                out.object(&object)?;
                writeln!(out, "{} deleted", one.named())?;
            }
            continue;
        }
        for command in commands(rights) {
            notice(&format!("hint: rights of its account are left: {command}"));
        }
    }
    Ok(Outcome::Done)
}

/// Returns the extensions that go, in that order: what depends on one before it.
async fn going(cluster: &Cluster, args: &DeleteArgs) -> anyhow::Result<Vec<String>> {
    let (mut order, mut seen) = (Vec::new(), BTreeSet::new());
    for name in &args.names {
        if args.cascade {
            let found = dependents_first(cluster, name, &mut order, &mut seen).await;
            found.with_context(|| format!("the extensions that depend on {name} are not known"))?;
        } else if seen.insert(name.clone()) {
            order.push(name.clone());
        }
    }
    Ok(order)
}

/// Adds an extension after those that would break without it, and theirs.
async fn dependents_first(
    cluster: &Cluster,
    name: &str,
    order: &mut Vec<String>,
    seen: &mut BTreeSet<String>,
) -> anyhow::Result<()> {
    if !seen.insert(name.to_owned()) {
        return Ok(());
    }
    for dependent in cluster.dependents(name).await? {
        if let ProviderOrigin::ClusterExtension(dependent) = &dependent.origin {
            Box::pin(dependents_first(cluster, dependent, order, seen)).await?;
        }
    }
    order.push(name.to_owned());
    Ok(())
}

/// Shows what would break without an extension, and does not go with it.
async fn show_dependents(
    cluster: &Cluster,
    extension: &ClusterExtension,
    going: &[String],
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let dependents = match cluster.dependents(&extension.name_any()).await {
        Ok(dependents) => dependents,
        Err(error) => {
            notice(&format!(
                "note: the extensions that depend on it are not known: {}",
                one_line(&error)
            ));
            return Ok(());
        }
    };
    let goes = |origin: &ProviderOrigin| match origin {
        ProviderOrigin::ClusterExtension(name) => going.contains(name),
        ProviderOrigin::ClusterServiceVersion(_) => false,
    };
    for dependent in dependents.iter().filter(|it| !goes(&it.origin)) {
        writeln!(out, "  its removal {dependent}")?;
    }
    Ok(())
}

/// Returns the roles and bindings that `rbac` and `install` made for the account of an extension,
/// and with that the account; nothing where another extension has it still, and nothing that is kept
/// by a manager. Without deleting them it is enough to know what the caller may list.
async fn rights(
    cluster: &Cluster,
    extension: &ClusterExtension,
    going: &[String],
    with_account: bool,
) -> anyhow::Result<Vec<Managed>> {
    let (client, name) = (cluster.own_client(), extension.name_any());
    let found = async {
        let Some(account) = account_of(extension) else { return Ok(Vec::new()) };
        if let Some(other) = shared_with(&cluster.extensions().await?, &account, &name, going) {
            if with_account && !going.contains(&other) {
                notice(&format!("note: {account} is the account of {other} too: it stays"));
            }
            return Ok(Vec::new());
        }
        let mut found = made::made(client, &account).await?;
        // The default account of a namespace is everybody's.
        if with_account && account.name != "default" {
            found.extend(made::itself(client, &account).await?);
        }
        anyhow::Ok(found)
    };
    match found.await {
        Ok(found) if with_account => Ok(changes::unkept(found)),
        Err(error) if with_account => Err(error.context("reading the rights of its account")),
        found => Ok(found.unwrap_or_default()),
    }
}

/// Returns the commands that delete objects, one for each namespace; what lies in none is deleted
/// whichever is named.
fn commands(objects: &[Managed]) -> Vec<String> {
    let home = objects.iter().find_map(|one| one.object.namespace());
    let home = home.unwrap_or_else(|| "default".to_owned());
    let mut words = BTreeMap::<String, Vec<String>>::new();
    for one in objects {
        let kind = one.resource.kind.to_ascii_lowercase();
        let word = format!("{kind}/{}", one.object.name_any());
        let place = one.object.namespace().unwrap_or_else(|| home.clone());
        words.entry(place).or_default().push(word);
    }
    let command = |(place, words): (&String, &Vec<String>)| {
        format!("kubectl delete -n {place} {}", words.join(" "))
    };
    words.iter().map(command).collect()
}

/// Shows an extension and, counted as the caller, what users made of its CRDs. Returns whether they made
/// something, as far as that is known.
async fn show(
    cluster: &Cluster,
    extension: &ClusterExtension,
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    let revisions = cluster.revisions(&extension.name_any()).await?;
    let owners = revisions.iter().filter_map(kube::ResourceExt::uid);
    // Upstream's controller has no revisions in its Helm mode: the extension itself owns all.
    let owners: BTreeSet<String> = owners.chain(extension.uid()).collect();
    let client = cluster.own_client();
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let listed = api.list(&ListParams::default()).await;
    let crds = listed.context("listing CustomResourceDefinitions")?.items;
    let bundle = extension.installed().map_or("nothing installed", |it| it.name.as_str());
    writeln!(out, "{}: {bundle}", extension.name_any())?;
    let mut is_used = false;
    for crd in crds.iter().filter(|crd| is_controlled(crd.owner_references(), &owners)) {
        let name = crd.name_any();
        let found = objects_of(client, crd, &owners).await;
        is_used |= !matches!(&found, Ok((names, false)) if names.is_empty());
        match found {
            Ok((names, false)) if names.is_empty() => writeln!(out, "  {name}: no objects")?,
            Ok((names, more)) => {
                let count: usize = names.values().map(BTreeSet::len).sum();
                let more = if more { "more than " } else { "" };
                writeln!(out, "  {name}: {more}{}", counted(count, "object"))?;
                for (namespace, names) in &names {
                    writeln!(out, "    {}", in_namespace(namespace, names))?;
                }
            }
            Err(error) => writeln!(out, "  {name}: objects not known: {}", failure(&error))?,
        }
    }
    Ok(is_used)
}

async fn objects_of(
    client: &Client,
    crd: &CustomResourceDefinition,
    owners: &BTreeSet<String>,
) -> Result<(Names, bool), kube::Error> {
    let mut versions = crd.spec.versions.iter();
    let Some(version) = versions.find(|version| version.served) else {
        return Ok((Names::new(), false));
    };
    let resource = crd_migrate::resource(crd, &version.name);
    let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let found = api.list_metadata(&ListParams::default().limit(MOST)).await?;
    let more = found.metadata.continue_.is_some_and(|token| !token.is_empty());
    let mut names = Names::new();
    let theirs = |object: &PartialObjectMeta<DynamicObject>| {
        !is_controlled(object.owner_references(), owners)
    };
    for object in found.items.into_iter().filter(theirs) {
        names.entry(object.namespace().unwrap_or_default()).or_default().insert(object.name_any());
    }
    Ok((names, more))
}

fn is_controlled(references: &[OwnerReference], owners: &BTreeSet<String>) -> bool {
    references.iter().any(|owner| owner.controller == Some(true) && owners.contains(&owner.uid))
}

/// The first names in a namespace, and how many there are besides.
fn in_namespace(namespace: &str, names: &BTreeSet<String>) -> String {
    let names = first_of(names, NAMES);
    match namespace {
        "" => names,
        namespace => format!("{namespace}: {names}"),
    }
}

fn message(extension: &ClusterExtension) -> &str {
    extension.condition(types::READY).map_or("", |ready| ready.message.as_str())
}

/// Waits until it is gone, and tells what it waits for.
async fn wait(
    api: &Api<ClusterExtension>,
    extension: &ClusterExtension,
    args: &DeleteArgs,
    out: &mut dyn Write,
) -> Ended {
    let (name, uid) = (extension.name_any(), &extension.metadata.uid);
    // For a while, the old text does not count as the result of the annotation.
    let before = args.decision().map(|_| message(extension).to_owned());
    let (timeout, late) = (args.wait.timeout, format!("{name} is still being removed"));
    waiting::wait(timeout, &late, async |begun| {
        let found = patiently(begun, timeout, async || api.get_opt(&name).await).await;
        let found = found.with_context(|| format!("reading ClusterExtension {name}"))?;
        let Some(found) = found.filter(|found| found.metadata.uid == *uid) else {
            writeln!(out, "{name} deleted after {} s", begun.elapsed().as_secs())?;
            return Ok(Look::Ended(Outcome::Done));
        };
        let message = message(&found);
        let is_old = before.as_deref() == Some(message) && begun.elapsed() < waiting::NOTICED;
        let is_blocked = [BLOCKED, REMOVAL_BLOCKED].iter().any(|it| message.starts_with(it));
        if is_blocked && !is_old {
            writeln!(out, "{name}: {message}")?;
            return Ok(Look::Ended(Outcome::Failed));
        }
        let ready = found.condition(types::READY);
        let uninstalling = ready.is_some_and(|ready| ready.reason == "Uninstalling");
        // Upstream's controller does not write it.
        let is_seen = ready.map_or_else(
            || found.condition(types::PROGRESSING).is_some(),
            |it| it.observed_generation == found.metadata.generation,
        );
        Ok(if uninstalling || is_seen {
            Look::Going(uninstalling.then(|| message.to_owned()))
        } else {
            Look::Unseen(None)
        })
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{cases, flags};

    #[test]
    fn the_way_out_works() {
        let lines = cases::<(String, bool, String)>("the_way_out_works");
        for (name, (line, upstream, want)) in lines {
            assert_eq!(flags::<DeleteArgs>(&line).way_out(upstream), want, "{name}");
        }
    }
}
