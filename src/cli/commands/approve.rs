//! `kubectl olm approve`: approve exactly one plan.
//!
//! Source: plugin.md 1.5, decision 35.

use olm_api::UpdateStatus;
use olm_api::conditions::Reason;
use olm_core::extension::ValidExtension;
use olm_core::extension::holds::{awaited, is_approvable};
use olm_core::plan::Plan;

use crate::commands::plan;
use crate::commands::prelude::*;
use crate::verb;

/// Digits of a digest that are enough to name a plan.
const ENOUGH: usize = 8;

#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    /// Name of the extension
    #[arg(value_parser = verb::extension())]
    name: String,
    /// Digest of the plan, or at least its first 8 digits; by default the plan is shown
    #[arg(long, value_name = "DIGEST")]
    plan: Option<String>,
    /// Approve this version, regardless of its content
    #[arg(long, value_name = "VERSION", conflicts_with = "plan", value_parser = version)]
    version: Option<String>,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    on: OnCluster,
}

/// Reads a version as the controller does; it may begin with a `v`, as in a range.
fn version(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    olm_core::version::VersionRelease::legacy(text)
        .map(|_| text.to_owned())
        .map_err(|error| error.to_string())
}

/// Makes the plan anew, compares, writes.
pub(crate) async fn run(args: ApproveArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let wanted = args.plan.as_deref().map(|plan| plan.strip_prefix("sha256:").unwrap_or(plan));
    if wanted.is_some_and(|plan| plan.len() < ENOUGH) {
        return usage(format!("--plan needs at least {ENOUGH} digits of the digest"));
    }
    let (global, out) = &mut args.confirm.rehearsal.begin(global, out);
    let cluster = args.on.connect(global).await?;
    cluster.heeds(policy::APPROVE).await?;
    let extension = cluster.extension(&args.name).await?;
    changes::refuse_deleted(&extension)?;
    let valid = ValidExtension::of(&extension).context("it names no package")?;
    // Where that cannot be read, the plan says so.
    let required = cluster.requires_approval(valid).await.unwrap_or(false);
    if let Some(version) = &args.version {
        out.object(&approve(&cluster, global, &extension, version).await?)?;
        writeln!(out, "{}: {version} is approved", args.name)?;
        if required {
            notice(&format!(
                "note: the plan of each step must be approved as well: kubectl olm approve {}",
                args.name
            ));
        }
        // An approval does not change what the extension asks for.
        let is_pinned =
            |it: &&UpdateStatus| it.version() == version && it.reason == Reason::Pinned.as_str();
        if let Some(update) = awaited(&extension).filter(is_pinned) {
            notice(&format!(
                "note: {}; to move it there: kubectl olm upgrade {} --to {version}",
                update.message, args.name
            ));
        }
        return Ok(Outcome::Done);
    }
    let plan = plan::explained(&cluster, &extension, None).await?;
    // What is there already may be approved, so that it can be repaired and gone back to.
    if plan.is_empty() && !required {
        bail!("{}: nothing would change", args.name);
    }
    let digits = plan.digest.trim_start_matches("sha256:");
    if let Some(wanted) = wanted.filter(|wanted| !digits.starts_with(wanted)) {
        return Err(Failure::failed(
            format!(
                "the plan changed since you saw it: plan {wanted} is now {}, bundle {} of image {}",
                plan.digest,
                plan.to.bundle,
                plan.to.digest.as_deref().unwrap_or(&plan.to.image)
            ),
            format!("kubectl olm plan {} shows it", args.name),
        ));
    }
    if wanted.is_none() {
        plan::show(&plan, out)?;
        let question = format!("Approve this plan for {}?", plan.to.version);
        args.confirm.agreed(&question, "--yes confirms it, --plan names the plan")?;
    }
    out.object(&approve(&cluster, global, &extension, &plan.approval()).await?)?;
    writeln!(out, "{}", released(&args.name, &plan))?;
    Ok(Outcome::Done)
}

async fn approve(
    cluster: &Cluster,
    global: &Global,
    extension: &ClusterExtension,
    value: &str,
) -> anyhow::Result<ClusterExtension> {
    let change = json!({"metadata": {"annotations": {policy::APPROVE: value}}});
    changes::yields(extension, &change, global.dry_run.is_some())?;
    changes::merge(cluster.own_client(), extension, change).await
}

/// Returns the command that releases a plan, if an approval does.
pub(crate) fn release(plan: &Plan) -> Option<String> {
    let waits = plan.held_by.iter().any(|word| is_approvable(word));
    let digits = plan::short(&plan.digest);
    waits.then(|| format!("kubectl olm approve {} --plan {digits}", plan.extension))
}

fn released(name: &str, plan: &Plan) -> String {
    let held: Vec<_> = plan.held_by.iter().copied().filter(|word| !is_approvable(word)).collect();
    let mut text =
        format!("{name}: {} is approved by plan {}", plan.to.version, plan::short(&plan.digest));
    if !held.is_empty() {
        text.push_str("; still held by ");
        text.push_str(&held.join(", "));
    }
    text
}
