//! `kubectl olm upgrade`: move an extension to another version.
//!
//! Source: plugin.md 1.4.

use olm_api::UpgradeConstraintPolicy;
use olm_api::conditions::Reason;
use olm_core::error::shell_word;
use olm_core::extension::holds::{Hold, holder};
use olm_core::extension::{CatalogMove, ValidExtension};
use olm_core::plan::Account as Lacks;
use olm_core::revision::has_succeeded;
use olm_core::status::Note;

use crate::commands::cluster_check::{platform, warn_of_closing};
use crate::commands::prelude::*;
use crate::commands::{plan, rbac};
use crate::target::{about_range, account};
use crate::verb;

#[derive(Debug, Args)]
pub(crate) struct UpgradeArgs {
    /// Name of the extension
    #[arg(value_parser = verb::extension())]
    name: String,
    /// Version, or range of versions, to move to; by default the held update of `status`
    version: Option<String>,
    /// The same as VERSION
    #[arg(long, value_name = "RANGE", conflicts_with = "version")]
    to: Option<String>,
    /// The channel to follow from now on; repeatable
    #[arg(long = "channel", value_name = "CHANNEL")]
    channels: Vec<String>,
    /// Move without an update path in the catalog (`SelfCertified`, for this move)
    #[arg(long)]
    force: bool,
    /// Give the account the rights that it lacks for the move
    #[arg(long)]
    grant: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    on: OnCluster,
}

/// The edit that makes the move.
struct Edit {
    /// The text for the user.
    text: String,
    change: Value,
    /// The version it leads to.
    version: String,
}

impl UpgradeArgs {
    fn to(&self) -> Option<&String> {
        self.version.as_ref().or(self.to.as_ref())
    }

    /// Returns the command that explains the answer to the same request.
    fn why(&self) -> String {
        let version = self.to().map(|range| format!(" --version {}", quote(range)));
        let channels = self.channels.iter();
        let channels = channels.map(|channel| format!(" --channel {}", shell_word(channel)));
        let force = self.force.then(|| " --policy SelfCertified".to_owned());
        let flags = version.into_iter().chain(channels).chain(force);
        format!("kubectl olm why {}{}", self.name, flags.collect::<String>())
    }
}

impl Edit {
    /// Returns whether it changes the spec.
    fn asks(&self) -> bool {
        self.change.get("spec").is_some()
    }

    /// Returns why a hold stops it, and what leads on.
    fn stopped(&self, name: &str, hold: &Note) -> (String, Option<String>) {
        let message = hold.message.clone();
        match hold.reason {
            Reason::PermissionsMissing => {
                let asked = &self.change["spec"]["source"]["catalog"];
                let is_alone = self.change.get("metadata").is_none()
                    && asked.as_object().is_some_and(|it| it.keys().eq(["version"]));
                let version = self.asks().then_some(self.version.as_str());
                let mut why = plan::of_version(hold.clone(), version).text;
                if self.asks() && !is_alone {
                    // No command is about a spec that is not written.
                    why.truncate(why.find(": kubectl ").unwrap_or(why.len()));
                }
                (why, Some("--grant gives the account what it lacks".to_owned()))
            }
            Reason::RolloutReverted => {
                let annotation = policy::ON_FAILURE;
                let again = format!("kubectl annotate clusterextension {name} {annotation}-");
                (message, Some(format!("to try it again: {again}")))
            }
            reason => (message, holder(reason).command(name)),
        }
    }
}

/// Finds the edit, shows it, asks, writes it and waits.
pub(crate) async fn run(args: UpgradeArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let (global, out) = &mut args.confirm.rehearsal.begin(global, out);
    let cluster = args.on.connect(global).await?;
    let extension = cluster.extension(&args.name).await?;
    let name = &args.name;
    changes::refuse_paused(&extension)?;
    let is_back = extension.annotations().contains_key(policy::ROLLBACK_TO);
    let wanted = args.to().is_some() || !args.channels.is_empty() || args.force || is_back;
    let edit = if wanted { moved(&args, &cluster, &extension).await } else { released(&extension) };
    let edit = match edit {
        Ok(edit) => edit,
        Err(error) => return Err(refused(&args, &cluster, &error).await),
    };
    if edit.change["metadata"]["annotations"][policy::APPROVE].is_string() {
        cluster.heeds(policy::APPROVE).await?;
    }
    let installed = extension.installed().map_or("nothing", |it| it.version.as_str());
    writeln!(out, "{name}: {installed} -> {}, by {}", edit.version, edit.text)?;
    if let Ok(mut snapshot) = cluster.snapshot(name).await {
        let question = &mut snapshot.question;
        question.policy.catalog_move = CatalogMove::Allow;
        question.filter.version = Some(edit.version.clone());
        question.filter.upgrade_constraint_policy = Some(UpgradeConstraintPolicy::SelfCertified);
        warn_of_closing(platform(&cluster).await, &snapshot);
    }
    changes::yields(&extension, &edit.change, global.dry_run.is_some())?;
    let Some(grants) = checked(&args, &cluster, &extension, &edit).await? else {
        return Ok(Outcome::Failed);
    };
    for line in &grants.missing {
        writeln!(out, "  grants    {line}")?;
    }
    args.confirm.agreed(&format!("Upgrade {name}?"), "--yes confirms it")?;
    let client = cluster.own_client();
    if !grants.missing.is_empty() {
        let account = account(&extension, &cluster).await?;
        let objects = rbac::lacking(&account, &grants.judgement)?;
        changes::apply(client, &objects, out).await?;
    }
    let is_pinned = edit.change["spec"]["source"]["catalog"]["version"] == edit.version.as_str();
    let written = changes::merge(client, &extension, edit.change).await?;
    out.object(&written)?;
    let version = match extension.installed() {
        _ if is_pinned || written.metadata.generation == extension.metadata.generation => {
            Awaited::Version(&edit.version)
        }
        // A range or a channel may lead on before anybody looks.
        Some(installed) => Awaited::Other(&installed.version),
        None => Awaited::Any,
    };
    let waits = args.wait.is_wanted(global);
    if args.force && waits {
        notice(&format!("note: it is SelfCertified during the move; {} ends that", back(name)));
    }
    let ended = if waits {
        waiting::ready(client, &written, version, args.wait.timeout, out).await
    } else {
        Ok(Outcome::Done)
    };
    if args.force {
        let is_over = waits && matches!(ended, Ok(Outcome::Done));
        undo(&cluster, &extension, is_over).await?;
    }
    ended
}

/// Returns the error that no edit can be made, with what leads on.
async fn refused(args: &UpgradeArgs, cluster: &Cluster, error: &anyhow::Error) -> anyhow::Error {
    let Failure { text, outcome, hint } = Failure::of(error);
    let form = args.to().and_then(|range| about_range(range.as_str()));
    let hint = match form.or(hint) {
        None if outcome == Outcome::Failed => {
            let why = format!("to see which versions can be reached: {}", args.why());
            Some(earlier(args, cluster).await.unwrap_or(why))
        }
        hint => hint,
    };
    Failure { text: format!("{}: {text}", args.name), hint, outcome }.into()
}

/// Returns the command that goes back to the version that is asked for, if a revision has it.
async fn earlier(args: &UpgradeArgs, cluster: &Cluster) -> Option<String> {
    let (name, to) = (&args.name, args.to()?);
    let revisions = cluster.revisions(name).await.ok()?;
    let kept = kept(&revisions, to)?;
    Some(format!("to go back to it: kubectl olm rollback {name} {kept}"))
}

/// Returns the newest revision before the installed one that has this version.
fn kept(revisions: &[ClusterObjectSet], version: &str) -> Option<i64> {
    let installed = states(revisions).installed?.spec.revision;
    let earlier = revisions.iter().rev().filter(|set| set.spec.revision < installed);
    let mut earlier = earlier.filter(|set| has_succeeded(set));
    earlier.find(|set| BundleRecord::of(set).version == version).map(|set| set.spec.revision)
}

/// Makes the plan of an edit before it is written. Returns what the account is to be given for it;
/// nothing where somebody has to decide first.
async fn checked(
    args: &UpgradeArgs,
    cluster: &Cluster,
    extension: &ClusterExtension,
    edit: &Edit,
) -> anyhow::Result<Option<Lacks>> {
    let name = &args.name;
    let edited = plan::edited(extension, &edit.change)?;
    let plan = match plan::make(cluster, &edited, None).await {
        Ok(plan) => plan,
        Err(error) => {
            let Failure { text, .. } = Failure::of(&error);
            if args.grant {
                return Err(ungranted(&text));
            }
            notice(&format!("note: the holds are not known: {text}"));
            return Ok(Some(Lacks::default()));
        }
    };
    if args.grant
        && let Some(account) = plan.unknown.iter().find(|one| one.what == "account")
    {
        return Err(ungranted(&account.why));
    }
    for one in &plan.unknown {
        notice(&format!("note: {} not known: {}", one.label(), one.why));
    }
    // An approval is of what the spec asks for, and comes after it.
    let asks = edit.asks();
    let stops = |hold: &&Hold| {
        let holder = holder(hold.note.reason);
        let granted = args.grant && hold.note.reason == Reason::PermissionsMissing;
        holder.needs_person() && !granted && !(asks && holder.is_approvable)
    };
    let mut stopped = false;
    for hold in plan.holds.iter().filter(stops) {
        stopped = true;
        let (why, hint) = edit.stopped(name, &hold.note);
        notice(&format!("error: {name} is held by {}: {why}", hold.word()));
        if let Some(hint) = hint {
            notice(&format!("hint: {hint}"));
        }
    }
    let grants = if args.grant { plan.account } else { Lacks::default() };
    Ok((!stopped).then_some(grants))
}

/// Returns the error of `--grant` if the missing rights are not known.
fn ungranted(why: &str) -> anyhow::Error {
    Failure::unknown(
        format!("--grant: what the account lacks is not known: {why}"),
        "without --grant only the controller judges its rights",
    )
}

/// Takes `SelfCertified` back once the move is over.
async fn undo(cluster: &Cluster, before: &ClusterExtension, is_over: bool) -> anyhow::Result<()> {
    let name = before.name_any();
    let was = ValidExtension::of(before).and_then(|it| it.filter.upgrade_constraint_policy);
    if was == Some(UpgradeConstraintPolicy::SelfCertified) {
        return Ok(());
    }
    if !is_over {
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
    let update = update
        .context("no update to release: none is available, or it is applied automatically")?;
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
    if update.reason == Reason::PermissionsMissing.as_str() {
        let text = "already requested".to_owned();
        return Ok(Edit { text, change: json!({}), version });
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
    if let Some(to) = args.to() {
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
    let is_installed =
        |version: &String| extension.installed().is_some_and(|it| it.version == *version);
    let leads = |snapshot: &ExtensionSnapshot| {
        let version = chosen(snapshot).ok()?.version;
        (!is_installed(&version)).then_some(version)
    };
    let mut approved = None;
    if leads(&snapshot).is_none() {
        // It may be held because it comes from another catalog, which an approval releases.
        snapshot.question.policy.catalog_move = CatalogMove::Allow;
        approved = leads(&snapshot);
    }
    let version = chosen(&snapshot)?.version;
    if is_installed(&version) {
        let CatalogFilter { package_name, .. } = &snapshot.question.filter;
        anyhow::bail!(
            "{package_name} {version} is installed, and the request leads to no other version"
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
        parts.push("already requested".to_owned());
    }
    Ok(Edit { text: parts.join(", "), change, version })
}

#[cfg(test)]
mod tests {
    use olm_core::extension::holds::Judgement;

    use super::*;
    use crate::fixture::{cases, extension, revision};

    #[test]
    fn an_edit_releases_what_is_held_or_it_is_said_why_none_does() {
        type Case = (String, Option<String>, String);
        let test = "an_edit_releases_what_is_held_or_it_is_said_why_none_does";
        for (name, (reason, version, want)) in cases::<Case>(test) {
            let update = json!({"version": version, "newest": "3.0.0", "catalog": "c",
                "reason": reason, "message": "no path"});
            let pinned = json!({"source": {"catalog": {"version": "1.0.0"}}});
            let asked = json!({"spec": pinned, "status": {"update": update}});
            let edit = released(&extension(&asked));
            let said = edit.map_or_else(|error| format!("error: {error}"), |edit| edit.text);
            assert_eq!(said, want, "{name}");
        }
    }

    #[test]
    fn rights_for_an_edit_are_printed_for_its_version() {
        let account = "n/a".parse().unwrap();
        let message = Judgement::default().advice("e", &account, "2.0.0");
        let hold = Note { reason: Reason::PermissionsMissing, message };
        let test = "rights_for_an_edit_are_printed_for_its_version";
        for (name, (asked, why)) in cases::<(Value, String)>(test) {
            let change = if asked.is_null() { json!({}) } else { catalog(&asked) };
            let edit = Edit { text: String::new(), change, version: "2.0.0".to_owned() };
            assert_eq!(edit.stopped("e", &hold).0, why, "{name}");
        }
    }

    #[test]
    fn a_version_that_was_installed_before_can_be_gone_back_to() {
        let revisions = [
            revision(1, "1.0.0", "Archived", "True"),
            revision(2, "1.1.0", "Archived", "False"),
            revision(3, "1.0.0", "Archived", "True"),
            revision(4, "2.0.0", "Active", "True"),
        ];
        for (version, want) in
            [("1.0.0", Some(3)), ("1.1.0", None), ("2.0.0", None), ("1.2.0", None)]
        {
            assert_eq!(kept(&revisions, version), want, "{version}");
        }
    }
}
