//! `kubectl olm catalog add` and `remove`: serve another catalog, or stop.

use k8s_openapi::api::core::v1::Secret;
use olm_api::API_VERSION;
use olm_api::keys::label;
use olm_image::catalog::{CONFIGS_LABEL, DATABASE_LABEL};
use olm_image::pull::Puller;

use super::wait::{current, wait};
use crate::commands::prelude::*;
use crate::puller::puller;
use crate::verb;

const MINUTE: u64 = 60;

/// Arguments of `catalog add`.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Name of the catalog
    name: String,
    /// Its image
    #[arg(value_parser = verb::image)]
    image: ImageRef,
    /// Priority among catalogs that offer the same package; the higher number wins
    #[arg(long, default_value_t, allow_negative_numbers = true)]
    priority: i32,
    /// Interval of polls for new content behind a tag, in whole minutes
    #[arg(long, value_name = "TIME", value_parser = changes::seconds)]
    poll: Option<u64>,
    /// Secret in the controller's namespace (on OpenShift in both) with the credentials of its
    /// registry; it gets the label that lets catalogs use it
    #[arg(long, value_name = "SECRET")]
    pull_secret: Option<String>,
    #[command(flatten)]
    settings: SettingsFlags,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    wait: Wait,
}

/// Arguments of `catalog remove`.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// Name of the catalog
    #[arg(value_parser = verb::catalog())]
    name: String,
    #[command(flatten)]
    confirm: Confirm,
}

pub(crate) async fn add(args: AddArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let wanted = wanted(&args)?;
    let (global, out) = &mut args.confirm.rehearsal.begin(global, out);
    if args.confirm.rehearsal.document().is_some() {
        return out.object(&wanted).map(|()| Outcome::Done);
    }
    if let Some((refusal, hint)) = refusal(&puller()?, &args.image).await {
        return Err(Failure::failed(refusal, hint));
    }
    let client = Cluster::client(global).await?;
    let api = Api::<ClusterCatalog>::all(client.clone());
    if api.get_opt(&args.name).await.context("reading ClusterCatalogs")?.is_some() {
        let name = &args.name;
        return Err(Failure::failed(
            format!("ClusterCatalog {name:?} already exists"),
            format!("kubectl edit clustercatalog {name} changes it"),
        ));
    }
    let mut question = format!("Serve {} as catalog {}?", args.image, args.name);
    let unlabelled = match &args.pull_secret {
        Some(secret) => unlabelled(secret, &args.settings, &client).await?,
        None => Vec::new(),
    };
    let secrets = unlabelled.iter().zip(args.pull_secret.iter().cycle());
    for (namespace, name) in secrets.clone() {
        let secret = format!("Secret {namespace}/{name}");
        let which = format!("{secret} gets label {}=true", label::CATALOG_PULL_SECRET);
        writeln!(out, "{which}, so that catalogs may use it")?;
        question = format!("{question} Label {secret}?");
    }
    args.confirm.agreed(&question, "--yes confirms it, -o yaml prints the catalog")?;
    for (namespace, name) in secrets {
        offer(&client, namespace, name).await?;
    }
    let object = Object::from_value(wanted).context("the catalog is not an object")?;
    changes::apply(&client, &[object], out).await?;
    if !args.wait.is_wanted(global) {
        return Ok(Outcome::Done);
    }
    let served = |catalog: &ClusterCatalog| {
        current(catalog, types::SERVING).is_some_and(|found| found.status == status::TRUE)
    };
    let time = (args.wait.timeout, Duration::ZERO);
    wait(&client, &args.name, time, ("served", served), out).await
}

fn wanted(args: &AddArgs) -> anyhow::Result<Value> {
    let mut image = json!({"ref": args.image.to_string()});
    if let Some(seconds) = args.poll {
        if args.image.digest().is_some() {
            return usage("--poll: a digest never changes; name a tag, or leave --poll out");
        }
        if seconds < MINUTE || seconds % MINUTE > 0 {
            return usage("--poll: whole minutes, such as 10m");
        }
        image["pollIntervalMinutes"] = json!(seconds / MINUTE);
    }
    let mut metadata = json!({"name": args.name});
    if let Some(secret) = &args.pull_secret {
        metadata["annotations"] = json!({policy::PULL_SECRET: secret});
    }
    Ok(json!({
        "apiVersion": API_VERSION,
        "kind": "ClusterCatalog",
        "metadata": metadata,
        "spec": {"priority": args.priority, "source": {"type": "Image", "image": image}},
    }))
}

/// Lets catalogs use a Secret.
async fn offer(client: &Client, namespace: &str, name: &str) -> anyhow::Result<()> {
    let api = Api::<Secret>::namespaced(client.clone(), namespace);
    let label = Patch::Merge(json!({"metadata": {"labels": {label::CATALOG_PULL_SECRET: "true"}}}));
    let done = api.patch_metadata(name, &changes::params(), &label).await;
    done.with_context(|| format!("labelling Secret {namespace}/{name}"))?;
    Ok(())
}

/// Returns the namespaces of the controller in which catalogs may not use a Secret yet; fails if it
/// is not in all of them. Nothing but its metadata is read.
async fn unlabelled<'a>(
    name: &str,
    settings: &'a SettingsFlags,
    client: &Client,
) -> anyhow::Result<Vec<&'a str>> {
    let mut absent = Vec::new();
    for namespaces in settings.installations() {
        let (mut unlabelled, mut lacking) = (Vec::new(), Vec::new());
        for &namespace in &namespaces {
            let api = Api::<Secret>::namespaced(client.clone(), namespace);
            let found = api.get_metadata_opt(name).await;
            let found = found.with_context(|| format!("reading Secret {namespace}/{name}"))?;
            match found.as_ref().map(|found| found.labels().get(label::CATALOG_PULL_SECRET)) {
                None => lacking.push(namespace),
                Some(Some(offered)) if offered == "true" => {}
                Some(_) => unlabelled.push(namespace),
            }
        }
        if lacking.is_empty() {
            return Ok(unlabelled);
        }
        if lacking.len() < namespaces.len() {
            absent = lacking;
            break;
        }
        absent.push(lacking[0]);
    }
    let text = format!("there is no Secret {name:?} in namespace {}", absent.join(" or "));
    let make = "kubectl create secret docker-registry";
    let hint = format!("{make} {name} -n {} --from-file=.dockerconfigjson=FILE", absent[0]);
    Err(Failure::failed(text, hint))
}

/// Returns why an image is not a catalog, and the way out; that it cannot be read from here is only
/// noted, because the cluster may reach it.
async fn refusal(puller: &Puller, image: &ImageRef) -> Option<(String, &'static str)> {
    let labels = async {
        let resolved = puller.resolve(image).await?;
        puller.image(&resolved).await.map(|image| image.labels().clone())
    };
    match labels.await {
        Ok(labels) if labels.contains_key(CONFIGS_LABEL) => None,
        Ok(labels) if labels.contains_key(DATABASE_LABEL) => Some((
            format!("{image} is a catalog of the older format, an SQLite index"),
            "opm migrate converts it",
        )),
        Ok(_) => Some((
            format!("{image} is not a catalog: it lacks the label {CONFIGS_LABEL}"),
            "kubectl olm catalog build makes one",
        )),
        Err(error) => {
            notice(&format!("note: its content was not checked from here: {}", Chain(&error)));
            None
        }
    }
}

pub(crate) async fn remove(args: RemoveArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let (global, out) = &mut args.confirm.rehearsal.begin(global, out);
    let cluster = OnCluster::default().connect(global).await?;
    let client = cluster.own_client().clone();
    let catalog = Cluster::catalog(&client, &args.name).await?;
    let (packages, unread) = cluster.packages().await?;
    let offered: Vec<_> = packages
        .iter()
        .filter(|(catalog, _)| *catalog == args.name)
        .filter_map(|(_, blob)| blob["name"].as_str())
        .collect();
    if let Some((_, why)) = unread.iter().find(|(catalog, _)| *catalog == args.name) {
        notice(&format!("note: its packages are not known: {why}"));
    }
    for extension in cluster.extensions().await? {
        if let Some(package) = extension.package().filter(|package| offered.contains(package)) {
            let others = packages.iter().filter(|(catalog, _)| *catalog != args.name);
            let others = others.filter(|(_, blob)| blob["name"] == package);
            let others: Vec<_> = others.map(|(catalog, _)| catalog.as_str()).collect();
            writeln!(out, "{} {}", extension.name_any(), without(package, &others))?;
        }
    }
    let command = format!("kubectl delete clustercatalog {}", args.name);
    changes::yields_to(&catalog, &json!(null), &command, global.dry_run.is_some())?;
    args.confirm.agreed(&format!("Remove catalog {}?", args.name), "--yes confirms it")?;
    let api = Api::<ClusterCatalog>::all(client);
    let removed = api.delete(&args.name, &DeleteParams::default()).await;
    removed.with_context(|| format!("deleting ClusterCatalog {}", args.name))?;
    out.object(&catalog)?;
    writeln!(out, "catalog {} removed", args.name)?;
    Ok(Outcome::Done)
}

/// Says what becomes of an extension whose package a removed catalog offered, and which others offer.
fn without(package: &str, others: &[&str]) -> String {
    let updates = match others {
        [] => "updates then need another catalog".to_owned(),
        others => format!("updates may come from {}, too", others.join(", ")),
    };
    format!("installs {package}, which this catalog offers: it stays and is repaired; {updates}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{cases, client};

    #[tokio::test]
    async fn every_process_of_the_controller_gets_a_pull_secret() {
        type Case = (Vec<(String, String)>, Value);
        for (name, case) in cases::<Case>("every_process_of_the_controller_gets_a_pull_secret") {
            let (secrets, want) = case;
            let client = client(move |_, path, _| {
                let mut found = secrets.iter();
                let found = found.find(|(place, _)| path.contains(&format!("/{place}/")));
                let (_, offered) = found.ok_or(404u16)?;
                Ok(json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                    "metadata": {"name": "mine",
                        "labels": {label::CATALOG_PULL_SECRET: offered}}}))
            });
            let flags = SettingsFlags::default();
            let found = unlabelled("mine", &flags, &client).await;
            let found = found.map_or_else(|error| json!(error.to_string()), |it| json!(it));
            assert_eq!(found, want, "{name}");
        }
    }

    #[test]
    fn other_catalogs_with_the_package_are_named() {
        let want = "installs p, which this catalog offers: it stays and is repaired; updates";
        assert_eq!(without("p", &[]), format!("{want} then need another catalog"));
        assert_eq!(without("p", &["a", "b"]), format!("{want} may come from a, b, too"));
    }

    // plugin.md U71
    #[test]
    fn a_digest_is_not_polled_and_minutes_are_whole() {
        let args = |image: &str, poll| AddArgs {
            name: "c".to_owned(),
            image: image.parse().unwrap(),
            priority: -1,
            poll,
            pull_secret: Some("mine".to_owned()),
            settings: SettingsFlags::default(),
            confirm: Confirm::default(),
            wait: Wait::default(),
        };
        let pinned = format!("quay.io/x/c@sha256:{}", "0".repeat(64));
        let refused = |args| wanted(&args).unwrap_err().to_string();
        assert!(refused(args(&pinned, Some(60))).starts_with("--poll: a digest never changes"));
        assert!(refused(args("quay.io/x/c:1", Some(90))).starts_with("--poll: whole minutes"));
        let catalog = wanted(&args("quay.io/x/c:1", Some(600))).unwrap();
        assert_eq!(catalog["spec"]["source"]["image"]["pollIntervalMinutes"], 10);
        assert_eq!(catalog["spec"]["priority"], -1);
        assert_eq!(catalog["metadata"]["annotations"][policy::PULL_SECRET], "mine");
    }
}
