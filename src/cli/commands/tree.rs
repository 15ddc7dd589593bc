//! The tree of `kubectl olm status -o tree`: phases, objects, health and drift.
//!
//! Contents are compared, never shown. Source: plugin.md 1.4.

use kube::ResourceExt;
use olm_cluster::join_bounded;
use olm_core::error::first_of;
use olm_core::revision::{Readiness, RevisionOwner, controller, evaluate, is_applied, phase_of};

use crate::commands::prelude::*;
use crate::document::{Leaf, Tree, TreeRevision};
use crate::managed::{kinds, of_extensions};
use crate::workloads::reasons;

/// Fields that are named of an object that is not as it was applied.
const FIELDS: usize = 3;

/// Writes the tree of an extension.
pub(crate) async fn write(
    cluster: &Cluster,
    extension: &ClusterExtension,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let tree = Tree::of(cluster, extension).await?;
    for unknown in &tree.unknown {
        notice(&format!("note: {} not known: {}", unknown.what, unknown.why));
    }
    writeln!(out, "{}", extension.name_any())?;
    if tree.revisions.is_empty() {
        writeln!(out, "  nothing is installed")?;
    }
    for revision in tree.revisions {
        writeln!(out, "  {} {}", revision.name, revision.version)?;
        by_phase(revision.objects, out)?;
    }
    Ok(())
}

impl Tree {
    /// Looks at every object of an extension.
    pub(crate) async fn of(
        cluster: &Cluster,
        extension: &ClusterExtension,
    ) -> anyhow::Result<Self> {
        let name = extension.name_any();
        let sets = cluster.revisions(&name).await?;
        let now = states(&sets);
        let own: BTreeSet<String> = sets.iter().filter_map(ResourceExt::uid).collect();
        let client = cluster.own_client();
        let (mut revisions, mut unknown) = (Vec::new(), Vec::new());
        for set in now.installed.into_iter().chain(now.rolling) {
            let (objects, own) = match cluster.content(set).await {
                Ok(phases) => {
                    let objects = phases.into_iter().flat_map(|phase| {
                        phase.objects.into_iter().map(move |it| (phase.name.clone(), it))
                    });
                    (objects.collect(), Some(&own))
                }
                Err(error) => {
                    unknown.push(Unknown::new("drift", one_line(&error)));
                    let (held, unread) = held(client, set, &name).await?;
                    if !unread.is_empty() {
                        unknown.push(Unknown::new("some objects", unread.join("; ")));
                    }
                    (held, None)
                }
            };
            let leaves = objects.into_iter().map(|it| looked_at(client, (set, own), it)).collect();
            let objects = join_bounded(leaves).await;
            revisions.push(TreeRevision {
                name: set.name_any(),
                version: BundleRecord::of(set).version,
                rolling: now.installed.is_none_or(|installed| installed.uid() != set.uid()),
                objects,
            });
        }
        Ok(Self { revisions, unknown })
    }
}

fn by_phase(leaves: Vec<Leaf>, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut table = Table::default();
    let mut phase = None;
    for leaf in leaves {
        if phase.as_ref() != Some(&leaf.phase) {
            table.row(vec![format!("    {}", leaf.phase)]);
            phase = Some(leaf.phase);
        }
        table.row(vec![format!("      {}", leaf.what), leaf.health, leaf.drift]);
    }
    Ok(table.write(out)?)
}

/// Looks at an object that a revision holds; `own` are the UIDs of all revisions of the extension,
/// where it is known what the object should be.
async fn looked_at(
    client: &Client,
    (set, own): (&ClusterObjectSet, Option<&BTreeSet<String>>),
    (phase, object): (String, Object),
) -> Leaf {
    let (what, mut drifted) = (object.identity().to_string(), String::new());
    let health = match changes::live(client, &object).await {
        Ok(None) => "absent".to_owned(),
        Ok(Some(live)) => {
            if let Some(own) = own {
                drifted = drift(client, (set, own), (&object, &live)).await;
            }
            health(client, set, &live).await
        }
        Err(why) => format!("not known: {why}"),
    };
    Leaf { phase, what, health, drift: drifted }
}

async fn health(client: &Client, set: &ClusterObjectSet, live: &Object) -> String {
    let why = match evaluate(live, &set.spec.progression_probes) {
        Readiness::Ready => return "ready".to_owned(),
        Readiness::NotReady(why) | Readiness::Unknown(why) => why,
    };
    let reasons = reasons(client, live).await;
    let reasons: Vec<_> = std::iter::once(why).chain(reasons).collect();
    format!("not ready: {}", reasons.join("; "))
}

/// Returns the fields in which an object differs from its revision.
async fn drift(
    client: &Client,
    (set, own): (&ClusterObjectSet, &BTreeSet<String>),
    (object, live): (&Object, &Object),
) -> String {
    let owner = RevisionOwner::of(set, &[]);
    if controller(live).is_none_or(|controller| controller.uid != owner.uid) {
        return foreign(live, own);
    }
    if is_applied(object, &owner, live) {
        return String::new();
    }
    // What the API server writes in another form is told apart by asking it.
    let wanted = olm_core::revision::desired_object(object, &owner, Some(live));
    match changes::would_change(client, &wanted, live).await {
        Ok(fields) if fields.is_empty() => String::new(),
        Ok(fields) => format!("changed: {}", first_of(&fields, FIELDS)),
        Err(why) => format!("drift not known: {why}"),
    }
}

/// Returns the controller of an object that its revision does not control: nothing if it is another
/// revision of the extension.
fn foreign(live: &Object, own: &BTreeSet<String>) -> String {
    match controller(live) {
        Some(owner) if own.contains(&owner.uid) => String::new(),
        Some(owner) => format!("controlled by {} {}", owner.kind, owner.name),
        None => "controlled by nobody".to_owned(),
    }
}

/// Returns what is there, for whoever may not read what it should be: the names of objects, by phase, and
/// the kinds that could not be listed.
async fn held(
    client: &Client,
    set: &ClusterObjectSet,
    name: &str,
) -> anyhow::Result<(Vec<(String, Object)>, Vec<String>)> {
    let (managed, unread) = of_extensions(client, &kinds(client).await?, Some(name)).await;
    let uid = set.uid();
    let held = managed
        .iter()
        .filter(|one| one.controller().is_some_and(|(owner, _)| Some(owner) == uid.as_deref()));
    let named = held.filter_map(|one| {
        let mut metadata = json!({"name": one.object.name_any()});
        if let Some(namespace) = one.object.namespace() {
            metadata["namespace"] = namespace.into();
        }
        let ApiResource { api_version, kind, .. } = &one.resource;
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
        let object = Object::from_value(object)?;
        Some((phase_of(object.group(), object.kind()).to_owned(), object))
    });
    let mut named: Vec<_> = named.collect();
    named.sort_by_cached_key(|(phase, object)| (phase.clone(), object.identity().to_string()));
    Ok((named, unread))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cases;

    #[test]
    fn an_object_of_another_revision_has_not_drifted() {
        let owned = cases::<(Value, String)>("an_object_of_another_revision_has_not_drifted");
        for (name, (owners, want)) in owned {
            let live = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "pot", "ownerReferences": owners}});
            let own = ["a", "b"].map(str::to_owned).into();
            assert_eq!(foreign(&Object::from_value(live).unwrap(), &own), want, "{name}");
        }
    }
}
