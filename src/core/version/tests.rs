//! Tables of resolution.md sections 2 to 4, and properties.

use std::cmp::Ordering;

use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::error::Chain;

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
#[rstest]
#[case::full_version_is_exact("1.2.3", "1.2.4", false)]
#[case::partial_version_is_a_series("1.2", "1.2.9", true)]
#[case::tilde_keeps_the_minor("~1.2.3", "1.3.0", false)]
#[case::caret_keeps_the_first_nonzero_part("^0.2.3", "0.3.0", false)]
#[case::caret_of_zero_keeps_the_patch("^0.0.3", "0.0.4", false)]
#[case::caret_of_partial_zero_keeps_the_minor("^0.0", "0.0.9", true)]
#[case::greater_than_a_series_is_above_all_of_it(">1.2", "1.2.9", false)]
#[case::at_most_a_series_includes_all_of_it("<=1.2", "1.2.9", true)]
#[case::tilde_of_zero_is_everything("~0.0.0", "9.9.9", true)]
#[case::caret_of_wildcard_is_zero("^*", "1.0.0", false)]
#[case::prereleases_are_shut_out(">=1.0.0 <2.0.0", "1.5.0-rc.1", false)]
#[case::one_prerelease_opens_the_group(">=1.0.0-0 <2.0.0", "2.0.0-rc.1", true)]
#[case::opening_does_not_cross_groups("<2.0.0 || >=3.0.0-0", "1.5.0-beta", false)]
#[case::wildcard_with_prerelease_is_everything("*-0", "1.0.0-a", true)]
#[case::build_metadata_never_matters("1.0.0+1", "1.0.0+2", true)]
#[case::hyphen_ranges_reach_the_end_of_a_series("1.2.3 - 2", "2.9.9", true)]
#[case::comma_and_blank_both_mean_and(">=1.0.0, <2.0.0", "2.0.0", false)]
#[case::leading_zeros_are_read("01.2.3", "1.2.3", true)]
fn version_range_contains(#[case] range: &str, #[case] candidate: &str, #[case] want: bool) {
    assert_eq!(in_version_range(range, candidate), want);
}

#[rstest]
#[case::full("1.2.3", true)]
#[case::equal("=1.2.3", true)]
#[case::prerelease("1.2.3-rc.1", true)]
#[case::series("1.2", false)]
#[case::wildcard("1.2.x", false)]
#[case::at_least(">=1.2.3", false)]
#[case::either("1.2.3 || 1.2.4", false)]
fn a_range_may_be_one_version(#[case] range: &str, #[case] want: bool) {
    assert_eq!(range.parse::<VersionRange>().unwrap().is_one_version(), want);
}

#[rstest]
#[case::unknown_operator("== 1.0.0", r#"improper constraint: "== 1.0.0""#)]
#[case::empty_group("1.0.0 ||", r#"improper constraint: """#)]
#[case::trailing_comma(">=1.0.0,", r#"improper constraint: ">=1.0.0,""#)]
#[case::no_separator(">=1.0.0<2.0.0", r#"improper constraint: ">=1.0.0<2.0.0""#)]
#[case::rewriting_swallows_blanks(
    ">=1.0.0 1.0.0 - 2.0.0",
    r#"improper constraint: ">=1.0.0>= 1.0.0, <= 2.0.0 ""#
)]
#[case::bar_in_a_segment("1|2", "constraint parser error")]
#[case::prerelease_with_leading_zero("1.2.3-01", "constraint parser error")]
fn version_range_errors(#[case] range: &str, #[case] want: &str) {
    let error = range.parse::<VersionRange>().unwrap_err();
    assert_eq!(Chain(&error).to_string(), want);
}

// resolution.md 3
#[rstest]
#[case::prereleases_are_ordinary("<1.0.0", "1.0.0-alpha", true)]
#[case::prerelease_of_the_upper_bound(">=1.0.0 <2.0.0", "2.0.0-rc.1", true)]
#[case::blank_after_an_operator("> 1.0.0", "1.0.1", true)]
#[case::lone_byte_vanishes("! 1.0.0", "1.0.0", true)]
#[case::wildcard_patch("1.2.x", "1.3.0", false)]
#[case::double_wildcard_is_one_minor("1.x.x", "1.5.0", false)]
#[case::not_a_wildcard_series_is_never_true("!=1.2.x", "1.3.0", false)]
#[case::unknown_operator_is_lost_beside_a_wildcard("~1.2.x", "1.2.0", true)]
#[case::alternatives("<1.0.0 || >2.0.0", "2.0.1", true)]
fn skip_range_contains(#[case] range: &str, #[case] candidate: &str, #[case] want: bool) {
    assert_eq!(in_skip_range(range, candidate), want);
}

#[rstest]
#[case::below(">=1.0.0 <1.1.0", "1.1.0", false, false)]
#[case::itself("<=1.1.0", "1.1.0", false, false)]
#[case::no_upper_bound(">=1.0.0", "1.1.0", false, true)]
#[case::wildcard("1.1.x", "1.1.0", false, true)]
#[case::one_of_two("<1.0.0 || =2.0.0", "1.1.0", false, true)]
#[case::prereleases_of_the_next("<1.1.1", "1.1.0", false, true)]
#[case::later_builds_of_a_prerelease("<1.1.0", "1.1.0-1", false, true)]
#[case::all_but_the_next(">1.1.0 !=1.1.1-0", "1.1.0", false, true)]
#[case::all_but_one("!=1.1.0", "1.1.0", false, true)]
#[case::turned_round(">=2.0.0 <1.0.0", "1.1.0", true, false)]
#[case::two_at_once("=1.0.0 =2.0.0", "1.1.0", true, false)]
#[case::between_neighbours(">1.0.0 <1.0.1-0", "1.1.0", true, false)]
#[case::below_the_lowest("<0.0.0-0", "1.1.0", true, false)]
fn skip_range_is_compared_with_a_version(
    #[case] range: &str,
    #[case] version: &str,
    #[case] empty: bool,
    #[case] exceeds: bool,
) {
    let range: SkipRange = range.parse().unwrap();
    assert_eq!(range.is_empty(), empty);
    assert_eq!(range.exceeds(&version.parse().unwrap()), exceeds);
}

// resolution.md 1.6
#[rstest]
#[case::prefix("<v1.1.0")]
#[case::comma(">=1.0.0, <1.1.0")]
#[case::tilde("~1.0.0")]
#[case::tab(">=1.0.0\t<1.1.0")]
#[case::partial(">=1.0")]
#[case::empty("")]
#[case::empty_alternative("1.0.0 || || 2.0.0")]
fn skip_range_refuses(#[case] range: &str) {
    assert!(range.parse::<SkipRange>().is_err());
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
#[rstest]
#[case("1.0.0", "1.0.0")]
#[case("1.0.0+2", "1.0.0+2")]
#[case("1.0.0+001", "1.0.0+001")]
fn a_legacy_version_is_recorded_as_it_was_written(#[case] text: &str, #[case] want: &str) {
    assert_eq!(VersionRelease::legacy(text).unwrap().recorded(), want);
}

#[test]
fn both_forms_of_a_release_are_equal() {
    let legacy = VersionRelease::legacy("1.0.0+2").unwrap();
    let explicit = VersionRelease::explicit("1.0.0", "2").unwrap();
    assert_eq!(legacy.precedence(&explicit), Ordering::Equal);
}

#[test]
fn no_release_ranks_like_the_empty_one() {
    let none = VersionRelease::legacy("1.0.0").unwrap();
    let empty = VersionRelease::explicit("1.0.0", "").unwrap();
    assert_eq!(none.precedence(&empty), Ordering::Equal);
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
    fn the_versions_that_a_skip_range_is_among_are_those_it_contains(
        terms in prop::collection::vec(
            ("(=|!=|<|<=|>|>=|)", "[0-3]\\.[0-1]\\.0(-a)?", prop_oneof![Just(" "), Just(" || ")]),
            1..6,
        ),
        versions in prop::collection::vec("[0-3]\\.[0-1]\\.[0-1](-[ab])?", 0..8),
    ) {
        let parts = terms.iter().flat_map(|(operator, it, and)| [operator.as_str(), it, *and]);
        let text: String = parts.collect();
        let text = text.trim_end_matches([' ', '|']);
        let range: SkipRange = text.parse().unwrap();
        let mut versions: Vec<_> = versions.iter().map(|text| version(text)).collect();
        versions.sort_by(Version::precedence);
        let among = range.runs(&versions.iter().collect::<Vec<_>>());
        for (position, version) in versions.iter().enumerate() {
            let found = among.iter().any(|interval| interval.contains(&position));
            prop_assert_eq!(found, range.contains(version), "{} in {}", version, text);
        }
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
    let text = include_str!("../testdata/version/documented_ranges.yaml");
    let documents = crate::yaml::to_json(text).unwrap();
    let rows = documents[0].as_array().unwrap();
    assert_eq!(rows.len(), 25);
    for row in rows {
        let range = row["range"].as_str().unwrap();
        for (key, want) in [("inside", true), ("outside", false)] {
            let versions = row[key].as_array().unwrap();
            assert!(!versions.is_empty(), "{range} has no version {key}");
            for version in versions {
                let version = version.as_str().unwrap();
                assert_eq!(in_version_range(range, version), want, "{version} in {range}");
            }
        }
    }
}

// decision 9
#[rstest]
#[case::plain("v1.33.1", Some("1.33.1"))]
#[case::vendor("v1.33.1-eks-036c24b", Some("1.33.1"))]
#[case::build("v1.33.1+k3s1", Some("1.33.1"))]
#[case::nothing("", None)]
fn version_of_an_api_server(#[case] text: &str, #[case] want: Option<&str>) {
    let found = Version::of_kubernetes(text).map(|version| version.to_string());
    assert_eq!(found.as_deref(), want);
}
