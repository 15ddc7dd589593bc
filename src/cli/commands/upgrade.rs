//! `kubectl olm upgrade`: move an extension to another version.
//!
//! Source: plugin.md 1.4.

use std::io::Write;

use clap::Args;
use kube::ResourceExt as _;
use olm_api::conditions::Reason;
use olm_api::keys::policy;
use olm_api::{CatalogFilter, ClusterExtension, UpgradeConstraintPolicy};
use olm_core::annotations::is_paused;
use olm_core::error::quote;
use olm_core::extension::ValidExtension;
use serde_json::{Value, json};

use crate::changes;
use crate::cluster::{CatalogAccess, Cluster, ExtensionSnapshot};
use crate::commands::cluster_upgrade::warn_of_closing;
use crate::connection::Global;
use crate::output::{Outcome, agreed, notice, one_line};
use crate::settings::SettingsFlags;
use crate::target::chosen;

/// Arguments of `upgrade`.
#[derive(Debug, Args)]
pub(crate) struct UpgradeArgs {
    /// Name of the extension
    #[arg(value_name = "NAME")]
    name: String,
    /// Version, or range of versions, to move to; by default the held update of `status`
    #[arg(long, value_name = "RANGE")]
    to: Option<String>,
    /// The channel to follow from now on; repeatable
    #[arg(long = "channel", value_name = "CHANNEL")]
    channels: Vec<String>,
    /// Move without an update path in the catalog (`SelfCertified`, for this move)
    #[arg(long)]
    force: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Do not wait until it is done
    #[arg(long)]
    no_wait: bool,
    /// Time to wait
    #[arg(long, value_name = "TIME", value_parser = changes::seconds, default_value = "10m")]
    timeout: u64,
    #[command(flatten)]
    access: CatalogAccess,
    #[command(flatten)]
    settings: SettingsFlags,
}

/// The edit that makes the move.
struct Edit {
    /// What a person reads.
    text: String,
    change: Value,
    /// The version it leads to.
    version: String,
}

/// Finds the edit, shows it, asks, writes it and waits.
pub(crate) async fn run(
    args: UpgradeArgs,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let cluster = Cluster::connect(global, &args.access, &args.settings).await?;
    let extension = cluster.extension(&args.name).await?;
    let name = &args.name;
    if is_paused(extension.annotations()) {
        notice(&format!("error: {name} is paused"));
        notice(&format!("hint: kubectl olm resume {name}"));
        return Ok(Outcome::Failed);
    }
    let is_back = extension.annotations().contains_key(policy::ROLLBACK_TO);
    let wanted = args.to.is_some() || !args.channels.is_empty() || args.force || is_back;
    let edit = if wanted { moved(&args, &cluster, &extension).await } else { released(&extension) };
    let edit = match edit {
        Ok(edit) => edit,
        Err(error) => {
            notice(&format!("error: {name}: {}", one_line(&error)));
            notice(&format!("hint: kubectl olm why {name} says what leads where"));
            return Ok(Outcome::Failed);
        }
    };
    if edit.change["metadata"]["annotations"][policy::APPROVE].is_string() {
        cluster.heeds(policy::APPROVE).await?;
    }
    let installed = extension.status.as_ref();
    let installed = installed.and_then(|status| status.install.as_ref());
    let installed = installed.map_or("nothing", |install| install.bundle.version.as_str());
    writeln!(out, "{name}: {installed} -> {}, by {}", edit.version, edit.text)?;
    if let Ok(mut snapshot) = cluster.snapshot(name).await {
        let question = &mut snapshot.question;
        question.came_from = None;
        question.filter.version = Some(edit.version.clone());
        question.filter.upgrade_constraint_policy = Some(UpgradeConstraintPolicy::SelfCertified);
        warn_of_closing(&cluster, &snapshot).await;
    }
    changes::yields(&extension, &edit.change, global.dry_run.is_some())?;
    let question = format!("Upgrade {name}?");
    if !args.yes && !agreed(&question, "--yes does it")? {
        notice("nothing is changed");
        return Ok(Outcome::Failed);
    }
    let client = cluster.own_client();
    let written = changes::merge(client, &extension, edit.change).await?;
    if args.no_wait || global.dry_run.is_some() {
        if args.force {
            notice(&format!("note: it stays SelfCertified until: {}", back(name)));
        }
        return Ok(Outcome::Done);
    }
    let version = Some(edit.version.as_str());
    let ended = changes::wait_ready(client, &written, version, args.timeout, out).await?;
    if args.force {
        undo(&cluster, &extension, ended).await?;
    }
    Ok(ended)
}

/// Takes `SelfCertified` back once the move is done.
async fn undo(cluster: &Cluster, before: &ClusterExtension, ended: Outcome) -> anyhow::Result<()> {
    let name = before.name_any();
    let was = ValidExtension::of(before).and_then(|it| it.filter.upgrade_constraint_policy);
    if was == Some(UpgradeConstraintPolicy::SelfCertified) {
        return Ok(());
    }
    if ended != Outcome::Done {
        notice(&format!("note: it stays SelfCertified until: {}", back(&name)));
        return Ok(());
    }
    let now = cluster.extension(&name).await?;
    let change = catalog(&json!({"upgradeConstraintPolicy": was}));
    changes::merge(cluster.own_client(), &now, change).await?;
    Ok(())
}

fn back(name: &str) -> String {
    let change = catalog(&json!({"upgradeConstraintPolicy": "CatalogProvided"}));
    format!("kubectl patch clusterextension {name} --type=merge -p '{change}'")
}

fn catalog(change: &Value) -> Value {
    json!({"spec": {"source": {"catalog": change}}})
}

/// Returns the edit that releases what is held.
fn released(extension: &ClusterExtension) -> anyhow::Result<Edit> {
    let update = extension.status.as_ref().and_then(|status| status.update.as_ref());
    let Some(update) = update else {
        anyhow::bail!("no update to release: none is available, or it is applied automatically");
    };
    let Some(version) = update.version.clone() else {
        anyhow::bail!("{}", update.message);
    };
    if update.reason == Reason::Pinned.as_str() {
        let was = ValidExtension::of(extension).and_then(|it| it.filter.version.clone());
        let was = was.map_or_else(|| "none".to_owned(), |was| quote(&was));
        return Ok(Edit {
            text: format!("version {was} -> {}", quote(&version)),
            change: catalog(&json!({"version": version})),
            version,
        });
    }
    if update.reason.ends_with("Held") {
        return Ok(Edit {
            text: format!("annotation {}={version}", policy::APPROVE),
            change: json!({"metadata": {"annotations": {policy::APPROVE: version}}}),
            version,
        });
    }
    anyhow::bail!("{}: {}", update.reason, update.message)
}

/// Returns the edit that flags ask for, if it leads somewhere.
async fn moved(
    args: &UpgradeArgs,
    cluster: &Cluster,
    extension: &ClusterExtension,
) -> anyhow::Result<Edit> {
    let mut snapshot = cluster.snapshot(&args.name).await?;
    let is_back = snapshot.question.policy.rollback_to.is_some();
    let filter = &mut snapshot.question.filter;
    let mut parts = Vec::new();
    let mut change = json!({});
    if let Some(to) = &args.to {
        let was = filter.version.as_deref().map_or_else(|| "none".to_owned(), quote);
        if was != quote(to) {
            parts.push(format!("version {was} -> {}", quote(to)));
        }
        change["version"] = json!(to);
        filter.version = Some(to.clone());
    }
    if !args.channels.is_empty() {
        parts.push(format!("channels {}", args.channels.join(", ")));
        change["channels"] = json!(args.channels);
        filter.channels.clone_from(&args.channels);
    }
    if args.force {
        let forced = UpgradeConstraintPolicy::SelfCertified;
        parts.push("upgradeConstraintPolicy SelfCertified for this move".to_owned());
        change["upgradeConstraintPolicy"] = json!(forced);
        filter.upgrade_constraint_policy = Some(forced);
    }
    let installed = extension.status.as_ref();
    let installed = installed.and_then(|status| status.install.as_ref());
    let is_installed =
        |version: &String| installed.is_some_and(|install| install.bundle.version == *version);
    let leads = |snapshot: &ExtensionSnapshot| {
        let version = chosen(snapshot).ok()?.version;
        (!is_installed(&version)).then_some(version)
    };
    let mut approved = None;
    if leads(&snapshot).is_none() {
        // It may be held because it comes from another catalog, which an approval releases.
        snapshot.question.came_from = None;
        approved = leads(&snapshot);
    }
    let version = chosen(&snapshot)?.version;
    if is_installed(&version) {
        let CatalogFilter { package_name, .. } = &snapshot.question.filter;
        anyhow::bail!(
            "{package_name} {version} is installed, and what is asked for leads nowhere else"
        );
    }
    let mut change = catalog(&change);
    if let Some(version) = approved {
        parts.push(format!("annotation {}={version}", policy::APPROVE));
        change["metadata"]["annotations"] = json!({policy::APPROVE: version});
    }
    if is_back {
        parts.push(format!("annotation {} removed", policy::ROLLBACK_TO));
        change["metadata"]["annotations"][policy::ROLLBACK_TO] = json!(null);
    }
    if parts.is_empty() {
        parts.push("what is asked for already".to_owned());
    }
    Ok(Edit { text: parts.join(", "), change, version })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    // plugin.md 1.4: which edit releases what is held
    #[rstest]
    #[case::pinned("Pinned", "version \"1.0.0\" -> \"2.0.0\"")]
    #[case::major("NextMajorHeld", "annotation policy.olm.operatorframework.io/approve=2.0.0")]
    fn the_edit_that_releases(#[case] reason: &str, #[case] want: &str) {
        assert_eq!(released(&extension(reason, Some("2.0.0"))).unwrap().text, want);
    }

    #[rstest]
    #[case::no_way("NotSuccessor", None, "no path")]
    #[case::constraints("ConstraintsNotMet", Some("2.0.0"), "ConstraintsNotMet: no path")]
    fn what_no_edit_releases(
        #[case] reason: &str,
        #[case] version: Option<&str>,
        #[case] want: &str,
    ) {
        let error = released(&extension(reason, version)).err().unwrap();
        assert_eq!(error.to_string(), want);
    }

    fn extension(reason: &str, version: Option<&str>) -> ClusterExtension {
        serde_json::from_value(json!({
            "metadata": {"name": "e"},
            "spec": {"namespace": "ns", "source": {"sourceType": "Catalog",
                "catalog": {"packageName": "p", "version": "1.0.0"}}},
            "status": {"update": {"version": version, "newest": "3.0.0", "catalog": "c",
                "reason": reason, "message": "no path"}},
        }))
        .unwrap()
    }
}
