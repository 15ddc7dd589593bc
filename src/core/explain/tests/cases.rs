//! Single situations.

use serde_json::json;

use super::*;
use crate::resolve::Ending;

// resolution.md 6.2
#[test]
fn every_reason_that_applies_is_listed() {
    let entries = json!([{"name": "kettle.v1.0.0"}]);
    let report = of_one(
        installed("1.0.0").version("1.x").channels(&["stable"]),
        &Fixture::bundles(&["1.0.0", "3.0.0"]).channel("stable", entries),
    );
    assert_eq!(
        codes(&report, "kettle.v3.0.0"),
        ["NotInRequestedChannels", "VersionOutOfRange", "NotSuccessor", "InNoChannel"]
    );
}

// resolution.md 6.2
#[test]
fn a_prerelease_nobody_asked_for_is_not_out_of_range() {
    let report =
        of_one(request().version(">=1.0.0 <2.0.0"), &Fixture::bundles(&["1.5.0-rc.1", "2.0.0"]));
    assert_eq!(
        report.bundles[1].reasons[0].finding,
        Finding::PrereleaseNotRequested { suggestion: Some(">=1.0.0-0 <2.0.0".to_owned()) }
    );
    assert_eq!(codes(&report, "kettle.v2.0.0")[0], "VersionOutOfRange");
}

#[test]
fn every_group_names_the_term_that_refuses() {
    let report = of_one(request().version(">=1.0, <2.0 || 3.x"), &Fixture::bundles(&["2.5.0"]));
    let Finding::VersionOutOfRange { term, groups } = &report.bundles[0].reasons[0].finding else {
        panic!("{report:?}");
    };
    assert_eq!((term.as_str(), groups.len()), ("<2.0", 2));
    assert_eq!(groups[1], "3.x");
}

// resolution.md 6.2
#[test]
fn a_cycle_ends() {
    let entries = json!([
        {"name": "kettle.v1.1.0", "replaces": "kettle.v1.0.0", "skips": ["kettle.v1.2.0"]},
        {"name": "kettle.v1.2.0", "replaces": "kettle.v1.1.0"},
        {"name": "kettle.v1.0.0", "replaces": "kettle.v1.2.0"},
    ]);
    let report = of_one(
        installed("1.0.0").version(">=1.2.0"),
        &Fixture::bundles(&["1.0.0", "1.1.0", "1.2.0", "2.0.0"]).channel("stable", entries),
    );
    let paths: Vec<_> = report
        .bundles
        .iter()
        .filter_map(|bundle| match &bundle.reasons.last()?.finding {
            Finding::NotSuccessor { path, .. } => Some(path.clone()),
            _ => None,
        })
        .collect();
    let way = ["1.0.0", "1.1.0", "1.2.0"].map(ToOwned::to_owned).to_vec();
    assert_eq!(paths, [Some(way)]);
    assert_eq!(codes(&report, "kettle.v2.0.0")[0], "NotSuccessor");
}

// resolution.md 6.2: the shortest path, of several the one over higher versions
#[test]
fn the_shortest_way_over_the_higher_versions_is_shown() {
    let entries = json!([
        {"name": "kettle.v1.1.0", "replaces": "kettle.v1.0.0"},
        {"name": "kettle.v1.2.0", "skips": ["kettle.v1.0.0"]},
        {"name": "kettle.v1.3.0", "skips": ["kettle.v1.2.0", "kettle.v1.1.0"]},
    ]);
    let catalogs =
        one(&Fixture::bundles(&["1.0.0", "1.1.0", "1.2.0", "1.3.0"]).channel("stable", entries));
    let request = installed("1.0.0").version("1.3.0");
    let hints = report(&request, catalogs, &ANY).hints;
    assert_eq!(
        hints[0].text,
        "to get 1.3.0 in 2 steps (1.0.0 -> 1.2.0 -> 1.3.0): version \"1.x\"; to force it: \
         upgradeConstraintPolicy SelfCertified"
    );
}

// resolution.md 1.6, 6.2
#[test]
fn a_pin_two_hops_away_is_not_adjacent() {
    let catalogs = one(&Fixture::chain(&["1.0.0", "1.0.1", "1.0.2"]));
    let request = installed("1.0.0").version("1.0.2").channels(&["stable"]);
    let value = json_of(&report(&request, catalogs, &ANY));
    assert_eq!(value["result"], "NoCandidate");
    assert_eq!(value["hints"][0]["code"], "NotAdjacent");
    assert_eq!(value["hints"][0]["path"], json!(["1.0.0", "1.0.1", "1.0.2"]));
    assert_eq!(value["hints"][0]["suggestedVersion"], "1.0.x");
    let best = &value["bundles"][0];
    assert_eq!(best["name"], "kettle.v1.0.2");
    assert_eq!(
        best["edges"],
        json!([{"channel": "stable", "kind": "replaces", "value": "kettle.v1.0.1",
                "considered": true, "matches": false}])
    );
    assert_eq!(best["reasons"][0]["path"], json!(["1.0.0", "1.0.1", "1.0.2"]));
    assert_eq!(
        value["classic"],
        json!([{"channel": "stable", "next": "kettle.v1.0.1", "difference": "V1Stays"}])
    );
}

// resolution.md 1.6
#[test]
fn a_skip_range_that_is_none_is_named() {
    for range in ["<v1.1.0", ">=1.0.0, <1.1.0", "~1.0.0", ">=1.0.0\t<1.1.0"] {
        let entries = json!([{"name": "kettle.v1.1.0", "skipRange": range}]);
        let report = of_one(
            installed("1.0.0"),
            &Fixture::bundles(&["1.0.0", "1.1.0"]).channel("stable", entries),
        );
        assert_eq!(report.result, Ending::Resolved);
        assert_eq!(codes(&report, "kettle.v1.1.0"), ["NotSuccessor", "InvalidSkipRange"]);
        let edge = &report.bundles[0].edges[0];
        assert_eq!((edge.value, edge.matches), (range, false));
        assert!(edge.error.is_some());
    }
}

#[test]
fn an_edge_in_an_unrequested_channel_is_noted() {
    let entries = json!([{"name": "kettle.v1.1.0", "replaces": "kettle.v1.0.0"}]);
    let fixture = Fixture::bundles(&["1.0.0", "1.1.0"])
        .channel("beta", entries)
        .channel("alpha", json!([{"name": "kettle.v1.0.0"}, {"name": "kettle.v1.1.0"}]));
    let report = of_one(installed("1.0.0").channels(&["alpha"]), &fixture);
    assert_eq!(codes(&report, "kettle.v1.1.0"), ["NotSuccessor", "EdgeInUnrequestedChannel"]);
    assert_eq!(codes(&report, "kettle.v1.0.0"), ["StaysOnInstalled"]);
}

#[test]
fn candidates_say_what_they_lost_to() {
    let fixture = Fixture::bundles(&["1.0.0", "1.1.0", "1.2.0+1", "1.2.0+2", "2.0.0"])
        .bundle("other", "1.2.0+2")
        .deprecate("2.0.0");
    let report = of_one(request(), &fixture);
    let first = |bundle: &str| codes(&report, bundle)[0];
    assert_eq!(report.selected.as_ref().unwrap().bundle, "kettle.v1.2.0+2");
    assert_eq!(first("other"), "TieBrokenByName");
    assert_eq!(first("kettle.v1.2.0+1"), "LowerRelease");
    assert_eq!(first("kettle.v1.1.0"), "LowerVersion");
    assert_eq!(first("kettle.v2.0.0"), "Deprecated");
}

/// Returns the codes about the catalogs and about the best bundle of each.
fn between<'a>(report: &'a Report<'_>) -> Vec<(&'a str, Option<&'a str>)> {
    let reasons = report.bundles.iter();
    reasons
        .map(|bundle| {
            let mut reasons = bundle.reasons.iter();
            let found = reasons.find(|it| it.stage == Stage::Catalogs);
            (bundle.catalog, found.map(|it| it.finding.code().as_str()))
        })
        .collect()
}

#[test]
fn catalogs_say_what_they_lost_to() {
    let (sound, old) = (
        Fixture::bundles(&["1.0.0"]).content(),
        Fixture::bundles(&["2.0.0"]).deprecate("2.0.0").content(),
    );
    let catalogs = [catalog("a", 0, &sound), catalog("b", -1, &sound), catalog("c", 9, &old)];
    let request = request();
    let won = report(&request, &catalogs, &ANY);
    assert_eq!(
        between(&won),
        [("a", None), ("b", Some("LowerPriorityCatalog")), ("c", Some("DeprecatedInThisCatalog"))]
    );
    let catalogs = [catalog("a", 0, &sound), catalog("b", 0, &sound)];
    let tied = report(&request, &catalogs, &ANY);
    assert_eq!(tied.result, Ending::Ambiguous);
    assert_eq!(
        between(&tied),
        [("a", Some("AmbiguousCatalogs")), ("b", Some("AmbiguousCatalogs"))]
    );
    // That 1.0.0 cannot be reached from 1.1.0 has nothing to do with it.
    let both = Fixture::bundles(&["1.0.0", "1.1.0"]).content();
    let catalogs = [catalog("a", 0, &both), catalog("b", 0, &both)];
    let request = installed("1.1.0");
    let tied = report(&request, &catalogs, &ANY);
    assert_eq!(tied.result, Ending::Ambiguous);
    assert!(tied.hints.iter().all(|hint| !hint.text.contains("force")), "{:?}", tied.hints);
}

// ours: a tie is of no interest where the catalog of the installed bundle wins, unless another has more
#[test]
fn a_tie_that_a_catalog_wins_is_not_to_be_ended() {
    let [first, second, both] = [&["1.1.0"][..], &["1.1.0", "1.2.0"], &["1.0.0", "1.1.0"]]
        .map(|versions| Fixture::chain(versions).content());
    for (home, other, suggested) in [(&both, &both, false), (&first, &second, true)] {
        let catalogs = [catalog("a", 0, home), catalog("b", 0, other)];
        let request = Request { home: Some("a".to_owned()), ..installed("1.1.0") };
        let won = report(&request, &catalogs, &ANY);
        assert_eq!(won.result, Ending::Resolved);
        let found = won.hints.iter().any(|hint| hint.text.contains("priority"));
        assert_eq!(found, suggested, "{:?}", won.hints);
    }
}

// resolution.md 1.13
#[test]
fn a_catalog_that_cannot_be_read_says_whether_it_matters() {
    let content = Fixture::bundles(&["1.0.0"]).content();
    for (priority, dominated, code) in [(-1, true, None), (0, false, Some("UnreadableCatalogs"))] {
        let catalogs = [catalog("a", 0, &content), down("b", priority)];
        let request = request();
        let report = report(&request, &catalogs, &ANY);
        let missing = &report.catalogs[1];
        assert_eq!(missing.state, CatalogState::CatalogNotServing);
        assert_eq!((missing.consulted, missing.dominated), (false, dominated));
        assert_eq!(between(&report), [("a", code)]);
    }
}

// resolution.md 1.3
#[test]
fn catalogs_left_out_on_purpose_say_what_they_would_offer() {
    let (old, new) =
        (Fixture::bundles(&["1.0.0"]).content(), Fixture::bundles(&["2.0.0"]).content());
    let mut disabled = catalog("b", 1, &new);
    disabled.enabled = false;
    let catalogs = [catalog("a", 0, &old), disabled, catalog("c", 1, &new)];
    let request = request().selector(json!({"matchLabels": {"tier": "a"}}));
    let left_out = report(&request, &catalogs, &ANY);
    let states: Vec<_> = left_out.catalogs.iter().map(|it| it.state).collect();
    assert_eq!(
        states,
        [CatalogState::Usable, CatalogState::CatalogNotSelected, CatalogState::CatalogNotSelected]
    );
    assert_eq!(left_out.catalogs[2].best, Some("kettle.v2.0.0"));
    assert!(!left_out.catalogs[2].dominated);
    let hints: Vec<_> = left_out.hints.iter().map(|it| it.text.as_str()).collect();
    assert_eq!(hints[1], "catalog c offers kettle.v2.0.0, but the selector excludes it");
}

#[test]
fn a_chosen_bundle_that_may_not_be_installed_is_excluded() {
    let mut fixture = Fixture::default();
    fixture.blobs.push(json!({
        "schema": "olm.bundle", "package": "kettle", "name": "kettle.v1", "properties": [
            {"type": "olm.package", "value": {"version": "1.0.0"}},
            {"type": "olm.gvk.required", "value": {}},
        ],
    }));
    let report = of_one(request(), &fixture);
    assert_eq!(report.result, Ending::ValidationFailed);
    assert_eq!(report.bundles[0].verdict, BundleVerdict::Excluded);
    assert_eq!(codes(&report, "kettle.v1")[0], "DependencyUnsupported");
}

// resolution.md 1.10: what is not asked for fits no better, and nothing is a reason to go back
#[test]
fn what_comes_first_and_does_not_fit_is_named() {
    let bundle = |(version, minimum): (&str, &str)| {
        json!({"schema": "olm.bundle", "package": "kettle", "name": format!("kettle.v{version}"),
            "properties": [{"type": "olm.package", "value": {"version": version}},
                {"type": "olm.csv.metadata", "value": {"minKubeVersion": minimum}}]})
    };
    let blobs = [("1.0.0", "1.20.0"), ("3.0.0", "1.40.0"), ("4.0.0", "1.40.0")].map(bundle);
    let entry = |blob: &Value| json!({"name": blob["name"], "skips": ["kettle.v2.0.0"]});
    let entries: Vec<_> = blobs.iter().map(entry).collect();
    let fixture = Fixture { blobs: blobs.into(), ..Fixture::default() };
    let catalogs = one(&fixture.channel("stable", entries.into()));
    let kube_version = "1.30.0".parse().ok();
    let environment = Environment { kube_version, ..Environment::default() };
    let options = Options { dependencies: crate::resolve::Dependencies::Check, ..ANY };
    let request = installed("2.0.0").version("<4.0.0");
    let report = explain(&request, catalogs, &environment, &options, None);
    let Headline { code, text } = report.headline().unwrap();
    assert_eq!(code.as_str(), "ConstraintUnmet");
    assert!(text.starts_with("kettle.v3.0.0 requires Kubernetes \"1.40.0\""), "{text}");
    assert_eq!(codes(&report, "kettle.v1.0.0"), ["SuccessorIsLowerVersion"]);
    assert_eq!(report.bundles[2].reasons[0].stage, Stage::Order);
}

#[test]
fn warnings_come_with_the_chosen_bundle() {
    let report = of_one(
        installed("2.0.0").version("1.0.0").self_certified(),
        &Fixture::bundles(&["1.0.0", "2.0.0"]),
    );
    let chosen = report.selected.unwrap();
    let warnings: Vec<_> = chosen.warnings.iter().map(|it| it.finding.code().as_str()).collect();
    assert_eq!(warnings, ["SuccessorIsLowerVersion", "ForcedStep"]);
}

/// Returns what leads to a version, in words.
fn ways(request: &Request, fixture: &Fixture, options: Options, version: &str) -> Vec<String> {
    let catalogs = one(fixture);
    let environment = Environment::default();
    let report = explain(request, catalogs, &environment, &options, Some(version));
    let target = report.target.unwrap();
    target.ways.iter().map(|way| format!("{}: {way}", way.steps)).collect()
}

#[test]
fn what_leads_to_a_version_is_told() {
    let chain = Fixture::chain(&["1.0.0", "1.0.1", "1.0.2", "2.0.0"]);
    let to = |version| ways(&installed("1.0.0").version("1.0.0"), &chain, ANY, version);
    assert_eq!(to("1.0.1"), ["1: version \"1.0.1\""]);
    assert_eq!(
        to("1.0.2"),
        ["2: version \"1.0.x\"", "1: version \"1.0.2\", upgradeConstraintPolicy SelfCertified"]
    );
    assert_eq!(to("kettle.v1.0.1"), ["1: version \"1.0.1\""]);
    assert_eq!(to("v1.0.1"), ["1: version \"1.0.1\""]);
    let fixture = Fixture::bundles(&["1.0.0"]).channel("a", json!([{"name": "kettle.v1.0.0"}]));
    assert_eq!(
        ways(&request().channels(&["b"]), &fixture, ANY, "1.0.0"),
        ["1: version \"1.0.0\", channels [b, a]"]
    );
}

#[test]
fn versions_around_one_that_does_not_exist_are_told() {
    let catalogs = one(&Fixture::bundles(&["1.0.0", "1.1.0", "1.3.0"]));
    let (request, environment) = (request(), Environment::default());
    let report = explain(&request, catalogs, &environment, &ANY, Some("v1.2.0"));
    let target = report.target.unwrap();
    assert_eq!(target.nearest, ["1.3.0", "1.1.0", "1.0.0"]);
    assert!(target.found.is_empty() && target.ways.is_empty());
}

// resolution.md 6.1
#[test]
fn a_report_that_breaks_its_schema_is_noticed() {
    let catalogs = one(&Fixture::bundles(&["1.0.0"]));
    let request = request();
    let mut report = report(&request, catalogs, &ANY);
    assert_eq!(violations(&report), [""; 0]);
    report.hints = vec![Suggestion::AvailableVersions { versions: vec![] }.into()];
    report.hints[0].text.clear();
    assert_eq!(violations(&report).len(), 1);
}

/// Bundles 1.0.0+1, 1.0.0+2 and so on.
fn many(bundles: usize) -> Fixture {
    let versions: Vec<_> = (1..=bundles).map(|number| format!("1.0.0+{number}")).collect();
    Fixture::bundles(&versions.iter().map(String::as_str).collect::<Vec<_>>())
}

fn name(number: usize) -> String {
    format!("kettle.v1.0.0+{number}")
}

/// Explains a large package, which takes minutes if every part is compared with every other.
fn takes_no_more_than_its_size(fixture: &Fixture) {
    let catalogs = one(fixture);
    let request = installed("0.9.0").version("1.0.0+1");
    let start = std::time::Instant::now();
    let report = report(&request, catalogs, &ANY);
    assert!(!report.bundles.is_empty());
    assert!(start.elapsed() < std::time::Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn many_deprecations_take_no_more_than_their_number() {
    let mut fixture = many(2_000);
    let deprecated = (0..40_000)
        .map(|number| json!({"reference": {"schema": "olm.bundle", "name": name(number)}}));
    fixture.deprecated = deprecated.collect();
    takes_no_more_than_its_size(&fixture);
}

#[test]
fn many_releases_take_no_more_than_their_number() {
    takes_no_more_than_its_size(&many(8_000));
}

#[test]
fn many_ranges_take_no_more_than_their_number() {
    let successor = |number| json!({"name": name(number), "skips": ["kettle.v0.9.0"]});
    let further = |number: usize| json!({"name": name(number % 2_000), "skipRange": "=9.0.0"});
    let entries: Vec<_> = (1..2_000).map(successor).chain((0..40_000).map(further)).collect();
    takes_no_more_than_its_size(&many(2_000).channel("stable", entries.into()));
}

#[test]
fn many_skips_take_no_more_than_their_number() {
    let skips: Vec<_> = (1_000..1_700).map(|number| format!("kettle.v0.0.0+{number}")).collect();
    let first = |number| json!({"name": name(number), "skips": ["kettle.v0.9.0"]});
    let further = |number| json!({"name": name(number), "skips": skips});
    let entries: Vec<_> = (301..=1_800).map(first).chain((1..=300).map(further)).collect();
    takes_no_more_than_its_size(&many(1_800).channel("stable", entries.into()));
}

#[test]
fn many_heads_take_no_more_than_their_number() {
    let behind = |number: usize| json!({"name": name(number), "replaces": name(number + 1)});
    let head = |number| json!({"name": format!("head{number}"), "replaces": name(0)});
    let entries: Vec<_> = (0..10_000).map(behind).chain((0..10_000).map(head)).collect();
    let mut fixture = many(1).channel("stable", entries.into());
    let package = json!({"schema": "olm.package", "name": "kettle", "defaultChannel": "stable"});
    fixture.blobs.push(package);
    takes_no_more_than_its_size(&fixture);
}

#[test]
fn changes_that_take_too_many_steps_to_try_are_not_suggested() {
    let many = "properties.all(a, properties.all(b, properties.all(c, true)))";
    for (loops, want) in [("true", Some("1.x")), (many, None)] {
        let mut fixture = Fixture::default();
        let numbers = || (0..20).map(|number| json!({"type": "number", "value": number}));
        let mut entries = vec![json!({"name": "kettle.v1.0.0"})];
        for minor in 0..190 {
            let (name, version) = (format!("kettle.v1.{minor}.0"), format!("1.{minor}.0"));
            let rule = |number| {
                let rule = format!("size(properties) > {number} || {loops}");
                json!({"type": "olm.constraint", "value": {"cel": {"rule": rule}}})
            };
            let package = json!({"type": "olm.package", "value": {"version": version}});
            let properties: Vec<_> =
                [package].into_iter().chain(numbers()).chain((0..5).map(rule)).collect();
            fixture.blobs.push(json!({"schema": "olm.bundle", "package": "kettle", "name": name,
                "properties": properties}));
            let next = format!("kettle.v1.{}.0", minor + 1);
            entries.push(json!({"name": next, "replaces": name}));
        }
        let catalogs = one(&fixture.channel("stable", entries.into()));
        let environment = Environment {
            providers: crate::resolve::Knowledge::Known(Vec::new().into()),
            ..Environment::default()
        };
        let options = Options { dependencies: crate::resolve::Dependencies::Check, ..ANY };
        let request = installed("1.0.0").version("1.189.0");
        let report = explain(&request, catalogs, &environment, &options, None);
        let hint = &json_of(&report)["hints"][0];
        assert_eq!(hint["code"], "NotAdjacent");
        assert_eq!(hint["suggestedVersion"].as_str(), want);
    }
}
