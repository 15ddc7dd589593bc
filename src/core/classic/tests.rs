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
fn only_the_named_subscriptions_are_converted() {
    let objects = objects(FLEET);
    let answer = Classic::new(&objects).convert(&["loom".to_owned()]);
    let names: Vec<_> = answer.migrations.iter().map(|it| it.extension.name()).collect();
    assert_eq!(names, ["loom"]);
    assert_eq!(answer.migrations[0].account, None);
}
