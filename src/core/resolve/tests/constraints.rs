//! Constraints against a cluster: K of the conformance cases.

use std::collections::BTreeSet;
use std::slice;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::catalog::Property;

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

fn unreadable() -> Environment {
    let served = ServedKinds {
        unreadable_groups: BTreeSet::from(["greens.example.com".to_owned()]),
        ..ServedKinds::default()
    };
    Environment { served: Knowledge::Known(served.into()), ..cluster(Vec::new(), &[]) }
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

const NO_BLUE: &str = "!unmet constraints: requires package \"blue\" in version range \
                       \">=1.0.0\" (no installed ClusterExtension provides it)";

// resolution.md 5.3
#[rstest]
#[case::missing(&[], ">=1.0.0", NO_BLUE)]
#[case::wrong_version(
    &["0.9.0"], ">=1.0.0",
    "!unmet constraints: requires package \"blue\" in version range \">=1.0.0\" (installed \
     version is \"0.9.0\" from ClusterExtension \"blue\")"
)]
#[case::prerelease_at_the_upper_bound(&["2.0.0-rc.1"], ">=1.0.0 <2.0.0", "kettle.v1.0.0")]
#[case::release_does_not_count(&["1.0.0+7"], "1.0.0", "kettle.v1.0.0")]
#[case::version_that_is_none(
    &["latest"], "1.0.0",
    "!unmet constraints: requires package \"blue\" in version range \"1.0.0\" (installed version \
     is \"latest\" from ClusterExtension \"blue\")"
)]
fn required_packages(#[case] versions: &[&str], #[case] range: &str, #[case] want: &str) {
    let providers = versions.iter().map(|version| provider("blue", version));
    let environment = cluster(providers.collect(), &[]);
    assert_eq!(ask_one(package(range), &environment), want);
}

// resolution.md 5.3
#[test]
fn a_claimed_package_counts_too() {
    let claim = json!({"packageName": "blue", "version": "1.2.0"});
    let other = provider("other", "0.1.0").with_properties(vec![property("olm.package", &claim)]);
    let environment = cluster(vec![other], &[]);
    assert_eq!(ask_one(package(">=1.0.0"), &environment), "kettle.v1.0.0");
}

// resolution.md 5.3
#[rstest]
#[case::served(&["v1"], "v1", "kettle.v1.0.0")]
#[case::other_version(
    &["v1beta1"], "v1",
    "!unmet constraints: requires API \"greens.example.com/v1, Kind=Green\" (not served by the \
     cluster)"
)]
fn required_kinds(#[case] served: &[&str], #[case] version: &str, #[case] want: &str) {
    assert_eq!(ask_one(gvk(version), &cluster(Vec::new(), served)), want);
}

// resolution.md 5.3
#[test]
fn a_kind_that_is_not_served_yet_names_who_brings_it() {
    let apis = BTreeSet::from([green("v1")]);
    let environment = cluster(vec![provider("green", "1.0.0").with_apis(apis)], &[]);
    assert_eq!(
        ask_one(gvk("v1"), &environment),
        "!unmet constraints: requires API \"greens.example.com/v1, Kind=Green\" (provided by \
         ClusterExtension \"green\" but not served yet)"
    );
}

// resolution.md 5.4
#[rstest]
#[case::empty_all("all", &[], true)]
#[case::empty_any("any", &[], false)]
#[case::empty_not("not", &[], true)]
#[case::all_met("all", &["met", "met"], true)]
#[case::all_with_one_unmet("all", &["met", "unmet"], false)]
#[case::any_with_one_met("any", &["unmet", "met"], true)]
#[case::any_unmet("any", &["unmet", "unmet"], false)]
#[case::not_of_or("not", &["unmet", "met"], false)]
#[case::not_unmet("not", &["unmet", "unmet"], true)]
fn trees(#[case] kind: &str, #[case] leaves: &[&str], #[case] want: bool) {
    let leaf = |leaf: &&str| gvk(if *leaf == "met" { "v1" } else { "v2" });
    let tree = compound(kind, &leaves.iter().map(leaf).collect::<Vec<_>>());
    let environment = cluster(Vec::new(), &["v1"]);
    let nested = compound("all", &[compound("any", slice::from_ref(&tree))]);
    for tree in [tree, nested] {
        let answer = ask_one(tree, &environment);
        assert_eq!(answer == "kettle.v1.0.0", want, "{answer}");
    }
}

// resolution.md 5.4
#[rstest]
#[case::leaf(gvk("v1"), "unknown")]
#[case::all(compound("all", &[gvk("v1"), package("0.9.0")]), "unknown")]
#[case::all_with_one_unmet(compound("all", &[gvk("v1"), package("1.0.0")]), "unmet")]
#[case::any(compound("any", &[gvk("v1"), package("1.0.0")]), "unknown")]
#[case::any_with_one_met(compound("any", &[gvk("v1"), package("0.9.0")]), "met")]
#[case::not(compound("not", &[gvk("v1"), package("1.0.0")]), "unknown")]
#[case::not_with_one_met(compound("not", &[gvk("v1"), package("0.9.0")]), "unmet")]
fn trees_with_something_unknown(#[case] tree: Value, #[case] want: &str) {
    let environment = Environment {
        providers: Knowledge::Known(vec![provider("blue", "0.9.0")].into()),
        ..unreadable()
    };
    let answer = ask_one(tree, &environment);
    let found = if answer.starts_with("!constraints could not be evaluated: ") {
        "unknown"
    } else if answer.starts_with("!unmet constraints: ") {
        "unmet"
    } else {
        "met"
    };
    assert_eq!(found, want, "{answer}");
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

// resolution.md 5.4
#[test]
fn what_must_not_be_there_is_not_the_bundle_itself() {
    let itself = json!({"package": {"packageName": "kettle", "versionRange": ">=0.0.0"}});
    let empty = cluster(Vec::new(), &[]);
    assert_eq!(ask_one(compound("not", slice::from_ref(&itself)), &empty), "kettle.v1.0.0");
    assert_eq!(ask_one(itself, &empty), "kettle.v1.0.0");

    let apis = BTreeSet::from([green("v1")]);
    let own = provider("kettle", "0.9.0").with_apis(apis.clone());
    let own = cluster(vec![own], &["v1"]);
    assert_eq!(ask_one(compound("not", &[gvk("v1")]), &own), "kettle.v1.0.0");

    let other = provider("green", "1.0.0").with_apis(apis);
    let other = cluster(vec![other], &["v1"]);
    assert_eq!(
        ask_one(compound("not", &[gvk("v1")]), &other),
        "!unmet constraints: none of (requires API \"greens.example.com/v1, Kind=Green\" (served \
         by the cluster))"
    );
}

// resolution.md 5.7
#[test]
fn messages_stand_before_what_they_explain_at_every_level() {
    let mut leaf = package(">=1.0.0");
    leaf["failureMessage"] = "Blue\nstores the palette".into();
    let mut tree = compound("all", &[leaf, gvk("v1")]);
    tree["failureMessage"] = "Red needs Blue and Green".into();
    assert_eq!(
        ask_one(tree, &cluster(vec![provider("blue", "0.9.0")], &["v1"])),
        "!unmet constraints: Red needs Blue and Green: Blue stores the palette: requires package \
         \"blue\" in version range \">=1.0.0\" (installed version is \"0.9.0\" from \
         ClusterExtension \"blue\")"
    );
}

// resolution.md 5.7
#[test]
fn a_text_names_20_leaves_and_counts_the_rest() {
    let leaves: Vec<_> = (0..30).map(|it| gvk(&format!("v{it}"))).collect();
    let answer = ask_one(compound("any", &leaves), &cluster(Vec::new(), &[]));
    assert_eq!(answer.matches("requires API").count(), 20);
    assert!(answer.ends_with(") and 10 more"), "{answer}");
}

// resolution.md 5.5
#[test]
fn a_rule_is_about_one_bundle_at_a_time() {
    let rule = |text: &str| json!({"cel": {"rule": text}});
    let with = |name: &str, kind: &str| {
        provider(name, "1.0.0").with_properties(vec![property(kind, &json!(true))])
    };
    let environment = cluster(vec![with("x", "certified"), with("y", "stable")], &[]);
    let certified = "properties.exists(p, p.type == 'certified')";
    let both = format!("{certified} && properties.exists(p, p.type == 'stable')");
    assert_eq!(ask_one(rule(certified), &environment), "kettle.v1.0.0");
    assert!(ask_one(rule(&both), &environment).ends_with("(no installed bundle matches)"));
    let itself = "properties.exists(p, p.type == 'olm.package' && p.value.version == '1.0.0')";
    assert_eq!(ask_one(rule(itself), &cluster(Vec::new(), &[])), "kettle.v1.0.0");
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
#[rstest]
#[case::held(vec![red("<2.0.0")], "kettle.v1.0.0", &["BreaksInstalled"])]
#[case::broken_before(vec![red("<1.0.0")], "kettle.v2.0.0", &[])]
#[case::still_met(vec![red(">=1.0.0")], "kettle.v2.0.0", &[])]
#[case::being_deleted(vec![], "kettle.v2.0.0", &[])]
fn updates_break_nothing(
    #[case] providers: Vec<Provider>,
    #[case] want: &str,
    #[case] held: &[&str],
) {
    let catalogs = one(&kettles(&[("1.0.0", vec![]), ("2.0.0", vec![])]));
    let resolution = update(&installed("1.0.0"), catalogs, &cluster(providers, &[]));
    assert_eq!(answer(&resolution), want);
    let codes: Vec<_> = resolution.held.iter().map(|it| it.reason.code().as_str()).collect();
    assert_eq!(codes, held);
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
#[rstest]
#[case::gone(vec![], "kettle.v1.0.0")]
#[case::brought_along(
    vec![("olm.gvk", json!({"group": "greens.example.com", "version": "v1", "kind": "Green"}))],
    "kettle.v2.0.0"
)]
fn updates_take_no_kind_away(#[case] brings: Vec<(&str, Value)>, #[case] want: &str) {
    let catalogs = one(&kettles(&[("1.0.0", vec![]), ("2.0.0", brings)]));
    let own = provider("kettle", "1.0.0").with_apis(BTreeSet::from([green("v1")]));
    let needs =
        provider("red", "1.0.0").with_constraints(&[property("olm.constraint", &gvk("v1"))]);
    let environment = cluster(vec![own, needs], &["v1"]);
    let resolution = update(&installed("1.0.0"), catalogs, &environment);
    assert_eq!(answer(&resolution), want);
}

// decision 9
#[rstest]
#[case::unknown(None, "1.30.0", "kettle.v1.0.0")]
#[case::new_enough(Some("1.30.1"), "1.30.0", "kettle.v1.0.0")]
#[case::suffix_of_a_vendor(Some("1.30.0-eks-1+k3s1"), "v1.30", "kettle.v1.0.0")]
#[case::too_old(
    Some("1.29.3"),
    "1.30.0",
    "!validating bundle \"kettle.v1.0.0\": unmet constraints: requires Kubernetes \"1.30.0\" or \
     later (the cluster runs \"1.29.3\")"
)]
#[case::no_version(
    Some("1.29.3"),
    "new",
    "!validating bundle \"kettle.v1.0.0\": invalid constraint: property \"olm.csv.metadata\" at \
     index 1: minKubeVersion: Invalid character(s) found in major number \"0new\""
)]
fn versions_of_kubernetes(
    #[case] kube_version: Option<&str>,
    #[case] minimum: &str,
    #[case] want: &str,
) {
    let csv = json!({"kind": "ClusterServiceVersion", "spec": {"minKubeVersion": minimum}});
    let object = json!({"data": STANDARD.encode(csv.to_string())});
    let environment = Environment {
        kube_version: kube_version.map(|version| version.parse().unwrap()),
        ..Environment::default()
    };
    for (kind, value) in
        [("olm.csv.metadata", json!({"minKubeVersion": minimum})), ("olm.bundle.object", object)]
    {
        let catalogs = one(&kettles(&[("1.0.0", vec![(kind, value)])]));
        let resolution = update(&request(), catalogs, &environment);
        assert_eq!(answer(&resolution), want.replace("olm.csv.metadata", kind));
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
