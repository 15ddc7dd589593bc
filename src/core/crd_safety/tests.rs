//! Tables of our own, and laws; upstream's verdicts on real pairs are in the corpus tests.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::fixture::{cases, merge, rows};

const CASES: &str = include_str!("../testdata/crd_safety/cases.yaml");

/// A version as a CRD lists it.
fn version(name: &str, schema: &Value) -> Value {
    json!({"name": name, "served": true, "schema": {"openAPIV3Schema": schema}})
}

fn crd(versions: &[Value]) -> Value {
    json!({"metadata": {"name": "kettles.example.com"},
        "spec": {"scope": "Namespaced", "versions": versions}})
}

/// What upstream never reports.
const ADDED: &str = "field added where unknown fields are preserved";

fn found(old: &Definition, new: &Definition, rules: Rules) -> Vec<String> {
    compare(old, new, rules).iter().map(Finding::to_string).collect()
}

fn with_field(schema: &Value) -> Value {
    json!({"type": "object", "properties": {"f": schema}})
}

/// A CRD with one version, `v1`, and these members of its `spec`.
fn definition(schema: &Value, spec: &Value) -> Definition {
    let mut crd = crd(&[version("v1", schema)]);
    merge(&mut crd["spec"], spec);
    Definition::of(&crd)
}

/// Compares two schemas of field `f` of version `v1`.
fn fields(old: &Value, new: &Value, rules: Rules) -> Vec<String> {
    let of = |field| definition(&with_field(field), &json!({}));
    found(&of(old), &of(new), rules)
}

// applying.md g1
#[test]
fn each_check_has_upstreams_text() {
    for row in rows(include_str!("../testdata/crd_safety/texts.yaml")) {
        let found = fields(&row["old"], &row["new"], Rules::Upstream);
        assert_eq!(found.join("\n"), row["want"], "{row}");
    }
}

// applying.md g1: what passes, also as upstream
#[test]
fn what_upstream_lets_pass_passes() {
    // The readers of tables make one number of these.
    let equal = (json!({"maximum": 1}), json!({"maximum": 1.0}));
    let rows = cases::<(Value, Value)>(CASES, "what_upstream_lets_pass_passes");
    for (old, new) in rows.chain([equal]) {
        for rules in [Rules::Upstream, Rules::Loosenings] {
            assert_eq!(fields(&old, &new, rules), Vec::<String>::new(), "{rules:?}");
        }
    }
}

// applying.md 6.4
#[test]
fn changes_are_judged_by_what_happens_to_objects() {
    let rows = rows(include_str!("../testdata/crd_safety/changes.yaml"));
    assert_eq!(rows.len(), 81);
    for row in rows {
        let found = fields(&row["old"], &row["new"], Rules::Loosenings);
        assert_eq!(json!(found.is_empty()), row["passes"], "{}: {found:?}", row["name"]);
    }
}

/// A CRD with two versions, changed at these pointers.
fn with_two(change: &Value) -> Definition {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let mut crd = crd(&[version("v1beta1", &schema), version("v1", &schema)]);
    crd["spec"]["names"] = json!({"plural": "kettles", "kind": "Kettle",
        "shortNames": ["ke", "ket"], "categories": ["all"]});
    let beta = &mut crd["spec"]["versions"][0];
    beta["subresources"] = json!({"status": {}, "scale": {"specReplicasPath": ".spec.a"}});
    beta["selectableFields"] = json!([{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.b"}]);
    for (pointer, value) in change.as_object().unwrap() {
        *crd.pointer_mut(pointer).unwrap() = value.clone();
    }
    Definition::of(&crd)
}

// A bundle must not keep the process busy, or fill its memory.
#[test]
fn a_schema_takes_no_more_steps_than_it_has_parts() {
    let nested = |most: i64, below: &dyn Fn(Value) -> Value| {
        (0..40).fold(json!({"maximum": most}), |schema, _| below(schema))
    };
    let shapes: [&dyn Fn(Value) -> Value; 4] = [
        &|schema| json!({"allOf": [schema]}),
        &|schema| json!({"anyOf": [schema]}),
        &|schema| json!({"additionalProperties": {"properties": {"a": schema}}}),
        &|schema| json!({"not": {"properties": {"a": schema}}}),
    ];
    for below in shapes {
        let [four, five] = [4, 5].map(|most| nested(most, below));
        assert_ne!(fields(&five, &four, Rules::Loosenings), [""; 0]);
        let is_loosened = below(json!({}))["not"].is_null();
        assert_eq!(fields(&four, &five, Rules::Loosenings).is_empty(), is_loosened);
        let described = (0..40).fold(json!({"description": "d"}), |schema, _| below(schema));
        let two = |schemas: [&Value; 2], strategy: &str| {
            let [one, other] = schemas;
            let mut crd = crd(&[version("v1", one), version("v2", other)]);
            crd["spec"]["conversion"] = json!({"strategy": strategy});
            Definition::of(&crd)
        };
        let empty = (0..40).fold(json!({}), |schema, _| below(schema));
        let webhook = two([&described, &empty], "Webhook");
        let without = two([&described, &empty], "None");
        assert_eq!(found(&webhook, &without, Rules::Loosenings), [""; 0]);
    }
    let fields_of = |type_: &str| {
        let fields: Map<String, Value> =
            (0..300).map(|at| (format!("f{at}"), json!({"type": type_}))).collect();
        json!({"properties": fields})
    };
    let kinds = ["string", "integer"].map(fields_of);
    let served = (0..16).map(|at| version(&format!("v{at}"), &kinds[at % 2])).collect::<Vec<_>>();
    let alternating = definition(&json!({}), &json!({"versions": served}));
    assert_eq!(found(&alternating, &alternating, Rules::Loosenings), [""; 0]);
    let long = definition(&json!({"properties": {"a".repeat(3000): {}}}), &json!({}));
    let served: Vec<_> = (0..65).map(|number| version(&format!("v{number}"), &json!({}))).collect();
    let many = definition(&json!({}), &json!({"versions": served}));
    for new in [long, many] {
        let found = found(&definition(&json!({}), &json!({})), &new, Rules::Loosenings);
        assert!(
            found.iter().any(|line| line.starts_with("unhandled: not compared: ")),
            "{found:?}"
        );
    }
}

// A bundle must not fill the memory: pairs of versions, and alternatives.
#[test]
fn findings_and_their_texts_have_an_end() {
    let differing = (0..16_usize).map(|at| {
        let fields = (0..300).map(|field| (format!("f{field}"), json!({"maxLength": 16 - at})));
        let field: Value = json!({"properties": fields.collect::<Map<_, _>>()});
        version(&format!("v{at}"), &json!({"properties": {"a".repeat(1900): field}}))
    });
    let differing = json!({"versions": differing.collect::<Vec<_>>()});
    let differing = definition(&json!({}), &differing);
    let findings = compare(&definition(&json!({}), &json!({})), &differing, Rules::Loosenings);
    let bytes: usize = findings.iter().map(|it| it.to_string().len()).sum();
    assert!(bytes < 8 << 20, "{bytes}");
    assert!(findings.iter().any(|it| it.text.starts_with("not compared further: ")));
    let alternatives: Vec<_> = (0..10_000).map(|at| json!({"minLength": at})).collect();
    let found = fields(&json!({}), &json!({"oneOf": alternatives}), Rules::Loosenings);
    assert!(found[0].len() < 300_000, "{}", found[0].len());
}

// applying.md 6.4: what takes objects from those who use them
#[test]
fn what_cannot_be_reached_any_more_is_found() {
    for (change, want) in
        cases::<(Value, Vec<&str>)>(CASES, "what_cannot_be_reached_any_more_is_found")
    {
        let (old, new) = (with_two(&json!({})), with_two(&change));
        let found = |rules| found(&old, &new, rules);
        assert_eq!(found(Rules::Loosenings), want);
        assert_eq!(found(Rules::Upstream), [""; 0]);
        let refused = want.iter().filter(|line| line.starts_with("kind: "));
        let refused = refused.map(|line| format!("{line}; spec.names.kind: field is immutable"));
        assert_eq!(found(Rules::ApiServer), refused.collect::<Vec<_>>());
    }
}

// applying.md 6.4: a version that objects are stored in is told of once
#[test]
fn a_crd_that_is_written_stores_its_objects() {
    let of = |name: &str| {
        let mut stored = version(name, &json!({"type": "object"}));
        stored["storage"] = json!(true);
        definition(&json!({}), &json!({"versions": [stored]}))
    };
    let found = found(&of("v1alpha1").written(), &of("v1"), Rules::Loosenings);
    assert_eq!(found, ["storedVersionRemoval: stored versions removed : [v1alpha1]"]);
}

// applying.md 6.4: without the webhook only the version of an object changes
#[test]
fn a_conversion_webhook_is_missed_where_schemas_differ() {
    for (field, want) in [
        (json!({"type": "string", "description": "a"}), 0),
        (json!({"type": "string", "nullable": true}), 1),
    ] {
        let of = |strategy: &str| {
            let beta = version("v1beta1", &with_field(&json!({"type": "string"})));
            let versions = [beta, version("v1", &with_field(&field))];
            let spec = json!({"versions": versions, "conversion": {"strategy": strategy}});
            definition(&json!({}), &spec)
        };
        let text = "conversionRemoval: conversion webhook removed although v1beta1 and v1 differ";
        assert_eq!(found(&of("Webhook"), &of("None"), Rules::Loosenings), vec![text; want]);
        assert!(compare(&of("None"), &of("Webhook"), Rules::Loosenings).is_empty());
    }
}

// applying.md 6.4
#[test]
fn loosenings_pass() {
    for (old, new) in cases::<(Value, Value)>(CASES, "loosenings_pass") {
        assert_eq!(fields(&old, &new, Rules::Loosenings), Vec::<String>::new());
        assert_ne!(fields(&old, &new, Rules::Upstream), Vec::<String>::new());
    }
}

// applying.md 6.4: accepting more within `not` is accepting less, and within `oneOf` it may be
#[test]
fn what_may_make_an_object_invalid_does_not() {
    for (old, new) in cases::<(Value, Value)>(CASES, "what_may_make_an_object_invalid_does_not") {
        assert_ne!(fields(&old, &new, Rules::Loosenings), Vec::<String>::new());
    }
}

// applying.md 6.4: objects may have a field that nothing described, with another value
#[test]
fn a_field_is_not_added_where_objects_may_have_it() {
    for (field, passes) in
        cases::<(Value, bool)>(CASES, "a_field_is_not_added_where_objects_may_have_it")
    {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let mut described = open.clone();
        described["properties"] = json!({"z": field});
        let found = fields(&open, &described, Rules::Loosenings);
        let want = format!("v1: ^.f.z: unhandled: {ADDED}");
        assert_eq!(found, if passes { vec![] } else { vec![want] });
        assert_eq!(fields(&open, &described, Rules::Upstream), [""; 0]);
        let closed = json!({"type": "object"});
        assert_eq!(fields(&closed, &described, Rules::Loosenings), [""; 0]);
    }
}

// applying.md 6.4: nothing is pruned before the CRD says so, wherever it is
#[test]
fn a_crd_that_prunes_nothing_is_open_everywhere() {
    let of = |preserves: bool, fields: Value| {
        let schema = with_field(&json!({"type": "object", "properties": fields}));
        definition(&schema, &json!({"preserveUnknownFields": preserves}))
    };
    let (bare, described) = (json!({}), json!({"a": {"type": "string"}}));
    let (old, new) = (of(true, bare.clone()), of(true, described.clone()));
    let added = format!("v1: ^.f.a: unhandled: {ADDED}");
    assert_eq!(found(&old, &new, Rules::Loosenings), [added.as_str()]);
    let (pruning, described) = (of(false, bare), of(false, described));
    let pruned = "unhandled: preserveUnknownFields true -> false";
    assert_eq!(found(&old, &pruning, Rules::Loosenings), [pruned]);
    assert_eq!(found(&old, &described, Rules::Loosenings), [pruned, &added]);
    assert_eq!(found(&pruning, &described, Rules::Loosenings), [""; 0]);
    for rules in [Rules::Upstream, Rules::ApiServer] {
        assert_eq!(found(&old, &described, rules), [""; 0]);
    }
}

// applying.md 6.4: what every object has is not unknown
#[test]
fn a_root_without_fields_may_describe_what_every_object_has() {
    let of = |fields: Value| {
        let schema = json!({"type": "object", "properties": fields,
            "x-kubernetes-preserve-unknown-fields": true});
        definition(&schema, &json!({}))
    };
    let described = json!({"apiVersion": {"type": "string"}, "kind": {"type": "string"},
        "metadata": {"type": "object"}, "spec": {"type": "object"}});
    let found = found(&of(json!({})), &of(described), Rules::Loosenings);
    assert_eq!(found, [format!("v1: ^.spec: unhandled: {ADDED}")]);
}

// applying.md g1: scope, fields, stored versions
#[test]
fn what_concerns_the_whole_crd_is_named_without_a_path() {
    let schema = json!({"type": "object", "properties": {"a": {"properties": {"b": {}}}}});
    let mut old = crd(&[version("v1", &schema), version("v1alpha1", &schema)]);
    old["status"] = json!({"storedVersions": ["v1alpha1", "v1"]});
    let mut new = crd(&[version("v1", &json!({"type": "object"}))]);
    new["spec"]["scope"] = json!("Cluster");
    let findings = compare(&Definition::of(&old), &Definition::of(&new), Rules::Upstream);
    assert_eq!(
        error_text("kettles.example.com", &findings, MAX_LINES).unwrap(),
        "validating upgrade for CRD \"kettles.example.com\": \
         existingFieldRemoval: removed field : v1.^.a\n\
         existingFieldRemoval: removed field : v1.^.a.b\n\
         scope: scope changed : \"Namespaced\" -> \"Cluster\"\n\
         storedVersionRemoval: stored versions removed : [v1alpha1]"
    );
}

// applying.md g3, g4
#[test]
fn a_pair_of_served_versions_may_differ_as_before() {
    for (field, conversion, want) in
        cases::<(Value, Value, &str)>(CASES, "a_pair_of_served_versions_may_differ_as_before")
    {
        let of = |alpha: Value, beta: Value| {
            // In another order than that of their priority.
            [version("v1beta1", &with_field(&beta)), version("v1alpha1", &with_field(&alpha))]
        };
        let old = of(json!({"type": "integer"}), json!({"type": "string"}));
        let new = of(json!({"type": "integer"}), field.clone());
        let new = json!({"versions": new, "conversion": conversion});
        let new = definition(&json!({}), &new);
        let findings = found(&Definition::of(&crd(&old)), &new, Rules::Upstream);
        let mut pairs = findings.iter().filter(|line| line.starts_with("v1alpha1 -> "));
        assert_eq!(pairs.next().map_or("", String::as_str), want);
        assert_eq!(pairs.next(), None);
        // Checks of the same version are made all the same.
        assert_eq!(
            field.get("pattern").is_some(),
            findings.iter().any(|line| line.starts_with("v1beta1: "))
        );
    }
}

// applying.md g4: the order is that of Kubernetes
#[test]
fn versions_are_paired_by_their_priority() {
    let names = ["v2", "v1", "v10beta2", "v1alpha1", "foo", "v1beta1", "v01x"];
    let types = ["a", "b", "c", "d", "e", "f", "g"];
    let versions = names.iter().zip(types);
    let versions: Vec<_> =
        versions.map(|(name, type_)| version(name, &json!({"type": type_}))).collect();
    let nothing = Definition::of(&crd(&[]));
    let findings = compare(&nothing, &Definition::of(&crd(&versions)), Rules::Upstream);
    let pairs = findings.iter().map(|finding| match &finding.place {
        SchemaPlace::Schema { versions, .. } => versions.clone(),
        SchemaPlace::Definition => String::new(),
    });
    let mut pairs: Vec<_> = pairs.collect();
    pairs.sort();
    let order = ["v01x", "foo", "v1alpha1", "v1beta1", "v10beta2", "v1", "v2"];
    let mut want = Vec::new();
    for (position, lower) in order.iter().enumerate() {
        want.extend(order[position + 1..].iter().map(|higher| format!("{lower} -> {higher}")));
    }
    want.sort();
    assert_eq!(pairs, want);
}

// applying.md g5
#[test]
fn many_findings_are_counted_and_a_version_without_a_schema_is_an_empty_object() {
    let fields: serde_json::Map<_, _> =
        (0..100).map(|number| (format!("f{number}"), json!({"type": "string"}))).collect();
    let schema = json!({"type": "object", "properties": fields});
    let old = Definition::of(&crd(&[version("v1", &schema)]));
    let bare = json!({"name": "v1", "served": true});
    let findings = compare(&old, &Definition::of(&crd(&[bare])), Rules::Loosenings);
    assert_eq!(findings.len(), 200);
    let text = error_text("x", &findings, MAX_LINES).unwrap();
    assert_eq!(text.lines().count(), MAX_LINES + 1);
    assert!(text.ends_with("\n... and 150 more"), "{text}");
}

// applying.md g6, decision 36
#[test]
fn waivers_name_checks_crds_and_days() {
    for (text, unhandled, pattern) in
        cases::<(&str, bool, bool)>(CASES, "waivers_name_checks_crds_and_days")
    {
        let now = "2026-12-31T12:00:00Z".parse().unwrap();
        let waivers = Waivers::parse(text).unwrap();
        let finding = |check| Finding {
            place: SchemaPlace::Definition,
            check,
            text: String::new(),
            unhandled: None,
        };
        let covers = |check| waivers.cover("kettles.example.com", &finding(check), now);
        assert_eq!((covers(Check::Unhandled), covers(Check::Pattern)), (unhandled, pattern));
        assert!(!covers(Check::Scope));
        // The API server would refuse it all the same.
        let all = Waivers::parse("scope,kind,storedVersionRemoval").unwrap();
        for check in [Check::Scope, Check::Kind, Check::StoredVersionRemoval] {
            assert!(!all.cover("kettles.example.com", &finding(check), now), "{check:?}");
        }
    }
}

#[test]
fn what_is_not_a_waiver_is_named() {
    for (text, want) in cases::<(&str, &str)>(CASES, "what_is_not_a_waiver_is_named") {
        let error = Waivers::parse(text).unwrap_err();
        assert!(error.starts_with(want), "{error}");
    }
}

/// A value of a keyword, of the type it should have or of any other.
fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|flag| json!(flag)),
        (-3_i64..3).prop_map(|number| json!(number)),
        (-3.0..3.0).prop_map(|number: f64| json!(number)),
        "[ab]{0,2}".prop_map(|text| json!(text)),
        prop::collection::vec("[ab]", 0..3).prop_map(|texts| json!(texts)),
    ]
}

/// A schema with any keywords, nested.
fn any_schema() -> impl Strategy<Value = Value> {
    let keyword =
        || prop::sample::select(schema::KEYWORDS.iter().map(|one| one.key).collect::<Vec<_>>());
    leaf().prop_recursive(4, 40, 4, move |inner| {
        let list = prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array);
        let map =
            prop::collection::btree_map("[ab]", inner.clone(), 0..3).prop_map(|map| json!(map));
        prop::collection::btree_map(keyword(), prop_oneof![leaf(), inner, list, map], 0..6)
            .prop_map(|members| json!(members))
    })
}

fn any_crd() -> impl Strategy<Value = Value> {
    let names = prop::sample::subsequence(vec!["v1alpha1", "v1beta1", "v1"], 1..=3);
    (names, prop::collection::vec(any_schema(), 3), "[ab]?", any::<bool>()).prop_map(
        |(names, schemas, scope, stored)| {
            let versions = names.iter().zip(&schemas);
            let versions: Vec<_> = versions.map(|(name, schema)| version(name, schema)).collect();
            let mut crd = crd(&versions);
            crd["spec"]["scope"] = json!(scope);
            if stored {
                crd["status"] = json!({"storedVersions": names});
            }
            crd
        },
    )
}

proptest! {
    #[test]
    fn a_crd_may_always_follow_itself(crd in any_crd()) {
        let crd = Definition::of(&crd);
        for rules in [Rules::Upstream, Rules::Loosenings] {
            prop_assert_eq!(compare(&crd, &crd, rules), vec![]);
        }
    }

    #[test]
    fn findings_have_one_order_and_texts_an_end_and_comparing_never_panics(
        old in any_crd(),
        new in any_crd(),
    ) {
        let (old, new) = (Definition::of(&old), Definition::of(&new));
        let findings = compare(&old, &new, Rules::Upstream);
        let lines: Vec<_> = findings.iter().map(Finding::to_string).collect();
        prop_assert!(lines.is_sorted());
        prop_assert_eq!(&findings, &compare(&old, &new, Rules::Upstream));
        let text = error_text("x", &findings, MAX_LINES).unwrap_or_default();
        prop_assert!(findings.iter().any(|one| one.text.contains('\n'))
            || text.lines().count() <= MAX_LINES + 1);
    }

    #[test]
    fn schemas_that_pass_as_upstream_pass(old in any_crd(), new in any_crd()) {
        let (old, new) = (Definition::of(&old), Definition::of(&new));
        if compare(&old, &new, Rules::Upstream).is_empty() {
            let mut findings = compare(&old, &new, Rules::Loosenings);
            findings.retain(|finding| {
                finding.check != Check::ServedVersionRemoval && !finding.text.starts_with(ADDED)
            });
            prop_assert_eq!(findings, vec![]);
        }
    }
}

#[test]
fn every_row_is_a_keyword() {
    let rows = include_str!("keywords.tsv").lines().count();
    assert_eq!((schema::KEYWORDS.len(), rows), (44, 44));
}
