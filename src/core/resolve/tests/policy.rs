//! How far an automatic update goes, and steps that no edge allows.

use serde_json::json;

use super::*;
use crate::fixture::cases;

/// Versions that each may follow 1.0.0, whatever its release.
fn followers(versions: &[&str]) -> Fixture {
    let entry = |version| json!({"name": format!("kettle.v{version}"), "skipRange": "1.0.0"});
    Fixture::bundles(versions).channel("stable", versions.iter().map(entry).collect())
}

fn held<'a>(resolution: &Resolution<'a>) -> Vec<&'a str> {
    resolution.held.iter().map(|held| held.bundle.trim_start_matches("kettle.v")).collect()
}

// decision 22
#[test]
fn automatic_updates_go_no_further_than_the_policy() {
    let catalogs = one(&followers(&["0.9.0", "1.0.0", "1.0.1", "1.1.0", "2.0.0"]));
    let rows = "automatic_updates_go_no_further_than_the_policy";
    for (updates, range, want, kept) in cases::<(UpdatePolicy, &str, &str, Vec<&str>)>(CASES, rows)
    {
        let options = Options { updates, ..ANY };
        let resolution = resolve(&installed("1.0.0").version(range), catalogs, &options);
        assert_eq!((answer(&resolution).as_str(), held(&resolution)), (want, kept));
    }
}

// decision 22
#[test]
fn a_release_that_is_asked_for_is_no_automatic_move() {
    let content = followers(&["1.0.0+1", "1.0.0+2", "1.0.0+3"]).content();
    let catalogs = [catalog("a", 0, &content), catalog("b", 0, &content)];
    let closed_until = Some("2026-01-01T00:00:00Z".parse().unwrap());
    let rows = "a_release_that_is_asked_for_is_no_automatic_move";
    for (range, want, kept) in cases::<(&str, &str, Vec<&str>)>(CASES, rows) {
        let request = installed("1.0.0+2").version(range);
        for updates in [UpdatePolicy::None, UpdatePolicy::Any] {
            let options = Options { updates, closed_until, ..ANY };
            let resolution = resolve(&request, &catalogs[..1], &options);
            assert_eq!((answer(&resolution).as_str(), held(&resolution)), (want, kept.clone()));
            let fits = want == "kettle.v1.0.0+2";
            assert_eq!(resolve(&request, &catalogs, &options).installed_fits, fits);
        }
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
