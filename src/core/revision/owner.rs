//! Whom a revision belongs to, and who keeps it.
//!
//! A set is a revision of an extension because the controller made it, not because it says so. Who
//! may say so is asked by the admission policy of `config/policy`; what is said here is what the
//! controller takes for its own even where nobody asks.
//!
//! Source: applying.md 1.2.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    FieldsV1, ManagedFieldsEntry, ObjectMeta, OwnerReference,
};
use olm_api::keys::{annotation, finalizer, label, manager};
use olm_api::{ClusterExtension, ClusterObjectSet, GROUP, MAX_REVISION};
use serde_json::{Map, Value, json};

/// Field managers of those who make revisions: this controller and upstream's, which writes with the
/// first, and with the second where it creates.
const MAKERS: [&str; 2] = [manager::EXTENSION, manager::OPERATOR_CONTROLLER];

/// The field that only the one who makes a revision writes, in the form of `fieldsV1`.
const NUMBER: [&str; 2] = ["f:spec", "f:revision"];

/// The ClusterExtension a revision belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extension {
    /// Name of the ClusterExtension.
    pub name: String,
    /// UID of the ClusterExtension.
    pub uid: String,
}

impl Extension {
    /// Returns the extension as revisions know it.
    pub fn of(extension: &ClusterExtension) -> Self {
        Self {
            name: extension.metadata.name.clone().unwrap_or_default(),
            uid: extension.metadata.uid.clone().unwrap_or_default(),
        }
    }
}

/// Which sets a set belongs together with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kin<'a> {
    /// It is a revision of this extension.
    Revision(&'a OwnerReference),
    /// It names no extension as its controller: it belongs to those with the same label and without
    /// one as well.
    Unowned,
    /// It names an extension that did not make it, and belongs to nothing.
    Alone,
}

impl<'a> Kin<'a> {
    /// Returns what a ClusterObjectSet belongs to. `number` is its `spec.revision`, or `None` if
    /// its spec cannot be read; then only its name decides.
    pub fn of(metadata: &'a ObjectMeta, number: Option<i64>) -> Self {
        match extension_reference(metadata) {
            None => Self::Unowned,
            Some(reference)
                if owner_label(metadata) == Some(&reference.name)
                    && is_made_for(metadata, &reference.name, number) =>
            {
                Self::Revision(reference)
            }
            Some(_) => Self::Alone,
        }
    }

    /// Returns the extension it is a revision of.
    pub fn extension(self) -> Option<&'a OwnerReference> {
        match self {
            Self::Revision(reference) => Some(reference),
            Self::Unowned | Self::Alone => None,
        }
    }

    /// Says whether sets with the same label belong together.
    pub fn is_with(self, other: Kin<'_>) -> bool {
        match (self, other) {
            (Self::Revision(one), Kin::Revision(other)) => {
                (&one.uid, &one.name) == (&other.uid, &other.name)
            }
            (Self::Unowned, Kin::Unowned) => true,
            (Self::Revision(_) | Self::Unowned | Self::Alone, _) => false,
        }
    }

    /// Says whether it is a revision of an extension.
    pub fn is_of(self, extension: &Extension) -> bool {
        self.extension().is_some_and(|it| it.uid == extension.uid && it.name == extension.name)
    }
}

/// Returns the extension that a set is a revision of: the one that it names as its controller, if
/// the set was made for it.
pub fn extension_of(set: &ClusterObjectSet) -> Option<&OwnerReference> {
    Kin::of(&set.metadata, Some(set.spec.revision)).extension()
}

/// Returns whether a ClusterObjectSet was created as a revision of the extension with this name,
/// even if its owner reference is lost: its name matches its number, and no other client wrote that
/// number.
///
/// Without `number` the one in its name counts. Where nobody is known to have written it, as where
/// `managedFields` were cleared, nothing speaks against it.
pub fn is_made_for(metadata: &ObjectMeta, extension: &str, number: Option<i64>) -> bool {
    let named = metadata.name.as_deref().and_then(|name| number_in(name, extension));
    let same = named.is_some() && (number.is_none() || number == named);
    let mut writers = writers_of_number(metadata).peekable();
    same && (writers.peek().is_none() || writers.any(|writer| MAKERS.contains(&writer)))
}

/// Returns whether a ClusterObjectSet was created as a revision of any extension, even if its owner
/// reference and its labels are lost.
pub fn is_revision(metadata: &ObjectMeta, number: i64) -> bool {
    let name = metadata.name.as_deref().and_then(|name| name.rsplit_once('-'));
    name.is_some_and(|(extension, _)| is_made_for(metadata, extension, Some(number)))
}

/// Returns the number in the name of a revision of the extension; nothing if it is not such a name.
fn number_in(name: &str, extension: &str) -> Option<i64> {
    let text = name.strip_prefix(extension)?.strip_prefix('-')?;
    let number: i64 = text.parse().ok()?;
    let is_one = (1..=MAX_REVISION).contains(&number) && number.to_string() == text;
    is_one.then_some(number)
}

/// Returns who wrote the number, as far as that is known.
fn writers_of_number(metadata: &ObjectMeta) -> impl Iterator<Item = &str> {
    let entries = metadata.managed_fields.iter().flatten();
    let writers = entries.filter(|entry| has_number(entry));
    let writers = writers.map(|entry| entry.manager.as_deref().unwrap_or_default());
    writers.filter(|writer| *writer != manager::NOBODY)
}

fn has_number(entry: &ManagedFieldsEntry) -> bool {
    let [outer, inner] = NUMBER;
    let fields = entry.fields_v1.as_ref().and_then(|fields| fields.0.get(outer)?.get(inner));
    entry.subresource.is_none() && fields.is_some()
}

/// Removes everything from the managed fields of a ClusterObjectSet that does not show who created
/// it.
pub fn keep_makers(metadata: &mut ObjectMeta) {
    let Some(entries) = &mut metadata.managed_fields else { return };
    entries.retain(has_number);
    let [outer, inner] = NUMBER;
    for entry in entries {
        entry.fields_v1 = Some(FieldsV1(json!({outer: {inner: Value::Object(Map::default())}})));
    }
}

/// Returns the extension that a set was made for and names as its controller, where the label that finds
/// its revisions does not name it: somebody has taken that off or changed it.
pub fn mislabelled(set: &ClusterObjectSet) -> Option<&OwnerReference> {
    let reference = extension_reference(&set.metadata)?;
    let is_made = is_made_for(&set.metadata, &reference.name, Some(set.spec.revision));
    (is_made && owner_label(&set.metadata) != Some(&reference.name)).then_some(reference)
}

/// Returns the controller reference of a set to an extension. It is what the set says; whether it is
/// a revision of that extension, [`Kin`] tells.
pub fn extension_reference(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let mut references = metadata.owner_references.iter().flatten();
    references.find(|reference| {
        reference.kind == label::OWNER_KIND_EXTENSION
            && reference.controller == Some(true)
            && reference.api_version.split_once('/').is_some_and(|(group, _)| group == GROUP)
    })
}

/// Returns the `owner-name` label of a set. It finds revisions; whether the set is one, [`Kin`] tells.
pub fn owner_name(set: &ClusterObjectSet) -> Option<&str> {
    owner_label(&set.metadata).map(String::as_str)
}

fn owner_label(metadata: &ObjectMeta) -> Option<&String> {
    metadata.labels.as_ref()?.get(label::OWNER_NAME)
}

/// Returns whether the revision has our finalizer, so that its objects may be installed.
pub fn has_finalizer(revision: &ClusterObjectSet) -> bool {
    has(&revision.metadata, finalizer::TEARDOWN)
}

/// Says whether Kubernetes was asked to keep the dependents of an object that is being deleted. Such
/// a deletion sets the finalizer and the time together; anyone may set the finalizer before it.
pub fn has_orphan_finalizer(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some() && has(metadata, finalizer::ORPHAN)
}

/// Returns whether the objects of an extension are kept when it is deleted: Kubernetes was asked to
/// orphan its dependents, or an annotation records that it was.
///
/// The finalizer alone does not tell. The garbage collector takes it off when it has let go of the
/// dependents it knows, and of kinds that are new to it it knows none.
pub fn is_orphaned(extension: &ObjectMeta) -> bool {
    has_orphan_finalizer(extension) || is_marked_orphaned(extension)
}

/// Returns whether an annotation records that the objects of an extension are kept.
pub fn is_marked_orphaned(extension: &ObjectMeta) -> bool {
    let marks = extension.annotations.as_ref();
    let mark = marks.and_then(|all| all.get(annotation::ORPHANED));
    mark.is_some() && mark == orphan_mark(extension).as_ref()
}

/// Returns what is written down: when the deletion began. So nobody can write it beforehand, and a
/// copy of the object does not carry it.
pub fn orphan_mark(extension: &ObjectMeta) -> Option<String> {
    let began = extension.deletion_timestamp.as_ref()?;
    Some(began.0.to_string())
}

fn has(metadata: &ObjectMeta, finalizer: &str) -> bool {
    let mut finalizers = metadata.finalizers.iter().flatten();
    finalizers.any(|name| name == finalizer)
}

#[cfg(test)]
mod tests {
    use olm_api::API_VERSION;

    use super::*;
    use crate::fixture::cases;

    const CASES: &str = include_str!("../testdata/revision/cases.yaml");

    fn metadata(name: &str, extension: &str, managers: &Value) -> ObjectMeta {
        serde_json::from_value(json!({
            "name": name, "managedFields": managers, "labels": {label::OWNER_NAME: extension},
            "ownerReferences": [{"apiVersion": API_VERSION, "kind": "ClusterExtension",
                "name": extension, "uid": "u", "controller": true}],
        }))
        .unwrap()
    }

    fn writes(manager: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": "Apply", "apiVersion": API_VERSION,
            "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    // applying.md 1.2
    #[test]
    fn a_revision_has_the_name_of_its_number() {
        for (name, extension, number, counts) in
            cases::<(&str, &str, i64, bool)>(CASES, "a_revision_has_the_name_of_its_number")
        {
            let metadata = metadata(name, extension, &Value::Null);
            let kin = Kin::of(&metadata, Some(number));
            assert_eq!(kin.extension().is_some(), counts);
            assert_eq!(kin == Kin::Alone, !counts);
            if counts {
                let unowned = ObjectMeta { owner_references: None, ..metadata };
                assert!(is_revision(&unowned, number));
            }
        }
    }

    // applying.md 1.2
    #[test]
    fn a_revision_names_its_extension_by_kind_and_label() {
        for (api_version, kind, label, counts) in cases::<(&str, &str, Option<&str>, bool)>(
            CASES,
            "a_revision_names_its_extension_by_kind_and_label",
        ) {
            let mut metadata = metadata("lamp-2", "lamp", &Value::Null);
            metadata.labels =
                label.map(|name| [(label::OWNER_NAME.to_owned(), name.to_owned())].into());
            let reference = &mut metadata.owner_references.as_mut().unwrap()[0];
            reference.api_version = api_version.to_owned();
            reference.kind = kind.to_owned();
            assert_eq!(Kin::of(&metadata, Some(2)).extension().is_some(), counts);
            let names_it = extension_reference(&metadata).is_some();
            let mut set = ClusterObjectSet { metadata, ..ClusterObjectSet::default() };
            set.spec.revision = 2;
            // Only the label is missing: it can be given back.
            assert_eq!(mislabelled(&set).is_some(), names_it && !counts);
            set.spec.revision = 3;
            assert_eq!(mislabelled(&set), None, "it was made by somebody else");
        }
    }

    // applying.md 1.2
    #[test]
    fn a_revision_has_a_number_that_the_controller_wrote() {
        let number = json!({"f:spec": {"f:revision": {}, "f:phases": {}}});
        let made_by = |entries: Vec<Value>| {
            let mut metadata = metadata("lamp-2", "lamp", &entries.into());
            let full = Kin::of(&metadata, Some(2)).extension().is_some();
            keep_makers(&mut metadata);
            assert_eq!(Kin::of(&metadata, Some(2)).extension().is_some(), full);
            metadata.owner_references = None;
            assert_eq!(is_revision(&metadata, 2), full);
            full
        };
        let ours = writes(manager::EXTENSION, &number);
        let theirs = writes("kubectl-create", &number);
        assert!(made_by(vec![ours.clone()]));
        assert!(made_by(vec![writes(manager::OPERATOR_CONTROLLER, &number)]));
        assert!(!made_by(vec![theirs.clone()]));
        // Who applies it over the controller shares its fields.
        assert!(made_by(vec![theirs.clone(), ours.clone()]));
        // The finalizer, which every set gets, does not make one.
        let held = json!({"f:metadata": {"f:finalizers": {}}});
        assert!(!made_by(vec![theirs, writes(manager::OPERATOR_CONTROLLER, &held)]));
        // Where managed fields were cleared, nobody is known; nor does the next apply name anybody.
        assert!(made_by(Vec::new()));
        assert!(made_by(vec![writes(manager::NOBODY, &number)]));
        assert!(made_by(vec![writes("kubectl-edit", &held)]));
        let mut status = ours;
        status["subresource"] = json!("status");
        assert!(made_by(vec![status]));
    }

    #[test]
    fn what_belongs_together_says_the_same_extension() {
        let metadata = |name: &str, extension: &str| metadata(name, extension, &Value::Null);
        let (one, two) = (metadata("lamp-1", "lamp"), metadata("lamp-2", "lamp"));
        let other = metadata("torch-1", "torch");
        let kin = |metadata| Kin::of(metadata, None);
        assert!(kin(&one).is_with(kin(&two)));
        // The UID alone does not tell: a reference may have that of one and the name of another.
        assert!(!kin(&one).is_with(kin(&other)));
        let alone = metadata("tenant", "lamp");
        assert!(!kin(&alone).is_with(kin(&alone)) && !kin(&alone).is_with(kin(&one)));
        let unowned = ObjectMeta::default();
        assert!(kin(&unowned).is_with(kin(&unowned)) && !kin(&unowned).is_with(kin(&one)));
        let mut extension = Extension { name: "lamp".into(), uid: String::new() };
        assert!(!kin(&one).is_of(&extension));
        extension.uid = "u".into();
        assert!(kin(&one).is_of(&extension));
        assert!(!kin(&other).is_of(&extension) && !kin(&alone).is_of(&extension));
    }

    #[test]
    fn an_orphaning_deletion_is_remembered_for_that_deletion_only() {
        let extension = |finalizers: &[&str], mark: Option<&str>, began: Option<&str>| {
            let metadata: ObjectMeta = serde_json::from_value(json!({
                "finalizers": finalizers, "deletionTimestamp": began,
                "annotations": mark.map(|mark| json!({annotation::ORPHANED: mark})),
            }))
            .unwrap();
            is_orphaned(&metadata)
        };
        let (began, other) = (Some("2026-01-01T00:00:00Z"), Some("2025-01-01T00:00:00Z"));
        assert!(extension(&["orphan"], None, began));
        assert!(!extension(&["orphan"], None, None));
        assert!(extension(&[], began, began));
        assert!(!extension(&[], None, began));
        assert!(!extension(&[], other, began));
        assert!(!extension(&[], Some("true"), began));
        assert!(!extension(&[], began, None));
    }
}
