//! What the objects of OLM Classic become: catalogs, accounts and extensions, with a line for each
//! field that is carried over or cannot be, and the steps in their order.
//!
//! Nothing of a cluster is read here, and nothing is guessed: what the given objects do not say is a
//! line. Status and Secrets are never printed.
//!
//! Source: plugin.md 3.

mod csv;
mod group;
mod source;
mod subscription;
pub mod takeover;

use std::collections::BTreeMap;

use itertools::Itertools as _;
use olm_api::keys::label;
use serde_json::{Map, Value};

use crate::object::{Object, is_set, object};

/// API group of Classic.
pub const GROUP: &str = "operators.coreos.com";
/// Kinds that are read, with their version.
pub const KINDS: [(&str, &str); 7] = [
    ("CatalogSource", "v1alpha1"),
    ("Subscription", "v1alpha1"),
    ("OperatorGroup", "v1"),
    ("ClusterServiceVersion", "v1alpha1"),
    ("InstallPlan", "v1alpha1"),
    ("OperatorCondition", "v2"),
    ("OLMConfig", "v1"),
];
/// The proxies of OpenShift, which Classic gave to its operators: API and kind.
pub const PROXY: (&str, &str) = ("config.openshift.io/v1", "Proxy");

/// The CSV of Classic's own API of packages, which no Subscription installs.
const PACKAGE_SERVER: &str = "packageserver";

/// Whether something of Classic goes on to exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Carried {
    /// As an object or a field.
    Yes,
    NotNeeded,
    /// It is lost.
    No,
}

/// How a field is converted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Kind of the object.
    pub kind: String,
    /// Namespace, if it is in one, and name of the object.
    pub object: String,
    /// The field and its value.
    pub field: String,
    /// What it is converted to, or why it is not.
    pub text: String,
    /// Whether it is converted.
    pub carried: Carried,
}

/// What a Subscription becomes.
#[derive(Debug, Clone, PartialEq)]
pub struct Migration {
    pub subscription: Object,
    /// The account, where Classic used none of its own.
    pub account: Option<Object>,
    /// The extension, pinned to the installed version.
    pub extension: Object,
    /// The namespaces that it watches are known; if not, the extension is not to be applied.
    pub is_decided: bool,
    /// The extension as it is to be afterwards, where it is pinned: it follows its channel again.
    pub follow: Option<Object>,
}

/// What the given objects become.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// Catalogs that are to be served.
    pub catalogs: Vec<Object>,
    /// Extensions, those that others need first.
    pub migrations: Vec<Migration>,
    /// How each field is converted.
    pub lines: Vec<Line>,
}

/// The objects of Classic that are given.
#[derive(Debug)]
pub struct Classic<'a> {
    of_kind: BTreeMap<&'a str, Vec<&'a Object>>,
}

impl<'a> Classic<'a> {
    /// Sorts objects by their kind; others than those of Classic and [`PROXY`] are left out.
    pub fn new(objects: impl IntoIterator<Item = &'a Object>) -> Self {
        let mut of_kind: BTreeMap<&str, Vec<&Object>> = BTreeMap::new();
        for object in objects.into_iter().filter(|object| {
            object.group() == GROUP || (object.api_version(), object.kind()) == (PROXY.0, PROXY.1)
        }) {
            of_kind.entry(object.kind()).or_default().push(object);
        }
        for objects in of_kind.values_mut() {
            objects.sort_by_key(|object| (object.namespace(), object.name()));
        }
        Self { of_kind }
    }

    /// Returns what they become. `wanted` says which Subscriptions count: all of them if it is empty.
    pub fn convert(&self, wanted: &[String]) -> Answer {
        let mut answer = Answer::default();
        let counts = |subscription: &&Object| {
            wanted.is_empty() || wanted.iter().any(|name| name == subscription.name())
        };
        let of_them = || self.all("Subscription").filter(counts);
        // Of several with one name the first is converted: one that is used.
        let (used, unused): (Vec<_>, Vec<_>) = self.all("CatalogSource").partition(|source| {
            of_them().any(|subscription| {
                subscription.text_at("/spec/source") == source.name()
                    && subscription.text_at("/spec/sourceNamespace") == source.namespace()
            })
        });
        let unused = if wanted.is_empty() { unused } else { Vec::new() };
        used.into_iter().chain(unused).for_each(|source| source::convert(source, &mut answer));
        for subscription in of_them() {
            self.subscription(subscription, &mut answer);
        }
        if wanted.is_empty() {
            self.others(&mut answer);
        }
        // What was installed for others comes before them.
        answer.migrations.sort_by_key(|it| !subscription::is_dependency(&it.subscription));
        answer
    }

    /// Adds a line for each object that no other line is about. Copies of a CSV go with it.
    fn others(&self, answer: &mut Answer) {
        for object in KINDS.iter().flat_map(|(kind, ..)| self.all(kind)) {
            let name = object.place();
            let is_named = |line: &Line| line.kind == object.kind() && line.object == name;
            if answer.lines.iter().any(is_named) || object.label(label::COPIED_FROM).is_some() {
                continue;
            }
            let (mut carried, mut field) = (Carried::NotNeeded, "name".to_owned());
            let text = match object.kind() {
                "ClusterServiceVersion" if answer.comes_from(object) => continue,
                "ClusterServiceVersion" if self.subscribes(object, "installedCSV") => {
                    carried = Carried::No;
                    "its Subscription is not converted"
                }
                "ClusterServiceVersion" if self.subscribes(object, "currentCSV") => {
                    "not installed yet: the extension installs it from its catalog, once it follows \
                     its channel"
                }
                "ClusterServiceVersion" if object.name() == PACKAGE_SERVER => {
                    "is part of OLM Classic"
                }
                "ClusterServiceVersion" => {
                    carried = Carried::No;
                    "not installed by a Subscription, so it is not converted"
                }
                "InstallPlan" => {
                    let names = texts(object, "/spec/clusterServiceVersionNames").join(", ");
                    field = format!("clusterServiceVersionNames: {names}");
                    "not needed: an extension has revisions and plans instead"
                }
                "OperatorGroup" => "not needed: no Subscription in its namespace is converted",
                "OLMConfig" => {
                    let features = object.pointer("/spec/features").and_then(Value::as_object);
                    let features = features.into_iter().flatten().map(|(name, _)| name).join(", ");
                    field = format!("features: {features}");
                    "not needed: there are no copied CSVs and no package server"
                }
                _ => "is deleted with its ClusterServiceVersion",
            };
            answer.line(object, carried, field, text);
        }
    }

    /// Says whether a Subscription names a CSV in this field of its status.
    fn subscribes(&self, csv: &Object, field: &str) -> bool {
        self.all("Subscription").any(|subscription| {
            subscription.namespace() == csv.namespace()
                && subscription.text_at(&format!("/status/{field}")) == csv.name()
        })
    }

    /// Returns the name of the catalog that a Subscription follows, and the `CatalogSource` that it becomes
    /// of, if that is there.
    pub fn catalog<'s>(&self, subscription: &'s Object) -> (&'s str, Option<&'a Object>) {
        let source = subscription.text_at("/spec/source");
        let namespace = subscription.text_at("/spec/sourceNamespace");
        let found = self.find("CatalogSource", namespace, source);
        (source::name(source, found), found)
    }

    fn all(&self, kind: &str) -> impl Iterator<Item = &'a Object> {
        self.of_kind.get(kind).into_iter().flatten().copied()
    }

    /// Returns an object of a namespace by its name.
    fn find(&self, kind: &str, namespace: &str, name: &str) -> Option<&'a Object> {
        let mut all = self.all(kind);
        all.find(|object| object.namespace() == namespace && object.name() == name)
    }
}

impl Answer {
    /// Adds what becomes of a field.
    fn line(
        &mut self,
        object: &Object,
        carried: Carried,
        field: impl Into<String>,
        text: impl Into<String>,
    ) {
        let line = Line {
            kind: object.kind().to_owned(),
            object: object.place(),
            field: field.into(),
            text: text.into(),
            carried,
        };
        // A group is read for each Subscription of its namespace.
        if !self.lines.contains(&line) {
            self.lines.push(line);
        }
    }

    /// Says whether an extension comes from a CSV: the lines of its Subscription are about it.
    fn comes_from(&self, csv: &Object) -> bool {
        self.migrations.iter().any(|it| installed(&it.subscription) == Some(csv.place()))
    }

    /// Returns what is not converted of a Subscription, its CSV, the group of its namespace and its
    /// catalog.
    pub fn lost<'a>(&'a self, subscription: &'a Object) -> impl Iterator<Item = &'a Line> {
        let text = |field: &str| subscription.text_at(field);
        let source = format!("{}/{}", text("/spec/sourceNamespace"), text("/spec/source"));
        let csv = format!("{}/{}", subscription.namespace(), text("/status/installedCSV"));
        self.lines.iter().filter(move |line| {
            let of_it = match line.kind.as_str() {
                "Subscription" => line.object == subscription.place(),
                "OperatorGroup" => {
                    let place = line.object.split_once('/');
                    place.is_some_and(|(namespace, _)| namespace == subscription.namespace())
                }
                "CatalogSource" => line.object == source,
                "ClusterServiceVersion" => line.object == csv,
                _ => false,
            };
            of_it && line.carried == Carried::No
        })
    }

    /// Returns whether everything that is needed is converted.
    pub fn is_whole(&self) -> bool {
        self.lines.iter().all(|line| line.carried != Carried::No)
    }
}

/// Returns the place of the CSV that a Subscription has installed.
pub fn installed(subscription: &Object) -> Option<String> {
    let csv = subscription.text_at("/status/installedCSV");
    (!csv.is_empty()).then(|| format!("{}/{csv}", subscription.namespace()))
}

/// Makes an object of ours.
fn ours(kind: &str, name: &str, annotations: Map<String, Value>, spec: Value) -> Object {
    let mut made = object(olm_api::API_VERSION, kind, name, "").with("spec", spec);
    if !annotations.is_empty() {
        made.metadata_mut().insert("annotations".to_owned(), Value::Object(annotations));
    }
    made
}

/// Returns the texts of a list.
fn texts<'a>(object: &'a Object, pointer: &str) -> Vec<&'a str> {
    object.list_at(pointer).filter_map(Value::as_str).collect()
}

/// Says whether a member is there, and neither empty nor false.
fn has(object: &Object, pointer: &str) -> bool {
    object.pointer(pointer).is_some_and(|value| is_set(value) && *value != false)
}

#[cfg(test)]
mod tests;
