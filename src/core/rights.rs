//! Every right of the controller's own account, with its reason.
//!
//! The one table behind the roles of `config/rbac`, the controller's look at its own rights,
//! `kubectl olm doctor`, and the test that compares it with the audit log. Objects of a bundle are
//! written by the service account that the extension names, so nothing here may write them.
//!
//! Source: applying.md 4.3, deploying.md 2.8.

use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use olm_api::keys::name;

use crate::rbac::{IMPERSONATE, Permission, Permissions, PolicyRule};
use crate::revision::Account;

const OLM: &str = olm_api::GROUP;
const CORE: &str = "";
const ADMISSION: &str = "admissionregistration.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const COORDINATION: &str = "coordination.k8s.io";
const EVENTS: &str = "events.k8s.io";
/// The API group of what configures an OpenShift cluster.
pub const OPENSHIFT: &str = "config.openshift.io";
const LEASES: &str = "leases";
/// Policy of upstream v1.11 that warns of `spec.serviceAccount`.
pub const UPSTREAMS_DEPRECATION: &str = "clusterextension-serviceaccount-deprecated";
/// The Deployment of OpenShift's operator for OLM, which may write the verdict of the gate.
pub const UPSTREAMS_OPERATOR: &str = "cluster-olm-operator";

/// A part of the controller that may run as an account of its own, with two roles of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Half {
    /// Extensions, their revisions and the gate.
    Extensions,
    /// Catalogs.
    Catalogs,
}

/// Where a right holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// In the whole cluster.
    Cluster,
    /// In the whole cluster, unless the cluster's administrator takes this role away (component
    /// `no-shared-watches`): the accounts of extensions watch then.
    Watches,
    /// In the namespace the half runs in.
    Namespace,
}

impl Reach {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cluster, Self::Watches, Self::Namespace];
}

/// A rule of one of the roles, and what needs it.
#[derive(Debug, Clone, Copy)]
pub struct Right {
    /// Where it holds.
    pub reach: Reach,
    /// What needs it, one sentence or more.
    pub reason: &'static str,
    group: &'static str,
    resources: &'static [&'static str],
    names: &'static [&'static str],
    paths: &'static [&'static str],
    verbs: &'static [&'static str],
}

impl Right {
    const fn cluster(
        group: &'static str,
        resources: &'static [&'static str],
        verbs: &'static [&'static str],
        reason: &'static str,
    ) -> Self {
        Self { reach: Reach::Cluster, reason, group, resources, names: &[], paths: &[], verbs }
    }

    const fn here(
        group: &'static str,
        resources: &'static [&'static str],
        verbs: &'static [&'static str],
        reason: &'static str,
    ) -> Self {
        let right = Self::cluster(group, resources, verbs, reason);
        Self { reach: Reach::Namespace, ..right }
    }

    /// Objects of extensions, of kinds that hold no secrets, as [`crate::rights::SHARED_WATCHES`]
    /// names them.
    const fn watched(group: &'static str, resources: &'static [&'static str]) -> Self {
        let reason = "Objects of extensions, of kinds that hold no secrets: their metadata, watched \
                      once for all extensions.";
        let right = Self::cluster(group, resources, FOLLOW, reason);
        Self { reach: Reach::Watches, ..right }
    }

    const fn named(self, names: &'static [&'static str]) -> Self {
        Self { names, ..self }
    }

    /// Returns it as RBAC writes it.
    pub fn rule(&self) -> PolicyRule {
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        PolicyRule {
            api_groups: match self.paths {
                [] => vec![self.group.to_owned()],
                _ => Vec::new(),
            },
            resources: texts(self.resources),
            resource_names: texts(self.names),
            verbs: texts(self.verbs),
            non_resource_urls: texts(self.paths),
        }
    }
}

impl Half {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Extensions, Self::Catalogs];

    /// Returns the name of the role that holds its rights of this reach. Those of its `ClusterRole` and
    /// of its Role are upstream's.
    pub fn role(self, reach: Reach) -> &'static str {
        match (self, reach) {
            (_, Reach::Watches) => "operator-controller-shared-watches",
            (Self::Extensions, Reach::Cluster | Reach::Namespace) => {
                "operator-controller-manager-role"
            }
            (Self::Catalogs, Reach::Cluster | Reach::Namespace) => "catalogd-manager-role",
        }
    }

    /// Returns the name of its Lease, unless a flag gives another.
    pub fn lease(self) -> &'static str {
        match self {
            Self::Extensions => name::LEASE_OPERATOR_CONTROLLER,
            Self::Catalogs => name::LEASE_CATALOGD,
        }
    }

    /// Returns its rights.
    pub fn rights(self) -> &'static [Right] {
        match self {
            Self::Extensions => EXTENSIONS,
            Self::Catalogs => CATALOGS,
        }
    }

    /// Returns every right of a half that runs in `namespace`, one by one.
    pub fn permissions(self, namespace: &str) -> Permissions {
        self.within(&Reach::ALL, namespace)
    }

    fn within(self, reaches: &[Reach], namespace: &str) -> Permissions {
        let mut all = Permissions::default();
        let rights = self.rights().iter();
        for right in rights.filter(|right| reaches.contains(&right.reach)) {
            let place = match right.reach {
                Reach::Cluster | Reach::Watches => "",
                Reach::Namespace => namespace,
            };
            all.insert_rule(place, &right.rule());
        }
        all
    }

    /// Returns what a half that runs in `namespace` cannot do without, and takes the lease at
    /// (namespace, name), if it takes one.
    ///
    /// Acting as an account is left out: it may be granted for single accounts alone (components
    /// `narrow-impersonation` and `constrained-impersonation`), and an extension whose account is
    /// out of reach says so itself. So are the shared watches: without them, accounts watch.
    pub fn needed(self, namespace: &str, lease: Option<(&str, &str)>) -> Permissions {
        let mut needed = Permissions::default();
        let strict = self.within(&[Reach::Cluster, Reach::Namespace], namespace);
        for (place, right) in strict.iter() {
            match (right, lease) {
                (Permission::Resource { verb, .. }, _) if verb == IMPERSONATE => {}
                (Permission::Resource { resource, .. }, None) if resource == LEASES => {}
                (Permission::Resource { resource, name, verb, .. }, Some((place, lease)))
                    if resource == LEASES =>
                {
                    let name = name.is_some().then_some(lease);
                    needed.insert(place, Permission::on(verb, COORDINATION, LEASES, name));
                }
                _ => needed.insert(place, right.clone()),
            }
        }
        needed
    }
}

/// Returns the rights that reading and watching one Secret takes.
pub fn on_secret(namespace: &str, secret: &str) -> Permissions {
    let mut rights = Permissions::default();
    for verb in READ {
        let right = Permission::on(verb, CORE, "secrets", Some(secret));
        rights.insert(namespace, right);
    }
    rights
}

/// Returns a right as an access review asks for it: on an object, or on a path.
pub fn attributes(
    namespace: &str,
    right: &Permission,
) -> (Option<ResourceAttributes>, Option<NonResourceAttributes>) {
    let some = |text: &str| Some(text.to_owned());
    match right {
        Permission::Resource { group, resource, name, verb } => {
            let (resource, subresource) = match resource.split_once('/') {
                Some((resource, subresource)) => (resource, some(subresource)),
                None => (resource.as_str(), None),
            };
            let on = ResourceAttributes {
                namespace: some(namespace),
                group: some(group),
                resource: some(resource),
                subresource,
                name: name.clone(),
                verb: some(verb),
                ..ResourceAttributes::default()
            };
            (Some(on), None)
        }
        Permission::Url { path, verb } => {
            let at = NonResourceAttributes { path: some(path), verb: some(verb) };
            (None, Some(at))
        }
    }
}

/// Kinds of bundles whose objects hold no secrets, by group: their objects are watched with the
/// controller's own rights, one watch a kind for all extensions.
///
/// Source: decision 42.
pub const SHARED_WATCHES: [(&str, &str); 14] = [
    ("", "Service"),
    ("", "ServiceAccount"),
    ("apps", "Deployment"),
    (RBAC, "ClusterRole"),
    (RBAC, "ClusterRoleBinding"),
    (RBAC, "Role"),
    (RBAC, "RoleBinding"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("apiregistration.k8s.io", "APIService"),
    (ADMISSION, "MutatingWebhookConfiguration"),
    (ADMISSION, "ValidatingWebhookConfiguration"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("policy", "PodDisruptionBudget"),
    ("scheduling.k8s.io", "PriorityClass"),
];

/// Returns the question whether a service account has a right.
pub fn access_review(
    account: &Account,
    namespace: &str,
    right: &Permission,
) -> SubjectAccessReview {
    let (resource_attributes, non_resource_attributes) = attributes(namespace, right);
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(account.user()),
            groups: Some(account.groups()),
            resource_attributes,
            non_resource_attributes,
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

const READ: &[&str] = &["get", "list", "watch"];
const FOLLOW: &[&str] = &["list", "watch"];
const CREATE: &[&str] = &["create"];
const HOLD: &[&str] = &["get", "list", "watch", "update"];
const NOTE: &[&str] = &["create", "patch"];
const OPERATORS: &[&str] = &[name::CLUSTER_OPERATOR, name::CLUSTER_OPERATOR_OURS];

const WHO_AM_I: Right = Right::cluster(
    AUTHENTICATION,
    &["selfsubjectreviews"],
    CREATE,
    "Who it is itself: its own account installs nothing and names credentials for registries.",
);
const WHAT_MAY_I: Right = Right::cluster(
    AUTHORIZATION,
    &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
    CREATE,
    "Whether it may do everything, which stops it, and what of this table it may not.",
);
const WHOSE_TOKEN: Right =
    Right::cluster(AUTHENTICATION, &["tokenreviews"], CREATE, "Authenticate metrics clients.");
const MAY_THEY: Right =
    Right::cluster(AUTHORIZATION, &["subjectaccessreviews"], CREATE, "Authorize metrics clients.");
const TAKE_LEASE: &str = "The leader Lease. A right to create has no name.";
const PUBLISHED_CA: Right = Right::here(
    CORE,
    &["configmaps"],
    &["get", "list", "watch", "patch"],
    "The CA of the catalog server: published with --serving-certificates=self-signed, and read \
     where another process serves catalogs.",
)
.named(&[name::PUBLISHED_CA]);

const TLS_PROFILE: Right = Right::cluster(
    OPENSHIFT,
    &["apiservers"],
    FOLLOW,
    "The TLS profile of OpenShift, with --tls-profile=cluster.",
)
.named(&["cluster"]);
const CLUSTER_PROXY: Right = Right::cluster(
    OPENSHIFT,
    &["proxies"],
    FOLLOW,
    "The proxies of OpenShift, with --cluster-proxy or annotation cluster-proxy.",
)
.named(&["cluster"]);

const EXTENSIONS: &[Right] = &[
    Right::cluster(
        CORE,
        &["serviceaccounts"],
        &[IMPERSONATE],
        "Acting as the accounts that install extensions, which gives their rights and no others. \
         Components of kustomize replace this first rule.",
    ),
    Right::cluster(
        OLM,
        &["clusterextensions"],
        &["get", "list", "watch", "patch"],
        "Extensions, their finalizers and annotations.",
    ),
    Right::cluster(
        OLM,
        &["clusterextensionrevisions"],
        &["list"],
        "Revisions of upstream v1.6 to v1.8, which are named where they block a takeover.",
    ),
    Right::cluster(
        OLM,
        &["clusterobjectsets"],
        &["get", "list", "watch", "create", "patch", "delete"],
        "Their revisions.",
    ),
    Right::cluster(
        OLM,
        &["clusterextensions/status", "clusterobjectsets/status"],
        &["update"],
        "Write status.",
    ),
    Right::cluster(
        OLM,
        &["clusterextensions/finalizers"],
        &["update"],
        "What the policy on revisions (config/policy) asks for before a set may be one, and \
         admission plugin OwnerReferencesPermissionEnforcement before an owner reference that \
         blocks deletion may be written.",
    ),
    Right::cluster(OLM, &["clustercatalogs"], FOLLOW, "The catalogs to choose from."),
    Right::cluster(CORE, &["serviceaccounts"], READ, "The accounts that install extensions."),
    Right::cluster(
        ADMISSION,
        &["validatingadmissionpolicies"],
        READ,
        "Whether the policies on who may name an account are in force (config/policy), and \
         whether one of upstream is left that says what is not true here.",
    ),
    Right::cluster(
        ADMISSION,
        &["validatingadmissionpolicybindings"],
        FOLLOW,
        "The bindings of these policies.",
    ),
    WHO_AM_I,
    WHAT_MAY_I,
    WHOSE_TOKEN,
    Right {
        reason: "Authorize metrics clients, and check whether an account has a right that it seems \
                 to lack.",
        ..MAY_THEY
    },
    Right::cluster(
        CORE,
        &["namespaces"],
        READ,
        "The namespaces that extensions are installed in, and whether they require approval.",
    ),
    Right::cluster(
        "apiextensions.k8s.io",
        &["customresourcedefinitions"],
        READ,
        "Which kinds exist, and by whom, before anything is applied; and whether the CRD of a bundle \
         may follow the one that is there.",
    ),
    Right::cluster(
        "operators.coreos.com",
        &["clusterserviceversions"],
        &["list"],
        "What OLM Classic has installed, with --constraint-providers=clusterextensions,csvs.",
    ),
    Right::cluster(
        "apiregistration.k8s.io",
        &["apiservices"],
        FOLLOW,
        "What the cluster serves is read again when an API service comes or goes.",
    ),
    Right::cluster(
        "storage.k8s.io",
        &["storageclasses"],
        &["get"],
        "Whether claims of a storage class stay unbound until a pod uses them.",
    ),
    Right::cluster(
        RBAC,
        &["roles", "rolebindings", "clusterroles", "clusterrolebindings"],
        FOLLOW,
        "A change of rights wakes what waits for it, and a role outside a bundle is read that the \
         bundle binds.",
    ),
    Right::cluster(
        EVENTS,
        &["events"],
        NOTE,
        "Events about cluster-scoped objects, which land in namespace default.",
    ),
    Right::cluster(
        OPENSHIFT,
        &["clusterversions"],
        FOLLOW,
        "The OpenShift upgrade gate. Elsewhere these kinds do not exist and the rules give nothing.",
    ),
    Right::cluster(
        OPENSHIFT,
        &["clusteroperators"],
        &["get", "create", "patch"],
        "Its verdict. It is created by an apply, whose right to create has a name.",
    )
    .named(OPERATORS),
    Right::cluster(OPENSHIFT, &["clusteroperators/status"], &["patch"], "Its verdict.")
        .named(OPERATORS),
    Right::cluster(
        "apps",
        &["deployments"],
        &["get"],
        "Whether upstream's operator writes that verdict.",
    )
    .named(&[UPSTREAMS_OPERATOR]),
    TLS_PROFILE,
    CLUSTER_PROXY,
    Right {
        paths: &["/api", "/api/*", "/apis", "/apis/*", "/version"],
        ..Right::cluster(
            CORE,
            &[],
            &["get"],
            "Discovery, also where the default bindings of system:discovery were removed.",
        )
    },
    Right {
        paths: &["/metrics"],
        ..Right::cluster(
            CORE,
            &[],
            &["get"],
            "How many objects of a CRD are stored, when the account of an uninstall is gone that could \
             list them: numbers, no content.",
        )
    },
    Right::watched(CORE, &["services"]),
    Right::watched("apps", &["deployments"]),
    Right::watched(
        ADMISSION,
        &["validatingwebhookconfigurations", "mutatingwebhookconfigurations"],
    ),
    Right::watched("networking.k8s.io", &["networkpolicies"]),
    Right::watched("policy", &["poddisruptionbudgets"]),
    Right::watched("scheduling.k8s.io", &["priorityclasses"]),
    Right::here(
        CORE,
        &["secrets"],
        &["get", "list", "watch", "create", "update", "patch", "delete"],
        "The objects of each revision, the CAs of webhooks, and credentials for registries.",
    ),
    Right::here(COORDINATION, &[LEASES], CREATE, TAKE_LEASE),
    Right::here(COORDINATION, &[LEASES], HOLD, "Holding it.")
        .named(&[name::LEASE_OPERATOR_CONTROLLER]),
    Right::here(
        CORE,
        &["configmaps"],
        &["get", "patch"],
        "The settings, published for kubectl olm.",
    )
    .named(&[name::CONTROLLER_CONFIG]),
    Right::here(CORE, &["configmaps"], CREATE, "Whichever of the two does not exist."),
    PUBLISHED_CA,
];

const CATALOGS: &[Right] = &[
    Right::cluster(
        OLM,
        &["clustercatalogs"],
        &["list", "watch", "patch"],
        "Catalogs, their finalizers and labels.",
    ),
    Right::cluster(OLM, &["clustercatalogs/status"], &["update"], "Write status."),
    WHO_AM_I,
    WHAT_MAY_I,
    WHOSE_TOKEN,
    MAY_THEY,
    Right::cluster(
        RBAC,
        &["clusterrolebindings"],
        &["list"],
        "Which binding lets it do everything.",
    ),
    Right::cluster(
        ADMISSION,
        &["validatingadmissionpolicies"],
        &["get"],
        "A policy of upstream that says what is not true here is reported.",
    )
    .named(&[UPSTREAMS_DEPRECATION]),
    Right {
        paths: &["/version"],
        ..Right::cluster(
            CORE,
            &[],
            &["get"],
            "The version that annotation olm.catalogImageTemplate is filled in with.",
        )
    },
    TLS_PROFILE,
    CLUSTER_PROXY,
    Right::here(COORDINATION, &[LEASES], CREATE, TAKE_LEASE),
    Right::here(COORDINATION, &[LEASES], HOLD, "Holding it.").named(&[name::LEASE_CATALOGD]),
    Right::here(
        CORE,
        &["secrets"],
        READ,
        "Credentials for registries: those that its own account names, and those that \
         ClusterCatalogs may name; and the serving CA.",
    ),
    Right::here(CORE, &["serviceaccounts"], FOLLOW, "Which credentials its own account names."),
    Right::here(
        CORE,
        &["secrets", "configmaps"],
        CREATE,
        "The serving CA, with --serving-certificates=self-signed: with its key in a Secret, \
         without in another and in a ConfigMap.",
    ),
    Right::here(
        CORE,
        &["secrets"],
        &["update", "delete"],
        "Following it up, and replacing a damaged one.",
    )
    .named(&[name::SERVING_CA]),
    Right::here(CORE, &["secrets"], &["patch"], "The CA where upstream's clients look for it.")
        .named(&[name::PUBLISHED_CA_SECRET]),
    PUBLISHED_CA,
    Right::here(EVENTS, &["events"], NOTE, "Events about them."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_right_is_in_the_table_twice() {
        for half in Half::ALL {
            let all = half.permissions("system");
            let written: usize = half
                .rights()
                .iter()
                .map(|right| {
                    let rule = right.rule();
                    let subjects = rule.resources.len() * rule.resource_names.len().max(1);
                    rule.verbs.len() * (subjects + rule.non_resource_urls.len())
                })
                .sum();
            assert_eq!(all.iter().count(), written, "{half:?}");
            assert_eq!(all.reduced(), all, "{half:?}");
        }
    }

    #[test]
    fn what_is_needed_is_all_but_acting_as_accounts_and_watching_for_them() {
        let half = Half::Extensions;
        let all = half.within(&[Reach::Cluster, Reach::Namespace], "system");
        assert!(half.permissions("system").iter().count() > all.iter().count());
        let needed = half.needed("system", Some(("system", half.lease())));
        let left = all.missing(&needed);
        let act = Permission::on(IMPERSONATE, "", "serviceaccounts", None);
        assert_eq!(left.iter().collect::<Vec<_>>(), [("", &act)]);

        let moved = half.needed("system", Some(("there", "mine")));
        let update = |name| Permission::on("update", COORDINATION, LEASES, Some(name));
        assert!(moved.covers("there", &update("mine")));
        assert!(!moved.covers("system", &update(half.lease())));
        let unled = half.needed("system", None);
        assert!(unled.iter().count() < moved.iter().count());
    }

    #[test]
    fn subresources_and_paths_are_asked_for_as_such() {
        let status = Permission::on("update", OLM, "clustercatalogs/status", None);
        let (on, at) = attributes("", &status);
        let on = on.unwrap();
        assert_eq!(on.resource.as_deref(), Some("clustercatalogs"));
        assert_eq!(on.subresource.as_deref(), Some("status"));
        assert!(at.is_none());
        let path = Permission::Url { path: "/apis/*".into(), verb: "get".into() };
        let (on, at) = attributes("", &path);
        assert!(on.is_none());
        assert_eq!(at.unwrap().path.as_deref(), Some("/apis/*"));
    }
}
