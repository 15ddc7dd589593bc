//! `kubectl olm crd migrate`: rid a CRD of an old stored version.
//!
//! Every object is written once, unchanged, which the API server stores in the present version; then
//! the others are taken out of `status.storedVersions`. Begun again it writes what is stored already,
//! which the API server takes for no change. Source: plugin.md 1.4.

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::PartialObjectMeta;
use tokio::time::Instant;

use crate::commands::prelude::*;
use crate::managed::all;

/// Objects that are written at the same time.
const AT_ONCE: usize = 8;
/// Time that every API server has to learn of a CRD that has changed, before the first object is
/// written: one that has not would store it in the earlier version. As long as Kubernetes' own
/// establishing controller waits for the same reason.
const PROPAGATION: Duration = Duration::from_secs(5);
/// The interval of progress messages.
const TOLD_EVERY: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(crate) struct CrdMigrateArgs {
    /// Name of the CRD, `<plural>.<group>`
    #[arg(value_name = "CRD")]
    name: String,
    /// Version to store all objects in; it must be the storage version of the CRD
    #[arg(value_name = "VERSION")]
    to: Option<String>,
    #[command(flatten)]
    confirm: Confirm,
}

/// Checks, asks, writes every object and trims the stored versions.
pub(crate) async fn run(args: CrdMigrateArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let (global, out) = &mut args.confirm.rehearsal.begin(global, out);
    let client = Cluster::exact_client(global).await?;
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    let name = &args.name;
    let crd = crds.get_opt(name).await.with_context(|| format!("reading CRD {name}"))?;
    let crd = crd.with_context(|| format!("there is no CRD {name}"))?;
    let propagated = Instant::now() + PROPAGATION;
    let stored = storage(&crd).with_context(|| format!("CRD {name} stores no version"))?;
    if let Some(wanted) = args.to.as_ref().filter(|wanted| **wanted != stored) {
        return Err(Failure::failed(
            format!("CRD {name} stores {stored}, not {wanted}"),
            format!(
                "its {} would store new objects in {stored} again; go to a version whose CRD stores {wanted} first",
                holder(&crd)
            ),
        ));
    }
    let old = others(&crd, &stored);
    if old.is_empty() {
        writeln!(out, "{name}: all objects are stored in {stored}")?;
        return Ok(Outcome::Done);
    }
    if let Some(why) = unreadable(&client, &crd).await {
        return Err(Failure::failed(why, "the operator that serves the conversion has to run"));
    }
    let api = Api::<DynamicObject>::all_with(client.clone(), &resource(&crd, &stored));
    let objects = all(&api, "").await;
    let objects = objects.with_context(|| format!("listing the objects of {name}"))?;
    let (count, old) = (objects.len(), old.join(", "));
    writeln!(out, "{name}: {}, stored in {stored} or {old}", counted(count, "object"))?;
    let question = format!("Write {} once, unchanged, and drop {old}?", counted(count, "object"));
    args.confirm.agreed(&question, "--yes confirms it")?;
    if global.dry_run.is_none() {
        tokio::time::sleep_until(propagated).await;
    }
    let written = rewrite(&client, &resource(&crd, &stored), objects).await?;
    out.object(&trim(&crds, &crd, &stored).await?)?;
    let written = counted(written, "object");
    if global.dry_run.is_some() {
        writeln!(out, "{name}: would write {written} and drop {old}")?;
    } else {
        writeln!(out, "{name}: {written} written, all are stored in {stored}")?;
    }
    Ok(Outcome::Done)
}

/// Returns the version that a CRD stores.
fn storage(crd: &CustomResourceDefinition) -> Option<String> {
    Some(crd.spec.versions.iter().find(|version| version.storage)?.name.clone())
}

/// Returns the other versions that objects may be stored in.
fn others(crd: &CustomResourceDefinition, stored: &str) -> Vec<String> {
    let status = crd.status.iter();
    let stored_versions = status.flat_map(|status| status.stored_versions.iter().flatten());
    stored_versions.filter(|it| *it != stored).cloned().collect()
}

/// Returns the owner of a CRD.
fn holder(crd: &CustomResourceDefinition) -> String {
    let owner = crd.owner_references().iter().find(|owner| owner.controller == Some(true));
    owner.map_or_else(|| "definition".to_owned(), |owner| format!("{} {}", owner.kind, owner.name))
}

/// Returns the kind of a CRD in one of its versions.
pub(super) fn resource(crd: &CustomResourceDefinition, version: &str) -> ApiResource {
    ApiResource {
        group: crd.spec.group.clone(),
        version: version.to_owned(),
        api_version: format!("{}/{version}", crd.spec.group),
        kind: crd.spec.names.kind.clone(),
        plural: crd.spec.names.plural.clone(),
    }
}

/// Explains why objects cannot be read in a served version: the conversion webhook does not answer.
async fn unreadable(client: &Client, crd: &CustomResourceDefinition) -> Option<String> {
    for version in crd.spec.versions.iter().filter(|version| version.served) {
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource(crd, &version.name));
        if let Err(error) = api.list_metadata(&ListParams::default().limit(1)).await {
            let (name, version) = (crd.name_any(), &version.name);
            return Some(format!("{name} cannot be read in {version}: {}", failure(&error)));
        }
    }
    None
}

/// Writes every object once; returns how many had not been written by somebody else meanwhile.
async fn rewrite(
    client: &Client,
    resource: &ApiResource,
    objects: Vec<PartialObjectMeta<DynamicObject>>,
) -> anyhow::Result<usize> {
    let (count, begun) = (objects.len(), Instant::now());
    let writes = stream::iter(objects).map(|object| async move {
        touch(client, &Managed { resource: resource.clone(), object }).await
    });
    let mut writes = writes.buffer_unordered(AT_ONCE);
    let (mut done, mut written, mut told) = (0, 0, begun);
    while let Some(wrote) = writes.try_next().await? {
        done += 1;
        written += usize::from(wrote);
        if told.elapsed() >= TOLD_EVERY {
            told = Instant::now();
            notice(&format!("{done} of {count} objects"));
        }
    }
    Ok(written)
}

/// Has the API server store an object anew. What is gone, or was written since, is as it should be.
async fn touch(client: &Client, one: &Managed) -> anyhow::Result<bool> {
    let same = Patch::Merge(json!({"metadata": {
        "uid": one.object.uid(), "resourceVersion": one.object.resource_version()}}));
    let (api, name) = (one.api(client), one.object.name_any());
    match api.patch_metadata(&name, &changes::params(), &same).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
        Err(error) => bail!("writing {}: {}", one.text(), failure(&error)),
    }
}

/// Takes the other versions out of the stored ones, if the CRD still stores what was written.
async fn trim(
    crds: &Api<CustomResourceDefinition>,
    before: &CustomResourceDefinition,
    stored: &str,
) -> anyhow::Result<CustomResourceDefinition> {
    let name = before.name_any();
    let now = crds.get(&name).await.with_context(|| format!("reading CRD {name}"))?;
    if now.uid() != before.uid() || storage(&now).as_deref() != Some(stored) {
        bail!("CRD {name} was modified concurrently; rerun the command");
    }
    let change = json!({
        "metadata": {"resourceVersion": now.resource_version()},
        "status": {"storedVersions": [stored]},
    });
    let trimmed = crds.patch_status(&name, &changes::params(), &Patch::Merge(&change)).await;
    trimmed.with_context(|| format!("writing the status of CRD {name}: run it again"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::client;

    #[tokio::test]
    async fn an_object_that_cannot_be_written_is_named_with_its_namespace() {
        let metadata = json!({"name": "a", "namespace": "n", "uid": "u"});
        let object = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("g.io", "v1", "Lamp"));
        let error = rewrite(&client(|_, _, _| Err(422)), &resource, vec![object]).await;
        assert_eq!(error.unwrap_err().to_string(), "writing Lamp.g.io n/a: no");
    }
}
