//! The rights that installing, keeping, upgrading among and removing bundles takes.
//!
//! These are the verbs the applier uses and no others: `create` when an object is absent (the
//! authorizer does not know its name then), `get`, `patch` and `delete` on the objects by name, and
//! what the API server requires for writing roles and bindings. `delete` is also what the
//! `OwnerReferencesPermissionEnforcement` plugin requires for changing owner references.
//!
//! Source: applying.md 3.6, 3.9, 3.10, 5.1 and 5.4.

mod options;

use serde_json::{Map, Value, json};

use crate::error::quote;
use crate::object::Object;

use super::missing::{Held, Missing, RoleKey};
use super::permission::{Permission, Permissions};
use super::resource::{Resource, Resources, Scope};
use super::rule::{MAX_RIGHTS, OPENSHIFT_RBAC, PolicyRule, RBAC, is_rbac, role_plural};

pub use options::Options;

/// Verbs for writing and removing an object, by name.
const NAMED_VERBS: &[&str] = &["delete", "get", "patch"];
/// Verbs for watching an object, by name; without them the object is read at intervals.
const WATCH_VERBS: &[&str] = &["list", "watch"];
/// Verbs that OpenShift's older API uses, as the caller, on the objects behind it, by name.
///
/// Source: openshift-apiserver, `pkg/authorization/apiserver/registry`: requests are forwarded
/// under the caller's identity, a patch as an update.
const BEHIND_OPENSHIFT_VERBS: &[&str] = &["delete", "get", "update"];

/// Verbs for removing an object that a revision no longer has, by name.
const LEAVING_VERBS: &[&str] = &["delete", "get"];

const CRDS: &str = "customresourcedefinitions";

/// One rendered bundle.
#[derive(Debug, Clone, Copy)]
pub struct BundleObjects<'a> {
    /// Name of the bundle, for example `argocd-operator.v0.6.0`.
    pub name: &'a str,
    /// Its objects, in any order.
    pub objects: &'a [Object],
}

/// Something the administrator should know before granting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Warning {
    /// A `ClusterRole` of a bundle collects the rules of others.
    #[error(
        "cluster role {} of bundle {} aggregates other roles: creating it takes `escalate` on all \
         cluster roles, which lets the account write any of them",
        quote(role),
        quote(bundle)
    )]
    Aggregation { bundle: String, role: String },
    /// The rights include `escalate`, as requested.
    #[error("`escalate` lets the account write roles with any rights, and give them to itself")]
    BindEscalate,
}

/// Why the rights could not be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PermissionError {
    /// Neither the table nor a custom resource definition of the bundles knows the kind of an object.
    #[error("{0}")]
    UnknownKind(String),
    /// There are none for the bundle.
    #[error("{0}")]
    Refused(String),
}

/// The rights a service account needs, and those that are merely useful.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Required {
    /// Without any of these an install, upgrade or removal stops. In their smallest form.
    pub needed: Permissions,
    /// Without these, drift is noticed later, and an uninstall cannot count users' objects.
    pub advisory: Permissions,
    /// Warnings for the administrator, sorted, each once.
    pub warnings: Vec<Warning>,
}

impl Required {
    /// Returns needed and advisory rights as one reduced set: what a generated role grants.
    pub fn all(&self) -> Permissions {
        let mut all = self.needed.clone();
        all.extend(&self.advisory);
        all.reduced()
    }
}

/// Returns the rights to install `bundles`, keep them, upgrade among them and remove them.
///
/// Given several bundles, the result is the union of what each needs alone; a custom resource
/// definition of any bundle counts for the objects of all. An object of a namespaced kind without a
/// namespace counts as one of `install_namespace`; the namespace of cluster-scoped objects is
/// ignored. The order of bundles and objects does not matter.
pub fn required(
    bundles: &[BundleObjects<'_>],
    install_namespace: &str,
    options: &Options,
) -> Result<Required, PermissionError> {
    let mut resources = Resources::default();
    for bundle in bundles {
        resources.learn(bundle.objects);
    }
    let mut collected = Required::default();
    for bundle in bundles {
        let mut collector = Collector {
            bundle,
            resources: &resources,
            install_namespace,
            options,
            judge: None,
            counted: 0,
            into: &mut collected,
        };
        for object in bundle.objects {
            collector.object(object)?;
        }
    }
    for resource in resources.defined() {
        let right = Permission::on("list", &resource.group, &resource.plural, None);
        collected.advisory.insert("", right);
    }
    if !bundles.is_empty() {
        collected.advisory.extend(&options.of_later_versions(install_namespace));
    }
    if let Some(name) = &options.create_namespace {
        collected.needed.allow("", &["create", "patch"], ("", "namespaces"), Some(name));
    }
    collected.needed = collected.needed.reduced();
    collected.warnings.sort();
    collected.warnings.dedup();
    Ok(collected)
}

/// Returns the right to trim the stored versions of a CRD.
pub fn trimming(name: &str) -> Permission {
    Permission::on("patch", "apiextensions.k8s.io", &format!("{CRDS}/status"), Some(name))
}

/// Returns of an object what decides which rights it takes: bundles may be large, and most of that
/// are schemas.
pub fn outline(object: &Object) -> Object {
    let parts = ["apiVersion", "kind", "metadata", "rules", "aggregationRule", "roleRef"];
    let part = |key: &str| Some((key.to_owned(), object.0.get(key)?.clone()));
    let mut outline: Map<String, Value> = parts.into_iter().filter_map(part).collect();
    if let Some(spec) = object.0.get("spec").filter(|spec| spec["names"].is_object()) {
        let (group, scope, names) = (&spec["group"], &spec["scope"], &spec["names"]);
        let spec = json!({"group": group, "scope": scope, "names": names});
        outline.insert("spec".to_owned(), spec);
    }
    Object(outline)
}

/// Returns what an account that holds `held` lacks to install `bundle` in place of a revision that
/// had the objects `leaving` besides.
///
/// The API server takes a role from whoever may `escalate` it or holds its rules, and a binding
/// from whoever may `bind` its role or holds the rules of that. Objects of the groups `unserved`
/// are left out: they wait until the cluster serves their kind. An object whose resource is not
/// known is an evaluation error of the result.
///
/// Source: applying.md 5.1, 5.3.
pub fn missing(
    bundle: &BundleObjects<'_>,
    install_namespace: &str,
    leaving: &[Object],
    unserved: &[&str],
    held: &Held<'_>,
) -> Missing {
    let mut resources = Resources::default();
    resources.learn(bundle.objects.iter().chain(leaving));
    let mut found = Missing::default();
    let mut collected = Required::default();
    let mut collector = Collector {
        bundle,
        resources: &resources,
        install_namespace,
        options: &Options::default(),
        judge: Some(Judge { held, found: &mut found }),
        counted: 0,
        into: &mut collected,
    };
    let served = |object: &&Object| !unserved.contains(&object.group());
    let mut errors = Vec::new();
    for object in bundle.objects.iter().filter(served) {
        errors.extend(collector.object(object).err());
    }
    for object in leaving.iter().filter(served) {
        if let Ok((resource, namespace)) = collector.place(object) {
            collector.leave(object, &resource, &namespace);
        }
    }
    found.rights = collected.needed.missing(held.rights);
    found.errors.extend(errors.iter().map(PermissionError::to_string));
    found
}

/// Collects the rights for one bundle.
struct Collector<'a> {
    bundle: &'a BundleObjects<'a>,
    resources: &'a Resources,
    install_namespace: &'a str,
    options: &'a Options,
    /// What the account holds, where that decides which rights it needs.
    judge: Option<Judge<'a>>,
    /// How many rights the rules of its roles give.
    counted: usize,
    into: &'a mut Required,
}

struct Judge<'a> {
    held: &'a Held<'a>,
    found: &'a mut Missing,
}

impl Judge<'_> {
    /// Says whether the account has a right that makes others unnecessary, and notes it otherwise.
    fn spares(&mut self, namespace: &str, right: Permission) -> bool {
        let held = self.held.rights.covers(namespace, &right);
        if !held {
            self.found.alternatives.insert(namespace, right);
        }
        held
    }

    /// Says whether the account holds the rules of a role outside the bundle, as far as that is
    /// known.
    fn holds_rules(&mut self, role: RoleKey, namespace: &str) -> bool {
        match self.held.roles.get(&role) {
            None => {
                self.found.unread_roles.insert(role);
                false
            }
            Some(None) => {
                self.found.errors.insert(format!("{role} not found"));
                false
            }
            Some(Some(rules)) => {
                let mut granted = Permissions::default();
                granted.insert_rules(namespace, rules);
                granted.missing(self.held.rights).is_empty()
            }
        }
    }
}

impl Collector<'_> {
    fn object(&mut self, object: &Object) -> Result<(), PermissionError> {
        let (resource, namespace) = self.place(object)?;
        self.manage(object, &resource, &namespace);
        if is_rbac(object.group()) {
            match object.kind() {
                "Role" | "ClusterRole" => self.write_role(object, &namespace)?,
                "RoleBinding" | "ClusterRoleBinding" => self.write_binding(object, &namespace)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds what the rules of a role give.
    fn hold(&mut self, role: &Object, namespace: &str) -> Result<(), PermissionError> {
        let rules: Vec<_> = role.list_at("/rules").map(PolicyRule::from_value).collect();
        let counts = rules.iter().map(PolicyRule::count);
        self.counted = counts.fold(self.counted, usize::saturating_add);
        if self.counted > MAX_RIGHTS {
            let bundle = quote(self.bundle.name);
            return Err(PermissionError::Refused(format!(
                "bundle {bundle}: its roles and bindings give more than {MAX_RIGHTS} rights"
            )));
        }
        self.into.needed.insert_rules(namespace, rules);
        Ok(())
    }

    /// Returns the resource of an object, and its namespace: empty where it has none.
    fn place(&self, object: &Object) -> Result<(Resource, String), PermissionError> {
        let resource = self.resource(object)?;
        let namespace = match resource.scope {
            Scope::Cluster => String::new(),
            Scope::Namespaced => self.namespace_of(object).to_owned(),
        };
        Ok((resource, namespace))
    }

    /// Adds the rights to remove an object.
    fn leave(&mut self, object: &Object, resource: &Resource, namespace: &str) {
        // One whose objects may exist stays, without us as its owner.
        let stays: &[&str] = if resource.plural == CRDS { &["patch"] } else { &[] };
        let (on, verbs) =
            ((&*resource.group, &*resource.plural), LEAVING_VERBS.iter().chain(stays));
        self.into.needed.allow(namespace, verbs, on, Some(object.name()));
        if resource.group == OPENSHIFT_RBAC {
            let behind = (RBAC, &*resource.plural);
            self.into.needed.allow(namespace, LEAVING_VERBS, behind, Some(object.name()));
        }
    }

    fn resource(&self, object: &Object) -> Result<Resource, PermissionError> {
        let bundle = quote(self.bundle.name);
        if object.name().is_empty() {
            let (kind, version) = (object.kind(), object.api_version());
            let text = format!("bundle {bundle}: an object of kind {kind}.{version} has no name");
            return Err(PermissionError::Refused(text));
        }
        self.resources.find(object.group(), object.kind()).ok_or_else(|| {
            let (kind, group, object) = (object.kind(), object.group(), object.identity());
            PermissionError::UnknownKind(format!(
                "bundle {bundle}: object {object}: no given bundle defines kind {kind}.{group}, so its \
                 resource is unknown"
            ))
        })
    }

    fn namespace_of<'o>(&'o self, object: &'o Object) -> &'o str {
        match object.namespace() {
            "" => self.install_namespace,
            namespace => namespace,
        }
    }

    /// Adds the rights that every object needs.
    fn manage(&mut self, object: &Object, resource: &Resource, namespace: &str) {
        let Resource { group, plural, .. } = resource;
        let unnamed = self.options.leaves_unnamed(resource, namespace == self.install_namespace);
        let name = (!unnamed).then(|| object.name());
        let needed = &mut self.into.needed;
        needed.insert(namespace, Permission::on("create", group, plural, None));
        needed.allow(namespace, NAMED_VERBS, (group, plural), name);
        if group == OPENSHIFT_RBAC {
            needed.insert(namespace, Permission::on("create", RBAC, plural, None));
            needed.allow(namespace, BEHIND_OPENSHIFT_VERBS, (RBAC, plural), name);
        }
        // Its stored versions are trimmed when one of them goes.
        if plural == CRDS && object.list_at("/spec/versions").count() > 1 {
            self.into.advisory.insert(namespace, trimming(object.name()));
        }
        let watched = name.filter(|_| !self.options.collection_watch);
        self.into.advisory.allow(namespace, WATCH_VERBS, (group, plural), watched);
    }

    /// Adds what the API server requires of the writer of a role: to hold its rules, or `escalate`.
    ///
    /// `escalate` counts without a name only: the authorizer does not know the name on create.
    fn write_role(&mut self, role: &Object, namespace: &str) -> Result<(), PermissionError> {
        let plural = role_plural(role.kind());
        if let Some(judge) = &mut self.judge {
            let escalate = Permission::on("escalate", RBAC, plural, None);
            if judge.spares(namespace, escalate) {
                return Ok(());
            }
        }
        let aggregated = role.is_aggregated();
        if aggregated {
            self.into.warnings.push(Warning::Aggregation {
                bundle: self.bundle.name.to_owned(),
                role: role.name().to_owned(),
            });
        } else if self.options.bind_escalate {
            self.into.warnings.push(Warning::BindEscalate);
        }
        if aggregated || self.options.bind_escalate {
            let escalate = Permission::on("escalate", RBAC, plural, None);
            self.into.needed.insert(namespace, escalate);
            return Ok(());
        }
        self.hold(role, namespace)
    }

    /// Adds what the API server requires of the writer of a binding: to hold the rules of its role,
    /// which [`Self::write_role`] takes care of for roles of this bundle, or to `bind` it.
    ///
    /// Other roles may not exist yet when rights are computed, and the rules of an aggregated role
    /// are not known beforehand; both are bound by name.
    fn write_binding(&mut self, binding: &Object, namespace: &str) -> Result<(), PermissionError> {
        let (kind, name) = role_reference(binding);
        let bind = Permission::on("bind", RBAC, role_plural(kind), Some(name));
        let is_it = |role: &&Object| {
            let in_reach = kind == "ClusterRole" || self.namespace_of(role) == namespace;
            is_rbac(role.group()) && role.kind() == kind && role.name() == name && in_reach
        };
        let own = self.bundle.objects.iter().find(is_it);
        let plain = own.filter(|role| !role.is_aggregated());
        let Some(judge) = &mut self.judge else {
            if plain.is_none() || self.options.bind_escalate {
                self.into.needed.insert(namespace, bind);
            }
            return Ok(());
        };
        if judge.spares(namespace, bind.clone()) {
            return Ok(());
        }
        if let Some(role) = plain {
            return self.hold(role, namespace);
        }
        if own.is_some() || !judge.holds_rules(RoleKey::named(kind, name, namespace), namespace) {
            self.into.needed.insert(namespace, bind);
        }
        Ok(())
    }
}

/// Returns kind and name of the role that a binding refers to. OpenShift's older API has no kind
/// there: with a namespace it is a Role.
pub(super) fn role_reference(binding: &Object) -> (&str, &str) {
    let kind = match (binding.text_at("/roleRef/kind"), binding.text_at("/roleRef/namespace")) {
        ("", "") => "ClusterRole",
        ("", _) => "Role",
        (kind, _) => kind,
    };
    (kind, binding.text_at("/roleRef/name"))
}

#[cfg(test)]
mod tests;
