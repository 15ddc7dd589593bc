//! Properties that hold for every catalog and request.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A catalog of versions with an edge each, in some order, with deprecations.
pub(crate) fn any_fixture() -> impl Strategy<Value = Fixture> {
    let numbers = prop::collection::btree_map((0u8..3, 0u8..3), (0u8..3, any::<bool>()), 0..5);
    numbers.prop_map(|numbers| {
        let mut fixture = Fixture::default();
        for ((major, minor), (from, deprecated)) in numbers {
            let version = format!("{major}.{minor}.0");
            let name = format!("kettle.v{version}");
            let replaces = format!("kettle.v{from}.0.0");
            let entries = json!([{"name": name, "replaces": replaces}]);
            fixture = fixture.bundle(&name, &version).channel(&format!("c{minor}"), entries);
            if deprecated {
                fixture = fixture.deprecate(&version);
            }
        }
        fixture
    })
}

/// A catalog, and the same with its blobs in another order. Of blobs of one name the last one counts,
/// whatever the law, so only the first of each name takes part.
pub(crate) fn any_order() -> impl Strategy<Value = (Fixture, Fixture)> {
    any_fixture().prop_flat_map(|mut fixture| {
        let mut seen = BTreeSet::new();
        let key = |blob: &Value| (blob["schema"].to_string(), blob["name"].to_string());
        fixture.blobs.retain(|blob| seen.insert(key(blob)));
        let shuffled = Just(fixture.blobs.clone()).prop_shuffle();
        shuffled.prop_map(move |blobs| (fixture.clone(), Fixture { blobs, ..fixture.clone() }))
    })
}

pub(crate) fn any_request() -> impl Strategy<Value = Request> {
    let version = prop_oneof![Just(""), Just("*"), Just("1.x"), Just(">=1.1"), Just("<2")];
    let channels = prop_oneof![Just(vec![]), Just(vec!["c0"]), Just(vec!["c1", "c0"])];
    let from = prop_oneof![Just(None), Just(Some("1.0.0")), Just(Some("0.0.0"))];
    (version, channels, from, any::<bool>()).prop_map(|(version, channels, from, certified)| {
        let request = from.map_or_else(request, installed);
        let request = request.version(version).channels(&channels);
        if certified { request.self_certified() } else { request }
    })
}

proptest! {
    // resolution.md 1.11
    #[test]
    fn order_never_matters(
        (fixture, shuffled) in any_order(),
        other in any_fixture(),
        request in any_request(),
        priority in 0..2,
    ) {
        let (first, second, other) = (fixture.content(), shuffled.content(), other.content());
        let forth = [catalog("a", 0, &first), catalog("b", priority, &other)];
        let back = [catalog("b", priority, &other), catalog("a", 0, &second)];
        let (forth, back) = (resolve(&request, &forth, &ANY), resolve(&request, &back, &ANY));
        prop_assert_eq!(answer(&forth), answer(&back));
        prop_assert_eq!(forth.excluded, back.excluded);
    }

    // resolution.md 1.13
    #[test]
    fn what_is_accepted_without_a_catalog_is_what_it_would_have_been(
        here in any_fixture(),
        missing in any_fixture(),
        request in any_request(),
        priority in -1..2,
    ) {
        let (here, missing) = (here.content(), missing.content());
        let partial = [catalog("a", 0, &here), down("b", priority)];
        let whole = [catalog("a", 0, &here), catalog("b", priority, &missing)];
        let partial = resolve(&request, &partial, &ANY);
        let name = request.installed.as_ref().map(|it| it.name.clone());
        if let Ok(selected) = &partial.result && Some(&selected.bundle.name) != name.as_ref() {
            let strict = Options { unavailability: Unavailability::Strict, ..ANY };
            prop_assert_eq!(answer(&partial), answer(&resolve(&request, &whole, &strict)));
        }
    }

    // resolution.md 6.2
    #[test]
    fn every_bundle_is_a_candidate_or_excluded(
        fixture in any_fixture(),
        request in any_request(),
        strict in any::<bool>(),
    ) {
        let content = fixture.content();
        let updates = if strict { UpdatePolicy::PatchOnly } else { UpdatePolicy::Any };
        let catalogs = [catalog("a", 0, &content)];
        let resolution = resolve(&request, &catalogs, &Options { updates, ..ANY });
        let report = &resolution.catalogs[0];
        prop_assert_eq!(report.bundles, report.candidates + resolution.excluded.len());
    }
}
