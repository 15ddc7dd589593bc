//! Leaving for upstream: what upstream would keep although it is not true any more goes out of the
//! statuses, and each extension is told which ways back it has.
//!
//! Source: deploying.md 7.3.

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use olm_api::conditions::types;
use olm_api::keys::label;
use olm_core::helm;
use serde_json::{Value, json};

use super::DoctorArgs;
use super::facts::{CATALOGS, DEPLOYMENTS, EXTENSIONS, Facts, REVISIONS, Refusal};
use super::to_helm::GivingBack;
use crate::output::{Outcome, agreed, notice};

/// Conditions that upstream does not know, and therefore keeps.
const OURS: [&str; 6] = [
    types::READY,
    types::PAUSED,
    types::PERMISSIONS,
    types::PLATFORM_UPGRADEABLE,
    types::DEFERRED,
    types::CONTENT_VALID,
];

/// Cleans the statuses, once no controller runs and the caller agrees.
pub(super) async fn leave(
    client: &Client,
    facts: &Facts,
    args: &DoctorArgs,
    dry_run: bool,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let deployments = items(facts, DEPLOYMENTS)?;
    let runs = |it: &&Value| it["status"]["readyReplicas"].as_i64().unwrap_or_default() > 0;
    if let Some(running) = deployments.iter().find(runs) {
        let metadata = &running["metadata"];
        let text = |key: &str| metadata[key].as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        notice(&format!("error: Deployment {namespace}/{name} runs, and would write it again"));
        notice(&format!("hint: kubectl delete deployment {name} -n {namespace}"));
        return Ok(Outcome::Failed);
    }
    let mut changes = Vec::new();
    for (kind, plural) in [
        ("ClusterExtension", EXTENSIONS),
        ("ClusterCatalog", CATALOGS),
        ("ClusterObjectSet", REVISIONS),
    ] {
        let all = items(facts, plural)?.into_iter();
        changes.extend(all.filter_map(|object| Some((kind, plural, cleaned(&object)?))));
    }
    ways_back(client, facts, out).await?;
    let mut giving_back = None;
    if let Some(name) = &args.to_helm {
        match GivingBack::plan(client, facts, name).await? {
            Ok(plan) => giving_back = Some(plan),
            Err((why, hint)) => {
                notice(&format!("error: {why}"));
                notice(&format!("hint: {hint}"));
                return Ok(Outcome::Failed);
            }
        }
    }
    let also = giving_back.as_ref().map(|it| format!(", {}", it.question()));
    let question = format!(
        "Remove what upstream would not keep true from {} statuses{}?",
        changes.len(),
        also.unwrap_or_default()
    );
    let nothing = changes.is_empty() && giving_back.is_none();
    if !nothing && !args.yes && !agreed(&question, "--yes does it")? {
        notice("nothing is changed");
        return Ok(Outcome::Failed);
    }
    if let (true, Some(plan)) = (dry_run, &giving_back) {
        writeln!(out, "would {}", plan.question())?;
    }
    clean(client, changes, dry_run, out).await?;
    if let Some(plan) = giving_back {
        plan.carry_out(client, dry_run, out).await?;
    }
    notice(
        "note: before upstream v1.2 to v1.10 starts, delete the policies of config/policy: its \
         account holds none of the rights they ask for; never delete the CRD of ClusterObjectSets",
    );
    Ok(Outcome::Done)
}

/// Takes out of statuses what is not true any more.
async fn clean(
    client: &Client,
    changes: Vec<(&str, &str, Value)>,
    dry_run: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    for (kind, plural, change) in changes {
        let resource = ApiResource {
            group: olm_api::GROUP.to_owned(),
            version: "v1".to_owned(),
            api_version: format!("{}/v1", olm_api::GROUP),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        let name = change["metadata"]["name"].as_str().unwrap_or_default();
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
        let (params, change) = (PatchParams::default(), Patch::Merge(&change));
        let patched = api.patch_status(name, &params, &change).await;
        patched.with_context(|| format!("writing the status of {kind} {name}"))?;
        let done = if dry_run { "status would be cleaned" } else { "status cleaned" };
        writeln!(out, "{kind} {name}: {done}")?;
    }
    Ok(())
}

pub(super) fn items(facts: &Facts, name: &str) -> anyhow::Result<Vec<Value>> {
    facts.items(name).map_err(|refusal| match refusal {
        Refusal::Absent => anyhow::anyhow!("{name} are not served here"),
        Refusal::Failed(why) => anyhow::anyhow!("{name} are not known: {why}"),
    })
}

/// Returns the change that cleans the status of an object, if there is anything to clean.
fn cleaned(object: &Value) -> Option<Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    let foreign = |found: &&Value| !OURS.iter().any(|ours| found["type"] == **ours);
    let kept: Vec<&Value> = conditions.iter().filter(foreign).collect();
    let update = &object["status"]["update"];
    if kept.len() == conditions.len() && update.is_null() {
        return None;
    }
    let metadata = &object["metadata"];
    let mut change = json!({
        "metadata": {"name": metadata["name"], "resourceVersion": metadata["resourceVersion"]},
        "status": {"conditions": kept},
    });
    if !update.is_null() {
        change["status"]["update"] = Value::Null;
    }
    Some(change)
}

/// Says of each extension which upstream can go on with it.
async fn ways_back(client: &Client, facts: &Facts, out: &mut dyn Write) -> anyhow::Result<()> {
    let params = ListParams::default().labels(helm::INDEX_SELECTOR);
    let releases = Api::<Secret>::all(client.clone()).list_metadata(&params).await;
    let releases = releases.map(|found| {
        let names = found.items.iter();
        let names = names.filter_map(|it| it.labels().get(helm::NAME).cloned());
        names.collect::<BTreeSet<_>>()
    });
    let revisions = items(facts, REVISIONS)?;
    for extension in items(facts, EXTENSIONS)? {
        let name = extension["metadata"]["name"].as_str().unwrap_or_default();
        let has_revision =
            revisions.iter().any(|set| set["metadata"]["labels"][label::OWNER_NAME] == name);
        let way = match (&releases, has_revision) {
            (_, false) => "nothing is installed: any upstream goes on",
            (Ok(all), true) if all.contains(name) => {
                "upstream with ClusterObjectSets goes on; the release of Helm is still there"
            }
            (Ok(_), true) => "upstream with ClusterObjectSets goes on (v1.9 or later)",
            (Err(_), true) => {
                "upstream with ClusterObjectSets goes on; whether a release of Helm is there may \
                 not be read"
            }
        };
        writeln!(out, "ClusterExtension {name}: {way}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // deploying.md P58
    #[test]
    fn what_upstream_keeps_true_stays() {
        let object = json!({
            "metadata": {"name": "e", "resourceVersion": "7"},
            "status": {"update": {"newest": "2.0.0"},
                "conditions": [{"type": "Installed"}, {"type": "Ready"}, {"type": "Available"}]},
        });
        let want = json!({
            "metadata": {"name": "e", "resourceVersion": "7"},
            "status": {"update": null,
                "conditions": [{"type": "Installed"}, {"type": "Available"}]},
        });
        assert_eq!(cleaned(&object), Some(want));
        let clean = json!({"status": {"conditions": [{"type": "Progressing"}]}});
        assert_eq!(cleaned(&clean), None);
        assert_eq!(cleaned(&json!({})), None);
    }
}
