use std::fmt::Write as _;

use olm_api::keys::policy;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::extension::{Policy, ValidExtension};
use crate::fixture::cases;
use crate::yaml;

const CASES: &str = include_str!("../testdata/classic/cases.yaml");

const FLEET: &str = include_str!("../testdata/classic/fleet.yaml");

fn objects(text: &str) -> Vec<Object> {
    let documents = yaml::to_json(text).unwrap().into_iter();
    documents.map(|value| Object::from_value(value).unwrap()).collect()
}

// plugin.md U73, U75
#[test]
fn each_field_is_carried_or_said_not_to_be() {
    let mut objects = objects(FLEET);
    let answer = Classic::new(&objects).convert(&[]);
    let mut text = String::new();
    for line in &answer.lines {
        let carried = format!("{:?}", line.carried);
        let Line { kind, object, field, text: becomes, .. } = line;
        writeln!(text, "{carried:9} {kind} {object}  {field}  {becomes}").unwrap();
    }
    for migration in &answer.migrations {
        let mut follow = migration.extension.clone().into_value();
        let filter = follow["spec"]["source"]["catalog"].as_object_mut().unwrap();
        let version = filter.remove("version");
        assert_eq!(migration.follow, version.and_then(|_| Object::from_value(follow)));
    }
    let printed = answer.migrations.iter().flat_map(|it| it.account.iter().chain([&it.extension]));
    let printed: Vec<Value> =
        answer.catalogs.iter().chain(printed).cloned().map(Object::into_value).collect();
    insta::assert_snapshot!(format!("{text}\n{}", yaml::to_yaml_stream(&printed)));
    assert!(!answer.is_whole());
    // The order in which objects come does not matter.
    objects.reverse();
    assert_eq!(Classic::new(&objects).convert(&[]), answer);
}

#[test]
fn what_is_printed_is_understood_by_the_controller() {
    let objects = objects(FLEET);
    for migration in Classic::new(&objects).convert(&[]).migrations {
        let extension = migration.extension.into_value();
        let extension: olm_api::ClusterExtension = serde_json::from_value(extension).unwrap();
        assert!(ValidExtension::of(&extension).is_some());
        let annotations = extension.metadata.annotations.unwrap_or_default();
        Policy::of(&annotations, crate::resolve::UpdatePolicy::MinorOnly).unwrap();
    }
}

fn shown(line: &Line) -> String {
    format!("{:?} {} {}: {}", line.carried, line.kind, line.field, line.text)
}

/// Fields that stand in the line of another.
const ELSEWHERE: [(&str, &[&str]); 3] = [
    // In that of installedCSV.
    ("ClusterServiceVersion", &["version"]),
    // In the CSV: whom the conditions are for.
    ("OperatorCondition", &["serviceAccounts", "deployments"]),
    // In that of the bundle that waits for approval, and in the Subscription.
    (
        "InstallPlan",
        &[
            "approval",
            "approved",
            "clusterServiceVersionNames",
            "generation",
            "source",
            "sourceNamespace",
        ],
    ),
];

/// Returns the paths of all members below a value that have none themselves.
fn leaves(value: &Value, path: &str) -> Vec<String> {
    let Some(members) = value.as_object() else { return vec![path.to_owned()] };
    let dot = if path.is_empty() { "" } else { "." };
    let below = members.iter().map(|(key, value)| leaves(value, &format!("{path}{dot}{key}")));
    below.flatten().collect()
}

#[test]
fn every_documented_field_has_its_line() {
    let objects = objects(include_str!("../testdata/classic/fields.yaml"));
    let answer = Classic::new(&objects).convert(&[]);
    let with_spec = objects.iter().filter_map(|object| Some((object, object.pointer("/spec")?)));
    for (object, spec) in with_spec {
        let name = object.place();
        let lines = answer.lines.iter().filter(|line| line.object == name);
        let lines: Vec<_> = lines.filter(|line| line.kind == object.kind()).collect();
        assert!(!lines.is_empty(), "{} {name}", object.kind());
        let fields = lines.iter().filter_map(|line| line.field.split(": ").next());
        let elsewhere = ELSEWHERE.iter().filter(|(kind, _)| *kind == object.kind());
        let elsewhere = elsewhere.flat_map(|(_, fields)| fields.iter().copied());
        let told: Vec<_> = fields.flat_map(|fields| fields.split(", ")).chain(elsewhere).collect();
        for path in leaves(spec, "") {
            // A line may be about a whole field.
            let tells = |field: &&str| {
                let rest = path.strip_prefix(*field);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            assert!(told.iter().any(tells), "{} {name}: {path}", object.kind());
        }
    }
    let annotations = answer.migrations[0].extension.pointer("/metadata/annotations").unwrap();
    assert_eq!(annotations[policy::OPERATOR_CONDITIONS], "Enabled");
    assert_eq!(annotations[policy::CLUSTER_PROXY], "Inject");
}

#[test]
fn every_object_has_its_line_without_a_subscription_too() {
    let of = |kind: &str, name: &str, rest: &str| {
        let version = KINDS.iter().find(|(it, ..)| *it == kind).unwrap().1;
        format!(
            "---\napiVersion: operators.coreos.com/{version}\nkind: {kind}\n\
             metadata: {{name: {name}, namespace: a, labels: {{{rest}}}}}\n"
        )
    };
    let csv = "ClusterServiceVersion";
    let objects = objects(
        &[
            of("OperatorGroup", "g", ""),
            of(csv, "x.v1", ""),
            of(csv, "copied.v1", "olm.copiedFrom: b"),
            of(csv, PACKAGE_SERVER, ""),
            of("InstallPlan", "install-x", ""),
            of("OperatorCondition", "x.v1", ""),
            "---\napiVersion: operators.coreos.com/v1\nkind: OLMConfig\nmetadata: {name: cluster}\n\
             spec: {features: {disableCopiedCSVs: true}}\n"
                .to_owned(),
        ]
        .concat(),
    );
    let answer = Classic::new(&objects).convert(&[]);
    let lines: Vec<_> =
        answer.lines.iter().map(|line| (line.object.as_str(), line.carried)).collect();
    let want = [
        ("a/g", Carried::NotNeeded),
        ("a/packageserver", Carried::NotNeeded),
        ("a/x.v1", Carried::No),
        ("a/install-x", Carried::NotNeeded),
        ("a/x.v1", Carried::NotNeeded),
        ("cluster", Carried::NotNeeded),
    ];
    assert_eq!(lines, want, "{:#?}", answer.lines);
    assert_eq!(answer.lines[5].field, "features: disableCopiedCSVs");
    assert_eq!(Classic::new(&objects).convert(&["y".to_owned()]).lines, []);
}

#[test]
fn a_csv_that_no_extension_comes_from_has_its_line() {
    let subscription = |namespace: &str| {
        format!(
            "apiVersion: operators.coreos.com/v1alpha1\nkind: Subscription\nmetadata: {{name: s, \
             namespace: {namespace}}}\nspec: {{name: a, channel: b, source: operatorhubio-catalog}}\n\
             status: {{installedCSV: a.v1.0.0, currentCSV: a.v1.1.0}}\n"
        )
    };
    let csv = |namespace: &str, version: &str| {
        format!(
            "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: \
             {{name: a.v{version}, namespace: {namespace}}}\n"
        )
    };
    let given = [subscription("a"), subscription("z"), csv("a", "1.1.0"), csv("z", "1.0.0")];
    let objects = objects(&given.join("---\n"));
    let answer = Classic::new(&objects).convert(&[]);
    let line = |object: &str| {
        let line = answer.lines.iter().find(|line| line.object == object).unwrap();
        (line.carried, line.text.as_str())
    };
    assert_eq!(line("z/a.v1.0.0"), (Carried::No, "its Subscription is not converted"));
    let (carried, text) = line("a/a.v1.1.0");
    assert!(text.starts_with("not installed yet: "), "{text}");
    assert_eq!(carried, Carried::NotNeeded);
}

fn group(name: &str, rest: &str) -> String {
    format!(
        "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata: {{name: {name}, \
         namespace: a}}\n{rest}\n"
    )
}

fn condition(spec: &str) -> String {
    format!(
        "apiVersion: operators.coreos.com/v2\nkind: OperatorCondition\nmetadata: {{name: a.v1.0.0, \
         namespace: a}}\nspec: {spec}\n"
    )
}

const APIS: &str = "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: \
    {name: a.v1.0.0, namespace: a}\nspec: {apiservicedefinitions: {owned: [{name: views, group: \
    v.example.com, version: v1, kind: View, deploymentName: a}]}}\n";

fn rights(rules: &str) -> String {
    format!(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {{name: \
         a.v1.0.0, namespace: a}}\nspec: {{install: {{spec: {{permissions: [{{rules: [{rules}]}}]}}}}}}\n"
    )
}

// Of each object that is given; what a condition says is read afterwards where one was written.
#[rstest]
#[case::no_group(
    "",
    "No Subscription OperatorGroup: not found: the extension watches all namespaces"
)]
#[case::groups(
    [group("b", "---"), group("c", "")].concat(),
    "No OperatorGroup metadata.namespace: conflict: OLM Classic installs nothing while there are several (b, c)"
)]
#[case::no_selector(
    group("b", "spec: {}"),
    "NotNeeded OperatorGroup targetNamespaces: watches all"
)]
#[case::empty(group("b", "spec: {selector: {matchLabels: {}}}"), "watches all namespaces")]
#[case::no_status(
    group("b", "spec: {selector: {matchLabels: {a: b}}}"),
    "No OperatorGroup selector: its"
)]
#[case::one(
    group("b", "spec: {selector: {matchLabels: {a: b}}}\nstatus: {namespaces: [x]}"),
    "Yes OperatorGroup selector: x: becomes watchNamespace"
)]
#[case::twice(
    group("b", "spec: {targetNamespaces: [x, x]}"),
    "Yes OperatorGroup targetNamespaces: x: becomes watchNamespace"
)]
#[case::silent(
    condition("{deployments: [a]}"),
    "NotNeeded OperatorCondition conditions: none are set; with"
)]
#[case::written(
    condition("{conditions: [{type: Upgradeable, status: \"True\"}]}"),
    "Yes OperatorCondition conditions: become annotation"
)]
#[case::overridden(
    condition("{overrides: [{type: Upgradeable, status: \"True\"}]}"),
    "Yes OperatorCondition conditions: become annotation"
)]
#[case::apis(APIS, "Yes ClusterServiceVersion apiservicedefinitions.owned: v1.v.example.com")]
#[case::roles_of_apis(
    APIS,
    "user roles of APIs: their ClusterRoles stay as long as the APIServices"
)]
#[case::classic_is_used(
    rights(
        "{apiGroups: [operators.coreos.com], resources: [subscriptions, clusterserviceversions/status, operatorconditions]}"
    ),
    "No ClusterServiceVersion rights on clusterserviceversions, subscriptions: the operator may"
)]
fn what_is_beside_a_subscription_has_its_line(#[case] more: impl AsRef<str>, #[case] want: &str) {
    let subscription = "apiVersion: operators.coreos.com/v1alpha1\nkind: Subscription\nmetadata: \
        {name: a, namespace: a}\nspec: {name: a, channel: b, source: operatorhubio-catalog}\n\
        status: {installedCSV: a.v1.0.0}\n";
    let objects = objects(&format!("{}---\n{subscription}", more.as_ref()));
    let answer = Classic::new(&objects).convert(&[]);
    let lines: Vec<_> = answer.lines.iter().map(shown).collect();
    let found = lines.iter().filter(|line| line.contains(want));
    assert_eq!(found.count(), (objects.len() - 1).max(1), "{lines:#?}");
    assert_eq!(answer.migrations[0].is_decided, !want.starts_with("No OperatorGroup"));
}

#[rstest]
#[case::its_condition("{apiGroups: [operators.coreos.com], resources: [operatorconditions]}")]
#[case::both(
    "{apiGroups: [operators.coreos.com], resources: [subscriptions]}, {apiGroups: \
     [olm.operatorframework.io], resources: [clusterextensions]}"
)]
#[case::all("{apiGroups: ['*'], resources: ['*']}")]
fn rights_on_classic_that_an_operator_does_without_are_no_loss(#[case] rules: &str) {
    let given = objects(&rights(rules));
    assert_eq!(super::csv::used_of_classic(&given[0]), "");
}

#[test]
fn what_a_subscription_loses_is_of_its_own_objects() {
    let object = |kind: &str, namespace: &str, spec: Value| {
        Object::from_value(json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": kind,
            "metadata": {"name": "b", "namespace": namespace}, "spec": spec}))
        .unwrap()
    };
    let subscription = |namespace: &str, package: &str| {
        let source = format!("of-{namespace}");
        object(
            "Subscription",
            namespace,
            json!({"name": package, "source": "b",
            "sourceNamespace": source, "channel": ""}),
        )
    };
    let of = |namespace: &str, package: &str| {
        let targets = object("OperatorGroup", namespace, json!({"targetNamespaces": ["x", "y"]}));
        let source = object("CatalogSource", &format!("of-{namespace}"), json!({"address": "a:1"}));
        [subscription(namespace, package), targets, source]
    };
    let objects = [of("one", "a"), of("two", "c")].concat();
    let answer = Classic::new(&objects).convert(&[]);
    let lost = answer.lost(&objects[0]);
    let lost: Vec<_> = lost.map(|line| (line.kind.as_str(), line.object.as_str())).collect();
    let want =
        [("CatalogSource", "of-one/b"), ("OperatorGroup", "one/b"), ("Subscription", "one/b")];
    assert_eq!(lost, want);
}

#[test]
fn a_source_may_have_a_template_and_no_image() {
    for (template, conditions, want) in
        cases::<(&str, &str, Option<&str>)>(CASES, "a_source_may_have_a_template_and_no_image")
    {
        let conditions = if conditions.is_empty() { "[]" } else { conditions };
        let objects = objects(&format!(
            "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\nmetadata: {{name: c, \
         namespace: olm, annotations: {{olm.catalogImageTemplate: \"{template}\"}}}}\nspec: \
         {{sourceType: grpc}}\nstatus: {{conditions: {conditions}}}\n"
        ));
        let answer = Classic::new(&objects).convert(&[]);
        let catalog = answer.catalogs.first();
        let image = catalog.and_then(|it| it.pointer("/spec/source/image/ref")?.as_str());
        assert_eq!(image, want, "{:#?}", answer.lines);
        assert!(answer.lines.iter().all(|line| !line.text.contains("process")));
    }
}

#[test]
fn a_default_source_with_another_image_is_a_catalog_of_its_own() {
    for (image, selected, catalogs) in cases::<(&str, &str, usize)>(
        CASES,
        "a_default_source_with_another_image_is_a_catalog_of_its_own",
    ) {
        let objects = objects(&format!(
            "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\nmetadata: {{name: \
         redhat-operators, namespace: m}}\nspec: {{sourceType: grpc, image: \"{image}\"}}\n---\n\
         apiVersion: operators.coreos.com/v1alpha1\nkind: Subscription\nmetadata: {{name: a, \
         namespace: a}}\nspec: {{name: a, channel: b, source: redhat-operators, sourceNamespace: m}}\n"
        ));
        let answer = Classic::new(&objects).convert(&[]);
        assert_eq!(answer.catalogs.len(), catalogs, "{:#?}", answer.lines);
        let filter = answer.migrations[0].extension.pointer("/spec/source/catalog/selector");
        assert_eq!(filter.unwrap()["matchLabels"][label::METADATA_NAME], selected);
    }
}

#[rstest]
#[case::tag("r.io:5000/a/c:1", "7", "r.io:5000/a/c:1", 7)]
#[case::no_tag("r.io:5000/a/c", "-3", "r.io:5000/a/c:latest", -3)]
#[case::digest("r.io/c@sha256:0", "3000000000", "r.io/c@sha256:0", i32::MAX)]
#[case::least("r.io/c:1", "-3000000000", "r.io/c:1", i32::MIN)]
fn a_source_becomes_a_catalog_that_the_api_server_takes(
    #[case] image: &str,
    #[case] priority: &str,
    #[case] want: &str,
    #[case] nearest: i32,
) {
    let objects = objects(&format!(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\nmetadata: {{name: c, \
         namespace: olm}}\nspec: {{sourceType: grpc, image: \"{image}\", priority: {priority}}}\n"
    ));
    let answer = Classic::new(&objects).convert(&[]);
    let spec = answer.catalogs[0].pointer("/spec").unwrap();
    assert_eq!(spec["source"]["image"]["ref"], want, "{:#?}", answer.lines);
    assert_eq!(spec["priority"], nearest);
    assert!(answer.is_whole());
}

#[rstest]
#[case::another_image("r.io/c:2", Carried::No)]
#[case::the_same_image("r.io/c:1", Carried::NotNeeded)]
fn sources_of_one_name_become_one_catalog(#[case] image: &str, #[case] carried: Carried) {
    let source = |namespace: &str, image: &str| {
        format!(
            "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\nmetadata: {{name: c, \
             namespace: {namespace}}}\nspec: {{sourceType: grpc, image: \"{image}\"}}\n"
        )
    };
    let sources = [source("a", image), source("b", "r.io/c:1")].join("---\n");
    let used = "---\napiVersion: operators.coreos.com/v1alpha1\nkind: Subscription\nmetadata: {name: s, \
                namespace: n}\nspec: {name: s, source: c, sourceNamespace: b}\n";
    let objects = objects(&format!("{sources}{used}"));
    let answer = Classic::new(&objects).convert(&[]);
    let catalogs = answer.catalogs.iter().map(|it| it.text_at("/spec/source/image/ref"));
    assert_eq!(catalogs.collect::<Vec<_>>(), ["r.io/c:1"]);
    let lines = answer.lines.iter().filter(|line| line.object == "a/c");
    assert_eq!(lines.map(|line| line.carried).collect::<Vec<_>>(), [carried]);
}
