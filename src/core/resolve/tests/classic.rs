//! What OLM Classic would do: resolution.md 6.3.

use super::*;
use crate::fixture::{rows, text};

/// Bundles 1.0.0 to 3.0.0 and these entries in channel `stable`, the default.
fn fixture(entries: Value) -> Fixture {
    let versions = ["1.0.0", "1.1.0", "1.2.0", "2.0.0", "3.0.0"];
    let mut fixture = Fixture::bundles(&versions).channel("stable", entries);
    let package = json!({"schema": "olm.package", "name": "kettle", "defaultChannel": "stable"});
    fixture.blobs.push(package);
    fixture
}

/// Returns `channel: step difference` for each channel.
fn steps(request: &Request, fixture: &Fixture) -> Vec<String> {
    let content = fixture.content();
    let catalogs = [catalog("a", 0, &content)];
    let resolution = resolve(request, &catalogs, &ANY);
    let package = content.package("kettle").unwrap().unwrap();
    let shown = |step: ClassicStep<'_>| {
        let (answer, code) = (step.answer(), step.difference.code());
        format!("{}: {answer} {code}", step.channel)
    };
    let steps = classic(package, request, &resolution);
    steps.into_iter().map(shown).collect()
}

#[test]
fn the_step_from_an_installed_bundle() {
    for row in rows(include_str!("../../testdata/resolve/classic_steps.yaml")) {
        let found = steps(&installed(text(&row, "from")), &fixture(row["entries"].clone()));
        assert_eq!(found, [text(&row, "want")], "{row}");
    }
}

#[test]
fn nothing_installed_takes_the_head_whatever_its_version() {
    let entries = json!([{"name": "kettle.v3.0.0"},
        {"name": "kettle.v1.2.0", "replaces": "kettle.v3.0.0"}]);
    let steps = steps(&request(), &fixture(entries));
    assert_eq!(steps, ["stable: kettle.v1.2.0 DifferentTarget"]);
}

#[test]
fn an_update_that_is_held_back_or_out_of_range_is_taken_by_classic_alone() {
    let entries = json!([{"name": "kettle.v1.0.0"},
        {"name": "kettle.v1.1.0", "replaces": "kettle.v1.0.0"}]);
    let fixture = fixture(entries);
    let steps_of = |fixture, request| steps(&request, fixture);
    let expected = ["stable: kettle.v1.1.0 V1Stays"];
    let pinned = installed("1.0.0").version("1.0.0");
    assert_eq!(steps_of(&fixture, pinned), expected);
    // 1.0.5 does not exist, so no bundle passes.
    let failing = installed("1.0.0").version("1.0.5");
    assert_eq!(steps_of(&fixture, failing), expected);
    let deprecated = fixture.clone().deprecate("1.1.0");
    assert_eq!(steps_of(&deprecated, installed("1.0.0")), expected);
}

#[test]
fn every_requested_channel_has_its_step() {
    let fixture = fixture(json!([{"name": "kettle.v1.1.0", "replaces": "kettle.v1.0.0"}]))
        .channel("fast", json!([{"name": "kettle.v1.2.0", "skips": ["kettle.v1.0.0"]}]));
    let request = installed("1.0.0").channels(&["stable", "fast", "slow"]);
    assert_eq!(
        steps(&request, &fixture),
        [
            "stable: kettle.v1.1.0 DifferentTarget",
            "fast: kettle.v1.2.0 SameTarget",
            "slow: error: unknown channel ClassicError",
        ]
    );
}

#[test]
fn a_bundle_with_the_property_for_it_is_never_installed_by_classic() {
    let entries = json!([{"name": "kettle.v1.1.0", "replaces": "kettle.v1.0.0"},
        {"name": "kettle.v1.2.0", "replaces": "kettle.v1.1.0", "skipRange": "<1.2.0"}]);
    let mut fixture = fixture(entries);
    let refused = |blob: &&mut Value| blob["name"] == "kettle.v1.2.0";
    let bundle = fixture.blobs.iter_mut().find(refused).unwrap();
    let properties = bundle["properties"].as_array_mut().unwrap();
    properties.push(json!({"type": "olm.deprecated", "value": {}}));
    assert_eq!(steps(&installed("1.0.0"), &fixture), ["stable: kettle.v1.1.0 DifferentTarget"]);
}

#[test]
fn a_package_without_a_default_channel_gives_no_step() {
    let fixture = Fixture::chain(&["1.0.0", "1.1.0"]);
    assert!(steps(&installed("1.0.0"), &fixture).is_empty());
}
