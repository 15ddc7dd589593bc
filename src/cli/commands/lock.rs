//! `kubectl olm lock`: what a cluster runs, written down; whether another one, or the same one later,
//! runs that; and making it so.
//!
//! Source: plugin.md 1.4.

use std::cmp::Ordering;

use clap::Subcommand;
use olm_core::annotations::is_paused;
use olm_core::error::shell_word;
use olm_core::plan::Plan;
use olm_core::revision::Origin;
use olm_core::version::VersionRelease;

use crate::commands::plan;
use crate::commands::prelude::*;
use crate::output::write_yaml;
use crate::target::pinned;
use crate::verb;

/// Subcommands of `lock`.
#[derive(Debug, Subcommand)]
pub(crate) enum LockCommand {
    /// Print the installed versions and digests as a lock file
    Write(WriteArgs),
    /// Check this cluster against a lock file
    Check(FileArgs),
    /// Move extensions to the versions of a lock file, where the catalogs offer them
    Apply(ApplyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct WriteArgs {
    /// Names of extensions; by default all of them
    #[arg(value_name = "NAME", value_parser = verb::extension())]
    names: Vec<String>,
    #[command(flatten)]
    on: OnCluster,
}

/// Arguments of `lock check` and `lock apply`.
#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// File that `lock write` printed
    file: PathBuf,
    #[command(flatten)]
    on: OnCluster,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    lock: FileArgs,
    #[command(flatten)]
    confirm: Confirm,
}

/// The bundles of extensions: the file of `kubectl olm lock write`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Lock {
    extensions: Vec<Locked>,
}

/// The bundle of an extension.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
struct Locked {
    /// Its name.
    name: String,
    /// The package that it installs.
    package: String,
    /// Name of the bundle in its catalog.
    bundle: String,
    /// Version of the bundle.
    version: String,
    /// Which publication of that version it is, where the bundle says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    release: Option<String>,
    /// By digest, where that is known.
    image: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    catalog: Option<LockedCatalog>,
}

/// The catalog that it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
struct LockedCatalog {
    /// Its name.
    name: String,
    /// Digest of its present content.
    digest: String,
}

/// Writes, checks or applies.
pub(crate) async fn run(command: LockCommand, global: &Global, out: &mut dyn Write) -> Ended {
    match command {
        LockCommand::Write(args) => write(args, global, out).await,
        LockCommand::Check(args) => check(args, global, out).await,
        LockCommand::Apply(args) => apply(args, global, out).await,
    }
}

async fn write(args: WriteArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let cluster = args.on.connect(global).await?;
    let extensions = if args.names.is_empty() {
        cluster.extensions().await?
    } else {
        cluster.named(&args.names).await?
    };
    let catalogs = cluster.all_catalogs().await?;
    let mut locked = Vec::new();
    for extension in &extensions {
        match running(&cluster, extension, catalogs).await? {
            Some(found) => locked.push(found),
            None => notice(&format!("note: {} has nothing installed", extension.name_any())),
        }
    }
    let lock = Lock { extensions: locked };
    // In the order that files have which are there already.
    write_yaml(out, &serde_json::to_value(lock.headed()?)?)?;
    Ok(Outcome::Done)
}

/// Returns the installed bundle of an extension, with which of these catalogs it came from.
async fn running(
    cluster: &Cluster,
    extension: &ClusterExtension,
    catalogs: &[ClusterCatalog],
) -> anyhow::Result<Option<Locked>> {
    let name = extension.name_any();
    let revisions = cluster.revisions(&name).await?;
    let Some(installed) = states(&revisions).installed else { return Ok(None) };
    let (record, came_from) = (BundleRecord::of(installed), Origin::of(installed).catalog);
    let catalog = catalogs.iter().find(|catalog| Some(catalog.name_any()) == came_from);
    Ok(Some(Locked {
        image: pinned(&record, installed)?,
        name,
        package: record.package,
        bundle: record.name,
        version: record.version,
        release: record.release,
        catalog: catalog.map(|catalog| LockedCatalog {
            name: catalog.name_any(),
            digest: digest(catalog.resolved_reference().unwrap_or_default()).to_owned(),
        }),
    }))
}

/// Returns the digest of a reference; nothing if it names a tag.
fn digest(image: &str) -> &str {
    image.split_once('@').map_or("", |(_, digest)| digest)
}

/// Returns what identifies the content of an image: its digest, or without one the whole reference.
fn content_id(image: &str) -> &str {
    Some(digest(image)).filter(|digest| !digest.is_empty()).unwrap_or(image)
}

/// The comparison of the installed bundle with the locked one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
enum Verdict {
    Same,
    Behind,
    Ahead,
    Absent,
    #[strum(serialize = "other image")]
    OtherImage,
}

fn verdict(locked: &Locked, now: Option<&Locked>) -> Verdict {
    let Some(now) = now.filter(|now| now.package == locked.package) else { return Verdict::Absent };
    let read = |of: &Locked| match &of.release {
        Some(release) => VersionRelease::explicit(&of.version, release).ok(),
        None => VersionRelease::legacy(&of.version).ok(),
    };
    let order = match (read(now), read(locked)) {
        (Some(now), Some(locked)) => now.precedence(&locked),
        _ => now.version.cmp(&locked.version),
    };
    match order {
        Ordering::Less => Verdict::Behind,
        Ordering::Greater => Verdict::Ahead,
        Ordering::Equal if content_id(&now.image) == content_id(&locked.image) => Verdict::Same,
        Ordering::Equal => Verdict::OtherImage,
    }
}

/// An extension as it is locked, what it runs, and how these compare.
struct Compared {
    locked: Locked,
    now: Option<Locked>,
    verdict: Verdict,
    /// It itself, as it was read for that.
    extension: Option<ClusterExtension>,
}

async fn compare(args: &FileArgs, cluster: &Cluster) -> anyhow::Result<Vec<Compared>> {
    let place = || format!("reading {}", args.file.display());
    let text = std::fs::read_to_string(&args.file).with_context(place)?;
    let document = yaml::to_json(&text).with_context(place)?.into_iter().next().unwrap_or_default();
    if document["schema"] != Lock::SCHEMA || document["schemaVersion"] != 1 {
        bail!("{} was not written by kubectl olm lock write", args.file.display());
    }
    let lock: Lock = serde_json::from_value(document).with_context(place)?;
    let mut compared = Vec::new();
    for locked in lock.extensions {
        let extension = cluster.find_extension(&locked.name).await?;
        let now = match &extension {
            Some(extension) => running(cluster, extension, &[]).await?,
            None => None,
        };
        compared.push(Compared { verdict: verdict(&locked, now.as_ref()), locked, now, extension });
    }
    Ok(compared)
}

async fn check(args: FileArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let cluster = args.on.connect(global).await?;
    let compared = compare(&args, &cluster).await?;
    let mut table = Table::default();
    for one in &compared {
        let (locked, verdict) = (&one.locked, one.verdict);
        let runs = one.now.as_ref().map_or("nothing", |now| &now.version);
        table.row(vec![
            locked.name.clone(),
            format!("locked {}", locked.version),
            format!("runs {runs}"),
            verdict.to_string(),
        ]);
    }
    table.write(out)?;
    let same = compared.iter().all(|one| one.verdict == Verdict::Same);
    Ok(if same { Outcome::Done } else { Outcome::Failed })
}

/// Moves what can be moved; what cannot is named and left.
async fn apply(args: ApplyArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let (global, out) = &mut args.confirm.rehearsal.begin(global, out);
    let cluster = args.lock.on.connect(global).await?;
    cluster.heeds(policy::APPROVE).await?;
    let (mut moves, mut left) = (Vec::new(), Vec::new());
    for one in compare(&args.lock, &cluster).await? {
        if one.verdict == Verdict::Same {
            continue;
        }
        let locked = &one.locked;
        match planned(&cluster, &one).await {
            Ok((extension, plan)) => {
                writeln!(out, "{}: to {}, {}", locked.name, locked.version, locked.image)?;
                moves.push((extension, one.locked, plan));
            }
            Err(error) => left.push(leave(locked, &error)),
        }
    }
    let question = format!("Move {}?", counted(moves.len(), "extension"));
    if moves.is_empty() && left.is_empty() {
        notice("note: nothing to move: what is locked is installed");
    }
    if !moves.is_empty() {
        args.confirm.agreed(&question, "--yes confirms it")?;
    }
    for (extension, locked, plan) in &moves {
        let change = json!({
            "metadata": {"annotations": {policy::APPROVE: plan.approval()}},
            "spec": {"source": {"catalog": {"version": locked.version}}},
        });
        let written = async {
            changes::yields(extension, &change, global.dry_run.is_some())?;
            // What was changed since it was read is not overwritten.
            changes::merge(cluster.own_client(), extension, change).await
        };
        match written.await {
            Ok(written) => {
                out.object(&written)?;
                writeln!(out, "{}: version {}", locked.name, locked.version)?;
            }
            Err(error) => left.push(leave(locked, &error)),
        }
    }
    Ok(Outcome::of(left.contains(&Outcome::Failed), !left.is_empty()))
}

/// Explains why an extension cannot be moved to its locked bundle.
fn of_itself(extension: &ClusterExtension, one: &Compared) -> Option<String> {
    let Compared { locked, now, verdict, .. } = one;
    let (name, version) = (&locked.name, &locked.version);
    if extension.package() != Some(locked.package.as_str()) {
        return Some(format!("it is of another package than {}", locked.package));
    }
    if extension.metadata.deletion_timestamp.is_some() {
        return Some("it is being deleted".to_owned());
    }
    if is_paused(extension.annotations()) {
        return Some(format!("it is paused; kubectl olm resume {name}"));
    }
    let key = policy::ROLLBACK_TO;
    if let Some(revision) = extension.annotations().get(key) {
        return Some(format!(
            "it is to go back to {revision}; kubectl annotate clusterextension {name} {key}-"
        ));
    }
    match verdict {
        Verdict::Ahead => {
            Some(format!("a newer version is installed; kubectl olm rollback {name} goes back"))
        }
        Verdict::OtherImage => {
            let image = now.as_ref().map_or("", |now| now.image.as_str());
            Some(format!(
                "it runs {version} from another image, {image}; other content of the same \
                 version is not a move: kubectl olm plan {name}"
            ))
        }
        Verdict::Same | Verdict::Behind | Verdict::Absent => None,
    }
}

/// Says why an extension is left as it is.
fn leave(locked: &Locked, error: &anyhow::Error) -> Outcome {
    let Failure { text, outcome, .. } = Failure::of(error);
    notice(&format!("error: {} is not moved: {text}", locked.name));
    outcome
}

/// Returns an extension that can be moved to what is locked with the plan of that; an error says why it
/// is left.
async fn planned(cluster: &Cluster, one: &Compared) -> anyhow::Result<(ClusterExtension, Plan)> {
    let locked = &one.locked;
    let Some(extension) = &one.extension else {
        let wanted = shell_word(&format!("{}@{}", locked.package, locked.version));
        let name = shell_word(&locked.name);
        bail!("kubectl olm install {wanted} --name {name} --namespace NAMESPACE creates it");
    };
    if let Some(why) = of_itself(extension, one) {
        bail!(why);
    }
    let plan = plan::make_to(cluster, extension, &locked.version).await?;
    let to = (plan.to.bundle.as_str(), plan.to.digest.as_deref());
    match otherwise(to, plan.catalog.as_deref(), locked) {
        None => Ok((extension.clone(), plan)),
        Some(why) => bail!(why),
    }
}

/// Explains why a plan to a bundle image with a digest does not match the lock.
fn otherwise(
    (bundle, image): (&str, Option<&str>),
    catalog: Option<&str>,
    locked: &Locked,
) -> Option<String> {
    let image = image.unwrap_or_default();
    let place = catalog
        .map_or_else(|| "the present rollout".to_owned(), |catalog| format!("catalog {catalog}"));
    if bundle != locked.bundle {
        return Some(format!("{place} leads to {bundle}, not to {}", locked.bundle));
    }
    (image != digest(&locked.image))
        .then(|| format!("{place} has {bundle} by another digest: {image}"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::fixture::{cases, extension};

    fn locked(version: &str, image: &str) -> Locked {
        Locked {
            name: "e".to_owned(),
            package: "p".to_owned(),
            bundle: format!("p.v{version}"),
            version: version.to_owned(),
            release: None,
            image: image.to_owned(),
            catalog: None,
        }
    }

    #[test]
    fn what_runs_is_compared_with_what_is_locked() {
        let lock = locked("1.10.0", "r.io/p@sha256:a");
        assert_eq!(verdict(&lock, None), Verdict::Absent);
        let runs = cases::<(String, String, String)>("what_runs_is_compared_with_what_is_locked");
        for (name, (version, image, want)) in runs {
            let found = verdict(&lock, Some(&locked(&version, &image)));
            assert_eq!(format!("{found:?}"), want, "{name}");
        }
        let tagged = ["r.io/p:1", "r.io/p:2"].map(|image| locked("1.10.0", image));
        assert_eq!(verdict(&tagged[0], Some(&tagged[0])), Verdict::Same);
        assert_eq!(verdict(&tagged[0], Some(&tagged[1])), Verdict::OtherImage);
    }

    #[test]
    fn a_plan_leads_to_what_is_locked_or_it_is_not_approved() {
        type Case = (String, Option<String>, Option<String>);
        let lock = locked("1.10.0", "r.io/p@sha256:a");
        for (name, case) in cases::<Case>("a_plan_leads_to_what_is_locked_or_it_is_not_approved") {
            let (bundle, image, want) = case;
            let found = otherwise((&bundle, image.as_deref()), Some("c"), &lock);
            assert_eq!(found, want, "{name}");
        }
        let rolling = otherwise(("p.v1.10.0", Some("sha256:b")), None, &lock);
        let want = "the present rollout has p.v1.10.0 by another digest: sha256:b";
        assert_eq!(rolling.as_deref(), Some(want));
    }

    // plugin.md U59
    #[rstest]
    #[case::behind(json!({}), "p", Verdict::Behind, None)]
    #[case::resumed(json!({policy::PAUSED: "false"}), "p", Verdict::Behind, None)]
    #[case::paused(json!({policy::PAUSED: "true"}), "p", Verdict::Behind, Some("it is paused; kubectl olm resume e"))]
    #[case::back(json!({policy::ROLLBACK_TO: "e-2"}), "p", Verdict::Behind, Some("it is to go back to e-2"))]
    #[case::image(json!({}), "p", Verdict::OtherImage, Some("from another image, r.io/p@sha256:b"))]
    #[case::ahead(json!({}), "p", Verdict::Ahead, Some("a newer version is installed"))]
    #[case::package(json!({}), "q", Verdict::Absent, Some("it is of another package than p"))]
    fn what_cannot_be_moved_is_left_and_said(
        #[case] annotations: serde_json::Value,
        #[case] package: &str,
        #[case] verdict: Verdict,
        #[case] want: Option<&str>,
    ) {
        let source = json!({"catalog": {"packageName": package}});
        let metadata = json!({"annotations": annotations});
        let extension = extension(&json!({"metadata": metadata, "spec": {"source": source}}));
        let one = Compared {
            locked: locked("1.10.0", "r.io/p@sha256:a"),
            now: Some(locked("1.10.0", "r.io/p@sha256:b")),
            verdict,
            extension: None,
        };
        let why = of_itself(&extension, &one);
        assert_eq!(why.is_some(), want.is_some(), "{why:?}");
        assert!(why.unwrap_or_default().contains(want.unwrap_or_default()));
    }
}
