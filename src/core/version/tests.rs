//! Tables of resolution.md sections 2 to 4, and properties.

use proptest::prelude::*;

use super::*;
use crate::error::Chain;
use crate::fixture::{cases, rows, text, texts};

const CASES: &str = include_str!("../testdata/version/cases.yaml");

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

fn in_version_range(range: &str, candidate: &str) -> bool {
    let range: VersionRange = range.parse().unwrap();
    range.contains(&version(candidate))
}

fn in_skip_range(range: &str, candidate: &str) -> bool {
    let range: SkipRange = range.parse().unwrap();
    range.contains(&version(candidate))
}

// resolution.md 2
#[test]
fn version_range_contains() {
    for (range, candidate, want) in cases::<(&str, &str, bool)>(CASES, "version_range_contains") {
        assert_eq!(in_version_range(range, candidate), want);
    }
}

#[test]
fn a_range_may_be_one_version() {
    for (range, want) in cases::<(&str, bool)>(CASES, "a_range_may_be_one_version") {
        assert_eq!(range.parse::<VersionRange>().unwrap().is_one_version(), want);
    }
}

#[test]
fn version_range_errors() {
    for (range, want) in cases::<(&str, &str)>(CASES, "version_range_errors") {
        let error = range.parse::<VersionRange>().unwrap_err();
        assert_eq!(Chain(&error).to_string(), want);
    }
}

// resolution.md 3
#[test]
fn skip_range_contains() {
    for (range, candidate, want) in cases::<(&str, &str, bool)>(CASES, "skip_range_contains") {
        assert_eq!(in_skip_range(range, candidate), want);
    }
}

#[test]
fn skip_range_is_compared_with_a_version() {
    for (range, version, empty, exceeds) in
        cases::<(&str, &str, bool, bool)>(CASES, "skip_range_is_compared_with_a_version")
    {
        let range: SkipRange = range.parse().unwrap();
        assert_eq!(range.is_empty(), empty);
        assert_eq!(range.exceeds(&version.parse().unwrap()), exceeds);
    }
}

#[test]
fn tolerant_versions() {
    for (text, want) in cases::<(&str, &str)>(CASES, "tolerant_versions") {
        assert_eq!(Version::parse_tolerant(text), Ok(version(want)));
    }
}

#[test]
fn what_is_no_version_either_way() {
    for text in cases::<&str>(CASES, "what_is_no_version_either_way") {
        assert!(Version::parse_tolerant(text).is_err());
    }
}

// resolution.md 1.6
#[test]
fn skip_range_refuses() {
    for range in cases::<&str>(CASES, "skip_range_refuses") {
        assert!(range.parse::<SkipRange>().is_err());
    }
}

#[test]
fn versions_are_ordered_by_precedence() {
    // resolution.md 4.1
    let ordered = [
        "1.0.0-Beta",
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0-rc.1",
        "1.0.0-rc10",
        "1.0.0-rc2",
        "1.0.0",
    ];
    for pair in ordered.windows(2) {
        assert!(version(pair[0]).precedence(&version(pair[1])).is_lt());
    }
}

// resolution.md 4.2
#[test]
fn both_forms_of_a_release_are_equal() {
    for (text, version, release) in
        cases::<(&str, &str, &str)>(CASES, "both_forms_of_a_release_are_equal")
    {
        let legacy = VersionRelease::legacy(text).unwrap();
        let explicit = VersionRelease::explicit(version, release).unwrap();
        assert!(legacy.precedence(&explicit).is_eq());
        assert_eq!(legacy.recorded(), text);
    }
}

fn any_version() -> impl Strategy<Value = String> {
    // No "x": skip ranges read it as a wildcard wherever it is, as blang does.
    let identifier = prop_oneof!["0|[1-9][0-9]{0,2}", "[a-wyz-][a-wyz0-9-]{0,2}"];
    let prerelease = prop::collection::vec(identifier, 0..3);
    (0u64..3, 0u64..3, 0u64..3, prerelease).prop_map(|(major, minor, patch, prerelease)| {
        let mark = if prerelease.is_empty() { "" } else { "-" };
        format!("{major}.{minor}.{patch}{mark}{}", prerelease.join("."))
    })
}

proptest! {
    #[test]
    fn versions_survive_a_round_trip(text in any_version()) {
        prop_assert_eq!(version(&text).to_string(), text);
    }

    #[test]
    fn precedence_is_a_total_order(a in any_version(), b in any_version(), c in any_version()) {
        let (a, b, c) = (version(&a), version(&b), version(&c));
        prop_assert_eq!(a.precedence(&b), b.precedence(&a).reverse());
        if a.precedence(&b).is_le() && b.precedence(&c).is_le() {
            prop_assert!(a.precedence(&c).is_le());
        }
    }

    #[test]
    fn a_full_version_is_a_range_of_itself(text in any_version()) {
        prop_assert!(in_version_range(&text, &text));
        let at_least = format!(">={text}");
        prop_assert!(in_skip_range(&at_least, &text));
    }

    #[test]
    fn what_a_range_contains_it_contains_admitting_prereleases(
        range in "[~^<>=!]{0,2}[0-2x*](\\.[0-2x*]){0,2}(-0)?",
        candidate in any_version(),
    ) {
        if let Ok(range) = range.parse::<VersionRange>() {
            let candidate = version(&candidate);
            prop_assert!(!range.contains(&candidate) || range.contains_admitting_prereleases(&candidate));
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC*", bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        for text in [text, String::from_utf8_lossy(&bytes).into_owned()] {
            let _ = text.parse::<Version>();
            let _ = text.parse::<Release>();
            let _ = text.parse::<VersionRange>();
            let _ = text.parse::<SkipRange>();
            let _ = VersionRelease::explicit(&text, &text);
        }
    }

    #[test]
    fn no_text_of_range_characters_panics(text in "[0-9xX*|v<>=!~^ .,+-]{0,40}") {
        let candidate = version("1.2.3-rc.1");
        let _ = text.parse::<VersionRange>().map(|range| range.contains(&candidate));
        let _ = text.parse::<SkipRange>().map(|range| range.contains(&candidate));
    }
}

/// Every row of the product documentation's tables of version ranges.
#[test]
fn documented_ranges_hold_what_the_documentation_says() {
    let rows = rows(include_str!("../testdata/version/documented_ranges.yaml"));
    assert_eq!(rows.len(), 25);
    for row in rows {
        let range = text(&row, "range");
        for (key, want) in [("inside", true), ("outside", false)] {
            let versions = texts(&row, key);
            assert!(!versions.is_empty(), "{range} has no version {key}");
            for version in versions {
                assert_eq!(in_version_range(range, version), want, "{version} in {range}");
            }
        }
    }
}

// decision 9
#[test]
fn version_of_an_api_server() {
    for (text, want) in cases::<(&str, Option<&str>)>(CASES, "version_of_an_api_server") {
        let found = Version::of_kubernetes(text).map(|version| version.to_string());
        assert_eq!(found.as_deref(), want);
    }
}
