//! Selectors, channels, ranges, successors: S, U, V and K of the conformance cases.

use serde_json::{Value, json};

use super::*;
use crate::fixture::cases;
use crate::object::items;

// resolution.md 1.3, 1.6, 1.7, 4.4
#[test]
fn a_request_has_its_answer() {
    for (asked, offered, want) in cases::<(Value, Value, &str)>(CASES, "a_request_has_its_answer") {
        let mut request = asked["installed"].as_str().map_or_else(request, installed);
        request.filter.version = asked["version"].as_str().map(str::to_owned);
        request = request.channels(&list(&asked["channels"]));
        if asked["certified"] == true {
            request = request.self_certified();
        }
        if let Some(selector) = asked.get("selector") {
            request = request.selector(selector.clone());
        }
        let chain = list(&offered["chain"]);
        let mut fixture = if chain.is_empty() {
            Fixture::bundles(&list(&offered["bundles"]))
        } else {
            Fixture::chain(&chain)
        };
        for (name, version) in offered["named"].as_object().into_iter().flatten() {
            fixture = fixture.bundle(name, version.as_str().unwrap());
        }
        for (name, entries) in offered["channels"].as_object().into_iter().flatten() {
            fixture = fixture.channel(name, entries.clone());
        }
        fixture = list(&offered["deprecated"]).into_iter().fold(fixture, Fixture::deprecate);
        let answer = ask(&request, &fixture);
        let is_refusal = want.starts_with("!desired");
        assert!(answer == want || (is_refusal && answer.starts_with(want)), "{answer}");
    }
}

fn list(value: &Value) -> Vec<&str> {
    items(value).filter_map(Value::as_str).collect()
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

// resolution.md 2
#[test]
fn a_version_with_build_metadata_asks_for_that_release() {
    let fixture = Fixture::bundles(&["1.0.0+1", "1.0.0+001", "1.0.0+10", "1.0.0+9"]);
    let upstream = Options { pins_releases: false, ..ANY };
    let rows = "a_version_with_build_metadata_asks_for_that_release";
    for (range, want) in cases::<(&str, &str)>(CASES, rows) {
        let request = request().version(range);
        assert_eq!(ask(&request, &fixture), want);
        let chosen = answer(&resolve(&request, one(&fixture), &upstream));
        assert_eq!(chosen, "kettle.v1.0.0+10");
    }
}

// resolution.md 1.10
#[test]
fn declared_dependencies() {
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
    let refused = "!validating bundle \"kettle.v1\": bundle \"kettle.v1\" has a dependency \
                   declared via property \"olm.gvk.required\" which is currently not supported";
    for (dependencies, want) in
        [(Dependencies::Refuse, refused), (Dependencies::Check, "kettle.v1")]
    {
        let options = Options { dependencies, ..ANY };
        assert_eq!(answer(&resolve(&request(), catalogs, &options)), want);
    }
}
