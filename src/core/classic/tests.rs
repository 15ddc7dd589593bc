use std::fmt::Write as _;

use serde_json::Value;

use super::*;
use crate::extension::{Policy, ValidExtension};
use crate::yaml;

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
    let printed = answer.migrations.iter().flat_map(|migration| {
        let made = migration.account.iter().chain([&migration.extension]);
        made.chain(&migration.follow)
    });
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

#[test]
fn roles_and_conditions_of_classic_become_annotations() {
    let text = "
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: pot, namespace: a}
spec: {name: pot, channel: stable, source: s}
status: {installedCSV: pot.v1.0.0}
---
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: pot.v1.0.0, namespace: a}
spec: {version: 1.0.0, customresourcedefinitions: {owned: [{name: pots.example.com}]}}
---
apiVersion: operators.coreos.com/v2
kind: OperatorCondition
metadata: {name: pot.v1.0.0, namespace: a}
status: {conditions: [{type: Upgradeable, status: 'True'}]}
";
    let objects = objects(text);
    let answer = Classic::new(&objects).convert(&[]);
    let extension = answer.migrations[0].extension.clone().into_value();
    let annotation = |key: &str| extension["metadata"]["annotations"][key].as_str();
    assert_eq!(annotation(olm_api::keys::policy::USER_ROLES), Some("aggregate"));
    assert_eq!(annotation(olm_api::keys::policy::OPERATOR_CONDITIONS), Some("Enabled"));
}

#[test]
fn only_the_named_subscriptions_are_converted() {
    let objects = objects(FLEET);
    let answer = Classic::new(&objects).convert(&["loom".to_owned()]);
    let names: Vec<_> = answer.migrations.iter().map(|it| it.extension.name()).collect();
    assert_eq!(names, ["loom"]);
    assert_eq!(answer.migrations[0].account, None);
}
