mod api_service;
mod certificate;
mod deployment_config;
mod difference;
mod upstream;
mod webhook;

use olm_api::keys::{annotation, label};
use proptest::prelude::*;
use serde_json::json;

use super::handover::prepare_for_revision;
use super::*;
use crate::bundle::fixture::{csv, csv_of, load, minimal, modes, sample, with};
use crate::bundle::{Files, Permission, PolicyRule};
use crate::error::Chain;
use crate::fixture::cases;
use crate::yaml;

const CASES: &str = include_str!("../../testdata/render/cases.yaml");

const NONE: Features =
    Features { single_own_namespace: false, deployment_config: false, webhooks: false };

fn settings(features: Features) -> Settings<'static> {
    Settings {
        install_namespace: "ops",
        inline: None,
        features,
        role_placement: RolePlacement::default(),
        certificates: None,
    }
}

fn options(target: &str) -> RenderOptions {
    RenderOptions {
        install_namespace: "ops".to_owned(),
        targets: vec![target.to_owned()],
        role_placement: RolePlacement::TargetsAndInstall,
        deployment: None,
        certificates: None,
    }
}

fn outcome(files: &Files, options: &RenderOptions) -> Result<Vec<Object>, String> {
    render(&load(files), options)
        .map(|rendered| rendered.objects)
        .map_err(|error| Chain(&error).to_string())
}

fn identities(objects: &[Object]) -> Vec<String> {
    let objects = objects.iter();
    objects.map(|object| object.identity().to_string()).collect()
}

fn find<'a>(objects: &'a [Object], kind: &str) -> &'a Object {
    objects.iter().find(|object| object.kind() == kind).unwrap()
}

fn stream(objects: Vec<Object>) -> String {
    let values: Vec<Value> = objects.into_iter().map(Object::into_value).collect();
    yaml::to_yaml_stream(&values)
}

// rendering.md R15, 4.7, 4.5, 1.5, 4.6, 4.12, 1.1, 4.8, 1.7
#[test]
fn the_sample_becomes_these_objects() {
    let rendered = render(&load(&sample()), &options("")).unwrap();
    insta::assert_snapshot!(stream(rendered.objects));
    insta::assert_debug_snapshot!(rendered.warnings);
}

// rendering.md 6.1
#[test]
fn the_sample_enters_a_revision_with_marks_and_otherwise_as_it_is() {
    let rendered = render(&load(&sample()), &options("")).unwrap().objects;
    let prepared = prepare_for_revision(rendered.clone(), "my-kettle", "kettle", "1.2.0");
    assert_eq!(prepared.len(), rendered.len());
    for (before, mut after) in rendered.into_iter().zip(prepared) {
        assert_eq!(after.identity(), before.identity());
        assert_eq!(after.label(label::OWNER_NAME), Some("my-kettle"));
        assert_eq!(after.annotation(annotation::BUNDLE_VERSION), Some("1.2.0"));
        after.0.insert("metadata".to_owned(), before.0["metadata"].clone());
        assert_eq!(after, before);
    }
}

// rendering.md 6.1
#[test]
fn hand_over_strips_and_labels() {
    let object = Object::from_value(json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "s", "namespace": "n", "uid": "u", "finalizers": ["f"],
            "ownerReferences": [{"uid": "x"}], "creationTimestamp": null, "managedFields": [],
            "labels": {"a": "b", "olm.operatorframework.io/owner-name": "other"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        },
        "status": {"loadBalancer": {}},
    }))
    .unwrap();
    let labels = json!({"a": "b", "olm.operatorframework.io/owner-kind": "ClusterExtension",
        "olm.operatorframework.io/owner-name": "mine"});
    let bare = prepare_for_revision(vec![object.clone()], "mine", "", "").remove(0);
    assert_eq!(
        bare.into_value(),
        json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "s", "namespace": "n", "labels": labels}})
    );
    let full = prepare_for_revision(vec![object], "mine", "p", "1.0.0").remove(0);
    assert_eq!(
        full.0["metadata"]["annotations"],
        json!({"olm.operatorframework.io/bundle-version": "1.0.0",
            "olm.operatorframework.io/package-name": "p"})
    );
}

// rendering.md 4.2
#[test]
fn hashes_as_upstream() {
    for (json, want) in cases::<(&str, &str)>(CASES, "hashes_as_upstream") {
        assert_eq!(hash(json), want);
    }
}

#[test]
fn unique_names() {
    for (base, suffix, want) in cases::<(&str, &str, &str)>(CASES, "unique_names") {
        assert_eq!(unique(base, suffix), want);
    }
}

// rendering.md 4.2, 4.3
#[test]
fn role_names_as_upstream() {
    for (mode, list, permission, want) in
        cases::<(&str, &str, &str, &str)>(CASES, "role_names_as_upstream")
    {
        let (mode, target) = match mode {
            "O" => ("OwnNamespace", "ops"),
            _ => ("AllNamespaces", ""),
        };
        let spec = format!("{{install: {{spec: {{{list}: [{permission}]}}}}}}");
        let csv = csv_of(&format!("[{{type: {mode}, supported: true}}]"), &spec);
        let csv = csv.replace("pot.v1", "foo.v1.0.0");
        let objects = outcome(&with(&[("manifests/csv.yaml", &csv)]), &options(target)).unwrap();
        let role = objects.iter().find(|object| object.kind().ends_with("Role")).unwrap();
        assert_eq!(role.name(), want);
    }
}

// rendering.md 4.2
#[test]
fn absent_and_empty_verbs_hash_differently_and_resource_names_do_not_count() {
    let name = |verbs: Option<Vec<String>>| {
        let rules = Some(vec![PolicyRule { verbs, ..PolicyRule::default() }]);
        let service_account_name = String::new();
        name::role_name("c", &Permission { service_account_name, rules })
    };
    assert_ne!(name(None), name(Some(Vec::new())));
}

// rendering.md 4.3, 4.4, R11
#[test]
fn namespaced_rights_go_to() {
    for (target, role_placement, want) in
        cases::<(&str, &str, Vec<&str>)>(CASES, "namespaced_rights_go_to")
    {
        let csv = csv_of(
            "[{type: AllNamespaces, supported: true}, {type: OwnNamespace, supported: true}, \
              {type: SingleNamespace, supported: true}]",
            "{install: {spec: {permissions: [{serviceAccountName: sa, rules: [{verbs: [get]}]}]}}}",
        );
        let role_placement = role_placement.parse().unwrap();
        let options = RenderOptions { role_placement, ..options(target) };
        let objects = outcome(&with(&[("manifests/csv.yaml", &csv)]), &options).unwrap();
        assert_eq!(identities(&objects[..1]), ["ServiceAccount.v1 ops/sa"]);
        let places: Vec<_> = objects[1..]
            .iter()
            .map(|object| format!("{} {}", object.kind(), object.namespace()).trim().to_owned())
            .collect();
        assert_eq!(places, want);
        for binding in objects.iter().filter(|object| object.kind().ends_with("Binding")) {
            assert_eq!(binding.0["subjects"][0]["namespace"], "ops");
            assert_eq!(binding.0["roleRef"]["name"], binding.name());
        }
    }
}

// rendering.md 2, 3.2
#[test]
fn unsupported_bundles_are_refused_before_their_configuration() {
    for (modes, spec, all, want) in cases::<(Value, Value, bool, &str)>(
        CASES,
        "unsupported_bundles_are_refused_before_their_configuration",
    ) {
        let csv = csv_of(&modes.to_string(), &spec.to_string());
        let bundle = load(&with(&[("manifests/csv.yaml", &csv)]));
        let inline = json!({"unknown": true});
        let features = if all { Features::default() } else { NONE };
        let settings = Settings { inline: Some(&inline), ..settings(features) };
        let error = render_configured(&bundle, &settings).unwrap_err();
        assert_eq!(Chain(&error).to_string(), format!("unsupported bundle: {want}"));
        assert_eq!(error.disposition(), Disposition::Retry);
    }
}

// rendering.md 3: the configuration is judged before the bundle is validated
#[test]
fn configuration_comes_before_validation() {
    let spec = "{install: {spec: {deployments: [{name: d}, {name: d}]}}}";
    let bundle = load(&with(&[("manifests/csv.yaml", &csv(spec))]));
    let inline = json!({"watchNamespace": "x"});
    let wrong = Settings { inline: Some(&inline), ..settings(NONE) };
    assert_eq!(
        Chain(&render_configured(&bundle, &wrong).unwrap_err()).to_string(),
        "invalid ClusterExtension configuration: invalid configuration: unknown field \
         \"watchNamespace\""
    );
    assert_eq!(
        Chain(&render_configured(&bundle, &settings(NONE)).unwrap_err()).to_string(),
        "cluster service version contains duplicate strategy deployment spec 'd'"
    );
}

// rendering.md 3.5
#[test]
fn targets_must_be_supported() {
    for (letters, targets, want) in
        cases::<(&str, Vec<&str>, &str)>(CASES, "targets_must_be_supported")
    {
        let supported = modes(letters)
            .into_iter()
            .map(|it| format!("{{type: {}, supported: true}}", it.mode))
            .collect::<Vec<_>>();
        let csv = csv_of(&format!("[{}]", supported.join(", ")), "{}");
        let targets = targets.iter().map(|&target| target.to_owned()).collect();
        let options = RenderOptions { targets, ..options("") };
        assert_eq!(
            outcome(&with(&[("manifests/csv.yaml", &csv)]), &options).unwrap_err(),
            format!("invalid option(s): invalid target namespaces {want}")
        );
    }
}

// rendering.md 4.7
#[test]
fn pods_are_told_what_to_watch() {
    let modes =
        "[{type: AllNamespaces, supported: true}, {type: SingleNamespace, supported: true}]";
    let csv = csv_of(modes, "{install: {spec: {deployments: [{name: d}]}}}");
    for target in ["", "dev"] {
        let objects = outcome(&with(&[("manifests/csv.yaml", &csv)]), &options(target)).unwrap();
        let told = find(&objects, "Deployment").pointer("/spec/template/metadata/annotations");
        let want = json!({"olm.targetNamespaces": target, "olm.operatorNamespace": "ops"});
        assert_eq!(told, Some(&want));
    }
}

// rendering.md 4
#[test]
fn a_bundle_without_anything_renders_to_nothing() {
    assert_eq!(outcome(&minimal(), &options("")).unwrap(), []);
}

// rendering.md 1.5, R9
#[test]
fn kinds_decide_about_namespaces_whatever_the_group() {
    let manifest = "apiVersion: iam.services.k8s.aws/v1alpha1\nkind: Role\n\
                    metadata: {name: example, namespace: x}\n---\n\
                    apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n\
                    metadata: {name: c, namespace: x}\n---\n\
                    apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\n\
                    metadata: {name: v}\n";
    let objects = outcome(&with(&[("manifests/x.yaml", manifest)]), &options("")).unwrap();
    assert_eq!(
        identities(&objects),
        [
            "Role.iam.services.k8s.aws/v1alpha1 ops/example",
            "ClusterRole.rbac.authorization.k8s.io/v1 x/c",
            "VerticalPodAutoscaler.autoscaling.k8s.io/v1 ops/v",
        ]
    );
}

// rendering.md 4.12
#[test]
fn different_objects_of_one_identity_are_refused() {
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: a}\n---\n\
                    apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}\n";
    assert_eq!(
        outcome(&with(&[("manifests/x.yaml", manifest)]), &options("")).unwrap_err(),
        "bundle contains two different objects of kind ConfigMap named \"ops/c\""
    );
    let cluster = "apiVersion: v1\nkind: PriorityClass\nmetadata: {name: c}\n---\n\
                   apiVersion: v1\nkind: PriorityClass\nmetadata: {name: c}\nvalue: 1\n";
    assert_eq!(
        outcome(&with(&[("manifests/x.yaml", cluster)]), &options("")).unwrap_err(),
        "bundle contains two different objects of kind PriorityClass named \"c\""
    );
}

// rendering.md 4.8
#[test]
fn quantities_are_texts() {
    let pod = "{containers: [{name: c, resources: {limits: {cpu: 1, memory: 1.5}}, env: \
                [{name: e, valueFrom: {resourceFieldRef: {divisor: 1}}}]}], volumes: \
                [{name: v, emptyDir: {sizeLimit: 10}}], initContainers: x}";
    let spec = format!(
        "{{install: {{spec: {{deployments: [{{name: d, spec: {{template: {{spec: {pod}}}}}}}]}}}}}}"
    );
    let objects = outcome(&with(&[("manifests/csv.yaml", &csv(&spec))]), &options("")).unwrap();
    let pod = &find(&objects, "Deployment").0["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["resources"]["limits"], json!({"cpu": "1", "memory": "1.5"}));
    assert_eq!(container["env"][0]["valueFrom"]["resourceFieldRef"]["divisor"], "1");
    assert_eq!(pod["volumes"][0]["emptyDir"]["sizeLimit"], "10");
}

fn any_rule() -> impl Strategy<Value = PolicyRule> {
    let words = || proptest::collection::vec("[a-z<&*/\u{e9}]{0,6}", 0..3);
    (proptest::option::of(words()), words(), words(), words()).prop_map(
        |(verbs, api_groups, resources, resource_names)| PolicyRule {
            verbs,
            api_groups,
            resources,
            resource_names,
            non_resource_urls: Vec::new(),
        },
    )
}

proptest! {
    // rendering.md 4.2
    #[test]
    fn role_names_are_valid_and_short(
        csv in "[a-z][a-z0-9.-]{0,60}",
        service_account_name in "[a-z0-9-]{0,20}",
        rules in proptest::option::of(proptest::collection::vec(any_rule(), 0..3)),
    ) {
        let permission = Permission { service_account_name, rules };
        let name = name::role_name(&csv, &permission);
        prop_assert!(name.len() <= 64, "{}", name);
        prop_assert!(name.starts_with(|c: char| c.is_ascii_lowercase()));
        prop_assert!(name.ends_with(|c: char| c.is_ascii_alphanumeric()));
        prop_assert_eq!(&name, &name::role_name(&csv, &permission.clone()));
    }

    // rendering.md 1
    #[test]
    fn rendering_never_panics(
        spec in "\\{(install: \\{spec: \\{deployments: \\[\\{name: [a-z]{0,2}, spec: [a-z{}:1 ]{0,12}\\}\\]\\}\\}|webhookdefinitions: \\[\\{\\}\\])\\}",
        manifest in "apiVersion: v1\nkind: (Service|ConfigMap|ClusterRoleBinding|X)\nmetadata: \\{name: [a-z]{1,2}\\}\n(subjects|spec|items): [a-z{}\\[\\]:1 ]{0,12}\n",
    ) {
        let files = with(&[("manifests/csv.yaml", &csv(&spec)), ("manifests/x.yaml", &manifest)]);
        if let Ok(bundle) = Bundle::from_files(&files) {
            let _ = render(&bundle, &options(""));
        }
    }
}

// A stanza of the bundle's own, which no ConversionWebhook replaces, may name any namespace.
#[test]
fn a_conversion_by_a_service_elsewhere_is_warned_of() {
    let warnings = |namespace: &str, service: &str| {
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition", "metadata": {"name": "x.example.com"},
            "spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig":
                {"service": {"name": "hook", "namespace": namespace}}}}}});
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": service}});
        let (crd, service) = (crd.to_string(), service.to_string());
        let files = with(&[("manifests/crd.yaml", &crd), ("manifests/service.yaml", &service)]);
        render(&load(&files), &options("")).unwrap().warnings
    };
    let want = "CustomResourceDefinition \"x.example.com\" is converted by Service \"hook\" of \
                namespace \"elsewhere\", but the bundle creates it in \"ops\"";
    assert_eq!(warnings("elsewhere", "hook"), [want]);
    assert_eq!(warnings("ops", "hook"), [""; 0]);
    assert_eq!(warnings("elsewhere", "other"), [""; 0]);
}
