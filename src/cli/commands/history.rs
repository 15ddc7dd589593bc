//! `kubectl olm history`: what was installed when, from where and by whom.
//!
//! Source: plugin.md 1.4.

use olm_api::LifecycleState;
use olm_api::keys::annotation;
use olm_core::revision::{Origin, has_succeeded};

use crate::commands::prelude::*;
use crate::document::RevisionRow;
use crate::verb;

/// Characters of a digest that are shown.
const DIGEST: usize = 13;

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Name of the extension
    #[arg(value_parser = verb::extension())]
    name: String,
    /// Output format
    #[arg(short, long, value_parser = formats(&[]), default_value_t)]
    output: Format,
}

/// Prints the revisions, the newest first.
pub(crate) async fn run(args: HistoryArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let cluster = OnCluster::default().connect(global).await?;
    let extension = cluster.extension(&args.name).await?;
    let revisions = cluster.revisions(&extension.name_any()).await?;
    if let format @ (Format::Json | Format::Yaml) = args.output {
        document(&args.name, &revisions).write(format, out)?;
    } else {
        table(&revisions).write(out)?;
        notice(
            "note: BY is the last field manager of spec or policy; see the audit log for the user",
        );
    }
    Ok(Outcome::Done)
}

/// Returns the state of a revision in a word or two.
pub(crate) fn state(set: &ClusterObjectSet) -> &'static str {
    stage(set).0
}

/// Returns the same with the condition that tells since when.
fn stage(set: &ClusterObjectSet) -> (&'static str, Option<&'static str>) {
    match (set.spec.lifecycle_state, has_succeeded(set)) {
        (LifecycleState::Archived, _) => ("archived", Some(types::PROGRESSING)),
        (_, true) => ("rolled out", Some(types::SUCCEEDED)),
        (_, false) => ("rolling out", None),
    }
}

fn rows(revisions: &[ClusterObjectSet]) -> Vec<RevisionRow> {
    let installed = states(revisions).installed.map(|set| set.spec.revision);
    let row = |set: &ClusterObjectSet| {
        let (bundle, origin) = (BundleRecord::of(set), Origin::of(set));
        let is_installed = installed == Some(set.spec.revision);
        RevisionRow {
            revision: set.spec.revision,
            bundle: bundle.name,
            version: bundle.version,
            state: if is_installed { "installed" } else { state(set) }.to_owned(),
            since: since(set),
            image: bundle.image,
            digest: set.annotations().get(annotation::BUNDLE_DIGEST).cloned(),
            note: origin.note(),
            catalog: origin.catalog,
            by: origin.changed_by,
            forced_from: origin.forced_from,
            content_of: origin.content_of,
        }
    };
    revisions.iter().rev().map(row).collect()
}

/// Returns when a revision came into its state.
fn since(set: &ClusterObjectSet) -> String {
    let condition = stage(set).1.and_then(|type_| set.condition(type_));
    let time = condition.map(|condition| condition.last_transition_time.0);
    let time = time.or_else(|| set.creation_timestamp().map(|made| made.0));
    cell(time)
}

fn table(revisions: &[ClusterObjectSet]) -> Table {
    let mut table =
        Table::new(&["REVISION", "VERSION", "STATE", "SINCE", "BUNDLE", "CATALOG", "BY", "NOTE"]);
    for row in rows(revisions) {
        let digest = row.digest.map(|digest| digest.chars().take(DIGEST).collect::<String>());
        table.row(vec![
            row.revision.to_string(),
            row.version,
            row.state,
            row.since,
            cell(digest),
            cell(row.catalog),
            cell(row.by),
            cell(row.note),
        ]);
    }
    table
}

/// The installed versions over time: `kubectl olm history`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct History<'a> {
    /// Name of the extension.
    extension: &'a str,
    /// Its revisions, the newest first.
    revisions: Vec<RevisionRow>,
    /// Data that could not be read.
    unknown: Vec<Unknown>,
}

/// Returns the answer for programs.
pub(crate) fn document<'a>(extension: &'a str, revisions: &[ClusterObjectSet]) -> History<'a> {
    History { extension, revisions: rows(revisions), unknown: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    // plugin.md 1.4
    #[test]
    fn the_newest_revision_comes_first() {
        let revision = |number: i64, state: &str, origin: &Origin| -> ClusterObjectSet {
            let mut annotations = origin.annotations();
            let recorded = [
                (annotation::BUNDLE_NAME, format!("quay.v3.16.{number}")),
                (annotation::BUNDLE_VERSION, format!("3.16.{number}")),
                (annotation::BUNDLE_DIGEST, format!("sha256:1548f1{number}")),
            ];
            annotations.extend(recorded.map(|(key, value)| (key.to_owned(), value)));
            let condition = |type_: &str, status: &str| {
                json!({"type": type_, "status": status, "reason": "R", "message": "",
                    "lastTransitionTime": format!("2026-10-1{number}T08:02:11Z")})
            };
            let conditions = [condition("Succeeded", "True"), condition("Progressing", "True")];
            serde_json::from_value(json!({
                "metadata": {"name": format!("quay-{number}"), "annotations": annotations},
                "spec": {"lifecycleState": state, "revision": number, "collisionProtection": "Prevent"},
                "status": {"conditions": conditions},
            }))
            .unwrap()
        };
        let origin = Origin {
            catalog: Some("community".to_owned()),
            changed_by: Some("kubectl-olm".to_owned()),
            ..Origin::default()
        };
        let forced = Origin { forced_from: Some("3.16.5".to_owned()), ..origin.clone() };
        let all = [revision(5, "Archived", &origin), revision(6, "Active", &forced)];
        let mut out = Vec::new();
        table(&all).write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let document =
            serde_json::to_string_pretty(&document("quay", &all).headed().unwrap()).unwrap();
        insta::assert_snapshot!(format!("{text}\n{document}"));
    }
}
