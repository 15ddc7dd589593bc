//! Reading and changing the objects that OLM Classic has installed.

use olm_api::keys::label::CLASSIC_OWNER;
use olm_core::classic::GROUP;
use olm_core::classic::takeover::{
    Csv, belongs, certificates, crds, dismiss, go_with, hide, hold, is_copy, is_for, is_going, own,
    readers, release, selects_by, uid,
};
use olm_core::helm;
use olm_core::object::object;
use tokio::time::Instant;

use crate::changes::{self, ATTEMPTS};
use crate::commands::prelude::*;
use crate::workloads::list;

/// The most rounds of releasing objects that Classic writes at the same time.
const ROUNDS: usize = 5;

/// Kinds in the namespace of an operator that Classic makes, by their API version.
const NAMESPACED: [(&str, &str); 8] = [
    ("v1", "ServiceAccount Secret ConfigMap Service"),
    ("apps/v1", "Deployment"),
    ("rbac.authorization.k8s.io/v1", "Role RoleBinding"),
    ("operators.coreos.com/v2", "OperatorCondition"),
    ("policy/v1", "PodDisruptionBudget"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("monitoring.coreos.com/v1", "ServiceMonitor PodMonitor PrometheusRule"),
    ("autoscaling.k8s.io/v1", "VerticalPodAutoscaler"),
];

/// Kinds that Classic makes elsewhere, with labels only.
const LABELLED: [(&str, &str); 5] = [
    ("rbac.authorization.k8s.io/v1", "Role RoleBinding ClusterRole ClusterRoleBinding"),
    (
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration MutatingWebhookConfiguration",
    ),
    ("apiregistration.k8s.io/v1", "APIService"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    (
        "console.openshift.io/v1",
        "ConsolePlugin ConsoleLink ConsoleQuickStart ConsoleCLIDownload ConsoleYAMLSample",
    ),
];

/// Returns each kind with its API version.
fn each(
    kinds: &'static [(&'static str, &'static str)],
) -> impl Iterator<Item = (&'static str, &'static str)> {
    kinds.iter().flat_map(|(version, kinds)| kinds.split(' ').map(move |kind| (*version, kind)))
}

/// Returns the extension of a name.
pub(super) fn extension(name: &str) -> Object {
    object(olm_api::API_VERSION, "ClusterExtension", name, "")
}

/// Returns the CRD of a name.
pub(super) fn crd(name: &str) -> Object {
    object("apiextensions.k8s.io/v1", "CustomResourceDefinition", name, "")
}

/// Lists the objects of an object's kind in its namespace.
pub(super) async fn alike(client: &Client, object: &Object) -> anyhow::Result<Vec<Object>> {
    list(client, (object.api_version(), object.kind()), Some(object.namespace()), "").await
}

/// Returns an object as it is, if it is there.
pub(super) async fn live(client: &Client, object: &Object) -> anyhow::Result<Option<Object>> {
    let found = changes::live(client, object).await;
    found.map_err(|why| anyhow::anyhow!("{}: {why}", object.identity()))
}

/// Returns whether all of these objects are there.
pub(super) async fn are_live(client: &Client, objects: &[Object]) -> anyhow::Result<bool> {
    for object in objects {
        if live(client, object).await?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Lists what Classic counts as installed by a CSV.
pub(super) async fn owned(client: &Client, csv: &Object) -> anyhow::Result<Vec<Object>> {
    let mut found: Vec<Object> = Vec::new();
    for kind in each(&NAMESPACED) {
        found.extend(list(client, kind, Some(csv.namespace()), "").await?);
    }
    // The namespace in the labels is that of a copy where a copy owns them.
    let selector = format!("{CLASSIC_OWNER}={}", csv.name());
    for kind in each(&LABELLED) {
        for object in list(client, kind, None, &selector).await? {
            if found.iter().all(|known| known.identity() != object.identity()) {
                found.push(object);
            }
        }
    }
    found.retain(|object| belongs(object, csv));
    Ok(found)
}

/// Returns everything that a CSV has installed: what names it, its CRDs, what lets its servers judge
/// callers, and what its InstallPlans made.
pub(super) async fn running(
    client: &Client,
    csv: &Object,
    plans: &[&Object],
) -> anyhow::Result<Vec<Object>> {
    let mut found = owned(client, csv).await?;
    let (place, names) = readers(csv);
    for name in names {
        let wanted = object("rbac.authorization.k8s.io/v1", "RoleBinding", &name, place);
        let binding = live(client, &wanted).await?;
        found.extend(binding.filter(|it| is_for(it, csv.namespace()) && !is_going(it)));
    }
    let crds = crds(csv).into_iter().map(|name| crd(&name));
    let steps = plans.iter().flat_map(|plan| made(plan, csv));
    for wanted in crds.chain(steps).collect::<Vec<_>>() {
        let mut there = live(client, &wanted).await?;
        if there.is_none() && !wanted.namespace().is_empty() {
            let everywhere = object(wanted.api_version(), wanted.kind(), wanted.name(), "");
            there = live(client, &everywhere).await.unwrap_or_default();
        }
        let new = |there: &Object| found.iter().all(|it| it.identity() != there.identity());
        found.extend(there.filter(|there| !is_going(there) && new(there)));
    }
    Ok(found)
}

/// Returns the objects that an InstallPlan created for a CSV.
fn made(plan: &Object, csv: &Object) -> Vec<Object> {
    let of_csv = |step: &&Value| step["resolving"] == json!(csv.name());
    let named = |step: &Value| {
        let resource = &step["resource"];
        let text = |key: &str| resource[key].as_str().unwrap_or_default();
        let (group, version) = (text("group"), text("version"));
        let api_version = match group {
            "" | "core" => version.to_owned(),
            group => format!("{group}/{version}"),
        };
        let kind = text("kind");
        // Of a CRD and a Secret the step names what it is made from.
        if group == GROUP || matches!(kind, "CustomResourceDefinition" | "BundleSecret") {
            return None;
        }
        Some(object(&api_version, kind, text("name"), csv.namespace()))
    };
    plan.list_at("/status/plan").filter(of_csv).filter_map(named).collect()
}

/// Returns the parameters of the deletion of an object that nobody writes meanwhile.
pub(super) fn as_seen(seen: &Object, params: DeleteParams) -> DeleteParams {
    let resource_version = Some(seen.text_at("/metadata/resourceVersion").to_owned());
    let uid = Some(uid(seen).to_owned());
    DeleteParams { preconditions: Some(Preconditions { uid, resource_version }), ..params }
}

/// Deletes an object if it is the one that was seen; one that is gone, or another one, stays.
pub(super) async fn delete(
    client: &Client,
    object: &Object,
    mut params: DeleteParams,
) -> anyhow::Result<bool> {
    let uid = Some(uid(object).to_owned()).filter(|uid| !uid.is_empty());
    if params.preconditions.is_none() {
        params.preconditions = Some(Preconditions { uid, resource_version: None });
    }
    match changes::api(client, object).delete(object.name(), &params).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
        Err(error) => Err(error).with_context(|| format!("deleting {}", changes::named(object))),
    }
}

/// Merges a change that is computed from the present state, again if somebody else wrote meanwhile.
/// Nothing to change, or an object that is gone, is fine. Says whether it was changed.
pub(super) async fn change(
    client: &Client,
    object: &Object,
    change: impl Fn(&Object) -> Option<Value>,
) -> anyhow::Result<bool> {
    for _ in 0..ATTEMPTS {
        let Some(found) = live(client, object).await? else { return Ok(false) };
        let Some(patch) = change(&found) else { return Ok(false) };
        let api = changes::api(client, object);
        match api.patch(object.name(), &changes::params(), &Patch::Merge(&patch)).await {
            Ok(_) => return Ok(true),
            // The second is said of finalizers that are added to what is being deleted.
            Err(kube::Error::Api(status)) if matches!(status.code, 409 | 422) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(false),
            Err(error) => {
                return Err(error).with_context(|| format!("changing {}", changes::named(object)));
            }
        }
    }
    bail!("{} was modified concurrently; rerun the command", object.identity())
}

/// Deletes a CSV without the clean-up of Classic; a finalizer of ours keeps it.
pub(super) async fn hold_csv(client: &Client, csv: &Object) -> anyhow::Result<()> {
    for _ in 0..ATTEMPTS {
        let keep = |live: &Object| (Csv::of(Some(live)) == Csv::Kept).then(|| hold(live));
        change(client, csv, keep).await?;
        let Some(held) = live(client, csv).await?.filter(|live| !is_going(live)) else {
            return Ok(());
        };
        // Classic may have put its finalizer back.
        let finalizers = held.pointer("/metadata/finalizers").cloned().unwrap_or_default();
        if finalizers != hold(&held)["metadata"]["finalizers"] {
            continue;
        }
        // One that is gone, or was written meanwhile, is looked at again.
        if delete(client, csv, as_seen(&held, DeleteParams::orphan())).await? {
            return Ok(());
        }
    }
    bail!("{} was modified concurrently; rerun the command", csv.identity())
}

/// Releases objects from a CSV until nothing names it; what Classic had begun to write is released
/// too. Returns how many were. The CSV is hidden after the first round: Classic then deletes its copies,
/// and with them what still names one as its owner.
pub(super) async fn release_all(
    client: &Client,
    csv: &Object,
    known: &[Object],
) -> anyhow::Result<usize> {
    let mut count = 0;
    let mut objects = known.to_vec();
    objects.extend(owned(client, csv).await?);
    for round in 0..ROUNDS {
        if round > 1 {
            tokio::time::sleep(waiting::LOOK).await;
        }
        for object in &objects {
            let done = change(client, object, |live| release(live, csv)).await?;
            count += usize::from(done);
        }
        for _ in 0..2 {
            change(client, csv, hide).await?;
        }
        objects = owned(client, csv).await?;
        if objects.is_empty() {
            return Ok(count);
        }
    }
    let names: Vec<_> = objects.iter().map(changes::named).collect();
    bail!(
        "Classic keeps taking back objects of {}: {}; rerun the command",
        csv.name(),
        names.join(", ")
    )
}

/// Lets a held CSV go, and waits until it is gone.
pub(super) async fn dismiss_csv(client: &Client, csv: &Object, timeout: u64) -> anyhow::Result<()> {
    change(client, csv, dismiss).await?;
    gone(client, csv, timeout).await
}

/// Waits until an object is gone.
pub(super) async fn gone(client: &Client, object: &Object, timeout: u64) -> anyhow::Result<()> {
    let begun = Instant::now();
    while let Some(live) = live(client, object).await? {
        if !uid(object).is_empty() && uid(&live) != uid(object) {
            return Ok(());
        }
        if begun.elapsed() >= Duration::from_secs(timeout) {
            let text = format!("timed out after {timeout} s: {} still exists", object.identity());
            return Err(Failure { text, hint: None, outcome: Outcome::TimedOut }.into());
        }
        tokio::time::sleep(waiting::LOOK).await;
    }
    Ok(())
}

/// Gives the certificates of a CSV's servers to an extension, if they are nobody's.
pub(super) async fn give_certificates(
    client: &Client,
    csv: &Object,
    extension: &Object,
) -> anyhow::Result<()> {
    for (name, service) in certificates(csv) {
        let secret = object("v1", "Secret", &name, csv.namespace());
        let service = object("v1", "Service", &service, csv.namespace());
        let service = live(client, &service).await?.unwrap_or(service);
        change(client, &secret, |live| own(live, extension, &service)).await?;
    }
    Ok(())
}

/// Has what was stored for an extension go with it.
pub(super) async fn own_stored(
    client: &Client,
    namespace: &str,
    extension: &Object,
) -> anyhow::Result<()> {
    let selector = helm::selector(extension.name());
    for secret in list(client, ("v1", "Secret"), Some(namespace), &selector).await? {
        change(client, &secret, |live| go_with(live, extension)).await?;
    }
    Ok(())
}

/// Returns whether one of these webhooks selects namespaces by a label of Classic, which is removed
/// with the group.
pub(super) async fn are_selected_by(
    client: &Client,
    group: &Object,
    running: &[Object],
) -> anyhow::Result<bool> {
    for known in running.iter().filter(|it| it.kind().ends_with("WebhookConfiguration")) {
        if live(client, known).await?.is_some_and(|live| selects_by(&live, group)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Lists what Classic keeps in a namespace besides a Subscription and its CSV: others of both kinds.
pub(super) async fn beside(client: &Client, own: [&Object; 2]) -> anyhow::Result<Vec<Object>> {
    let mut found = Vec::new();
    for own in own {
        let others = alike(client, own).await?.into_iter();
        found.extend(others.filter(|it| !is_copy(it) && it.name() != own.name()));
    }
    Ok(found)
}

/// Returns the identity of the cluster: no two share that of this namespace.
pub(super) async fn cluster_id(client: &Client) -> anyhow::Result<String> {
    let api = Api::<k8s_openapi::api::core::v1::Namespace>::all(client.clone());
    let found = api.get("kube-system").await.context("reading namespace kube-system")?;
    found.uid().context("namespace kube-system has a UID")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_objects_that_classic_takes_from_bundles_is_listed() {
        let supported = "PrometheusRule ServiceMonitor PodMonitor PodDisruptionBudget \
            PriorityClass VerticalPodAutoscaler ConsoleYAMLSample ConsoleQuickStart \
            ConsoleCLIDownload ConsoleLink ConsolePlugin NetworkPolicy";
        let listed: Vec<_> =
            each(&NAMESPACED).chain(each(&LABELLED)).map(|(_, kind)| kind).collect();
        for kind in supported.split_whitespace() {
            assert!(listed.contains(&kind), "{kind}");
        }
    }
}
