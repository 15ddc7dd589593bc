use proptest::prelude::*;

use super::fixture::{csv, csv_of, files, load, minimal, refusal, sample, with};
use super::*;
use crate::error::Chain;
use crate::fixture::{cases, rows, text, texts};

const CASES: &str = include_str!("../testdata/bundle/cases.yaml");

// rendering.md 1.1, 1.6
#[test]
fn manifests_are_sorted_by_kind_and_lists_are_opened() {
    let bundle = load(&sample());
    assert_eq!(bundle.package, "kettle");
    assert_eq!(bundle.csv.name, "kettle.v1.2.0");
    let names = |objects: &[Object]| -> Vec<String> {
        objects.iter().map(|object| object.identity().to_string()).collect()
    };
    assert_eq!(
        names(&bundle.crds),
        ["CustomResourceDefinition.apiextensions.k8s.io/v1 kettles.example.com"]
    );
    assert_eq!(
        names(&bundle.others),
        [
            "ConfigMap.v1 elsewhere/kettle-config",
            "Role.rbac.authorization.k8s.io/v1 kettle-reader",
            "ServiceAccount.v1 kettle-controller",
            "ClusterRoleBinding.rbac.authorization.k8s.io/v1 kept/kettle-foreign",
            "ClusterRole.rbac.authorization.k8s.io/v1 kettle-editor",
            "ClusterRole.rbac.authorization.k8s.io/v1 kettle-editor",
            "VerticalPodAutoscaler.autoscaling.k8s.io/v1 kettle",
        ]
    );
    // null in a map of strings is the empty string.
    assert_eq!(bundle.csv.annotations["support"], "");
}

#[test]
fn refuses_to_load() {
    for row in rows(include_str!("../testdata/bundle/refusals.yaml")) {
        let entries = row["files"].as_object().unwrap().iter();
        let entries: Vec<_> =
            entries.map(|(path, content)| (path.as_str(), content.as_str().unwrap())).collect();
        let bundle = if row["alone"] == true { files(&entries) } else { with(&entries) };
        let reason = refusal(&bundle);
        assert!(reason.starts_with(text(&row, "want")), "{reason}: {row}");
    }
}

#[test]
fn bytes_that_are_no_text_are_not_loaded() {
    let mut bundle = minimal();
    bundle.insert("manifests/x".to_owned(), vec![b'\n', 0xff]);
    let want = "error parsing objects in \"manifests/x\": error parsing manifests/x: error converting \
                YAML to JSON: yaml: line 2: invalid UTF-8";
    let reason = refusal(&bundle);
    assert!(reason.starts_with(want), "{reason}");
}

// rendering.md 1.8
#[test]
fn a_quoted_document_is_cut() {
    let text = refusal(&with(&[("manifests/x.yaml", &format!("a: {}", "é".repeat(500)))]));
    let quoted = text.split('\'').nth(3).unwrap();
    assert!(quoted.len() <= 200 && quoted.len() > 190, "{quoted}");
}

// rendering.md 1.1
#[test]
fn a_missing_package_is_found_by_validation() {
    let bundle = load(&with(&[("metadata/annotations.yaml", "annotations: {}")]));
    assert_eq!(findings(&bundle), ["package name is empty"]);
    let number = "annotations: {operators.operatorframework.io.bundle.package.v1: 3.10}";
    assert_eq!(load(&with(&[("metadata/annotations.yaml", number)])).package, "3.1");
}

// rendering.md 1.1
#[test]
fn the_api_version_of_the_csv_does_not_matter() {
    let text = csv("{}").replace("operators.coreos.com/v1alpha1", "v1alpha1");
    assert_eq!(load(&with(&[("manifests/csv.yaml", &text)])).csv.name, "pot.v1");
}

fn annotated(properties: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ClusterServiceVersion\n\
         metadata: {{name: a, annotations: {{olm.properties: '{properties}'}}}}\n"
    )
}

#[test]
fn composes_properties() {
    for (annotation, file, want) in
        cases::<(Option<&str>, Option<&str>, Option<&str>)>(CASES, "composes_properties")
    {
        let mut files = minimal();
        if let Some(annotation) = annotation {
            files.extend(with(&[("manifests/csv.yaml", &annotated(annotation))]));
        }
        if let Some(file) = file {
            files.extend(with(&[("metadata/properties.yaml", file)]).split_off("metadata/p"));
        }
        let bundle = load(&files);
        assert_eq!(bundle.csv.annotations.get("olm.properties").map(String::as_str), want);
    }
}

// rendering.md 1.7, R13
#[test]
fn an_unquoted_version_is_warned_of() {
    let file = "properties: [{type: olm.maxOpenShiftVersion, value: 4.20}]";
    let bundle = load(&with(&[("metadata/properties.yaml", file)]));
    assert_eq!(
        bundle.warnings,
        ["property \"olm.maxOpenShiftVersion\" in metadata/properties.yaml has the unquoted \
          number 4.20, which other programs read as 4.2"]
    );
}

#[test]
fn constraints_are_those_of_both_files_as_a_catalog_names_them() {
    let rows = "constraints_are_those_of_both_files_as_a_catalog_names_them";
    for (properties, dependencies, want) in cases::<(Value, Value, Vec<Value>)>(CASES, rows) {
        let files = with(&[
            ("metadata/properties.yaml", &properties.to_string()),
            (DEPENDENCIES_FILE, &dependencies.to_string()),
        ]);
        assert_eq!(constraints(&files).unwrap(), want);
    }
    let error = constraints(&with(&[(DEPENDENCIES_FILE, "a: [")])).unwrap_err();
    let text = Chain(&error).to_string();
    assert!(text.starts_with("failed to unmarshal metadata/dependencies.yaml: "), "{text}");
}

#[test]
fn a_catalog_lists_what_cannot_be_installed() {
    for manifest in cases::<Value>(CASES, "a_catalog_lists_what_cannot_be_installed") {
        let files = with(&[("manifests/z.yaml", &manifest.to_string())]);
        let (bundle, refused) = Bundle::for_catalog(&files).unwrap();
        assert_eq!(bundle.csv.name, "pot.v1");
        assert_eq!(Chain(&refused.unwrap()).to_string(), refusal(&files));
    }
    assert!(Bundle::for_catalog(&minimal()).unwrap().1.is_none());
}

// As opm has it: files of metadata/ are told apart by what they hold.
#[test]
fn constraints_may_be_in_any_file_of_metadata() {
    let dependency = |name: &str| {
        let value = format!("{{packageName: {name}, version: '>1'}}");
        format!("{{type: olm.package, value: {value}}}")
    };
    let own = format!("dependencies: [{}]", dependency("own"));
    let lost = format!("dependencies: [{}]", dependency("lost"));
    let property = "properties: [{type: olm.constraint, value: {failureMessage: m}}]";
    let files = with(&[
        ("metadata/README.md", "not: [yaml"),
        ("metadata/a/deeper.yaml", &lost),
        ("metadata/dependencies.yaml", "dependencies: []"),
        ("metadata/large.yaml", &format!("{lost}\n#{}", "~".repeat(MAX_DOCUMENT_BYTES))),
        ("metadata/properties.yaml", &own),
        ("metadata/props.yml", property),
        ("metadata/z.yaml", &lost),
    ]);
    let found = constraints(&files).unwrap();
    let found = found.iter().map(|it| (it["type"].as_str(), it["value"]["packageName"].as_str()));
    let want = [(Some("olm.constraint"), None), (Some("olm.package.required"), Some("own"))];
    assert_eq!(found.collect::<Vec<_>>(), want);
    assert_eq!(load(&files).csv.annotations.get("olm.properties"), None);
}

// rendering.md 4.13
#[test]
fn pods_run_as_the_account_that_they_name() {
    for (pod, want) in cases::<(Value, &str)>(CASES, "pods_run_as_the_account_that_they_name") {
        let deployment = serde_json::json!({"name": "d", "spec": {"template": {"spec": pod}}});
        let spec = format!("{{install: {{spec: {{deployments: [{deployment}]}}}}}}");
        let bundle = load(&with(&[("manifests/csv.yaml", &csv(&spec))]));
        assert_eq!(bundle.csv.deployments[0].service_account(), want);
    }
}

// rendering.md 1.6, R17
#[test]
fn what_people_read_is_not_checked() {
    let spec = "{displayName: Pot, version: 1.0.0, minKubeVersion: 1.25, provider: x, keywords: 1}";
    let summary = load(&with(&[("manifests/csv.yaml", &csv(spec))])).csv.summary;
    assert_eq!(summary.display_name.as_deref(), Some("Pot"));
    assert_eq!(summary.version.as_deref(), Some("1.0.0"));
    assert_eq!((summary.provider, summary.min_kube_version), (None, None));
}

fn findings(bundle: &Bundle) -> Vec<String> {
    match validate(bundle) {
        Ok(()) => Vec::new(),
        Err(error) => error.findings,
    }
}

const ALL: &str = "[{type: AllNamespaces, supported: true}]";

// rendering.md 5: one case for each validator
#[test]
fn validators_report() {
    for row in rows(include_str!("../testdata/bundle/validators.yaml")) {
        let modes = row.get("modes").map_or_else(|| ALL.to_owned(), Value::to_string);
        let csv = csv_of(&modes, &row["spec"].to_string());
        let found = findings(&load(&with(&[("manifests/csv.yaml", &csv)])));
        assert_eq!(found, texts(&row, "want"), "{}", row["validators"]);
    }
}

// rendering.md 5 (validators 3 and 13)
#[test]
fn findings_of_several_validators_come_in_their_order() {
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
               metadata: {name: x}\n";
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: pan}\n";
    let bundle = load(&with(&[
        ("manifests/a.yaml", deployment),
        ("manifests/x.yaml", &format!("{crd}---\n{crd}")),
    ]));
    assert_eq!(
        validate(&bundle).unwrap_err().to_string(),
        "bundle contains duplicate custom resource definition 'x'\n\
         unsupported resource \"pan\" with kind \"Deployment\""
    );
}

// rendering.md 5: the API server serves such a version itself
#[test]
fn a_version_is_served_by_an_api_service_or_by_a_crd() {
    let spec = "{install: {spec: {deployments: [{name: d}]}}, apiservicedefinitions: {owned: \
        [{group: a.io, version: v1, deploymentName: d}, {group: a.io, version: v2, deploymentName: d}]}}";
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
               metadata: {name: x.a.io}\nspec: {group: a.io, versions: [{name: v1}]}\n";
    let csv = csv_of(ALL, spec);
    let bundle = load(&with(&[("manifests/csv.yaml", &csv), ("manifests/x.yaml", crd)]));
    let want = "API service 'v1.a.io' has group and version of custom resource definition 'x.a.io'";
    assert_eq!(findings(&bundle), [want]);
}

// rendering.md 5
#[test]
fn a_long_and_wrong_name_has_two_reasons() {
    let name = "A".repeat(254);
    let spec = format!("{{install: {{spec: {{deployments: [{{name: {name}}}]}}}}}}");
    let bundle = load(&with(&[("manifests/csv.yaml", &csv(&spec))]));
    let text = findings(&bundle).remove(0);
    assert!(text.contains("a lowercase RFC 1123"), "{text}");
    assert!(text.ends_with("*'), must be no more than 253 characters"), "{text}");
}

proptest! {
    // rendering.md 1
    #[test]
    fn loading_never_panics(
        path in prop_oneof![
            Just("manifests/csv.yaml"),
            Just("manifests/x"),
            Just("metadata/annotations.yaml"),
            Just("metadata/properties.yaml"),
        ],
        content in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut files = sample();
        files.insert(path.to_owned(), content);
        let _ = Bundle::from_files(&files);
    }

    #[test]
    fn any_value_of_a_field_is_read_or_refused(
        field in "(metadata|spec)\\.(name|annotations|install|installModes|webhookdefinitions)",
        value in "[\\[{]{0,2}(null|1|yes|a|a: 1|1\\.5)[\\]}]{0,2}",
    ) {
        let (outer, inner) = field.split_once('.').unwrap();
        let text = format!("kind: ClusterServiceVersion\n{outer}:\n  {inner}: {value}\n");
        if let Ok(bundle) = Bundle::from_files(&with(&[("manifests/csv.yaml", &text)])) {
            let _ = validate(&bundle);
        }
    }
}
