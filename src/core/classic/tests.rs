use std::fmt::Write as _;

use olm_api::keys::policy;
use serde_json::{Value, json};

use super::*;
use crate::extension::{Policy, ValidExtension};
use crate::fixture::{self, cases, merge};
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

/// An object of OLM Classic: `<kind> <namespace>/<name>`, with its other members.
pub(super) fn made(of: &str, more: &Value) -> Object {
    let (kind, place) = of.split_once(' ').unwrap();
    let (namespace, name) = place.split_once('/').unwrap();
    let version = KINDS.iter().find(|(it, ..)| *it == kind).unwrap().1;
    let mut object = json!({"apiVersion": format!("operators.coreos.com/{version}"), "kind": kind,
        "metadata": {"name": name, "namespace": namespace}});
    merge(&mut object, more);
    fixture::object(object)
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
    let bare = |of: &str| made(of, &json!({}));
    let copied = json!({label::COPIED_FROM: "b"});
    let objects = [
        bare("OperatorGroup a/g"),
        bare("ClusterServiceVersion a/x.v1"),
        made("ClusterServiceVersion a/copied.v1", &json!({"metadata": {"labels": copied}})),
        bare(&format!("ClusterServiceVersion a/{PACKAGE_SERVER}")),
        bare("InstallPlan a/install-x"),
        bare("OperatorCondition a/x.v1"),
        made("OLMConfig /cluster", &json!({"spec": {"features": {"disableCopiedCSVs": true}}})),
    ];
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
    let spec = json!({"name": "a", "channel": "b", "source": "operatorhubio-catalog"});
    let status = json!({"installedCSV": "a.v1.0.0", "currentCSV": "a.v1.1.0"});
    let subscribed = json!({"spec": spec, "status": status});
    let objects = [
        made("Subscription a/s", &subscribed),
        made("Subscription z/s", &subscribed),
        made("ClusterServiceVersion a/a.v1.1.0", &json!({})),
        made("ClusterServiceVersion z/a.v1.0.0", &json!({})),
    ];
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

// Of each object that is given; what a condition says is read afterwards where one was written.
#[test]
fn what_is_beside_a_subscription_has_its_line() {
    for (more, want) in
        cases::<(Vec<(&str, Value)>, &str)>(CASES, "what_is_beside_a_subscription_has_its_line")
    {
        let spec = json!({"name": "a", "channel": "b", "source": "operatorhubio-catalog"});
        let status = json!({"installedCSV": "a.v1.0.0"});
        let subscription = made("Subscription a/a", &json!({"spec": spec, "status": status}));
        let mut objects: Vec<_> = more.iter().map(|(of, more)| made(of, more)).collect();
        objects.push(subscription);
        let answer = Classic::new(&objects).convert(&[]);
        let lines: Vec<_> = answer.lines.iter().map(shown).collect();
        let found = lines.iter().filter(|line| line.contains(want));
        assert_eq!(found.count(), more.len().max(1), "{lines:#?}");
        assert_eq!(answer.migrations[0].is_decided, !want.starts_with("No OperatorGroup"));
    }
}

#[test]
fn rights_on_classic_that_an_operator_does_without_are_no_loss() {
    let rule = |group: &str, resource: &str| json!({"apiGroups": [group], "resources": [resource]});
    let classic = |resource: &str| rule("operators.coreos.com", resource);
    let both =
        vec![classic("subscriptions"), rule("olm.operatorframework.io", "clusterextensions")];
    for rules in [vec![classic("operatorconditions")], both, vec![rule("*", "*")]] {
        let install = json!({"spec": {"permissions": [{"rules": rules}]}});
        let csv = made("ClusterServiceVersion a/a.v1.0.0", &json!({"spec": {"install": install}}));
        assert_eq!(super::csv::used_of_classic(&csv), "");
    }
}

#[test]
fn what_a_subscription_loses_is_of_its_own_objects() {
    let of = |namespace: &str, package: &str| {
        let source = format!("of-{namespace}");
        let subscription = json!({"name": package, "source": "b", "sourceNamespace": source,
            "channel": ""});
        let targets = json!({"targetNamespaces": ["x", "y"]});
        [
            made(&format!("Subscription {namespace}/b"), &json!({"spec": subscription})),
            made(&format!("OperatorGroup {namespace}/b"), &json!({"spec": targets})),
            made(&format!("CatalogSource {source}/b"), &json!({"spec": {"address": "a:1"}})),
        ]
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
        cases::<(&str, Value, Option<&str>)>(CASES, "a_source_may_have_a_template_and_no_image")
    {
        let annotations = json!({"olm.catalogImageTemplate": template});
        let more = json!({"metadata": {"annotations": annotations},
            "spec": {"sourceType": "grpc"}, "status": {"conditions": conditions}});
        let answer = Classic::new(&[made("CatalogSource olm/c", &more)]).convert(&[]);
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
        let subscription = json!({"name": "a", "channel": "b", "source": "redhat-operators",
            "sourceNamespace": "m"});
        let objects = [
            source("m/redhat-operators", image, None),
            made("Subscription a/a", &json!({"spec": subscription})),
        ];
        let answer = Classic::new(&objects).convert(&[]);
        assert_eq!(answer.catalogs.len(), catalogs, "{:#?}", answer.lines);
        let filter = answer.migrations[0].extension.pointer("/spec/source/catalog/selector");
        assert_eq!(filter.unwrap()["matchLabels"][label::METADATA_NAME], selected);
    }
}

/// A `CatalogSource` of an image, with a priority.
fn source(place: &str, image: &str, priority: Option<i64>) -> Object {
    let spec = json!({"sourceType": "grpc", "image": image, "priority": priority});
    made(&format!("CatalogSource {place}"), &json!({"spec": spec}))
}

#[test]
fn a_source_becomes_a_catalog_that_the_api_server_takes() {
    for (image, priority, want, nearest) in [
        ("r.io:5000/a/c:1", 7, "r.io:5000/a/c:1", 7),
        ("r.io:5000/a/c", -3, "r.io:5000/a/c:latest", -3),
        ("r.io/c@sha256:0", 3_000_000_000, "r.io/c@sha256:0", i32::MAX),
        ("r.io/c:1", -3_000_000_000, "r.io/c:1", i32::MIN),
    ] {
        let answer = Classic::new(&[source("olm/c", image, Some(priority))]).convert(&[]);
        let spec = answer.catalogs[0].pointer("/spec").unwrap();
        assert_eq!(spec["source"]["image"]["ref"], want, "{:#?}", answer.lines);
        assert_eq!(spec["priority"], nearest);
        assert!(answer.is_whole());
    }
}

#[test]
fn sources_of_one_name_become_one_catalog() {
    for (image, carried) in [("r.io/c:2", Carried::No), ("r.io/c:1", Carried::NotNeeded)] {
        let subscription = json!({"name": "s", "source": "c", "sourceNamespace": "b"});
        let objects = [
            source("a/c", image, None),
            source("b/c", "r.io/c:1", None),
            made("Subscription n/s", &json!({"spec": subscription})),
        ];
        let answer = Classic::new(&objects).convert(&[]);
        let catalogs = answer.catalogs.iter().map(|it| it.text_at("/spec/source/image/ref"));
        assert_eq!(catalogs.collect::<Vec<_>>(), ["r.io/c:1"]);
        let lines = answer.lines.iter().filter(|line| line.object == "a/c");
        assert_eq!(lines.map(|line| line.carried).collect::<Vec<_>>(), [carried]);
    }
}
