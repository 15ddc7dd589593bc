//! Order in and between catalogs, and missing catalogs: O and A of the conformance cases.

use rstest::rstest;

use super::*;

// resolution.md 1.7
#[test]
fn a_deprecated_bundle_loses_to_an_older_one() {
    let fixture = Fixture::chain(&["1.0.0", "1.1.0"]).deprecate("1.1.0");
    assert_eq!(ask(&request(), &fixture), "kettle.v1.0.0");
    assert_eq!(ask(&installed("1.0.0"), &fixture), "kettle.v1.0.0");
}

// resolution.md 1.7
#[test]
fn a_bundle_without_a_version_is_last_and_an_error_when_alone() {
    let bad = Fixture::default().bundle("bad", "v5.0.0");
    let text = "!error getting resolved bundle version for bundle \"bad\": \
                Invalid character(s) found in major number \"v5\"";
    assert_eq!(ask(&request(), &bad), text);
    assert_eq!(ask(&request(), &bad.bundle("good", "0.0.1")), "good");
}

// resolution.md 4.4
#[test]
fn ties_go_to_the_installed_name_and_then_to_the_smaller_one() {
    let fixture = Fixture::default()
        .bundle("kettle.b", "1.0.0")
        .bundle("kettle.v1.0.0", "1.0.0")
        .bundle("kettle.a", "1.0.0");
    assert_eq!(ask(&request(), &fixture), "kettle.a");
    assert_eq!(ask(&installed("1.0.0"), &fixture), "kettle.v1.0.0");
}

// resolution.md 1.8
#[rstest]
#[case::priority_beats_version(1, 0, false, "kettle.v1.0.0")]
#[case::deprecation_beats_priority(1, 0, true, "kettle.v2.0.0")]
#[case::equal_priorities(
    0,
    0,
    false,
    "!found bundles for package \"kettle\" in multiple catalogs with the same priority [a b]"
)]
fn between_catalogs(#[case] a: i32, #[case] b: i32, #[case] old: bool, #[case] want: &str) {
    let mut first = Fixture::bundles(&["1.0.0"]);
    if old {
        first = first.deprecate("1.0.0");
    }
    let (first, second) = (first.content(), Fixture::bundles(&["2.0.0"]).content());
    let catalogs = [catalog("b", b, &second), catalog("a", a, &first)];
    assert_eq!(ask_catalogs(&request(), &catalogs), want);
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
#[rstest]
#[case::lower(Unavailability::Provable, -1, false, true)]
#[case::equal(Unavailability::Provable, 0, false, false)]
#[case::higher(Unavailability::Provable, 1, false, false)]
#[case::deprecated_winner(Unavailability::Provable, -1, true, false)]
#[case::strict(Unavailability::Strict, -1, false, false)]
#[case::best_effort_equal(Unavailability::BestEffort, 0, false, true)]
#[case::best_effort_higher(Unavailability::BestEffort, 1, false, false)]
fn a_catalog_is_down(
    #[case] mode: Unavailability,
    #[case] priority: i32,
    #[case] deprecated: bool,
    #[case] accepted: bool,
) {
    let mut fixture = Fixture::bundles(&["1.0.0"]);
    if deprecated {
        fixture = fixture.deprecate("1.0.0");
    }
    let content = fixture.content();
    let catalogs = [catalog("a", 0, &content), down("b", priority)];
    let options = Options { unavailability: mode, ..ANY };
    let request = request();
    let resolution = resolve(&request, &catalogs, &options);
    if accepted {
        assert_eq!(
            resolution.unavailable_note().as_deref(),
            Some("resolved without catalog(s) \"b\": catalog \"b\" is not being served")
        );
    } else {
        assert_eq!(
            answer(&resolution),
            "!error walking catalogs: error getting package \"kettle\" from catalog \"b\": \
             catalog \"b\" is not being served"
        );
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

// decision 5
#[rstest]
#[case::any_version("", true)]
#[case::range_that_contains_it(">=1.0", true)]
#[case::range_that_does_not(">=2.0", false)]
fn without_catalogs_the_installed_bundle_is_kept(#[case] range: &str, #[case] silently: bool) {
    let request = installed("1.0.0").version(range);
    let resolution = resolve(&request, &[], &ANY);
    assert!(matches!(resolution.decision(), Decision::Keep(error) if error.is_none() == silently));
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

// decision 5
#[rstest]
#[case::of_the_version("", "gone", true)]
#[case::of_another("2.0.0", "gone", false)]
#[case::its_catalog_stays("", "a", false)]
fn an_update_that_only_a_lost_catalog_had_is_no_error(
    #[case] range: &str,
    #[case] home: &str,
    #[case] silently: bool,
) {
    let without = Fixture::bundles(&["0.1.0"]).content();
    let catalogs = [catalog("a", 0, &without)];
    let request = Request { home: Some(home.to_owned()), ..installed("1.0.0").version(range) };
    let resolution = resolve(&request, &catalogs, &ANY);
    assert!(matches!(resolution.decision(), Decision::Keep(error) if error.is_none() == silently));
}

// decision 32
#[rstest]
#[case::several_have_it("", true)]
#[case::in_the_range("1.x", true)]
#[case::out_of_the_range("2.0.0", false)]
fn what_only_the_catalogs_do_not_choose_still_fits(#[case] range: &str, #[case] want: bool) {
    let request = installed("1.0.0").version(range);
    let content = Fixture::chain(&["1.0.0", "2.0.0"]).content();
    let tied = [catalog("a", 0, &content), catalog("b", 0, &content)];
    assert_eq!(resolve(&request, &tied, &ANY).installed_fits, want);
    let unread = [down("a", 0), down("b", 0)];
    assert_eq!(resolve(&request, &unread, &ANY).installed_fits, want);
    let others = Fixture::default().content();
    assert_eq!(resolve(&request, &[catalog("a", 0, &others)], &ANY).installed_fits, want);
    let pruned = Fixture::chain(&["0.9.0", "3.0.0"]).content();
    let of_a_range = want && !range.is_empty();
    assert_eq!(resolve(&request, &[catalog("a", 0, &pruned)], &ANY).installed_fits, of_a_range);
    // That no channel has a version that fits is not of the catalogs.
    let request = installed("1.0.0").version(range).channels(&["none"]);
    assert!(!resolve(&request, &tied, &ANY).installed_fits);
}

#[test]
fn a_wrong_request_is_never_held() {
    let request = installed("1.0.0").version("foobar");
    let resolution = resolve(&request, &[], &ANY);
    assert!(matches!(resolution.decision(), Decision::Fail(error) if error.is_invalid_request()));
}
