//! `kubectl olm migrate rollback`: Classic gets its objects back, and what runs stays.

use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use olm_api::keys::label;
use olm_core::classic::takeover::{
    again, give_back, is_going, lost_status, replacing, uid, unhold,
};
use olm_core::helm;

use super::backup::{Backup, Entry};
use super::objects;
use crate::commands::prelude::*;

#[derive(Debug, Args)]
pub(crate) struct RollbackArgs {
    /// The backup that `migrate from-classic --apply` wrote
    file: PathBuf,
    #[command(flatten)]
    on: OnCluster,
    #[command(flatten)]
    confirm: Confirm,
    /// Time to wait
    #[arg(long, value_name = "TIME", value_parser = changes::seconds, default_value = "10m")]
    timeout: u64,
}

/// Detaches the extensions of a backup, and puts the objects of Classic back.
pub(crate) async fn run(args: RollbackArgs, global: &Global, out: &mut dyn Write) -> Ended {
    anyhow::ensure!(args.file.exists(), "{}: there is no such file", args.file.display());
    if args.confirm.rehearsal.output.is_some() {
        return usage("-o is not supported here: --dry-run shows what would be done");
    }
    let global = &args.confirm.rehearsal.of(global);
    let cluster = args.on.connect(global).await?;
    let client = cluster.own_client();
    let backup = Backup::open(&args.file, &objects::cluster_id(client).await?)?;
    let entries: Vec<&Entry> = backup.last().into_iter().rev().collect();
    anyhow::ensure!(!entries.is_empty(), "{}: the file has no entries", args.file.display());
    let crd = objects::crd("clusterserviceversions.operators.coreos.com");
    if objects::live(client, &crd).await?.is_none() {
        notice("error: OLM Classic is not installed: its kinds are not served");
        return Ok(Outcome::Failed);
    }
    let (mut back, mut outcome) = (Vec::new(), Outcome::Done);
    for entry in entries {
        let (place, extension, csv) = (entry.subscription.place(), &entry.extension, &entry.csv);
        let revisions = cluster.revisions(extension).await?;
        let newest = revisions.last().map(BundleRecord::of);
        if let Some(other) = newest.filter(|it| !it.name.is_empty() && it.name != csv.name()) {
            notice(&format!(
                "error: {place} stays: extension {extension} has {}, not {}",
                other.name,
                csv.name()
            ));
            notice(&format!(
                "hint: kubectl olm history {extension} lists the revisions, kubectl olm rollback \
                 {extension} REVISION goes back to it first"
            ));
            outcome = Outcome::Failed;
            continue;
        }
        back.push(entry);
        writeln!(out, "{place}: back from extension {extension}, the running objects stay")?;
    }
    // Whoever manages one would create it again, and it would take over what Classic has by then.
    for entry in &back {
        if let Some(extension) = cluster.find_extension(&entry.extension).await? {
            let command =
                format!("kubectl delete clusterextensions {} --cascade=orphan", entry.extension);
            changes::yields_to(&extension, &json!(null), &command, global.dry_run.is_some())?;
        }
    }
    if global.dry_run.is_some() || back.is_empty() {
        return Ok(outcome);
    }
    let question = format!("Give {} back to OLM Classic?", back.len());
    args.confirm.agreed(&question, "--yes confirms it, --dry-run shows it")?;
    let namespace = cluster.system_namespace().await?;
    for entry in back {
        detach(client, entry, &namespace, args.timeout, out).await?;
        restore(client, entry, args.timeout, out).await?;
    }
    Ok(outcome)
}

/// Deletes an extension, and waits until what it installed is nobody's.
async fn detach(
    client: &Client,
    entry: &Entry,
    system_namespace: &str,
    timeout: u64,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let name = &entry.extension;
    if let Some(extension) = objects::live(client, &objects::extension(name)).await? {
        objects::delete(client, &extension, DeleteParams::orphan()).await?;
        objects::gone(client, &extension, timeout).await?;
        writeln!(out, "{} deleted", changes::named(&extension))?;
    }
    // What was handed over would be taken over again.
    let secrets = Api::<Secret>::namespaced(client.clone(), system_namespace);
    let params = ListParams::default().labels(&helm::selector(name));
    let deleted = secrets.delete_collection(&DeleteParams::background(), &params).await;
    deleted.context("deleting the stored objects")?;
    Ok(())
}

/// Makes the objects of Classic again, and gives it what runs.
async fn restore(
    client: &Client,
    entry: &Entry,
    timeout: u64,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let Entry { subscription, csv, running, .. } = entry;
    for group in entry.others("OperatorGroup") {
        create(client, group, out).await?;
    }
    // One that is on its way out cannot stay.
    if objects::live(client, csv).await?.is_some_and(|live| is_going(&live)) {
        objects::release_all(client, csv, running).await?;
        objects::dismiss_csv(client, csv, timeout).await?;
    }
    let beside = objects::alike(client, csv).await?;
    if let Some(other) = replacing(csv, beside.iter())
        && !beside.iter().any(|it| it.name() == csv.name())
    {
        // What it had installed is the other's by now.
        writeln!(out, "{} is not made again: {} has replaced it", csv.name(), other.name())?;
        let mut status = subscription.clone().into_value();
        status["status"]["installedCSV"] = json!(other.name());
        let subscription = Object::from_value(status).context("reading the Subscription")?;
        create(client, &subscription, out).await?;
        return Ok(());
    }
    let made = create(client, csv, out).await?;
    objects::change(client, csv, unhold).await?;
    let (before, now) = (uid(csv), uid(&made));
    let mut count = 0;
    // One that was never deleted still has its objects, and an upgrade may have begun to take them.
    for remembered in running.iter().filter(|_| before != now) {
        let back = |live: &Object| {
            let is_free = live.label(label::OWNER_NAME).is_none();
            is_free.then(|| give_back(live, remembered, before, now))
        };
        count += usize::from(objects::change(client, remembered, back).await?);
    }
    writeln!(out, "{}: {} given back", csv.name(), counted(count, "object"))?;
    create(client, subscription, out).await?;
    Ok(())
}

/// Creates an object, if it is not there, with the status that it had; returns it without that.
async fn create(client: &Client, kept: &Object, out: &mut dyn Write) -> anyhow::Result<Object> {
    let called = changes::named(kept);
    let api = changes::api(client, kept);
    let live = objects::live(client, kept).await?;
    let is_new = live.is_none();
    let live = if let Some(live) = live {
        live
    } else {
        let wanted = serde_json::from_value::<DynamicObject>(again(kept).into_value());
        let wanted = wanted.with_context(|| format!("reading {called}"))?;
        let made = api.create(&PostParams::default(), &wanted).await;
        let made = made.with_context(|| format!("creating {called}"))?;
        let made = serde_json::to_value(made).ok().and_then(Object::from_value);
        made.with_context(|| format!("reading {called}"))?
    };
    if let Some(status) = lost_status(kept, &live) {
        let patch = Patch::Merge(json!({"status": status}));
        match api.patch_status(kept.name(), &changes::params(), &patch).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            written => drop(written.with_context(|| format!("status of {called}"))?),
        }
    }
    if is_new {
        writeln!(out, "{called} created")?;
    }
    Ok(live)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::{Method, Request, Response};
    use kube::client::Body;

    use super::*;

    // The index of what was handed over names other Secrets where it is large.
    #[tokio::test]
    async fn all_that_was_handed_over_goes() {
        let entry = Entry::example("lamp");
        let deleted = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&deleted);
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_deletion = request.method() == Method::DELETE;
            if is_deletion {
                log.lock().unwrap().extend(request.uri().query().map(str::to_owned));
            }
            async move {
                let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
                    "status": "Success", "code": 404});
                let answer = Body::from(status.to_string().into_bytes());
                let code = if is_deletion { 200 } else { 404 };
                Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
            }
        });
        let client = Client::new(service, "default");
        detach(&client, &entry, "olm", 1, &mut Vec::new()).await.unwrap();
        let deleted = deleted.lock().unwrap();
        let labels = "labelSelector=owner%3Doperator-controller%2Cname%3Dlamp";
        assert!(matches!(deleted.as_slice(), [only] if only.ends_with(labels)), "{deleted:?}");
    }
}
