//! Constraints against a cluster: K of the conformance cases.

use std::collections::BTreeSet;
use std::slice;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::catalog::Property;
use crate::fixture::cases;
use crate::object::items;

fn property(kind: &str, value: &Value) -> Property {
    Property { kind: kind.to_owned(), value: value.to_string() }
}

fn provider(package: &str, version: &str) -> Provider {
    let origin = ProviderOrigin::ClusterExtension(package.to_owned());
    Provider::new(origin, package, version)
}

fn green(version: &str) -> GroupVersionKind {
    GroupVersionKind {
        group: "greens.example.com".to_owned(),
        version: version.to_owned(),
        kind: "Green".to_owned(),
    }
}

/// A cluster with nothing installed that serves `Green` in some versions.
fn cluster(providers: Vec<Provider>, served: &[&str]) -> Environment {
    let served = ServedKinds {
        kinds: served.iter().map(|version| green(version)).collect(),
        ..ServedKinds::default()
    };
    Environment {
        resolving: "kettle".to_owned(),
        kube_version: None,
        served: Knowledge::Known(served.into()),
        providers: Knowledge::Known(providers.into()),
    }
}

const CHECK: Options = Options { dependencies: Dependencies::Check, ..ANY };

/// Versions that each may follow every other one, with further properties.
fn kettles(bundles: &[(&str, Vec<(&str, Value)>)]) -> Fixture {
    let mut fixture = Fixture::default();
    let mut entries = Vec::new();
    for (version, more) in bundles {
        let name = format!("kettle.v{version}");
        let mut properties = vec![json!({"type": "olm.package", "value": {"version": version}})];
        let more = more.iter();
        properties.extend(more.map(|(kind, value)| json!({"type": kind, "value": value})));
        fixture.blobs.push(json!({
            "schema": "olm.bundle", "package": "kettle", "name": name, "properties": properties,
        }));
        entries.push(json!({"name": name, "skipRange": ">=0.0.0"}));
    }
    fixture.channel("stable", entries.into())
}

/// Resolves the only bundle, which has one constraint; returns the text of 5.7 after `!`.
fn ask_one(constraint: Value, environment: &Environment) -> String {
    let catalogs = one(&kettles(&[("1.0.0", vec![("olm.constraint", constraint)])]));
    let answer = answer(&update(&request(), catalogs, environment));
    answer.replace("!validating bundle \"kettle.v1.0.0\": ", "!")
}

fn package(range: &str) -> Value {
    json!({"package": {"packageName": "blue", "versionRange": range}})
}

fn gvk(version: &str) -> Value {
    json!({"gvk": {"group": "greens.example.com", "version": version, "kind": "Green"}})
}

fn compound(kind: &str, children: &[Value]) -> Value {
    json!({kind: {"constraints": children}})
}

/// Returns the cluster that a case is about.
fn told(case: &Value) -> Environment {
    let installed = case["installed"].as_object().into_iter().flatten();
    let providers = installed.map(|(name, bundle)| {
        let version = bundle.as_str().or_else(|| bundle["version"].as_str()).unwrap();
        let properties = bundle["properties"].as_object().into_iter().flatten();
        let properties = properties.map(|(kind, value)| property(kind, value)).collect();
        let kinds = items(&bundle["kinds"]).map(|it| green(it.as_str().unwrap())).collect();
        provider(name, version).with_properties(properties).with_apis(kinds)
    });
    let served: Vec<_> = items(&case["served"]).filter_map(Value::as_str).collect();
    let cluster = cluster(providers.collect(), &served);
    if case["unreadable"] == true {
        let group = BTreeSet::from(["greens.example.com".to_owned()]);
        let served = ServedKinds { unreadable_groups: group, ..ServedKinds::default() };
        return Environment { served: Knowledge::Known(served.into()), ..cluster };
    }
    cluster
}

// resolution.md 5.3, 5.4, 5.5, 5.7
#[test]
fn constraints_are_judged_by_the_cluster() {
    let rows = "constraints_are_judged_by_the_cluster";
    for (constraint, case, want, text) in cases::<(Value, Value, &str, &str)>(CASES, rows) {
        let environment = told(&case);
        let nested = compound("all", &[compound("any", slice::from_ref(&constraint))]);
        for (constraint, text) in [(constraint, text), (nested, "")] {
            let answer = ask_one(constraint, &environment);
            let (verdict, why) = match answer.split_once(": ") {
                Some(("!unmet constraints", why)) => ("unmet", why),
                Some(("!constraints could not be evaluated", why)) => ("unknown", why),
                _ => ("met", ""),
            };
            assert_eq!(verdict, want, "{answer}");
            assert_eq!(verdict == "met", answer == "kettle.v1.0.0");
            assert!(text.is_empty() || why == text, "{answer}");
        }
    }
}

// What is not given is not judged, and what is given is.
#[test]
fn what_is_not_told_excludes_nothing() {
    let only_kinds = Environment { providers: Knowledge::NotTold, ..cluster(Vec::new(), &[]) };
    assert_eq!(ask_one(package("1.0.0"), &only_kinds), "kettle.v1.0.0");
    assert!(ask_one(gvk("v1"), &only_kinds).starts_with("!unmet"));
    let silent = Environment::default();
    assert_eq!(ask_one(json!({"no": "constraint"}), &silent), "kettle.v1.0.0");
}

// resolution.md 5.7
#[test]
fn a_text_names_20_leaves_and_counts_the_rest() {
    let leaves: Vec<_> = (0..30).map(|it| gvk(&format!("v{it}"))).collect();
    let answer = ask_one(compound("any", &leaves), &cluster(Vec::new(), &[]));
    assert_eq!(answer.matches("requires API").count(), 20);
    assert!(answer.ends_with(") and 10 more"), "{answer}");
}

/// A rule that never matches. Its estimate is high if it has loops, which are never run.
fn never(number: usize, has_loops: bool) -> (&'static str, Value) {
    let loops = "properties.all(a, properties.all(b, properties.all(c, true)))";
    let more = if has_loops { loops } else { "true" };
    let rule = format!("size(properties) == {} && {more}", 1000 + number);
    ("olm.constraint", json!({"cel": {"rule": rule}}))
}

/// Properties that loops take long for.
fn numbers() -> impl Iterator<Item = (&'static str, Value)> {
    (0..20).map(|number| ("number", json!(number)))
}

// resolution.md 5.5
#[test]
fn rules_of_a_catalog_that_take_too_many_steps_together_are_unknown() {
    let bundles = |has_loops: bool| {
        let versions: Vec<_> = (0..600).map(|it| format!("1.{it}.0")).collect();
        let own = |it: usize| numbers().chain([never(it, has_loops)]).collect();
        let bundles = versions.iter().enumerate().map(|(it, version)| (version.as_str(), own(it)));
        kettles(&bundles.collect::<Vec<_>>()).content()
    };
    let (many, few) = (bundles(true), bundles(false));
    let why_not_the_last = |catalogs: &[Catalog<'_>]| {
        let resolution = update(&request(), catalogs, &cluster(Vec::new(), &[]));
        match &resolution.excluded.last().unwrap().reason {
            Reason::Unfit(why) => why.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let text = why_not_the_last(&[catalog("a", 0, &many)]);
    assert!(text.starts_with("constraints could not be evaluated: "), "{text}");
    assert!(text.ends_with("(the rules take too many steps together)"), "{text}");
    for catalogs in
        [vec![catalog("a", 0, &few)], vec![catalog("a", 0, &many), catalog("b", 0, &few)]]
    {
        let text = why_not_the_last(&catalogs);
        assert!(text.ends_with("(no installed bundle matches)"), "{text}");
    }
}

// resolution.md 5.4
#[test]
fn a_rule_that_cannot_change_the_verdict_takes_no_steps() {
    let rules = (0..1_000).map(|number| never(number, true).1);
    let any: Vec<_> = [gvk("v1")].into_iter().chain(rules).collect();
    let itself = json!({"cel": {"rule": "properties.exists(p, p.type == 'number')"}});
    let constraints = [compound("any", &any), itself].map(|value| ("olm.constraint", value));
    let catalogs = one(&kettles(&[("1.0.0", numbers().chain(constraints).collect())]));
    let resolution = update(&request(), catalogs, &cluster(Vec::new(), &["v1"]));
    assert_eq!(answer(&resolution), "kettle.v1.0.0");
}

/// Resolves with what is known of the cluster.
fn update<'a>(
    request: &Request,
    catalogs: &'a [Catalog<'a>],
    environment: &Environment,
) -> Resolution<'a> {
    super::super::resolve(request, catalogs, environment, &CHECK)
}

fn required(range: &str) -> (&'static str, Value) {
    let value = json!({"packageName": "blue", "versionRange": range});
    ("olm.package.required", value)
}

// resolution.md 1.10
#[test]
fn the_next_bundle_that_fits_is_chosen_and_the_better_one_is_held() {
    let catalogs = one(&kettles(&[
        ("1.0.0", vec![]),
        ("1.1.0", vec![required("1.0.0")]),
        ("1.2.0", vec![required("2.0.0")]),
    ]));
    let environment = cluster(vec![provider("blue", "1.0.0")], &[]);
    let resolution = update(&installed("1.0.0"), catalogs, &environment);
    assert_eq!(answer(&resolution), "kettle.v1.1.0");
    let held: Vec<_> =
        resolution.held.iter().map(|it| (it.bundle, it.reason.code().as_str())).collect();
    assert_eq!(held, [("kettle.v1.2.0", "ConstraintUnmet")]);
}

// resolution.md 1.10
#[test]
fn what_is_installed_is_kept_where_nothing_fits() {
    let catalogs = one(&kettles(&[
        ("0.9.0", vec![]),
        ("1.0.0", vec![required("1.0.0")]),
        ("1.1.0", vec![required("1.0.0")]),
    ]));
    let environment = cluster(Vec::new(), &[]);
    // A dependency that was removed is not a reason for a downgrade, whatever the edges allow.
    for request in [installed("1.0.0"), installed("1.0.0").self_certified()] {
        let resolution = update(&request, catalogs, &environment);
        let want = "!validating bundle \"kettle.v1.1.0\": unmet constraints: requires package";
        assert!(answer(&resolution).starts_with(want));
        assert!(matches!(resolution.decision(), Decision::Keep(Some(_))));
    }
    let down = update(&installed("1.0.0").version("<1.0.0"), catalogs, &environment);
    assert_eq!(answer(&down), "kettle.v0.9.0");
}

/// A provider that needs package `kettle` in some versions.
fn red(range: &str) -> Provider {
    let value = json!({"packageName": "kettle", "versionRange": range});
    provider("red", "1.0.0").with_constraints(&[property("olm.package.required", &value)])
}

// resolution.md 5.6, 5.2: an extension that is being deleted is not among the providers
#[test]
fn updates_break_nothing() {
    let catalogs = one(&kettles(&[("1.0.0", vec![]), ("2.0.0", vec![])]));
    for (range, want, held) in
        cases::<(Option<&str>, &str, Vec<&str>)>(CASES, "updates_break_nothing")
    {
        let environment = cluster(range.map(red).into_iter().collect(), &[]);
        let resolution = update(&installed("1.0.0"), catalogs, &environment);
        assert_eq!(answer(&resolution), want);
        let codes: Vec<_> = resolution.held.iter().map(|it| it.reason.code().as_str()).collect();
        assert_eq!(codes, held);
    }
}

// resolution.md 5.6
#[test]
fn self_certified_breaks_and_warns() {
    let catalogs = one(&kettles(&[("1.0.0", vec![]), ("2.0.0", vec![])]));
    let environment = cluster(vec![red("<2.0.0")], &[]);
    let request = installed("1.0.0").self_certified();
    let selected = update(&request, catalogs, &environment).result.unwrap();
    assert_eq!(
        selected.warnings[0].to_string(),
        "would break installed ClusterExtension \"red\": requires package \"kettle\" in version \
         range \"<2.0.0\" (version would become \"2.0.0\" from ClusterExtension \"kettle\")"
    );
}

// resolution.md 5.6
#[test]
fn updates_take_no_kind_away() {
    let kind = json!({"group": "greens.example.com", "version": "v1", "kind": "Green"});
    for (brings, want) in [(vec![], "kettle.v1.0.0"), (vec![("olm.gvk", kind)], "kettle.v2.0.0")] {
        let catalogs = one(&kettles(&[("1.0.0", vec![]), ("2.0.0", brings)]));
        let own = provider("kettle", "1.0.0").with_apis(BTreeSet::from([green("v1")]));
        let needs =
            provider("red", "1.0.0").with_constraints(&[property("olm.constraint", &gvk("v1"))]);
        let environment = cluster(vec![own, needs], &["v1"]);
        let resolution = update(&installed("1.0.0"), catalogs, &environment);
        assert_eq!(answer(&resolution), want);
    }
}

// decision 9
#[test]
fn versions_of_kubernetes() {
    for (kube_version, minimum, why) in
        cases::<(Option<&str>, &str, &str)>(CASES, "versions_of_kubernetes")
    {
        let csv = json!({"kind": "ClusterServiceVersion", "spec": {"minKubeVersion": minimum}});
        let object = json!({"data": STANDARD.encode(csv.to_string())});
        let metadata = json!({"minKubeVersion": minimum});
        let kube_version = kube_version.map(|version| version.parse().unwrap());
        let environment = Environment { kube_version, ..Environment::default() };
        for (kind, value) in [("olm.csv.metadata", metadata), ("olm.bundle.object", object)] {
            let catalogs = one(&kettles(&[("1.0.0", vec![(kind, value)])]));
            let answer = answer(&update(&request(), catalogs, &environment));
            let refused = answer.strip_prefix("!validating bundle \"kettle.v1.0.0\": ");
            assert_eq!(refused.unwrap_or_default(), why.replace("olm.csv.metadata", kind));
            assert_eq!(refused.is_none(), answer == "kettle.v1.0.0");
        }
    }
}

/// A constraint on what may be installed and served.
fn any_constraint() -> impl Strategy<Value = Value> {
    let range = prop_oneof![Just(">=1.0.0"), Just("<1.0.0"), Just("nonsense")];
    let name = prop_oneof![Just("blue"), Just("red"), Just("kettle")];
    let leaf = prop_oneof![
        (name, range).prop_map(
            |(name, range)| json!({"package": {"packageName": name, "versionRange": range}})
        ),
        prop_oneof![Just("v1"), Just("v2")].prop_map(gvk),
        prop_oneof![Just("red"), Just("x")].prop_map(
            |kind| json!({"cel": {"rule": format!("properties.exists(p, p.type == '{kind}')")}})
        ),
    ];
    leaf.prop_recursive(2, 6, 2, |inner| {
        let children = prop::collection::vec(inner, 0..3);
        (prop_oneof![Just("all"), Just("any"), Just("not")], children)
            .prop_map(|(kind, children)| compound(kind, &children))
    })
}

proptest! {
    // resolution.md 1.11 with constraints, 6.2
    #[test]
    fn the_order_of_providers_never_matters_and_what_is_excluded_is_never_chosen(
        constraints in prop::collection::vec(prop::option::of(any_constraint()), 1..5),
        (providers, shuffled) in prop::collection::btree_map("blue|red|green", (0u8..2, prop::option::of(any_constraint())), 0..3)
            .prop_flat_map(|providers| {
                let providers: Vec<_> = providers.into_iter().collect();
                (Just(providers.clone()), Just(providers).prop_shuffle())
            }),
        served in any::<bool>(),
        certified in any::<bool>(),
    ) {
        let versions = ["1.0.0", "1.1.0", "2.0.0", "0.9.0"];
        let bundles = versions.iter().zip(constraints).map(|(version, constraint)| {
            let constraint = constraint.map(|value| ("olm.constraint", value));
            (*version, constraint.into_iter().collect())
        });
        let catalogs = one(&kettles(&bundles.collect::<Vec<_>>()));
        let served: &[&str] = if served { &["v1"] } else { &[] };
        let environment = |providers: Vec<(String, (u8, Option<Value>))>| {
            let provider = |(name, (major, constraint)): (String, (u8, Option<Value>))| {
                let needs = constraint.map(|value| property("olm.constraint", &value));
                provider(&name, &format!("{major}.0.0"))
                    .with_properties(vec![property(&name, &json!(1))])
                    .with_constraints(&needs.into_iter().collect::<Vec<_>>())
            };
            cluster(providers.into_iter().map(provider).collect(), served)
        };
        let mut request = installed("1.0.0");
        if certified {
            request = request.self_certified();
        }
        let (forth, back) = (environment(providers), environment(shuffled));
        let (forth, back) = (update(&request, catalogs, &forth), update(&request, catalogs, &back));
        prop_assert_eq!(answer(&forth), answer(&back));
        prop_assert_eq!(&forth.excluded, &back.excluded);
        prop_assert_eq!(&forth.held, &back.held);
        if let Ok(selected) = &forth.result {
            let excluded = forth.excluded.iter().any(|it| it.bundle == selected.bundle.name);
            prop_assert!(!excluded);
        }
    }
}
