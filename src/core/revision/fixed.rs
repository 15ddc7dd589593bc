//! Fields that the API server never changes, and what becomes of an object that needs another value.
//!
//! Source: applying.md 3.6.

use std::fmt;

use olm_api::keys::manager;
use serde_json::Value;

use super::managed::holds;
use super::managed_fields::others_manage;
use crate::object::{Object, is_set};

const RBAC: &str = "rbac.authorization.k8s.io";
/// In place of a default: the API server fills values in, so that only those that are given count.
const FILLED: &str = "*";

/// A field that cannot be changed: its path as a JSON pointer, and what stands for an absent value.
type Field = (&'static str, &'static str);

/// Whether an object of a kind can be deleted and created again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It holds no state: it is deleted and made anew.
    Replaced,
    /// The same, unless somebody else has written data into it.
    ReplacedUnlessFilled,
    /// The same, unless its pods have claims of their own.
    ReplacedUnlessClaimed,
    /// It holds state: somebody has to delete it.
    Kept(&'static str),
}

const CONTENT: [Field; 4] =
    [("/data", ""), ("/binaryData", ""), ("/stringData", ""), ("/immutable", "")];
const FILLED_WITH_DATA: &str = "it holds data that the bundle does not: save that first";
const HAS_CLAIMS: &str = "with --cascade=orphan its pods stay, and the new one takes them over";

/// Every kind with such fields that a bundle may have.
#[rustfmt::skip]
const KINDS: &[(&str, &str, &[Field], Fate)] = &[
    (RBAC, "RoleBinding", &[("/roleRef", "")], Fate::Replaced),
    (RBAC, "ClusterRoleBinding", &[("/roleRef", "")], Fate::Replaced),
    ("", "ConfigMap", &[], Fate::ReplacedUnlessFilled),
    ("", "Secret", &[("/type", "Opaque")], Fate::ReplacedUnlessFilled),
    ("", "Service", &[
        ("/spec/clusterIP", FILLED), ("/spec/ipFamilies/0", FILLED), ("/spec/loadBalancerClass", FILLED),
    ], Fate::Replaced),
    ("", "ResourceQuota", &[("/spec/scopes", "")], Fate::Replaced),
    ("apps", "Deployment", &[("/spec/selector", "")], Fate::Replaced),
    ("apps", "DaemonSet", &[("/spec/selector", "")], Fate::Replaced),
    ("apps", "ReplicaSet", &[("/spec/selector", "")], Fate::Replaced),
    ("apps", "StatefulSet", &[
        ("/spec/selector", ""), ("/spec/serviceName", ""), ("/spec/podManagementPolicy", "OrderedReady"),
        ("/spec/volumeClaimTemplates", FILLED),
    ], Fate::ReplacedUnlessClaimed),
    ("batch", "Job", &[
        ("/spec/template", FILLED), ("/spec/selector", FILLED), ("/spec/completions", FILLED),
        ("/spec/completionMode", "NonIndexed"), ("/spec/podFailurePolicy", FILLED),
        ("/spec/podFailurePolicy/rules/0/action", ""),
        ("/spec/successPolicy", ""), ("/spec/backoffLimitPerIndex", ""), ("/spec/managedBy", ""),
    ], Fate::Replaced),
    ("networking.k8s.io", "IngressClass", &[("/spec/controller", "")], Fate::Replaced),
    ("node.k8s.io", "RuntimeClass", &[("/handler", "")], Fate::Replaced),
    ("discovery.k8s.io", "EndpointSlice", &[("/addressType", "")], Fate::Replaced),
    ("storage.k8s.io", "StorageClass", &[
        ("/provisioner", ""), ("/parameters", ""), ("/reclaimPolicy", "Delete"),
        ("/volumeBindingMode", "Immediate"),
    ], Fate::Replaced),
    ("storage.k8s.io", "VolumeAttributesClass", &[("/driverName", ""), ("/parameters", "")],
        Fate::Kept("it stays until no volume uses it")),
    ("storage.k8s.io", "CSIDriver", &[
        ("/spec/attachRequired", FILLED), ("/spec/volumeLifecycleModes", FILLED),
    ], Fate::Replaced),
    ("scheduling.k8s.io", "PriorityClass", &[
        ("/value", FILLED), ("/preemptionPolicy", "PreemptLowerPriority"),
    ], Fate::Replaced),
    ("", "PersistentVolumeClaim", &[
        ("/spec/accessModes", ""), ("/spec/storageClassName", FILLED), ("/spec/volumeMode", "Filesystem"),
        ("/spec/volumeName", FILLED), ("/spec/selector", ""), ("/spec/dataSource", FILLED),
        ("/spec/dataSourceRef", FILLED),
    ], Fate::Kept("its data goes with it: save that first")),
    ("", "PersistentVolume", &[
        ("/spec/csi", FILLED), ("/spec/nfs", FILLED), ("/spec/hostPath", FILLED), ("/spec/local", FILLED),
        ("/spec/iscsi", FILLED), ("/spec/fc", FILLED), ("/spec/volumeMode", "Filesystem"),
    ], Fate::Kept("its data may go with it: save that first")),
    ("apiextensions.k8s.io", "CustomResourceDefinition", &[
        ("/spec/group", ""), ("/spec/scope", ""), ("/spec/names/kind", ""), ("/spec/names/plural", ""),
    ], Fate::Kept("all objects of it go with it: save them first")),
];

/// Fields of an object that the API server refuses to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fixed {
    fields: Vec<String>,
    /// The command that deletes it and what to know before, where it is kept.
    delete: Option<String>,
}

impl Fixed {
    /// Returns the fields of an object that would have to change and cannot. `before` is the object on
    /// the cluster, or as the revision before has it.
    pub fn of(before: &Object, after: &Object) -> Option<Self> {
        let (_, _, fields, fate) = KINDS
            .iter()
            .find(|(group, kind, ..)| *group == after.group() && *kind == after.kind())?;
        let frozen = before.0.get("immutable") == Some(&Value::Bool(true));
        let content = if frozen { &CONTENT[..] } else { &[] };
        let fields = fields.iter().chain(content);
        let changed = fields.filter(|field| is_changed(before, after, **field));
        let fields: Vec<_> =
            changed.map(|(path, _)| path.replace("/0", "[0]").replace('/', ".")).collect();
        if fields.is_empty() {
            return None;
        }
        let why = match *fate {
            Fate::Replaced => None,
            Fate::ReplacedUnlessFilled => is_filled(before, frozen).then_some(FILLED_WITH_DATA),
            Fate::ReplacedUnlessClaimed => {
                before.list_at("/spec/volumeClaimTemplates").next().map(|_| HAS_CLAIMS)
            }
            Fate::Kept(why) => Some(why),
        };
        let delete = why.map(|why| format!("{} ({why})", delete(before)));
        Some(Self { fields, delete })
    }

    /// Says whether the object is deleted and made anew.
    pub fn is_replaced(&self) -> bool {
        self.delete.is_none()
    }
}

impl fmt::Display for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be changed: ", self.fields.join(", "))?;
        match &self.delete {
            None => f.write_str("the object is deleted and created again"),
            Some(delete) => write!(f, "it is created again after {delete}"),
        }
    }
}

fn is_changed(before: &Object, after: &Object, (path, default): Field) -> bool {
    let value = |object: &Object| object.pointer(path).filter(|value| !value.is_null()).cloned();
    let (old, new) = (value(before), value(after));
    match (old, new, default) {
        (_, None, FILLED) => false,
        (Some(old), Some(new), FILLED) => !holds(&old, &new),
        (old, new, default) => {
            let or_default = |value: Option<Value>| value.unwrap_or_else(|| default.into());
            or_default(old) != or_default(new)
        }
    }
}

/// Says whether anybody else wrote data into an object, or may have: where somebody has cleared the managed
/// fields of one on the cluster whose data can be changed, nobody can say.
fn is_filled(object: &Object, frozen: bool) -> bool {
    let is_live = object.pointer("/metadata/resourceVersion").is_some();
    let is_cleared = is_live && object.list_at("/metadata/managedFields").next().is_none();
    ["data", "binaryData"].iter().any(|field| {
        is_cleared && !frozen && object.0.get(*field).is_some_and(is_set)
            || others_manage(object, manager::OBJECTS, &format!("f:{field}"))
    })
}

/// Returns the command that deletes an object.
fn delete(object: &Object) -> String {
    let (kind, name) = (object.kind().to_ascii_lowercase(), object.name());
    let namespace = match object.namespace() {
        "" => String::new(),
        namespace => format!(" -n {namespace}"),
    };
    let orphan = if kind == "statefulset" { " --cascade=orphan" } else { "" };
    format!("kubectl delete {kind} {name}{namespace}{orphan}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{cases, merge, rows, text};

    const CASES: &str = include_str!("../testdata/revision/cases.yaml");

    fn object(api_version: &str, kind: &str, content: &Value) -> Object {
        let mut object = json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"name": "o", "namespace": "n"}});
        merge(&mut object, content);
        crate::fixture::object(object)
    }

    #[test]
    fn what_holds_no_state_is_replaced() {
        for row in rows(include_str!("../testdata/revision/replaced.yaml")) {
            let of =
                |content: &Value| object(text(&row, "apiVersion"), text(&row, "kind"), content);
            let found = Fixed::of(&of(&row["before"]), &of(&row["after"]));
            assert!(found.as_ref().is_none_or(Fixed::is_replaced), "{row}");
            let want = row["want"].as_str().map(|field| {
                format!("{field} cannot be changed: the object is deleted and created again")
            });
            assert_eq!(found.map(|found| found.to_string()), want, "{row}");
        }
    }

    #[test]
    fn what_holds_state_names_the_command() {
        for (api_version, kind, before, after, command) in
            cases::<(&str, &str, Value, Value, &str)>(CASES, "what_holds_state_names_the_command")
        {
            let of = |content: &Value| object(api_version, kind, content);
            let found = Fixed::of(&of(&before), &of(&after)).unwrap();
            assert!(!found.is_replaced());
            let text = found.to_string();
            assert!(text.contains(&format!("it is created again after {command}")), "{text}");
        }
    }
}
