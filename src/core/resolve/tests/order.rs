//! Order in and between catalogs, and missing catalogs: O and A of the conformance cases.

use super::*;
use crate::fixture::cases;

// resolution.md 1.8
#[test]
fn between_catalogs() {
    let (new, old) = (Fixture::bundles(&["2.0.0"]).content(), Fixture::bundles(&["1.0.0"]));
    for (priority, deprecated, want) in cases::<(i32, bool, &str)>(CASES, "between_catalogs") {
        let old = if deprecated { old.clone().deprecate("1.0.0") } else { old.clone() };
        let old = old.content();
        let catalogs = [catalog("b", 0, &new), catalog("a", priority, &old)];
        assert_eq!(ask_catalogs(&request(), &catalogs), want);
    }
}

// resolution.md 1.1
#[test]
fn deprecations_are_those_of_the_winning_catalog() {
    let (first, second) = (
        Fixture::bundles(&["1.0.0"]).content(),
        Fixture::bundles(&["1.0.0", "0.9.0"]).deprecate("0.9.0").content(),
    );
    let catalogs = [catalog("a", 1, &first), catalog("b", 0, &second)];
    let selected = resolve(&request(), &catalogs, &ANY).result.unwrap();
    assert_eq!((selected.catalog, selected.deprecations), ("a", None));
}

// resolution.md 1.13
#[test]
fn a_catalog_is_down() {
    let fine = Fixture::bundles(&["1.0.0"]);
    for (unavailability, priority, deprecated, accepted) in
        cases::<(Unavailability, i32, bool, bool)>(CASES, "a_catalog_is_down")
    {
        let fixture = if deprecated { fine.clone().deprecate("1.0.0") } else { fine.clone() };
        let content = fixture.content();
        let catalogs = [catalog("a", 0, &content), down("b", priority)];
        let resolution = resolve(&request(), &catalogs, &Options { unavailability, ..ANY });
        let note = "resolved without catalog(s) \"b\": catalog \"b\" is not being served";
        assert_eq!(resolution.unavailable_note().as_deref(), accepted.then_some(note));
        let error = "!error walking catalogs: error getting package \"kettle\" from catalog \"b\": \
                     catalog \"b\" is not being served";
        let want = if accepted { "kettle.v1.0.0" } else { error };
        assert_eq!(answer(&resolution), want);
    }
}

// resolution.md 1.13
#[test]
fn what_is_installed_is_held_or_accepted() {
    let content = Fixture::chain(&["1.0.0", "1.1.0"]).content();
    let catalogs = [catalog("a", 0, &content), down("b", 0)];
    let (behind, latest) = (installed("1.0.0"), installed("1.1.0"));
    let held = resolve(&behind, &catalogs, &ANY);
    assert!(matches!(held.decision(), Decision::Keep(Some(_))));
    let accepted = resolve(&latest, &catalogs, &ANY);
    assert!(matches!(accepted.decision(), Decision::Use(_)));
}

// resolution.md 1.13
#[test]
fn content_that_is_here_is_used_although_the_catalog_is_down() {
    let content = Fixture::bundles(&["1.0.0"]).content();
    let mut stale = catalog("a", 0, &content);
    stale.problem = Some(CatalogProblem::NotCached);
    let catalogs = [stale];
    assert_eq!(ask_catalogs(&request(), &catalogs), "kettle.v1.0.0");
    let strict = Options { unavailability: Unavailability::Strict, ..ANY };
    assert_eq!(
        answer(&resolve(&request(), &catalogs, &strict)),
        "!error walking catalogs: error getting package \"kettle\" from catalog \"a\": cache for \
         catalog \"a\" not found"
    );
}

// resolution.md 1.8
#[test]
fn a_tie_goes_to_the_catalog_that_what_is_installed_came_from() {
    let (one, other) = (Fixture::chain(&["1.0.0"]), Fixture::chain(&["1.0.0", "1.1.0"]));
    let (one, other) = (one.content(), other.content());
    let catalogs = [catalog("a", 0, &one), catalog("b", 0, &other), catalog("c", -1, &other)];
    let from = |home: &str| Request { home: Some(home.to_owned()), ..installed("1.0.0") };
    assert_eq!(ask_catalogs(&from("a"), &catalogs), "kettle.v1.0.0");
    assert_eq!(ask_catalogs(&from("b"), &catalogs), "kettle.v1.1.0");
    assert!(ask_catalogs(&from("c"), &catalogs).contains("same priority [a b c]"));
    // One of the same priority that cannot be read could not win either.
    let unread = [catalog("b", 0, &other), down("a", 0)];
    assert_eq!(ask_catalogs(&from("b"), &unread), "kettle.v1.1.0");
    assert!(ask_catalogs(&from("c"), &unread).contains("not being served"));
}

// decision 5: there is no catalog, or an update that only a lost one had is no error
#[test]
fn without_its_catalog_the_installed_bundle_is_kept() {
    let without = Fixture::bundles(&["0.1.0"]).content();
    let catalogs = [catalog("a", 0, &without)];
    let rows = "without_its_catalog_the_installed_bundle_is_kept";
    for (range, count, home, silently) in cases::<(&str, usize, Option<&str>, bool)>(CASES, rows) {
        let home = home.map(str::to_owned);
        let request = Request { home, ..installed("1.0.0").version(range) };
        let resolution = resolve(&request, &catalogs[..count], &ANY);
        let Decision::Keep(error) = resolution.decision() else { panic!("{resolution:?}") };
        assert_eq!(error.is_none(), silently);
    }
}

// decision 32
#[test]
fn what_only_the_catalogs_do_not_choose_still_fits() {
    let content = Fixture::chain(&["1.0.0", "2.0.0"]).content();
    let others = Fixture::default().content();
    let pruned = Fixture::chain(&["0.9.0", "3.0.0"]).content();
    let tied = [catalog("a", 0, &content), catalog("b", 0, &content)];
    let unread = [down("a", 0), down("b", 0)];
    for (range, want) in [("", true), ("1.x", true), ("2.0.0", false)] {
        let request = installed("1.0.0").version(range);
        let fits = |catalogs: &[Catalog<'_>]| resolve(&request, catalogs, &ANY).installed_fits;
        assert_eq!(fits(&tied), want, "{range}");
        assert_eq!(fits(&unread), want, "{range}");
        assert_eq!(fits(&[catalog("a", 0, &others)]), want, "{range}");
        let of_a_range = want && !range.is_empty();
        assert_eq!(fits(&[catalog("a", 0, &pruned)]), of_a_range, "{range}");
        // That no channel has a version that fits is not of the catalogs.
        let request = installed("1.0.0").version(range).channels(&["none"]);
        assert!(!resolve(&request, &tied, &ANY).installed_fits, "{range}");
    }
}

#[test]
fn a_wrong_request_is_never_held() {
    let request = installed("1.0.0").version("foobar");
    let resolution = resolve(&request, &[], &ANY);
    assert!(matches!(resolution.decision(), Decision::Fail(error) if error.is_invalid_request()));
}
