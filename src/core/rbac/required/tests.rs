//! The rights that single objects and small bundles need.

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::rbac::fixture::{binding, crd, object, plain, role, small_bundle};
use crate::rbac::lines;

fn compute(objects: &[Object], options: &Options) -> Required {
    let bundle = BundleObjects { name: "test.v1.2.0", objects };
    required(&[bundle], "ns1", options).unwrap()
}

fn needed(objects: &[Object]) -> Vec<String> {
    lines(&compute(objects, &Options::default()).needed)
}

// applying.md 5.3, worked example
#[test]
fn small_bundle_takes_what_the_worked_example_says() {
    assert_eq!(
        needed(&small_bundle()),
        [
            r#"Namespace:"" APIGroups:[] Resources:[pods] Verbs:[get,list]"#,
            r#"Namespace:"" APIGroups:[apiextensions.k8s.io] Resources:[customresourcedefinitions] ResourceNames:[foos.example.com] Verbs:[delete,get,patch]"#,
            r#"Namespace:"" APIGroups:[apiextensions.k8s.io] Resources:[customresourcedefinitions] Verbs:[create]"#,
            r#"Namespace:"" APIGroups:[rbac.authorization.k8s.io] Resources:[clusterrolebindings,clusterroles] ResourceNames:[op-x] Verbs:[delete,get,patch]"#,
            r#"Namespace:"" APIGroups:[rbac.authorization.k8s.io] Resources:[clusterrolebindings,clusterroles] Verbs:[create]"#,
            r#"Namespace:"ns1" APIGroups:[] Resources:[serviceaccounts] ResourceNames:[op-sa] Verbs:[delete,get,patch]"#,
            r#"Namespace:"ns1" APIGroups:[] Resources:[serviceaccounts] Verbs:[create]"#,
            r#"Namespace:"ns1" APIGroups:[apps] Resources:[deployments] ResourceNames:[op] Verbs:[delete,get,patch]"#,
            r#"Namespace:"ns1" APIGroups:[apps] Resources:[deployments] Verbs:[create]"#,
        ]
    );
}

// applying.md 5.3: after granting all but the pods rule
#[test]
fn only_the_ungranted_rule_is_reported() {
    let required = compute(&small_bundle(), &Options::default());
    let mut granted = Permissions::default();
    let others = required.needed.iter().filter(
        |(_, right)| !matches!(right, Permission::Resource { resource, .. } if resource == "pods"),
    );
    others.for_each(|(namespace, right)| granted.insert(namespace, right.clone()));
    assert_eq!(
        lines(&required.needed.missing(&granted)),
        [r#"Namespace:"" APIGroups:[] Resources:[pods] Verbs:[get,list]"#]
    );
}

#[test]
fn watching_is_advisory_and_by_name() {
    let objects = [plain("v1", "ConfigMap", "ns1", "cfg")];
    let named = compute(&objects, &Options::default());
    assert_eq!(
        lines(&named.advisory),
        [
            r#"Namespace:"ns1" APIGroups:[] Resources:[configmaps] ResourceNames:[cfg] Verbs:[list,watch]"#
        ]
    );
    let options = Options { collection_watch: true, ..Options::default() };
    assert_eq!(
        lines(&compute(&objects, &options).advisory),
        [r#"Namespace:"ns1" APIGroups:[] Resources:[configmaps] Verbs:[list,watch]"#]
    );
}

// applying.md 6.7
#[rstest]
#[case::one(json!([{"name": "v1"}]), false)]
#[case::several(json!([{"name": "v1"}, {"name": "v2"}]), true)]
fn stored_versions_can_be_trimmed_where_there_are_several(
    #[case] versions: Value,
    #[case] trims: bool,
) {
    let mut crd = crd("foos", "Foo", "Namespaced");
    crd.0["spec"]["versions"] = versions;
    let required = compute(&[crd], &Options::default());
    let right = trimming("foos.example.com");
    assert_eq!(required.advisory.covers("", &right), trims);
    assert!(!required.needed.covers("", &right));
}

#[test]
fn custom_resources_take_plural_and_scope_from_the_bundle() {
    let lines = needed(&[
        crd("roles", "Role", "Namespaced"),
        crd("settings", "Setting", "Cluster"),
        plain("example.com/v1", "Role", "ns1", "example"),
        plain("example.com/v1", "Setting", "ns1", "one"),
    ]);
    let wanted = [
        r#"Namespace:"" APIGroups:[example.com] Resources:[settings] ResourceNames:[one] Verbs:[delete,get,patch]"#,
        r#"Namespace:"ns1" APIGroups:[example.com] Resources:[roles] ResourceNames:[example] Verbs:[delete,get,patch]"#,
    ];
    for line in wanted {
        assert!(lines.iter().any(|one| one == line), "{line} in {lines:#?}");
    }
}

#[test]
fn unknown_kind_is_an_error_that_names_the_object() {
    let objects = [plain("example.com/v1", "Bar", "ns1", "b")];
    let bundle = BundleObjects { name: "test.v1.2.0", objects: &objects };
    let error = required(&[bundle], "ns1", &Options::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "bundle \"test.v1.2.0\": object Bar.example.com/v1 ns1/b: no given bundle defines kind \
         Bar.example.com, so its resource is unknown"
    );
}

#[test]
fn definition_of_another_given_bundle_serves() {
    let (objects, definitions) =
        ([plain("example.com/v1", "Foo", "ns1", "b")], [crd("foos", "Foo", "Namespaced")]);
    let bundles = [("a.v1", &objects), ("b.v1", &definitions)]
        .map(|(name, objects)| BundleObjects { name, objects });
    assert!(required(&bundles, "ns1", &Options::default()).is_ok());
}

#[test]
fn nameless_object_is_an_error() {
    let objects = [object(json!({"apiVersion": "v1", "kind": "Secret"}))];
    let bundle = BundleObjects { name: "test.v1.2.0", objects: &objects };
    let error = required(&[bundle], "ns1", &Options::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "bundle \"test.v1.2.0\": an object of kind Secret.v1 has no name"
    );
}

#[test]
fn object_in_another_namespace_takes_rights_there_and_a_default_is_filled_in() {
    let lines = needed(&[
        plain("v1", "ConfigMap", "elsewhere", "cfg"),
        plain("v1", "ConfigMap", "", "here"),
    ]);
    assert_eq!(
        lines,
        [
            r#"Namespace:"elsewhere" APIGroups:[] Resources:[configmaps] ResourceNames:[cfg] Verbs:[delete,get,patch]"#,
            r#"Namespace:"elsewhere" APIGroups:[] Resources:[configmaps] Verbs:[create]"#,
            r#"Namespace:"ns1" APIGroups:[] Resources:[configmaps] ResourceNames:[here] Verbs:[delete,get,patch]"#,
            r#"Namespace:"ns1" APIGroups:[] Resources:[configmaps] Verbs:[create]"#,
        ]
    );
}

#[test]
fn namespace_of_a_cluster_scoped_object_is_ignored() {
    let kind = "ValidatingWebhookConfiguration";
    let objects = [plain("admissionregistration.k8s.io/v1", kind, "ns1", "v")];
    let required = compute(&objects, &Options::default());
    assert_eq!(required.needed.namespaces().collect::<Vec<_>>(), [""]);
}

#[test]
fn rules_of_a_role_are_needed_in_its_namespace() {
    let secrets = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]},
        {"nonResourceURLs": ["/x"], "verbs": ["get"]}]);
    let required = compute(&[role("ns2", "r", secrets)], &Options::default());
    let right = Permission::on("*", "", "secrets", None);
    assert!(required.needed.covers("ns2", &right));
    assert!(!required.needed.covers("ns1", &right));
    assert_eq!(required.needed.namespaces().collect::<Vec<_>>(), ["ns2"]);
}

fn binds(objects: &[Object]) -> Vec<String> {
    let lines = needed(objects);
    lines.into_iter().filter(|line| line.contains("bind]")).collect()
}

// applying.md f6
#[test]
fn roles_outside_the_bundle_are_bound_by_name() {
    assert_eq!(
        binds(&[
            binding("ns1", "reader", "Role", "extension-apiserver-authentication-reader"),
            binding("ns1", "viewer", "ClusterRole", "view"),
            binding("", "auth", "ClusterRole", "system:auth-delegator"),
        ]),
        [
            r#"Namespace:"" APIGroups:[rbac.authorization.k8s.io] Resources:[clusterroles] ResourceNames:[system:auth-delegator] Verbs:[bind]"#,
            r#"Namespace:"ns1" APIGroups:[rbac.authorization.k8s.io] Resources:[clusterroles] ResourceNames:[view] Verbs:[bind]"#,
            r#"Namespace:"ns1" APIGroups:[rbac.authorization.k8s.io] Resources:[roles] ResourceNames:[extension-apiserver-authentication-reader] Verbs:[bind]"#,
        ]
    );
}

#[test]
fn role_of_the_bundle_is_bound_by_holding_its_rules() {
    let roles = [
        role("ns1", "r", json!([])),
        role("", "c", json!([])),
        binding("ns1", "r", "Role", "r"),
        binding("ns1", "c", "ClusterRole", "c"),
        binding("", "c", "ClusterRole", "c"),
    ];
    assert_eq!(binds(&roles), Vec::<String>::new());
}

#[test]
fn role_of_the_bundle_in_another_namespace_is_not_the_one_bound() {
    let roles = [role("ns2", "r", json!([])), binding("ns1", "r", "Role", "r")];
    assert_eq!(
        binds(&roles),
        [
            r#"Namespace:"ns1" APIGroups:[rbac.authorization.k8s.io] Resources:[roles] ResourceNames:[r] Verbs:[bind]"#
        ]
    );
}

#[test]
fn role_of_another_given_bundle_is_bound_by_name() {
    let (roles, bindings) = ([role("", "c", json!([]))], [binding("", "c", "ClusterRole", "c")]);
    let bundles = [("a.v1", &roles), ("b.v1", &bindings)]
        .map(|(name, objects)| BundleObjects { name, objects });
    let required = required(&bundles, "ns1", &Options::default()).unwrap();
    let right = Permission::on("bind", RBAC, "clusterroles", Some("c"));
    assert!(required.needed.covers("", &right));
}

#[test]
fn aggregated_role_takes_escalate_and_is_bound_by_name() {
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let mut aggregated = role("", "agg", rules);
    let selectors = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    aggregated.0.insert("aggregationRule".to_owned(), selectors);
    let objects = [aggregated, binding("", "agg", "ClusterRole", "agg")];
    let required = compute(&objects, &Options::default());
    let holds = |right| required.needed.covers("", &right);
    assert!(holds(Permission::on("escalate", RBAC, "clusterroles", None)));
    assert!(holds(Permission::on("bind", RBAC, "clusterroles", Some("agg"))));
    assert!(!holds(Permission::on("get", "", "pods", None)));
    assert_eq!(
        required.warnings,
        [Warning::Aggregation { bundle: "test.v1.2.0".into(), role: "agg".into() }]
    );
}

#[test]
fn aggregation_without_selectors_is_none() {
    let mut role = role("", "r", json!([]));
    let empty = json!({"clusterRoleSelectors": []});
    role.0.insert("aggregationRule".to_owned(), empty);
    let required = compute(&[role], &Options::default());
    assert!(required.warnings.is_empty());
    assert!(!required.needed.covers("", &Permission::on("escalate", RBAC, "clusterroles", None)));
}

#[test]
fn openshift_roles_take_rights_on_the_roles_behind_them() {
    let pods = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let mut role = role("ns1", "r", pods);
    role.0.insert("apiVersion".into(), json!("authorization.openshift.io/v1"));
    let binding = object(json!({
        "apiVersion": "authorization.openshift.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "b", "namespace": "ns1"}, "roleRef": {"name": "view"},
    }));
    let required = compute(&[role, binding], &Options::default());
    let holds = |right| required.needed.covers("ns1", &right);
    assert!(holds(Permission::on("patch", OPENSHIFT_RBAC, "roles", Some("r"))));
    assert!(holds(Permission::on("update", RBAC, "roles", Some("r"))));
    assert!(holds(Permission::on("create", RBAC, "roles", None)));
    assert!(holds(Permission::on("get", "", "pods", None)));
    assert!(holds(Permission::on("bind", RBAC, "clusterroles", Some("view"))));
}

// applying.md 5.4
#[rstest]
#[case::cluster_roles("", RBAC, "clusterroles", true)]
#[case::bindings_of_them("", RBAC, "clusterrolebindings", true)]
#[case::crds("", "apiextensions.k8s.io", "customresourcedefinitions", false)]
#[case::of_the_bundle("ns1", "apps", "deployments", true)]
#[case::of_a_later_version("ns1", "networking.k8s.io", "networkpolicies", true)]
#[case::roles_of_a_later_version("ns1", RBAC, "roles", true)]
#[case::secrets("ns1", "", "secrets", false)]
#[case::elsewhere("ns2", "", "configmaps", false)]
fn stable_rights_name_nothing_that_changes_between_versions(
    #[case] namespace: &str,
    #[case] group: &str,
    #[case] resource: &str,
    #[case] unnamed: bool,
) {
    let mut objects = small_bundle();
    objects.push(plain("v1", "Secret", "ns1", "s"));
    objects.push(plain("v1", "ConfigMap", "ns2", "c"));
    let options = Options { stable: true, ..Options::default() };
    let right = Permission::on("patch", group, resource, None);
    assert_eq!(compute(&objects, &options).all().covers(namespace, &right), unnamed);
    assert!(!compute(&objects, &Options::default()).all().covers(namespace, &right));
}

#[test]
fn bind_escalate_replaces_the_rules_and_warns() {
    let options = Options { bind_escalate: true, ..Options::default() };
    let required = compute(&small_bundle(), &options);
    let holds = |right| required.needed.covers("", &right);
    assert!(!holds(Permission::on("get", "", "pods", None)));
    assert!(holds(Permission::on("escalate", RBAC, "clusterroles", None)));
    assert!(holds(Permission::on("bind", RBAC, "clusterroles", Some("op-x"))));
    assert_eq!(required.warnings, [Warning::BindEscalate]);
}

#[test]
fn garbage_does_not_panic() {
    let mut odd = role("", "r", json!("no list"));
    odd.0.insert("aggregationRule".to_owned(), json!(7));
    let mut unbound = binding("ns1", "b", "Role", "r");
    unbound.0.insert("roleRef".to_owned(), json!([]));
    let bare_crd = plain("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "x");
    compute(&[odd, unbound, bare_crd], &Options::default());
}
