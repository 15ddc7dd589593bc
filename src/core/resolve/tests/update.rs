//! The newer version that is offered but not chosen.

use serde_json::json;

use super::*;
use crate::fixture::cases;

/// Returns the version that could follow, the newest one, and why none is chosen.
fn told(request: &Request, fixture: &Fixture, taken: &str) -> Option<(String, String, String)> {
    let update = told_of(request, one(fixture), taken)?;
    let reachable = update.reachable.as_ref();
    let reachable = reachable.map(|offer| offer.version.recorded());
    let why = format!("{}: {update}", update.why.code());
    Some((reachable.unwrap_or_default(), update.newest.version.recorded(), why))
}

fn told_of<'a>(request: &Request, catalogs: &'a [Catalog<'a>], taken: &str) -> Option<Update<'a>> {
    let options = Options::default();
    let resolution = resolve(request, catalogs, &options);
    let taken = VersionRelease::legacy(taken).unwrap();
    pending(request, catalogs, &options, &resolution, &taken)
}

#[test]
fn a_pin_names_the_next_step_and_the_newest() {
    let fixture = Fixture::chain(&["1.0.0", "1.0.1", "1.0.2"]);
    let pinned = |range: &str| told(&installed("1.0.0").version(range), &fixture, "1.0.0");
    let why = "Pinned: 1.0.1 is available, but version \"1.0.0\" excludes it".to_owned();
    assert_eq!(pinned("1.0.0"), Some(("1.0.1".to_owned(), "1.0.2".to_owned(), why)));
    let (reachable, newest, why) = pinned("<1.0.1").unwrap();
    assert_eq!((&*reachable, &*newest), ("1.0.1", "1.0.2"));
    assert!(why.starts_with("Pinned"), "{why}");
    // 1.0.1 is what was chosen: nothing is held back.
    assert_eq!(pinned(""), None);
}

// decision 22
#[test]
fn what_the_policy_holds_is_named_with_the_way_out() {
    let fixture = Fixture::chain(&["1.0.0", "2.0.0"]);
    let update = told(&installed("1.0.0"), &fixture, "1.0.0").expect("an update");
    assert_eq!(
        update.2,
        "NextMajorHeld: 2.0.0 is available and held, because it is a new major version: \
         edit version, or set annotation policy.olm.operatorframework.io/approve: 2.0.0 or \
         policy.olm.operatorframework.io/upgrade: Any"
    );
}

#[test]
fn a_version_without_a_path_is_told_as_newest_only() {
    let fixture = Fixture::bundles(&["1.0.0", "3.0.0"]);
    let update = told(&installed("1.0.0"), &fixture, "1.0.0").expect("an update");
    assert_eq!((update.0.as_str(), update.1.as_str()), ("", "3.0.0"));
    assert!(update.2.starts_with("NotSuccessor: 3.0.0"), "{}", update.2);
}

#[test]
fn the_same_version_under_another_name_hides_nothing() {
    let fixture = Fixture::bundles(&["1.0.0", "3.0.0"]);
    let mut request = installed("1.0.0");
    request.installed.as_mut().unwrap().name = "pot.v1.0.0".to_owned();
    let update = told(&request, &fixture, "1.0.0").expect("an update");
    assert!(update.2.starts_with("NotSuccessor: 3.0.0"), "{}", update.2);
}

#[test]
fn what_is_deprecated_of_the_choice_is_named() {
    let catalogs = one(&Fixture::chain(&["1.0.0"]).deprecate("1.0.0"));
    let request = request();
    let selected = resolve(&request, catalogs, &Options::default()).result.unwrap();
    let found = selected.deprecations(&request.filter);
    assert_eq!(found, [("kettle.v1.0.0".to_owned(), "old")]);
}

#[test]
fn what_a_tie_keeps_from_another_catalog_is_told() {
    let one = Fixture::chain(&["1.0.0"]).content();
    let other = Fixture::chain(&["1.0.0", "1.1.0"]).content();
    let (lower, unlinked) = (Fixture::chain(&["1.0.0", "1.2.0"]), Fixture::bundles(&["3.0.0"]));
    let (lower, unlinked) = (lower.content(), unlinked.content());
    let tied = [catalog("a", 0, &other), catalog("b", 0, &other)];
    let update = told_of(&installed("1.0.0"), &tied, "1.0.0").unwrap();
    let want = "1.1.0 is available, but catalogs a and b have the same priority: give one a higher \
                priority, or select one";
    assert_eq!((update.why.code().as_str(), &*update.to_string()), ("AmbiguousCatalogs", want));
    let request = Request { home: Some("a".to_owned()), ..installed("1.0.0") };
    let told = |catalogs: &[Catalog<'_>]| {
        let update = told_of(&request, catalogs, "1.0.0").unwrap();
        (update.why.code().to_string(), update.newest.catalog.to_owned(), update.to_string())
    };
    let (code, newest, text) = told(&[catalog("a", 0, &one), catalog("b", 0, &other)]);
    assert_eq!((&*code, &*newest), ("AmbiguousCatalogs", "b"));
    assert!(text.contains("catalogs a and b have the same priority"), "{text}");
    let (code, _, text) = told(&[catalog("a", 0, &one), catalog("c", -1, &lower)]);
    assert_eq!(code, "LowerPriorityCatalog");
    assert!(text.starts_with("1.2.0 is available, but its catalog, c, has a lower"), "{text}");
    let (code, ..) = told(&[catalog("a", 0, &one), catalog("b", 0, &unlinked)]);
    assert_eq!(code, "NotSuccessor");
    let (code, _, text) = told(&[catalog("a", 0, &one), catalog("b", 0, &other), down("c", 0)]);
    assert_eq!(code, "AmbiguousCatalogs", "{text}");
    assert!(text.contains("catalogs a and b have the same priority"), "{text}");
    // One that cannot be read does not hide what holds the others.
    let major = Fixture::chain(&["1.0.0", "2.0.0"]).content();
    let (code, ..) = told(&[catalog("a", 0, &major), down("b", 0)]);
    assert_eq!(code, "NextMajorHeld");
    let (code, ..) = told(&[catalog("a", 0, &major), down("b", 1)]);
    assert_eq!(code, "Retrying");
}

#[test]
fn nothing_is_told_of_what_is_taken_or_deprecated() {
    let request = installed("1.0.0").version("1.0.0");
    let rows = "nothing_is_told_of_what_is_taken_or_deprecated";
    for (versions, taken, deprecated) in cases::<(Vec<&str>, &str, Vec<&str>)>(CASES, rows) {
        let fixture = deprecated.into_iter().fold(Fixture::chain(&versions), Fixture::deprecate);
        assert_eq!(told(&request, &fixture, taken), None);
    }
}

#[test]
fn a_pin_hides_prereleases_from_those_who_never_had_one() {
    let fixture = Fixture::chain(&["1.0.0", "2.0.0-rc.1"]);
    let pinned = |request: Request, range: &str| told(&request.version(range), &fixture, "1.0.0");
    assert_eq!(pinned(installed("1.0.0"), "1.0.0"), None);
    assert_eq!(pinned(installed("1.0.0"), "1.0.0 - 1.5.0"), None);
    assert!(pinned(installed("1.0.0"), "1.0.0 || 1.5.0-rc.1").is_some());
}

#[test]
fn only_requested_channels_and_selected_catalogs_offer_anything() {
    let entries = json!([{"name": "kettle.v2.0.0", "replaces": "kettle.v1.0.0"}]);
    let stable = json!([{"name": "kettle.v1.0.0"}]);
    let fixture =
        Fixture::bundles(&["1.0.0", "2.0.0"]).channel("fast", entries).channel("stable", stable);
    let request = installed("1.0.0").version("1.0.0");
    assert!(told(&request, &fixture, "1.0.0").is_some());
    let in_stable = request.clone().channels(&["stable"]);
    assert_eq!(told(&in_stable, &fixture, "1.0.0"), None);
    let elsewhere = request.selector(json!({"matchLabels": {"tier": "b"}}));
    assert_eq!(told(&elsewhere, &fixture, "1.0.0"), None);
}
