//! Writes of the plugin, with the rights of the caller.

use std::fmt::Debug;
use std::io::IsTerminal as _;

use jiff::SignedDuration;
use kube::api::PatchParams;
use kube::core::ClusterResourceScope;
use kube::{Resource, ResourceExt};
use olm_api::CollisionProtection;
use olm_api::keys::manager;
use olm_cluster::join_bounded;
use olm_core::annotations::is_paused;
use olm_core::manager::tool_of;
use olm_core::plan::differences;
use olm_core::revision::{
    Adoption, Claim, Decision, RevisionOwner, Sibling, put_back, without_refused,
};
use olm_core::yaml::to_yaml;

use crate::managed::{self, Managed, failure};
use crate::output::{Failure, Written, notice};
use crate::prelude::*;

/// The field manager of what the plugin writes.
const MANAGER: &str = "kubectl-olm";
/// The API server's message when a user grants rights that they do not have.
const NOT_HELD: &str = "permissions not currently held";
/// The most attempts of a change that conflicts with other writes to the extension.
pub(crate) const ATTEMPTS: usize = 5;
/// Managers that put back what somebody else changes, by how their names begin.
const KEEPERS: [&str; 5] =
    ["argocd", "kustomize-controller", "helm-controller", "fleet", "cluster-olm-operator"];

/// Adds the members of one object to another, at every depth.
fn add(into: &mut Value, more: &Value) {
    match (into.as_object_mut(), more.as_object()) {
        (Some(into), Some(more)) => {
            for (key, value) in more {
                add(into.entry(key).or_insert(Value::Null), value);
            }
        }
        _ => *into = more.clone(),
    }
}

/// Returns the interface to the objects of an object's kind, in its namespace.
pub(crate) fn api(client: &Client, object: &Object) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(object.group(), object.version(), object.kind());
    let resource = ApiResource::from_gvk(&kind);
    match object.namespace() {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    }
}

/// Applies objects in their order.
pub(crate) async fn apply(
    client: &Client,
    objects: &[Object],
    out: &mut Written<'_>,
) -> anyhow::Result<()> {
    let params = PatchParams { force: true, ..PatchParams::apply(MANAGER) };
    for object in objects {
        let api = api(client, object);
        let before = api.get_metadata_opt(object.name()).await;
        let applied = api.patch(object.name(), &params, &Patch::Apply(&object.0)).await;
        applied.with_context(|| format!("applying {}", object.identity()))?;
        // Who may not look is told what kubectl says of it.
        let done = match before {
            Ok(None) => "created",
            Ok(Some(_)) => "configured",
            Err(_) => "serverside-applied",
        };
        out.object(&object.0)?;
        writeln!(out, "{} {done}", named(object))?;
    }
    Ok(())
}

/// Returns the name of an object as kubectl prints it: `deployment.apps/lamp`.
pub(crate) fn named(object: &Object) -> String {
    managed::named(object.kind(), object.group(), object.name())
}

/// Has the API server judge whether the caller may apply objects, and stores none of them, so that a
/// refusal leaves nothing half-written. What lies in a namespace that is yet to be made cannot be
/// judged in it: whether the caller may grant its Roles is asked as of a `ClusterRole`.
pub(crate) async fn rehearse(client: &Client, objects: &[Object]) -> anyhow::Result<()> {
    let params = PatchParams { force: true, dry_run: true, ..PatchParams::apply(MANAGER) };
    for object in objects {
        let mut asked = object.clone();
        let mut judged = dry(client, &asked, &params).await;
        let is_missing = |judged: &kube::Result<DynamicObject>| matches!(judged, Err(kube::Error::Api(status)) if status.code == 404);
        if is_missing(&judged) && object.kind() == "Role" {
            asked.0.insert("kind".to_owned(), json!("ClusterRole"));
            asked.metadata_mut().remove("namespace");
            judged = dry(client, &asked, &params).await;
            // Who may make Roles need not be allowed to make ClusterRoles.
            if matches!(&judged, Err(error) if !error.to_string().contains(NOT_HELD)) {
                continue;
            }
        }
        // A binding refers to a role that is not stored yet.
        if !is_missing(&judged) {
            judged.with_context(|| format!("applying {}", object.identity()))?;
        }
    }
    Ok(())
}

async fn dry(
    client: &Client,
    object: &Object,
    params: &PatchParams,
) -> kube::Result<DynamicObject> {
    api(client, object).patch(object.name(), params, &Patch::Apply(&object.0)).await
}

/// Returns the parameters of a patch of an object that is not the plugin's own.
pub(crate) fn params() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }
}

/// Shows what to change where an object is kept by a manager that may put this change back, and
/// refuses it without a terminal: a script has to make it there.
pub(crate) fn yields<K>(object: &K, change: &Value, is_dry: bool) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()>,
{
    let (plural, name) = (K::plural(&()), object.name_any());
    yields_to(
        object,
        change,
        &format!("kubectl patch {plural} {name} --type=merge -p '{change}'"),
        is_dry,
    )
}

/// The same, with the command that makes the change anyway; a change of null is a deletion.
pub(crate) fn yields_to<K>(
    object: &K,
    change: &Value,
    command: &str,
    is_dry: bool,
) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()>,
{
    let (name, kind) = (object.name_any(), K::kind(&()));
    let Some(keeper) = kept_by(object) else { return Ok(()) };
    let (may, done, does) = if change.is_null() {
        ("create it again; remove it at the source".to_owned(), "deleted", "deletes")
    } else {
        let mut edit =
            json!({"apiVersion": K::api_version(&()), "kind": kind, "metadata": {"name": name}});
        add(&mut edit, change);
        let edit = to_yaml(&edit);
        let may = format!("revert this; change it at the source:\n{}", edit.trim_end());
        (may, "changed", "changes")
    };
    notice(&format!("warning: {kind} {name} is managed by {keeper}, which may {may}"));
    let hint = format!("{command} {does} it anyway");
    unless_seen(&format!("{kind} {name} is not {done}"), keeper, hint, is_dry)
}

/// The same before roles and bindings are applied; `hint` says how to get them for their source.
pub(crate) async fn yields_rights(
    client: &Client,
    objects: &[Object],
    hint: &str,
    is_dry: bool,
) -> anyhow::Result<()> {
    let kept = kept_rights(client, objects).await;
    for (named, keeper) in &kept {
        notice(&format!(
            "warning: {named} is managed by {keeper}, which may revert this; change it at the source"
        ));
    }
    let refuse = |(named, keeper): &(String, String)| {
        unless_seen(&format!("{named} is not changed"), keeper, hint, is_dry)
    };
    kept.first().map_or(Ok(()), refuse)
}

/// Returns which roles and bindings among objects a manager keeps, and which. Who may not look is told
/// by what follows.
async fn kept_rights(client: &Client, objects: &[Object]) -> Vec<(String, String)> {
    let mut kept = Vec::new();
    for object in objects.iter().filter(|it| it.group() == "rbac.authorization.k8s.io") {
        let found = api(client, object).get_metadata_opt(object.name()).await.ok().flatten();
        let keeper = found.as_ref().and_then(|found| kept_by(found));
        kept.extend(keeper.map(|keeper| (named(object), keeper.to_owned())));
    }
    kept
}

/// Refuses where nobody sees a warning.
pub(crate) fn unless_seen(
    refused: &str,
    keeper: &str,
    hint: impl Into<String>,
    is_dry: bool,
) -> anyhow::Result<()> {
    if is_dry || std::io::stdin().is_terminal() {
        return Ok(());
    }
    let text = format!("{refused}: it is managed by {keeper}");
    Err(Failure::failed(text, hint))
}

/// Refuses an extension that is being deleted: nothing would come of a change.
pub(crate) fn refuse_deleted(extension: &ClusterExtension) -> anyhow::Result<()> {
    if extension.metadata.deletion_timestamp.is_some() {
        let name = extension.name_any();
        let hint = format!("kubectl olm status {name}");
        return Err(Failure::failed(format!("{name} is being deleted"), hint));
    }
    Ok(())
}

/// Refuses one that is being deleted or paused, for the same reason.
pub(crate) fn refuse_paused(extension: &ClusterExtension) -> anyhow::Result<()> {
    refuse_deleted(extension)?;
    if is_paused(extension.annotations()) {
        let name = extension.name_any();
        let hint = format!("kubectl olm resume {name}");
        return Err(Failure::failed(format!("{name} is paused"), hint));
    }
    Ok(())
}

/// Merges a change into an extension or a catalog, if nobody changed what it asks for since it was
/// read. That its status was written meanwhile does no harm.
pub(crate) async fn merge<K>(client: &Client, object: &K, mut change: Value) -> anyhow::Result<K>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
    K: Clone + Debug + DeserializeOwned,
{
    let (name, kind) = (object.name_any(), K::kind(&()));
    change["metadata"]["uid"] = serde_json::to_value(&object.meta().uid)?;
    let params = params();
    let api = Api::<K>::all(client.clone());
    let mut seen = object.meta().clone();
    for _ in 0..ATTEMPTS {
        let version = serde_json::to_value(&seen.resource_version)?;
        change["metadata"]["resourceVersion"] = version;
        match api.patch(&name, &params, &Patch::Merge(&change)).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            written => return written.with_context(|| format!("changing {kind} {name}")),
        }
        let now = api.get(&name).await.with_context(|| format!("reading {kind} {name}"))?;
        let now = now.meta();
        let same = now.generation == seen.generation && now.annotations == seen.annotations;
        if !same {
            break;
        }
        seen = now.clone();
    }
    bail!("{kind} {name} was modified concurrently; rerun the command")
}

/// Reads how long to wait: seconds, or a time with units.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    let known = text.parse::<u64>().ok();
    let with_units = || {
        let time = text.parse::<SignedDuration>().ok()?;
        u64::try_from(time.as_millis()).ok().map(|milliseconds| milliseconds.div_ceil(1000))
    };
    known.or_else(with_units).ok_or_else(|| "not a time such as 90s, 10m or 1h".to_owned())
}

/// Returns which of the field managers of an object puts back what others change, if one does.
pub(crate) fn keeper<'a>(mut managers: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    managers.find(|manager| KEEPERS.iter().any(|begin| manager.starts_with(begin)))
}

/// Returns the tool that reverts changes of an object, if its field managers or labels name one.
pub(crate) fn kept_by(object: &impl ResourceExt) -> Option<&str> {
    let managers = object.managed_fields().iter();
    let keeper = keeper(managers.filter_map(|entry| entry.manager.as_deref()));
    let mut labels = object.labels().keys().map(String::as_str);
    keeper.or_else(|| labels.find(|label| tool_of(label).is_some()))
}

/// Returns the same for an object of any kind.
pub(crate) fn keeper_of(object: &Object) -> Option<String> {
    let object: DynamicObject = serde_json::from_value(object.clone().into_value()).ok()?;
    kept_by(&object).map(str::to_owned)
}

/// Returns the objects that no manager would put back, and prints a note about the others.
pub(crate) fn unkept(objects: Vec<Managed>) -> Vec<Managed> {
    let is_unkept = |one: &Managed| {
        let keeper = kept_by(&one.object);
        if let Some(keeper) = keeper {
            notice(&format!("note: {} is managed by {keeper}: it stays", one.named()));
        }
        keeper.is_none()
    };
    objects.into_iter().filter(is_unkept).collect()
}

/// Returns an object as it is on the cluster, if it is there.
pub(crate) async fn live(client: &Client, object: &Object) -> Result<Option<Object>, String> {
    match api(client, object).get_opt(object.name()).await {
        Ok(found) => {
            let value = found.and_then(|found| serde_json::to_value(found).ok());
            Ok(value.and_then(Object::from_value))
        }
        // The kind is not served.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(failure(&error)),
    }
}

/// Reads what is on the cluster in place of objects of a new revision of an extension. Returns each that is
/// there, and what the revision may do about it, or why that is not known.
pub(crate) async fn existing<'a>(
    client: &Client,
    extension: &ClusterExtension,
    revisions: &[ClusterObjectSet],
    objects: impl Iterator<Item = &'a Object>,
) -> Vec<(&'a Object, Result<(Object, Decision), String>)> {
    let known = revisions.iter().map(|set| (set.uid(), set.spec.revision));
    let known = known.chain([(extension.uid(), 0)]);
    let siblings = known.filter_map(|(uid, revision)| Some(Sibling { uid: uid?, revision }));
    let claim = Claim {
        owner: RevisionOwner {
            name: String::new(),
            uid: String::new(),
            revision: revisions.last().map_or(1, |newest| newest.spec.revision + 1),
            owner_name: extension.metadata.name.clone(),
            archived: Vec::new(),
        },
        siblings: siblings.collect(),
        strangers: BTreeSet::new(),
        adoption: Adoption::of(extension.annotations()),
    };
    let found = objects.map(|object| async move { (object, live(client, object).await) });
    let found = join_bounded(found.collect()).await.into_iter();
    let judged = found.filter_map(|(object, live)| {
        let judged = live.transpose()?.map(|live| {
            let decision = claim.decide(Some(&live), CollisionProtection::Prevent);
            (live, decision)
        });
        Some((object, judged))
    });
    judged.collect()
}

/// Returns the paths at which `live` would change if the controller applied `object`, as the API
/// server says without doing it.
pub(crate) async fn would_change(
    client: &Client,
    object: &Object,
    live: &Object,
) -> Result<Vec<String>, String> {
    let params = PatchParams { force: true, dry_run: true, ..PatchParams::apply(manager::OBJECTS) };
    let (api, mut sent, mut lists) = (api(client, object), object.clone(), Vec::new());
    sent.remove_fields_of_others();
    let after = loop {
        let error = match api.patch(object.name(), &params, &Patch::Apply(&sent.0)).await {
            Ok(after) => break after,
            Err(error) => error,
        };
        let accepted = without_refused(&sent, &olm_cluster::message(&error), &mut lists);
        sent = accepted.ok_or_else(|| failure(&error))?;
    };
    let after = serde_json::to_value(after).ok().and_then(Object::from_value);
    let mut after = after.unwrap_or_else(|| live.clone());
    put_back(&mut after, &lists);
    let found = differences(&Value::Object(live.0.clone()), &after.into_value());
    Ok(found.into_iter().map(|field| field.path).collect())
}

#[cfg(test)]
mod tests {
    use olm_api::keys::policy;

    use super::*;
    use crate::fixture::{cases, client};

    // plugin.md 1.4
    #[tokio::test]
    async fn rights_that_a_manager_keeps_are_found() {
        let client = client(|_, path, _| {
            let name = path.rsplit('/').next().unwrap_or_default();
            let labels = json!({"kustomize.toolkit.fluxcd.io/name": "a"});
            let labels = if name == "kept" { labels } else { json!({}) };
            let metadata = json!({"name": name, "labels": labels});
            let found = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                "metadata": metadata});
            if name == "new" { Err(404) } else { Ok(found) }
        });
        let role = |name: &str| {
            let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                "metadata": {"namespace": "n", "name": name}});
            Object::from_value(role).unwrap()
        };
        let roles = ["new", "own", "kept"].map(role);
        let want = ("role.rbac.authorization.k8s.io/kept", "kustomize.toolkit.fluxcd.io/name");
        let want = (want.0.to_owned(), want.1.to_owned());
        assert_eq!(kept_rights(&client, &roles).await, [want]);
    }

    #[test]
    fn a_time_has_a_unit() {
        for (name, (text, want)) in cases::<(String, Option<u64>)>("a_time_has_a_unit") {
            assert_eq!(seconds(&text).ok(), want, "{name}");
        }
    }

    #[test]
    fn nothing_is_changed_of_what_goes_or_is_paused() {
        let refused = |metadata: Value| {
            let extension = serde_json::from_value(json!({"metadata": metadata})).unwrap();
            refuse_paused(&extension).err().map(|error| error.to_string())
        };
        let going = json!({"name": "e", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(refused(going).as_deref(), Some("e is being deleted"));
        let paused = json!({"name": "e", "annotations": {policy::PAUSED: "true"}});
        assert_eq!(refused(paused).as_deref(), Some("e is paused"));
        assert_eq!(refused(json!({"name": "e"})), None);
    }
}
