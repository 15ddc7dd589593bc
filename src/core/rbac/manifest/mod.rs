//! The service account, and the roles and bindings that give it its rights, as manifests.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::error::quote;
use crate::object::{Object, object};
use crate::revision::Account;

use super::permission::{IMPERSONATE, Permissions};
use super::report::lines;
use super::required::{BundleObjects, Options, PermissionError, Warning, required};
use super::rule::{PolicyRule, RBAC, role_kind};

/// Returns the `ServiceAccount`, roles and bindings for installing `bundles` as `account`, and
/// warnings for the administrator. The namespace of the account is the one they are installed to.
///
/// Order: the service account, the `ClusterRole` with its binding, then per namespace, sorted, the
/// Role with its binding. A role without rules is left out with its binding. The bundles must have
/// been rendered for `account.namespace`. No Namespace is among them: namespaces belong to the
/// user. The same input, in whatever order, gives the same output.
pub fn manifests(
    bundles: &[BundleObjects<'_>],
    account: &Account,
    options: &Options,
) -> Result<(Vec<Object>, Vec<Warning>), PermissionError> {
    refuse_own_account(bundles, account)?;
    let required = required(bundles, &account.namespace, options)?;
    let mut bundle_names: Vec<&str> = bundles.iter().map(|bundle| bundle.name).collect();
    bundle_names.sort_unstable();
    bundle_names.dedup();
    let (name, bundles) = (rbac_name(account, &bundle_names), bundle_names.join(", "));
    let head = Head {
        name: if options.stable { format!("{name}{STABLE}") } else { name },
        description: format!(
            "Rights of service account {account} to install, upgrade among and remove {bundles}"
        ),
    };
    let mut objects = vec![object("v1", "ServiceAccount", &account.name, &account.namespace)];
    objects.extend(head.grants(&required.all(), account));
    Ok((objects, required.warnings))
}

/// Returns the roles and bindings that give `account` rights it lacks, and nothing else. They have
/// names of their own, so that applying them takes nothing away.
pub fn missing_manifests(account: &Account, missing: &Permissions) -> Vec<Object> {
    let rules = lines(missing).join("\n");
    let head = Head {
        name: format!("{}missing{}", rbac_prefix(account), short_digest(&rules)),
        description: format!("Rights that service account {account} lacked"),
    };
    head.grants(missing, account)
}

/// A user or group that may name a service account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A user, by the name the API server uses.
    User(String),
    /// All users of a group.
    Group(String),
}

/// Returns the Role and bindings that let users name `account` in a `ClusterExtension`: verb `use`
/// on it, which the admission policies require. Empty without users.
///
/// The Role is the same for all, but each user or group has its own binding, so that applying a
/// second output adds users and removes none.
///
/// Source: deploying.md 6.1.
pub fn use_manifests(account: &Account, people: &[Subject]) -> Vec<Object> {
    if people.is_empty() {
        return Vec::new();
    }
    let role = format!("olm-use:{}:{}", account.namespace, account.name);
    let head = |name: &str, who: &str| Head {
        name: name.to_owned(),
        description: format!("Lets {who} name service account {account} in ClusterExtensions"),
    };
    let rules = named(account, "use");
    let mut objects = vec![head(&role, "people").role(&account.namespace, rules)];
    for person in people {
        let (kind, name) = match person {
            Subject::User(name) => ("User", name),
            Subject::Group(name) => ("Group", name),
        };
        let kind_word = kind.to_lowercase();
        let own = format!("{role}:{kind_word}:{}", segment(name));
        let head = head(&own, &format!("{kind_word} {name}"));
        let subject = json!({"apiGroup": RBAC, "kind": kind, "name": name});
        objects.push(head.bound(&account.namespace, &role, &subject));
    }
    objects
}

/// Returns the Role and binding that let the `controller` act as `account`, for a controller that
/// may not act as any (component `narrow-impersonation`).
///
/// Source: deploying.md 6.4.
pub fn impersonate_manifests(account: &Account, controller: &Account) -> Vec<Object> {
    let head = Head {
        name: format!("olm-impersonate:{}:{}", account.namespace, account.name),
        description: format!("Lets controller {controller} act as service account {account}"),
    };
    let role = head.role(&account.namespace, named(account, IMPERSONATE));
    vec![role, head.binding(&account.namespace, controller)]
}

/// Returns the rules that allow `verb` on one service account.
fn named(account: &Account, verb: &str) -> Value {
    json!([{
        "apiGroups": [""],
        "resources": ["serviceaccounts"],
        "resourceNames": [account.name],
        "verbs": [verb],
    }])
}

/// Returns `name` as a part of the name of a binding, in which only `/` and `%` are not allowed.
fn segment(name: &str) -> String {
    if name.contains(['/', '%']) { short_digest(name) } else { name.to_owned() }
}

/// Returns `+` and the first 8 hex digits of the SHA-256 of `text`.
fn short_digest(text: &str) -> String {
    let [a, b, c, d, ..] = Sha256::digest(text).0;
    format!("+{:08x}", u32::from_be_bytes([a, b, c, d]))
}

/// Returns the name of generated roles and bindings: `olm:<namespace>:<account>:<bundle>`.
///
/// For several bundles the last part is `+` and the first 8 hex digits of the SHA-256 of their
/// sorted names, one per line. Different bundles yield different names, so that applying a second
/// output adds rights and removes none.
pub fn rbac_name(account: &Account, bundle_names: &[&str]) -> String {
    let mut names = bundle_names.to_vec();
    names.sort_unstable();
    names.dedup();
    let last = match names.as_slice() {
        [only] => (*only).to_owned(),
        several => short_digest(&several.join("\n")),
    };
    format!("{}{last}", rbac_prefix(account))
}

/// How the names of generated roles and bindings end that name no objects whose names change.
const STABLE: &str = ":stable";

/// Says whether a generated role or binding of this name gives rights that stay the same between
/// versions.
pub fn gives_stable_rights(name: &str) -> bool {
    name.ends_with(STABLE)
}

/// Returns how the names of all generated roles and bindings of an account begin.
pub fn rbac_prefix(account: &Account) -> String {
    format!("olm:{}:{}:", account.namespace, account.name)
}

/// Refuses a service account that is part of a bundle: it would collide with it on install.
fn refuse_own_account(
    bundles: &[BundleObjects<'_>],
    account: &Account,
) -> Result<(), PermissionError> {
    let owner = bundles.iter().find(|bundle| {
        bundle.objects.iter().any(|object| {
            let namespace = match object.namespace() {
                "" => &account.namespace,
                namespace => namespace,
            };
            object.kind() == "ServiceAccount"
                && object.group().is_empty()
                && object.name() == account.name
                && namespace == account.namespace
        })
    });
    match owner {
        None => Ok(()),
        Some(bundle) => Err(PermissionError::Refused(format!(
            "bundle {} contains service account {account}: installing would collide with it, choose \
             another name",
            quote(bundle.name)
        ))),
    }
}

/// The label `app.kubernetes.io/managed-by` of generated roles and bindings.
pub const MANAGED_BY: &str = "kubectl-olm";

/// What all generated roles and bindings share.
struct Head {
    name: String,
    description: String,
}

impl Head {
    /// Returns a role and its binding for each namespace of some rights.
    fn grants(&self, rights: &Permissions, account: &Account) -> Vec<Object> {
        let grant = |namespace| {
            let rules = rights.rules(namespace);
            let rules = rules.iter().map(PolicyRule::to_value).collect();
            [self.role(namespace, rules), self.binding(namespace, account)]
        };
        rights.namespaces().flat_map(grant).collect()
    }

    fn object(&self, kind: &str, namespace: &str) -> Object {
        let mut object = object(&format!("{RBAC}/v1"), kind, &self.name, namespace);
        let labels = json!({"app.kubernetes.io/managed-by": MANAGED_BY});
        let annotations = json!({"kubernetes.io/description": self.description});
        object.metadata_mut().insert("labels".to_owned(), labels);
        object.metadata_mut().insert("annotations".to_owned(), annotations);
        object
    }

    fn role(&self, namespace: &str, rules: Value) -> Object {
        self.object(role_kind(namespace), namespace).with("rules", rules)
    }

    fn binding(&self, namespace: &str, account: &Account) -> Object {
        let Account { name, namespace: place } = account;
        let subject = json!({"kind": "ServiceAccount", "name": name, "namespace": place});
        self.bound(namespace, &self.name, &subject)
    }

    fn bound(&self, namespace: &str, role: &str, subject: &Value) -> Object {
        let kind = role_kind(namespace);
        self.object(&format!("{kind}Binding"), namespace)
            .with("roleRef", json!({"apiGroup": RBAC, "kind": kind, "name": role}))
            .with("subjects", json!([subject]))
    }
}

#[cfg(test)]
mod tests;
