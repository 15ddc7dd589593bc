//! Moving what OLM Classic runs to an extension while it runs: whether that can be done, what of the
//! running objects changes, and the steps in the order in which Classic can never delete them.
//!
//! Classic deletes what its labels and owner references say a `ClusterServiceVersion` installed, and
//! puts both back while that exists. So the CSV is deleted first, and a finalizer of ours keeps it until
//! nothing names it: Classic leaves one alone that is being deleted without its own finalizer.
//!
//! Source: plugin.md 3.

mod dependents;
mod injected;
mod pods;
mod servers;

use std::collections::BTreeSet;

use olm_api::keys::annotation;
use olm_api::keys::finalizer::{CSV_CLEANUP, MOVING, ORPHAN};
use olm_api::keys::label::{CLASSIC_OWNER, CLASSIC_OWNER_NAMESPACE, COPIED_FROM};
use serde_json::{Map, Value, json};

use super::csv::{APIS, CRDS, names};
use super::group::watched;
use super::{Classic, GROUP, has, installed, texts};
use crate::object::{Object, is_set, object};

pub use pods::dropped;
pub use servers::{CERTIFICATE_CA, certificates, is_certificate, is_for, own, readers, selects_by};

/// Annotation with which Kubernetes counts the revisions of a Deployment; it is not kept.
const COUNTED: &str = "deployment.kubernetes.io/revision";
/// Fields that the cluster fills in, by kind and place; they are not part of what was installed.
const FILLED_IN: [(&str, &str, &[&str]); 2] = [
    ("Service", "/spec", &["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"]),
    ("ServiceAccount", "", &["secrets", "imagePullSecrets"]),
];

/// Fields of the metadata that were installed.
const METADATA: [&str; 4] = ["annotations", "labels", "name", "namespace"];

/// Whether a Subscription can be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Verdict {
    /// It runs as an extension.
    #[strum(serialize = "already moved")]
    Moved,
    /// It can be moved.
    Ready,
    /// Something has to be done first.
    #[strum(serialize = "not ready")]
    NotReady,
    /// Something else has its place.
    #[strum(serialize = "in conflict")]
    Conflict,
}

/// A check that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// What is checked: `subscription`, `csv` and so on.
    pub subject: &'static str,
    /// What is wrong.
    pub text: String,
    /// What to do.
    pub hint: String,
    /// Whether something else has its place.
    pub conflict: bool,
}

impl Failed {
    /// Returns a check that can be passed later.
    pub fn new(subject: &'static str, text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { subject, text: text.into(), hint: hint.into(), conflict: false }
    }

    /// Returns a check that something else makes fail.
    pub fn conflict(
        subject: &'static str,
        text: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { conflict: true, ..Self::new(subject, text, hint) }
    }
}

impl Verdict {
    /// Returns the verdict on what is not moved yet.
    pub fn of(failed: &[Failed]) -> Self {
        match failed {
            [] => Self::Ready,
            failed if failed.iter().any(|failed| failed.conflict) => Self::Conflict,
            _ => Self::NotReady,
        }
    }
}

/// A Subscription and the objects around it.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub subscription: &'a Object,
    /// Every object of Classic.
    pub classic: &'a Classic<'a>,
    /// What its CSV has installed.
    pub running: &'a [Object],
    /// Places of the CSVs that are moved together.
    pub moving: &'a BTreeSet<String>,
}

impl<'a> Facts<'a> {
    fn beside(&self, kind: &'a str) -> impl Iterator<Item = &'a Object> {
        let namespace = self.subscription.namespace();
        self.classic.all(kind).filter(move |object| object.namespace() == namespace)
    }

    /// Returns the CSV that is installed.
    pub fn csv(&self) -> Option<&'a Object> {
        let name = self.subscription.text_at("/status/installedCSV");
        self.classic.find("ClusterServiceVersion", self.subscription.namespace(), name)
    }

    /// Returns the groups of the namespace.
    pub fn groups(&self) -> Vec<&'a Object> {
        self.beside("OperatorGroup").collect()
    }

    /// Returns the InstallPlans that name the CSV, or what the Subscription would install next.
    pub fn plans(&self) -> Vec<&'a Object> {
        let named = |plan: &&Object| installs_for(plan, self.subscription);
        self.beside("InstallPlan").filter(named).collect()
    }

    /// Returns whether an upgrade waits for approval, so that none of its objects exist yet.
    fn waits(&self) -> bool {
        let current = self.subscription.text_at("/status/currentCSV");
        let plans = self.beside("InstallPlan");
        let mut plans = plans.filter(|plan| plan_names(plan, current)).peekable();
        self.subscription.text_at("/status/state") == "UpgradePending"
            && plans.peek().is_some()
            && plans.all(|plan| !has(plan, "/spec/approved"))
            && self.beside("ClusterServiceVersion").all(|csv| csv.name() != current)
    }

    /// Returns the checks of what Classic says that fail.
    pub fn failed(&self) -> Vec<Failed> {
        let mut failed = Vec::new();
        let subscription = self.subscription;
        let (state, name) = (subscription.text_at("/status/state"), subscription.name());
        let namespace = subscription.namespace();
        let installed = subscription.text_at("/status/installedCSV");
        let current = subscription.text_at("/status/currentCSV");
        if (state != "AtLatestKnown" || installed != current) && !self.waits() {
            let state = if state.is_empty() { "unknown" } else { state };
            let get = format!("kubectl get subscription.{GROUP} {name} -n {namespace}");
            let hint = if current.is_empty() || current == installed {
                format!("{get} -o yaml shows why")
            } else {
                format!("let its upgrade to {current} finish, or remove it from the catalog: {get}")
            };
            failed.push(Failed::new("subscription", format!("its state is {state}"), hint));
        }
        match self.csv() {
            None => {
                let text = "no ClusterServiceVersion is installed";
                let hint = format!("kubectl olm migrate from-classic {name} --print converts it");
                failed.push(Failed::new("csv", text, hint));
            }
            Some(csv) => failed.extend(self.csv_failed(csv)),
        }
        failed.extend(self.group_failed());
        failed.extend(self.plan_failed());
        failed
    }

    /// An InstallPlan that waits is deleted with the Subscription, also for others that it names.
    fn plan_failed(&self) -> Option<Failed> {
        let stays = |other: &&Object| {
            other.name() != self.subscription.name()
                && installed(other).is_none_or(|csv| !self.moving.contains(&csv))
        };
        self.plans().into_iter().filter(|plan| !has(plan, "/spec/approved")).find_map(|plan| {
            let mut others = self.beside("Subscription").filter(stays);
            let other = others.find(|other| installs_for(plan, other))?.name();
            let text = format!("InstallPlan {} also waits for Subscription {other}", plan.name());
            let hint = "move both in one run, or approve it and let the upgrades finish";
            Some(Failed::new("subscription", text, hint))
        })
    }

    fn csv_failed(&self, csv: &'a Object) -> Vec<Failed> {
        let mut failed = Vec::new();
        let (name, namespace) = (csv.name(), csv.namespace());
        let phase = csv.text_at("/status/phase");
        if phase != "Succeeded" {
            let text = format!("{name} is in phase {phase:?}, not \"Succeeded\"");
            let hint = format!("kubectl describe csv {name} -n {namespace}");
            failed.push(Failed::new("csv", text, hint));
        }
        if let Some(other) = replacing(csv, self.beside("ClusterServiceVersion")) {
            let text = format!("{name} is being replaced by {}", other.name());
            failed.push(Failed::new("csv", text, "let the upgrade finish"));
        }
        let provider = dependents::provider(csv, self.subscription);
        let others = self.classic.all("ClusterServiceVersion");
        for other in others.filter(|it| !is_copy(it) && it.place() != csv.place()) {
            failed.extend(owned_twice(csv, other));
            if self.moving.contains(&other.place()) {
                continue;
            }
            if let Some(needs) = dependents::needs(other, csv, provider.as_ref()) {
                let text = format!(
                    "{} in {} {needs}: Classic would install this operator again for it",
                    other.name(),
                    other.namespace()
                );
                failed.push(Failed::new("dependents", text, "move both in one run"));
            }
        }
        for object in self.running {
            let owner = owners(object).find(|owner| {
                owner["kind"] == "ClusterServiceVersion" && owner["name"] != json!(name)
            });
            if let Some(owner) = owner {
                let owner = owner["name"].as_str().unwrap_or_default();
                let text = format!("{} also belongs to {owner}", object.identity().text());
                let hint =
                    format!("delete {owner} first, or give this operator an object of its own");
                failed.push(Failed::conflict("objects", text, hint));
            }
        }
        failed
    }

    fn group_failed(&self) -> Option<Failed> {
        let groups = self.groups();
        let namespace = self.subscription.namespace();
        let [group] = groups.as_slice() else {
            let text = format!("namespace {namespace} has {} OperatorGroups", groups.len());
            let conflict = !groups.is_empty();
            let hint = if conflict {
                format!("keep one: kubectl get operatorgroups -n {namespace}")
            } else {
                format!("create one in namespace {namespace}")
            };
            return Some(Failed { conflict, ..Failed::new("group", text, hint) });
        };
        let (field, watched) = watched(group);
        let written = BTreeSet::from_iter(texts(group, "/status/namespaces"));
        let is_written = match field {
            "selector" => !written.is_empty(),
            _ if watched.is_empty() => written.iter().all(|name| name.is_empty()),
            _ => written.is_empty() || written == watched,
        };
        let name = group.name();
        match watched.len() {
            0 | 1 if !is_written => {
                let text =
                    format!("the status of OperatorGroup {name} does not list its namespaces yet");
                let hint = "wait until Classic has written its status";
                Some(Failed::new("group", text, hint))
            }
            0 | 1 => None,
            count => {
                let text =
                    format!("it watches {count} namespaces; an extension watches one or all");
                let hint = format!("change spec.targetNamespaces of OperatorGroup {name}");
                Some(Failed::new("group", text, hint))
            }
        }
    }
}

/// Says whether a CSV is a copy in a namespace that its operator watches.
pub fn is_copy(csv: &Object) -> bool {
    csv.label(COPIED_FROM).is_some()
}

/// Returns the UID of an object.
pub fn uid(object: &Object) -> &str {
    object.text_at("/metadata/uid")
}

/// Returns which of the CSVs of its namespace replaces a CSV.
pub fn replacing<'a>(
    csv: &Object,
    mut others: impl Iterator<Item = &'a Object>,
) -> Option<&'a Object> {
    others.find(|other| other.text_at("/spec/replaces") == csv.name() && !is_copy(other))
}

/// Says whether a Subscription still asks for, has and waits for the same as when it was judged. The
/// rest of its status is written often.
pub fn is_as_judged(judged: &Object, now: &Object) -> bool {
    let fields = ["/spec", "/status/state", "/status/currentCSV", "/status/installedCSV"];
    uid(judged) == uid(now)
        && fields.iter().all(|field| judged.pointer(field) == now.pointer(field))
}

/// Says whether an object is being deleted.
pub fn is_going(object: &Object) -> bool {
    has(object, "/metadata/deletionTimestamp")
}

fn plan_names(plan: &Object, csv: &str) -> bool {
    texts(plan, "/spec/clusterServiceVersionNames").contains(&csv)
}

/// Says whether an InstallPlan names a CSV, or what a Subscription has installed or would install next.
pub fn installs_for(plan: &Object, object: &Object) -> bool {
    let next = ["/status/installedCSV", "/status/currentCSV"].map(|name| object.text_at(name));
    match object.kind() {
        "Subscription" => next.iter().any(|csv| plan_names(plan, csv)),
        _ => plan_names(plan, object.name()),
    }
}

/// Returns the names of the CRDs that a CSV owns.
pub fn crds(csv: &Object) -> Vec<String> {
    names(csv, CRDS)
}

/// Returns the APIs that a CSV provides.
fn provided(csv: &Object) -> Vec<String> {
    [names(csv, CRDS), names(csv, APIS)].concat()
}

/// Two CSVs own the same API, which only one extension can have; versions of one operator may.
fn owned_twice(csv: &Object, other: &Object) -> Option<Failed> {
    let replaces = |new: &Object, old: &Object| {
        new.text_at("/spec/replaces") == old.name() && new.namespace() == old.namespace()
    };
    let apis = provided(csv);
    let api = provided(other).into_iter().find(|api| apis.contains(api))?;
    let text = format!("{} in {} also owns {api}", other.name(), other.namespace());
    let hint = "keep one of them: an API belongs to one extension";
    let same = replaces(csv, other) || replaces(other, csv);
    (!same).then(|| Failed::conflict("objects", text, hint))
}

fn owners(object: &Object) -> impl Iterator<Item = &Value> {
    object.list_at("/metadata/ownerReferences")
}

/// Says whether Classic counts an object as installed by a CSV, or by a copy of it.
pub fn belongs(object: &Object, csv: &Object) -> bool {
    let places = [object.label(CLASSIC_OWNER_NAMESPACE), object.label(COPIED_FROM)];
    let labelled =
        object.label(CLASSIC_OWNER) == Some(csv.name()) && places.contains(&Some(csv.namespace()));
    labelled || owners(object).any(|owner| owner["uid"] == json!(uid(csv)))
}

/// Says whether an owner is a CSV, as it is now or as it was, or a copy of it.
fn is_csv(owner: &Value, csv: &Object) -> bool {
    owner["uid"] == json!(uid(csv))
        || (owner["kind"] == "ClusterServiceVersion" && owner["name"] == json!(csv.name()))
}

/// Says whether a label is one by which Classic finds its objects.
fn is_mark(key: &str) -> bool {
    (key.starts_with("olm.") && !key.contains('/')) || key.starts_with(&format!("{GROUP}/"))
}

/// Returns the labels by which Classic finds an object.
fn marks(object: &Object) -> impl Iterator<Item = (&String, &Value)> {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    labels.into_iter().flatten().filter(|(key, _)| is_mark(key))
}

/// Returns the change that releases an object from a CSV, if something of Classic is on it.
pub fn release(object: &Object, csv: &Object) -> Option<Value> {
    let marks: Map<_, _> = marks(object).map(|(key, _)| (key.clone(), Value::Null)).collect();
    let kept: Vec<_> = owners(object).filter(|owner| !is_csv(owner, csv)).collect();
    let is_of_classic = !marks.is_empty() || kept.len() < owners(object).count();
    is_of_classic.then(|| {
        json!({"metadata": {"labels": marks, "ownerReferences": kept,
            "resourceVersion": object.text_at("/metadata/resourceVersion")}})
    })
}

/// Returns what of a running object the backup holds: enough to give it back to Classic, no content.
pub fn remembered(live: &Object) -> Object {
    let metadata = json!({
        "name": live.name(),
        "namespace": Some(live.namespace()).filter(|it| !it.is_empty()),
        "labels": live.pointer("/metadata/labels"),
        "ownerReferences": live.pointer("/metadata/ownerReferences"),
    });
    object(live.api_version(), live.kind(), "", "").with("metadata", metadata)
}

/// Returns the change that gives a running object back to a CSV, which may have been made anew.
pub fn give_back(live: &Object, remembered: &Object, before: &str, now: &str) -> Value {
    let labels = marks(remembered).map(|(key, value)| (key.clone(), value.clone()));
    let labels: Map<_, _> = labels.collect();
    let mut references: Vec<Value> = owners(live)
        .filter(|owner| owner["uid"] != before && owner["uid"] != now)
        .cloned()
        .collect();
    references.extend(owners(remembered).filter(|owner| owner["uid"] == before).map(|owner| {
        let mut owner = owner.clone();
        owner["uid"] = json!(now);
        owner
    }));
    json!({"metadata": {"labels": labels, "ownerReferences": references,
        "resourceVersion": live.text_at("/metadata/resourceVersion")}})
}

/// Returns an object of Classic as it can be created again.
pub fn again(object: &Object) -> Object {
    let mut object = object.clone();
    object.0.remove("status");
    let metadata = object.metadata_mut();
    let of_server = "uid resourceVersion generation creationTimestamp managedFields \
        deletionTimestamp deletionGracePeriodSeconds finalizers ownerReferences";
    for key in of_server.split(' ') {
        metadata.remove(key);
    }
    object
}

/// Returns the change by which what was stored for an extension goes with it, unless it does already.
pub fn go_with(stored: &Object, extension: &Object) -> Option<Value> {
    let is_owner = |owner: &Value| owner["uid"] == json!(uid(extension));
    let change = json!({"metadata": {"ownerReferences": [reference(extension)]}});
    (!owners(stored).any(is_owner)).then_some(change)
}

fn reference(owner: &Object) -> Value {
    json!({"apiVersion": owner.api_version(), "kind": owner.kind(), "name": owner.name(),
        "uid": uid(owner)})
}

/// Returns the status that an object of Classic had, if the one that is there lacks it: Classic goes by
/// it, and would install again without one.
pub fn lost_status<'a>(kept: &'a Object, live: &Object) -> Option<&'a Value> {
    let written = ["/status/installedCSV", "/status/phase", "/status/namespaces"];
    let status = kept.pointer("/status").filter(|it| is_set(it))?;
    (!written.iter().any(|field| has(live, field))).then_some(status)
}

/// Returns what an extension keeps of a running object: all that it is, without the marks of Classic
/// and what the cluster or another controller fills in.
pub fn content(live: &Object) -> Object {
    let mut kept = live.clone();
    kept.0.remove("status");
    let metadata = kept.metadata_mut();
    metadata.retain(|key, _| METADATA.contains(&key.as_str()));
    if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
        labels.retain(|key, _| !is_mark(key));
    }
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| key != COUNTED && key != annotation::LAST_APPLIED);
    }
    let mut kept = kept.into_value();
    for (_, parent, fields) in FILLED_IN.iter().filter(|(kind, ..)| *kind == live.kind()) {
        if let Some(found) = members(&mut kept, parent) {
            // That a Service has no address was installed.
            found.retain(|key, value| !fields.contains(&key.as_str()) || value == "None");
        }
    }
    if let Some(template) = members(&mut kept, "/spec/template/metadata") {
        template.retain(|_, value| !value.is_null());
    }
    injected::remove(&mut kept, live);
    Object::from_value(kept).unwrap_or_else(|| live.clone())
}

/// Returns the map at a JSON pointer.
fn members<'a>(value: &'a mut Value, pointer: &str) -> Option<&'a mut Map<String, Value>> {
    value.pointer_mut(pointer)?.as_object_mut()
}

/// A CSV on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Csv {
    /// Classic keeps it.
    Kept,
    /// It is being deleted, and stays until it is dismissed.
    Held,
    Gone,
}

impl Csv {
    /// Returns how far a CSV is.
    pub fn of(live: Option<&Object>) -> Self {
        match live {
            None => Self::Gone,
            Some(csv) if is_going(csv) => Self::Held,
            Some(_) => Self::Kept,
        }
    }
}

/// Returns a change that takes finalizers off a CSV, and adds some.
fn finalizers(csv: &Object, without: &[&str], with: &[&str]) -> Value {
    let mut finalizers = texts(csv, "/metadata/finalizers");
    finalizers.retain(|it| !without.contains(it));
    finalizers.extend(with);
    json!({"metadata": {"finalizers": finalizers,
        "resourceVersion": csv.text_at("/metadata/resourceVersion")}})
}

/// Returns the change before the deletion of a CSV: Classic's clean-up goes, ours holds it.
pub fn hold(csv: &Object) -> Value {
    finalizers(csv, &[CSV_CLEANUP, MOVING, ORPHAN], &[MOVING])
}

/// Returns the change that takes our finalizer off a CSV that stays.
pub fn unhold(csv: &Object) -> Option<Value> {
    let is_held = !is_going(csv) && texts(csv, "/metadata/finalizers").contains(&MOVING);
    is_held.then(|| finalizers(csv, &[MOVING], &[]))
}

/// Returns the next change that hides a held CSV from what generates `OperatorConditions`, which takes
/// them back as long as it finds the CSV: it ignores copies. What collects copies deletes this one too,
/// which changes nothing: it is being deleted already. The rest of Classic takes what becomes a copy for
/// deleted, and ends the conversions and deletes the API services that it last read in it: it must not
/// find any.
pub fn hide(csv: &Object) -> Option<Value> {
    let lists = ["/spec/webhookdefinitions", "/spec/apiservicedefinitions"];
    if !is_going(csv) || is_copy(csv) {
        None
    } else if lists.iter().any(|list| has(csv, list)) {
        Some(json!({"spec": {"webhookdefinitions": null, "apiservicedefinitions": null}}))
    } else {
        Some(json!({"metadata": {"labels": {COPIED_FROM: csv.namespace()}}}))
    }
}

/// Returns the change that lets a held CSV go.
pub fn dismiss(csv: &Object) -> Option<Value> {
    is_going(csv).then(|| finalizers(csv, &[CSV_CLEANUP, MOVING], &[]))
}

/// Something that is done to move a Subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub enum Step {
    /// The account and its rights, and what runs as the content of the first revision.
    #[strum(serialize = "create the account with its rights, and store the running objects")]
    Prepare,
    /// Nothing upgrades or installs again from here on.
    #[strum(serialize = "delete the Subscription")]
    Unsubscribe,
    /// Classic leaves the CSV alone from here on.
    #[strum(serialize = "hold the ClusterServiceVersion and delete it, orphaning its objects")]
    Hold,
    /// No object names the CSV from here on.
    #[strum(serialize = "release the running objects from Classic")]
    Release,
    /// The CSV goes.
    #[strum(serialize = "remove the finalizer of the ClusterServiceVersion")]
    Dismiss,
    /// The extension takes the objects over.
    #[strum(serialize = "create the ClusterExtension, and wait until it is ready")]
    Extend,
    /// The remaining objects of Classic are deleted.
    #[strum(serialize = "delete InstallPlans and the OperatorGroup that nothing else needs")]
    CleanUp,
}

/// How far a move is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Whether the Subscription is there.
    pub subscribed: bool,
    pub csv: Csv,
    /// Whether the extension is ready.
    pub extended: bool,
}

/// Returns what is left to do, in order. Each step can be repeated.
pub fn steps(progress: Progress) -> Vec<Step> {
    let Progress { subscribed, csv, extended } = progress;
    let steps = [
        (Step::Prepare, !extended),
        (Step::Unsubscribe, subscribed),
        (Step::Hold, csv == Csv::Kept),
        // Until the extension has them, a write that Classic began before may have come back.
        (Step::Release, csv != Csv::Gone || !extended),
        (Step::Dismiss, csv != Csv::Gone),
        (Step::Extend, !extended),
        (Step::CleanUp, true),
    ];
    steps.into_iter().filter(|(_, due)| *due).map(|(step, _)| step).collect()
}

#[cfg(test)]
mod tests;
