//! Selectors, channels, ranges, successors: S, U, V and K of the conformance cases.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

// resolution.md 1.3
#[rstest]
#[case::absent(None)]
#[case::empty(Some(json!({})))]
fn a_selector_without_requirements_selects_all(#[case] selector: Option<Value>) {
    let request = match selector {
        Some(selector) => request().selector(selector),
        None => request(),
    };
    assert_eq!(ask(&request, &Fixture::bundles(&["1.0.0"])), "kettle.v1.0.0");
}

// resolution.md 1.3
#[test]
fn not_in_keeps_catalogs_without_the_label() {
    let selector = json!({"matchExpressions": [
        {"key": "absent", "operator": "NotIn", "values": ["a"]},
        {"key": "tier", "operator": "In", "values": ["a", "b"]},
    ]});
    let fixture = Fixture::bundles(&["1.0.0"]);
    assert_eq!(ask(&request().selector(selector), &fixture), "kettle.v1.0.0");
}

// resolution.md 1.2
#[test]
fn selector_before_range_before_catalogs() {
    let bad = json!({"matchExpressions": [{"key": "a", "operator": "bad"}]});
    let broken = [down("a", 0)];
    assert_eq!(
        ask_catalogs(&request().version("foobar").selector(bad), &broken),
        "!desired catalog selector is invalid: \"bad\" is not a valid label selector operator"
    );
    assert_eq!(
        ask_catalogs(&request().version("foobar"), &broken),
        "!desired version range \"foobar\" is invalid: improper constraint: \"foobar\""
    );
}

// resolution.md 1.3
#[test]
fn a_disabled_catalog_is_not_even_looked_at() {
    let mut broken = down("a", 5);
    broken.enabled = false;
    let content = Fixture::bundles(&["1.0.0"]).content();
    let catalogs = [broken, catalog("b", 0, &content)];
    assert_eq!(ask_catalogs(&request(), &catalogs), "kettle.v1.0.0");
}

// resolution.md 1.3
#[rstest]
#[case(json!({"matchLabels": {"": "v"}}), "key: Invalid value: \"\": name part must be non-empty; ")]
#[case(json!({"matchLabels": {"name": "&value"}}), "values[0][name]: Invalid value: \"&value\": a valid label")]
#[case(
    json!({"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}),
    "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
)]
#[case(
    json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["v"]}]}),
    "values: Invalid value: [\"v\"]: values set must be empty for exists and does not exist"
)]
#[case(json!({"matchLabels": {"-": "-"}}), "[key: Invalid value: \"-\": name part")]
fn selector_errors(#[case] selector: Value, #[case] want: &str) {
    let answer = ask_catalogs(&request().selector(selector), &[]);
    let want = format!("!desired catalog selector is invalid: {want}");
    assert!(answer.starts_with(&want), "{answer}");
}

fn two_channels() -> Fixture {
    Fixture::bundles(&["1.0.0", "1.1.0", "1.2.0"])
        .channel("alpha", json!([{"name": "kettle.v1.1.0", "replaces": "kettle.v1.0.0"}]))
        .channel(
            "beta",
            json!([
                {"name": "kettle.v1.0.0"},
                {"name": "kettle.v1.1.0"},
                {"name": "kettle.v1.2.0", "skips": ["kettle.v0.9.0"]},
            ]),
        )
}

// resolution.md 1.6
#[rstest]
#[case::edge_in_an_unrequested_channel_is_void(&["beta"], "kettle.v1.0.0")]
#[case::without_channels_all_edges_count(&[], "kettle.v1.1.0")]
#[case::membership_and_edge_may_differ(&["alpha", "beta"], "kettle.v1.1.0")]
#[case::installed_may_be_outside_the_channels(&["alpha"], "kettle.v1.1.0")]
#[case::no_edge_and_not_inside(
    &["gamma"],
    "!error upgrading from currently installed version \"1.0.0\": no bundles found for package \
     \"kettle\" in channels [gamma]"
)]
fn edges_count_in_considered_channels(#[case] channels: &[&str], #[case] want: &str) {
    assert_eq!(ask(&installed("1.0.0").channels(channels), &two_channels()), want);
}

// resolution.md 1.6
#[test]
fn a_pin_two_hops_away_is_refused_although_it_exists() {
    let catalogs = one(&Fixture::chain(&["1.0.0", "1.0.1", "1.0.2"]));
    let request = installed("1.0.0").version("1.0.2");
    let resolution = resolve(&request, catalogs, &ANY);
    assert_eq!(
        answer(&resolution),
        "!error upgrading from currently installed version \"1.0.0\": no bundles found for \
         package \"kettle\" matching version \"1.0.2\""
    );
    let reasons: Vec<_> =
        resolution.excluded.iter().map(|it| (it.bundle, it.reason.clone())).collect();
    assert_eq!(
        reasons,
        [
            ("kettle.v1.0.2", Reason::NotSuccessor),
            ("kettle.v1.0.1", Reason::VersionOutOfRange),
            ("kettle.v1.0.0", Reason::VersionOutOfRange),
        ]
    );
}

// resolution.md 1.6
#[test]
fn an_open_range_walks_the_chain_one_hop_at_a_time() {
    let chain = Fixture::chain(&["1.0.0", "1.0.1", "1.1.0", "1.2.0"]);
    for (from, to) in [("1.0.0", "1.0.1"), ("1.0.1", "1.1.0"), ("1.1.0", "1.2.0")] {
        let to = format!("kettle.v{to}");
        assert_eq!(ask(&installed(from).version(">=1.0.0"), &chain), to);
    }
}

// resolution.md 1.6
#[test]
fn another_name_with_the_same_version_is_the_installed_one() {
    let fixture = Fixture::default().bundle("renamed", "1.0.0");
    assert_eq!(ask(&installed("1.0.0"), &fixture), "renamed");
}

// resolution.md 1.6
#[test]
fn a_higher_release_needs_an_edge() {
    let fixture = Fixture::bundles(&["1.0.0+1", "1.0.0+2"]);
    assert_eq!(ask(&installed("1.0.0+1"), &fixture), "kettle.v1.0.0+1");
}

// resolution.md 1.6
#[rstest]
#[case::down("2.0.0", "1.0.0", "kettle.v1.0.0")]
#[case::up_without_an_edge("1.0.0", ">1.0.0", "kettle.v2.0.0")]
#[case::installed_version_is_never_parsed("1", "1.0.0", "kettle.v1.0.0")]
fn self_certified_follows_no_edges(#[case] from: &str, #[case] range: &str, #[case] want: &str) {
    let fixture = Fixture::bundles(&["1.0.0", "2.0.0"]);
    assert_eq!(ask(&installed(from).version(range).self_certified(), &fixture), want);
}

#[test]
fn a_wrong_installed_version_only_matters_where_the_package_is() {
    let text = "!error upgrading from currently installed version \"1\": no bundles found for \
                package \"kettle\"";
    assert_eq!(ask(&installed("1"), &Fixture::default()), text);
    assert_eq!(
        ask(&installed("1"), &Fixture::bundles(&["1.0.0"])),
        "!error walking catalogs: error finding upgrade edges: failed to get version and release \
         of installed bundle: No Major.Minor.Patch elements found"
    );
}

// resolution.md 2
#[rstest]
#[case::there("1.0.0+1", "kettle.v1.0.0+1")]
#[case::operator("= 1.0.0+9", "kettle.v1.0.0+9")]
#[case::not_a_release("1.0.0+001", "kettle.v1.0.0+001")]
#[case::not_there("1.0.0+2", "kettle.v1.0.0+10")]
#[case::range(">=1.0.0+1", "kettle.v1.0.0+10")]
#[case::none("1.0.0", "kettle.v1.0.0+10")]
fn a_version_with_build_metadata_asks_for_that_release(#[case] range: &str, #[case] want: &str) {
    let fixture = Fixture::bundles(&["1.0.0+1", "1.0.0+001", "1.0.0+10", "1.0.0+9"]);
    let request = request().version(range);
    assert_eq!(ask(&request, &fixture), want);
    let upstream = Options { pins_releases: false, ..ANY };
    let chosen = answer(&resolve(&request, one(&fixture), &upstream));
    assert_eq!(chosen, "kettle.v1.0.0+10");
}

// resolution.md 1.10
#[rstest]
#[case(
    Dependencies::Refuse,
    "!validating bundle \"kettle.v1\": bundle \"kettle.v1\" has a dependency \
     declared via property \"olm.gvk.required\" which is currently not supported"
)]
#[case::nothing_told(Dependencies::Check, "kettle.v1")]
fn declared_dependencies(#[case] dependencies: Dependencies, #[case] want: &str) {
    let mut fixture = Fixture::bundles(&["0.9.0"]);
    fixture.blobs.push(json!({
        "schema": "olm.bundle", "package": "kettle", "name": "kettle.v1", "properties": [
            {"type": "olm.package", "value": {"version": "1.0.0"}},
            {"type": "olm.label.required", "value": {}},
            {"type": "olm.gvk.required", "value": {}},
            {"type": "olm.package.required", "value": {}},
        ],
    }));
    let catalogs = one(&fixture);
    let options = Options { dependencies, ..ANY };
    assert_eq!(answer(&resolve(&request(), catalogs, &options)), want);
}
