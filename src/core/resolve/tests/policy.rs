//! How far an automatic update goes, and steps that no edge allows.

use rstest::rstest;
use serde_json::json;

use super::*;

// decision 22
#[rstest]
#[case::minor_only(UpdatePolicy::MinorOnly, "", "kettle.v1.1.0", &["kettle.v2.0.0"])]
#[case::patch_only(UpdatePolicy::PatchOnly, "", "kettle.v1.0.1", &["kettle.v2.0.0", "kettle.v1.1.0"])]
#[case::none(UpdatePolicy::None, "", "kettle.v1.0.0", &["kettle.v2.0.0", "kettle.v1.1.0", "kettle.v1.0.1"])]
#[case::any(UpdatePolicy::Any, "", "kettle.v2.0.0", &[])]
#[case::range_with_the_installed_version(UpdatePolicy::MinorOnly, ">=1.0.0", "kettle.v1.1.0", &["kettle.v2.0.0"])]
#[case::range_without_it(UpdatePolicy::MinorOnly, ">=2.0.0", "kettle.v2.0.0", &[])]
#[case::range_below_it(UpdatePolicy::MinorOnly, "<1.0.0", "kettle.v0.9.0", &[])]
fn automatic_updates_go_no_further_than_the_policy(
    #[case] updates: UpdatePolicy,
    #[case] range: &str,
    #[case] want: &str,
    #[case] held: &[&str],
) {
    let versions = ["0.9.0", "1.0.0", "1.0.1", "1.1.0", "2.0.0"];
    let entry = |version| json!({"name": format!("kettle.v{version}"), "skipRange": "1.0.0"});
    let entries = versions.iter().map(entry).collect();
    let catalogs = one(&Fixture::bundles(&versions).channel("stable", entries));
    let options = Options { updates, ..ANY };
    let request = installed("1.0.0").version(range);
    let resolution = resolve(&request, catalogs, &options);
    assert_eq!(answer(&resolution), want);
    let names: Vec<_> = resolution.held.iter().map(|held| held.bundle).collect();
    assert_eq!(names, held);
}

// decision 22
#[rstest]
#[case::higher("1.0.0+3", "kettle.v1.0.0+3", &[])]
#[case::lower("1.0.0+1", "kettle.v1.0.0+1", &[])]
#[case::installed("1.0.0+2", "kettle.v1.0.0+2", &[])]
#[case::not_there("1.0.0+4", "kettle.v1.0.0+2", &["kettle.v1.0.0+3"])]
#[case::none("1.0.0", "kettle.v1.0.0+2", &["kettle.v1.0.0+3"])]
fn a_release_that_is_asked_for_is_no_automatic_move(
    #[case] range: &str,
    #[case] want: &str,
    #[case] held: &[&str],
) {
    let versions = ["1.0.0+1", "1.0.0+2", "1.0.0+3"];
    let entry = |version| json!({"name": format!("kettle.v{version}"), "skipRange": "1.0.0"});
    let entries = versions.iter().map(entry).collect();
    let content = Fixture::bundles(&versions).channel("stable", entries).content();
    let catalogs = [catalog("a", 0, &content), catalog("b", 0, &content)];
    let request = installed("1.0.0+2").version(range);
    let closed_until = Some("2026-01-01T00:00:00Z".parse().unwrap());
    for updates in [UpdatePolicy::None, UpdatePolicy::Any] {
        let options = Options { updates, closed_until, ..ANY };
        let resolution = resolve(&request, &catalogs[..1], &options);
        assert_eq!(answer(&resolution), want);
        let names: Vec<_> = resolution.held.iter().map(|held| held.bundle).collect();
        assert_eq!(names, held);
        let fits = want == "kettle.v1.0.0+2";
        assert_eq!(resolve(&request, &catalogs, &options).installed_fits, fits);
    }
}

// decision 22
#[test]
fn an_automatic_step_down_is_held_and_a_wanted_one_warns() {
    let entries = json!([{"name": "kettle.v1.0.0", "skips": ["kettle.v1.1.0"]}]);
    let fixture = Fixture::bundles(&["1.0.0", "1.1.0"]).channel("stable", entries);
    let catalogs = one(&fixture.deprecate("1.1.0"));
    let request = installed("1.1.0");
    let held = resolve(&request, catalogs, &Options::default());
    assert_eq!(answer(&held), "kettle.v1.1.0");
    assert_eq!(held.held[0].reason.code().as_str(), "LowerVersionHeld");
    let taken = resolve(&request, catalogs, &ANY).result.unwrap();
    assert_eq!(taken.warnings, [Warning::SuccessorIsLowerVersion]);
}

// decision 30
#[test]
fn a_step_that_no_edge_allows_is_told() {
    let catalogs = one(&Fixture::bundles(&["1.0.0", "2.0.0"]));
    let request = installed("1.0.0").self_certified();
    let selected = resolve(&request, catalogs, &ANY).result.unwrap();
    assert_eq!(selected.warnings, [Warning::ForcedStep]);
}
