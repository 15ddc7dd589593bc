//! What follows from small catalogs of our own.

use std::collections::{BTreeMap, BTreeSet};

use olm_api::UpgradeConstraintPolicy;
use olm_api::keys::{annotation, policy};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use super::*;
use crate::catalog::Content;
use crate::error::Chain;
use crate::extension::ValidExtension;
use crate::extension::holds::{Facts, Hold, all, holder, reported};
use crate::fixture::{cases, extension, revision};
use crate::resolve::UpdatePolicy;
use crate::resolve::tests::{Fixture, catalog, down};

const CASES: &str = include_str!("../../testdata/extension/cases.yaml");

/// A catalog whose versions replace each other in this order.
fn content(versions: &[&str]) -> Content {
    Fixture::chain(versions).content()
}

/// The same, and every version may follow any lower one.
fn skipping(versions: &[&str]) -> Fixture {
    let mut fixture = Fixture::chain(versions);
    for (at, version) in versions.iter().enumerate() {
        fixture.blobs[versions.len()]["entries"][at]["skipRange"] = json!(format!("<{version}"));
    }
    fixture
}

fn record(version: &str, image: &str) -> BundleRecord {
    BundleRecord {
        name: format!("kettle.v{version}"),
        package: "kettle".to_owned(),
        image: image.to_owned(),
        ..BundleRecord::example(version)
    }
}

fn question(installed: Option<&str>, annotations: &[(&str, &str)]) -> Question {
    let filter = CatalogFilter { package_name: "kettle".to_owned(), ..CatalogFilter::default() };
    let now = "2026-11-24T12:00:00Z".parse().unwrap();
    Question {
        installed: installed.map(|version| record(version, &format!("r/kettle@sha256:{version}"))),
        came_from: installed.map(|_| "old".to_owned()),
        ..Question::new(filter, Policy::example(annotations), now)
    }
}

fn answer(question: &Question, content: Option<&Content>) -> Answer {
    let catalog = content.map_or_else(|| down("acme", 0), |content| catalog("acme", 0, content));
    answer_of(question, &[catalog])
}

fn answer_of(question: &Question, catalogs: &[Catalog<'_>]) -> Answer {
    let options = question.options(Options::default());
    let environment = Environment::default();
    let resolution = question.resolve(catalogs, &environment, &options);
    question.answer(catalogs, &environment, &options, &resolution)
}

fn reasons_of(answer: &Answer) -> Vec<conditions::Reason> {
    answer.notices.iter().map(|notice| notice.reason).collect()
}

#[test]
fn annotations_decide() {
    for (installed, annotations, target, update) in
        cases::<(Option<&str>, Vec<(&str, &str)>, &str, Option<&str>)>(CASES, "annotations_decide")
    {
        let content = content(&["1.0.0", "1.1.0", "2.0.0"]);
        let answer = answer(&question(installed, &annotations), Some(&content));
        let goal = answer.goal.unwrap();
        assert_eq!(goal.target.version, target);
        assert!(goal.held.is_none() && !goal.forced);
        let offered = answer.update.map(|update| update.reason);
        assert_eq!(offered.as_deref(), update);
    }
}

// ours: what is installed is never offered, and the newest is the newest
#[test]
fn an_update_is_newer_than_what_is_installed() {
    for (installed, range, annotations, want) in
        cases::<(&str, Option<&str>, Vec<(&str, &str)>, Option<&str>)>(
            CASES,
            "an_update_is_newer_than_what_is_installed",
        )
    {
        let content = content(&["1.0.0", "1.1.0", "2.0.0"]);
        let mut question = question(Some(installed), &annotations);
        question.filter.version = range.map(str::to_owned);
        if installed == "2.0.0" {
            question.filter.upgrade_constraint_policy =
                Some(UpgradeConstraintPolicy::SelfCertified);
        }
        let answer = answer(&question, Some(&content));
        assert_eq!(answer.newest.as_deref(), Some("2.0.0"));
        let update = answer.update;
        assert_eq!(update.as_ref().map(|update| update.reason.as_str()), want, "{update:?}");
        assert!(update.iter().all(|update| update.newest == "2.0.0"), "{update:?}");
        let approve = update.is_some_and(|update| update.message.contains(policy::APPROVE));
        assert_eq!(approve, want == Some("OutsideWindow"));
    }
}

// ours: a pause is said whether or not an update waits
#[test]
fn a_pause_is_told() {
    let content = content(&["1.0.0", "1.1.0", "2.0.0"]);
    for (installed, want) in [
        ("2.0.0", "nothing is applied until"),
        ("1.0.0", "1.1.0 is available; nothing is applied until"),
    ] {
        let question = question(Some(installed), &[(policy::PAUSED, "true")]);
        let notes = answer(&question, Some(&content)).notes;
        let paused: Vec<_> =
            notes.iter().filter(|note| note.reason == conditions::Reason::Paused).collect();
        assert_eq!(paused.len(), 1, "{notes:?}");
        assert!(paused[0].message.starts_with(want), "{notes:?}");
    }
}

// applying.md 2.4
#[test]
fn what_ran_before_a_restore_is_installed_first() {
    for (range, ran, want) in cases::<(Option<&str>, Option<&str>, Result<&str, &str>)>(
        CASES,
        "what_ran_before_a_restore_is_installed_first",
    ) {
        let content = content(&["1.0.0", "1.1.0", "2.0.0"]);
        let mut question = question(None, &[]);
        question.filter.version = range.map(str::to_owned);
        assert!(question.asks_what_ran(&[]));
        question.resume(ran.map(|version| version.parse().unwrap()));
        let answer = answer(&question, Some(&content));
        let goal = answer.goal.as_ref().map(|goal| goal.target.version.as_str());
        assert_eq!(goal.map_err(|error| Chain(error).to_string()), want.map_err(str::to_owned));
        let notes = answer.notes.iter().map(|note| note.message.as_str());
        let told =
            notes.filter(|text| text.contains("objects without an owner")).collect::<Vec<_>>();
        assert_eq!(!told.is_empty(), ran.is_some() && range != Some("2.x"));
        let way_out = told.iter().any(|text| text.contains("SelfCertified"));
        assert_eq!(way_out, ran == Some("1.0.5"));
        let policy = Some(UpgradeConstraintPolicy::SelfCertified);
        question.filter.upgrade_constraint_policy = policy;
        assert!(!question.asks_what_ran(&[]));
    }
}

// applying.md 2.4: no version is skipped because the one before is deprecated or cannot be pulled
#[test]
fn what_takes_over_what_ran_gives_way_to_its_successors_only() {
    let content = content(&["1.0.0", "1.1.0", "2.0.0"]);
    let target = |question: &Question| {
        let answer = answer(question, Some(&content));
        answer.goal.map(|goal| goal.target.version).unwrap()
    };
    let mut question = question(None, &[]);
    assert_eq!(target(&question), "2.0.0");
    question.taken_over = Some(record("1.0.0", "r/kettle@sha256:1.0.0"));
    assert_eq!(target(&question), "1.1.0", "it is late");
    for (stalled, want) in [(None, "1.0.0"), (Some(LATE), "1.1.0")] {
        question.rolling = Some(rollout("1.0.0", stalled));
        assert_eq!(target(&question), want);
    }
    question.resume(Some("1.0.0".parse().unwrap()));
    assert_eq!(question.taken_over, None, "it has taken nothing over");
}

// applying.md 10
#[test]
fn who_asks_for_a_version_has_not_said_from_whom() {
    let content = content(&["1.0.0", "1.1.0"]);
    let held = [(policy::CATALOG_MOVE, "Hold")];
    let mut pinned = question(Some("1.0.0"), &held);
    pinned.filter.version = Some("1.1.0".to_owned());
    let mut forced = question(Some("1.0.0"), &held);
    forced.filter.upgrade_constraint_policy = Some(UpgradeConstraintPolicy::SelfCertified);
    for mut question in [pinned, forced] {
        let held = answer(&question, Some(&content));
        assert_eq!(held.goal.unwrap().target.version, "1.0.0");
        assert_eq!(held.update.unwrap().reason, "OtherCatalogHeld");
        question.came_from = Some("acme".to_owned());
        let goal = answer(&question, Some(&content)).goal;
        assert_eq!(goal.unwrap().target.version, "1.1.0");
    }
}

// decision 5
#[test]
fn without_catalogs_what_is_installed_stays_and_nothing_new_comes() {
    let installed = answer(&question(Some("1.0.0"), &[]), None);
    let goal = installed.goal.unwrap();
    assert_eq!(goal.target.version, "1.0.0");
    assert!(goal.held.is_some(), "the catalog is reported");
    let nothing = answer(&question(None, &[]), None);
    let error = nothing.goal.unwrap_err();
    assert_eq!(error.disposition(), Disposition::Retry);
    assert!(nothing.update.is_none());
}

// resolution.md 1.10: the API server would refuse the status, and the rollout would never end
#[test]
fn a_bundle_that_no_status_can_name_is_not_rolled_out() {
    let content = content(&["1.0.0", "1.1.0+1"]);
    let text = "the name of bundle \"kettle.v1.1.0+1\" is not a DNS subdomain (RFC 1123)";
    let error = answer(&question(None, &[]), Some(&content)).goal.unwrap_err();
    assert!(Chain(&error).to_string().starts_with(text), "{error}");
    let goal = answer(&question(Some("1.0.0"), &[]), Some(&content)).goal.unwrap();
    assert_eq!(goal.target.version, "1.0.0");
    assert!(Chain(&goal.held.unwrap()).to_string().starts_with(text));
}

// decision 5
#[test]
fn a_catalog_that_is_gone_is_a_note() {
    let content = content(&["1.0.0"]);
    let mut others = catalog("acme", 0, &content);
    let mut question = question(Some("1.0.0"), &[]);
    question.filter.package_name = "teapot".to_owned();
    let answer = |catalogs: &[Catalog<'_>]| {
        let answer = answer_of(&question, catalogs);
        assert!(answer.goal.is_ok_and(|goal| goal.held.is_none()));
        let notes = answer.notes.into_iter();
        notes.map(|note| (note.reason, note.message)).collect::<Vec<_>>()
    };
    let text = |became: &str| {
        let text = format!(
            "catalog old, which kettle.v1.0.0 came from, {became}, and no other has an update: the \
             installed bundle stays"
        );
        vec![(conditions::Reason::CatalogGone, text)]
    };
    assert_eq!(answer(&[others.clone()]), text("was deleted"));
    assert_eq!(answer(&[]), text("was deleted"));
    others.enabled = false;
    others.name = "old";
    assert_eq!(answer(&[others]), text("is switched off"));
}

#[test]
fn a_wrong_range_waits_for_a_change() {
    let mut question = question(Some("1.0.0"), &[]);
    question.filter.version = Some("one".to_owned());
    let content = content(&["1.0.0"]);
    let error = answer(&question, Some(&content)).goal.unwrap_err();
    assert_eq!(
        error.disposition(),
        Disposition::Terminal(conditions::Reason::InvalidConfiguration),
        "{}",
        Chain(&error)
    );
}

// decision 29
#[test]
fn other_content_of_the_installed_version_is_not_taken_unasked() {
    let mut fixture = Fixture::chain(&["1.0.0"]);
    fixture.blobs[0]["image"] = json!("r/kettle@sha256:1.0.0");
    let content = fixture.content();
    let mut question = question(Some("1.0.0"), &[]);
    question.installed = Some(record("1.0.0", "r/kettle@sha256:old"));
    let kept = answer(&question, Some(&content));
    assert_eq!(reasons_of(&kept), [conditions::Reason::ContentChanged]);
    assert_eq!(kept.notes[0].reason, conditions::Reason::ContentChanged);
    assert_eq!(kept.goal.unwrap().target.image, "r/kettle@sha256:old");
    question.policy.accepted_image = Some("sha256:1.0.0".to_owned());
    let taken = answer(&question, Some(&content));
    assert_eq!(taken.goal.unwrap().target.image, "r/kettle@sha256:1.0.0");
    assert!(taken.notes.is_empty());
}

// decision 30
#[test]
fn a_step_without_an_edge_is_forced() {
    let content = content(&["1.0.0", "1.1.0", "2.0.0"]);
    let mut question = question(Some("1.0.0"), &[]);
    question.filter.upgrade_constraint_policy = Some(UpgradeConstraintPolicy::SelfCertified);
    question.filter.version = Some("2.0.0".to_owned());
    let goal = answer(&question, Some(&content)).goal.unwrap();
    assert!(goal.forced);
    assert_eq!(goal.target.version, "2.0.0");
}

// api.md D6
#[test]
fn during_a_roll_out_nothing_is_said_of_what_would_be_chosen() {
    let content = content(&["1.0.0", "1.1.0", "2.0.0"]);
    let mut question = question(Some("1.0.0"), &[(policy::UPGRADE, "None")]);
    assert!(
        reasons_of(&answer(&question, Some(&content))).contains(&conditions::Reason::NextMinorHeld)
    );
    question.rolling = Some(rollout("1.1.0", None));
    let answer = answer(&question, Some(&content));
    assert!(!reasons_of(&answer).contains(&conditions::Reason::NextMinorHeld), "{answer:?}");
}

fn rollout(version: &str, stalled: Option<&str>) -> Rollout {
    Rollout {
        bundle: record(version, &format!("r/kettle@sha256:{version}")),
        is_return: false,
        stalled: stalled.map(str::to_owned),
        before: None,
    }
}

const LATE: &str = "it has not completed within 30 minutes";

// applying.md 1.3: a bad release never pins an extension, and what progresses is left alone
#[test]
fn a_rollout_gives_way_to_another_bundle() {
    for (installed, versions, stalled, target, why) in
        cases::<(Option<&str>, Vec<&str>, Option<&str>, &str, Option<&str>)>(
            CASES,
            "a_rollout_gives_way_to_another_bundle",
        )
    {
        let content = skipping(&versions).content();
        let mut question = question(installed, &[]);
        question.rolling = Some(rollout("1.1.0", stalled));
        let answer = answer(&question, Some(&content));
        assert_eq!(answer.goal.as_ref().unwrap().target.version, target);
        let superseded = conditions::Reason::RolloutSuperseded;
        let note = answer.notes.iter().find(|note| note.reason == superseded);
        let want = why.map(|why| {
            format!("kettle.v{target} supersedes the rollout of kettle.v1.1.0, because {why}")
        });
        assert_eq!(note.map(|note| note.message.clone()), want);
        assert_eq!(reasons_of(&answer).contains(&superseded), want.is_some());
        let catalogs = [catalog("acme", 0, &content)];
        let options = question.options(Options::default());
        let course = question.course(&catalogs, &Environment::default(), &options).unwrap();
        assert_eq!(course.target.version, target, "the plugin says the same");
    }
}

// applying.md 1.3
#[test]
fn what_is_not_known_supersedes_nothing() {
    let content = skipping(&["1.0.0", "1.2.0"]).content();
    let mut question = question(Some("1.0.0"), &[]);
    question.rolling = Some(rollout("1.1.0", None));
    let without = answer(&question, None);
    assert_eq!(without.goal.unwrap().target.version, "1.1.0");
    let closed = Policy::example(&[(policy::UPDATE_WINDOW, "Sat 02:00-04:00")]);
    let waiting = Question { policy: closed, ..question.clone() };
    let waiting = answer(&waiting, Some(&content));
    assert_eq!(waiting.goal.unwrap().target.version, "1.1.0", "nothing goes back for a window");
    question.rolling.as_mut().unwrap().is_return = true;
    let back = answer(&question, Some(&content));
    assert_eq!(back.goal.unwrap().target.version, "1.1.0", "a way back is not asked about");
}

// applying.md 1.3: after its deadline and after a change of the spec, too
#[test]
fn a_rollout_does_not_go_back_unasked() {
    for (installed, range, annotations, is_served, is_as_asked, want) in
        cases::<(Option<&str>, Option<&str>, Vec<(&str, &str)>, bool, bool, Result<&str, &str>)>(
            CASES,
            "a_rollout_does_not_go_back_unasked",
        )
    {
        let content = content(&["1.0.0", "1.1.0", "1.2.0"]);
        let mut question = question(installed, &annotations);
        question.filter.version = range.map(str::to_owned);
        let bundle = record("1.1.0", "r/kettle@sha256:1.1.0");
        question.unfinished = Some(Unfinished { bundle, is_as_asked });
        let answer = answer(&question, is_served.then_some(&content));
        let goal = answer.goal.as_ref().map(|goal| goal.target.version.as_str());
        assert_eq!(goal.map_err(|error| Chain(error).to_string()), want.map_err(str::to_owned));
        let present = question.present().map(|bundle| bundle.version.as_str());
        assert_eq!(present, Some("1.1.0"), "its operator holds nothing back either");
        let offered = answer.update.and_then(|update| update.version);
        let is_both = want == Ok("1.1.0") && offered.as_deref() == Some("1.1.0");
        assert!(!is_both, "what is rolled out is not offered besides");
    }
}

// applying.md 1.3: until the next revision is rolled out, it is said what it took the place of
#[test]
fn the_rollout_before_is_named_until_the_next_one_ends() {
    let content = skipping(&["1.0.0", "1.2.0"]).content();
    let mut question = question(Some("1.0.0"), &[]);
    question.rolling =
        Some(Rollout { before: Some((record("1.1.0", "i"), None)), ..rollout("1.2.0", None) });
    let answer = answer(&question, Some(&content));
    assert_eq!(answer.goal.as_ref().unwrap().target.version, "1.2.0");
    let want = "kettle.v1.2.0 supersedes the rollout of kettle.v1.1.0, because no catalog offers \
                kettle.v1.1.0 any longer";
    assert!(answer.notes.iter().any(|note| note.message == want), "{answer:?}");
}

// applying.md 1.3
#[test]
fn a_bundle_in_no_channel_is_offered_unless_one_is_requested() {
    let content = Fixture::bundles(&["1.1.0", "1.2.0"]).content();
    let mut question = question(None, &[]);
    question.rolling = Some(rollout("1.1.0", None));
    let goes_on = answer(&question, Some(&content));
    assert_eq!(goes_on.goal.unwrap().target.version, "1.1.0");
}

// applying.md 1.3
#[test]
fn a_deprecated_bundle_gives_way_at_once() {
    let fixture = skipping(&["1.0.0", "1.1.0", "1.2.0"]);
    let (plain, deprecated) = (fixture.content(), fixture.deprecate("1.1.0").content());
    let mut question = question(Some("1.0.0"), &[]);
    question.rolling = Some(rollout("1.1.0", None));
    let goes_on = answer(&question, Some(&plain));
    assert_eq!(goes_on.goal.unwrap().target.version, "1.1.0");
    let gives_way = answer(&question, Some(&deprecated));
    assert_eq!(gives_way.goal.as_ref().unwrap().target.version, "1.2.0");
    let want = "because catalog acme has deprecated kettle.v1.1.0";
    assert!(gives_way.notes.iter().any(|note| note.message.ends_with(want)), "{gives_way:?}");
}

// api.md 4.5
#[test]
fn in_a_tie_the_catalog_of_the_installed_bundle_tells_what_is_deprecated() {
    let of = |message: &str| {
        let entry = json!({"reference": {"schema": "olm.package"}, "message": message});
        Fixture { deprecated: vec![entry], ..Fixture::chain(&["1.0.0"]) }.content()
    };
    let (home, other) = (of("at home"), of("elsewhere"));
    let catalogs = [catalog("acme", 0, &other), catalog("old", 0, &home)];
    let mut question = question(Some("1.0.0"), &[]);
    question.filter.version = Some("9.0.0".to_owned());
    let told = |question: &Question| {
        let answer = answer_of(question, &catalogs);
        assert!(answer.goal.unwrap().held.is_some());
        answer.deprecations.map(|found| found.entries[0].message.clone())
    };
    assert_eq!(told(&question).as_deref(), Some("at home"));
    question.came_from = Some("gone".to_owned());
    assert_eq!(told(&question), None);
}

// api.md 4.5
#[test]
fn the_support_is_that_of_the_installed_version() {
    let version = |name: &str| json!({"name": name, "phases": []});
    let blob = json!({"schema": "io.openshift.operators.lifecycles.v1alpha1", "package": "kettle",
        "versions": [version("1.0"), version("1.1")]});
    let mut fixture = skipping(&["1.0.0", "1.1.0"]);
    fixture.blobs.push(blob);
    let content = fixture.content();
    let of = |installed| {
        let answer = answer(&question(installed, &[]), Some(&content));
        answer.lifecycle.map(|lifecycle| lifecycle.name)
    };
    assert_eq!(of(Some("1.0.0")).as_deref(), Some("1.0"));
    assert_eq!(of(Some("1.1.0")).as_deref(), Some("1.1"));
    assert_eq!(of(None), None);
}

// decision 35: a package may have several releases of a version
#[test]
fn only_the_approved_version_is_taken() {
    for (pins_releases, approved, chosen, asked) in cases::<(bool, Option<&str>, &str, Option<&str>)>(
        CASES,
        "only_the_approved_version_is_taken",
    ) {
        let content = skipping(&["1.0.0", "1.1.0", "2.0.0+1", "2.0.0+2"]).content();
        let catalogs = [catalog("acme", 0, &content)];
        let annotations: Vec<_> =
            approved.iter().map(|version| (policy::APPROVE, *version)).collect();
        let question = question(Some("1.1.0"), &annotations);
        let options = question.options(Options { pins_releases, ..Options::default() });
        let (request, resolution) = question.decided(&catalogs, &Environment::default(), &options);
        assert_eq!(resolution.result.unwrap().bundle.name, chosen);
        assert_eq!(request.filter.version.as_deref(), asked);
    }
}

#[test]
fn the_cluster_counts_only_for_what_asks_for_it() {
    let plain = content(&["1.0.0"]);
    let with = |kind: &str, value: Value| {
        let mut fixture = Fixture::bundles(&["1.0.0"]);
        let properties = fixture.blobs[0]["properties"].as_array_mut().unwrap();
        properties.push(json!({"type": kind, "value": value}));
        fixture.content()
    };
    let package = json!({"packageName": "water", "versionRange": ">=1.0.0"});
    let needy = with("olm.package.required", package.clone());
    let asks = |content: &Content, annotations: &[(&str, &str)]| {
        let question = question(None, annotations);
        question.needs(&[catalog("acme", 0, content)], &Options::default())
    };
    let nothing = Needs { cluster: true, installed: false, kubernetes: false };
    assert_eq!(asks(&plain, &[]), nothing);
    assert_eq!(asks(&needy, &[]), Needs { installed: true, ..nothing });
    assert!(!question(None, &[]).asks_for_kinds(&[catalog("acme", 0, &needy)]));
    let kind = json!({"group": "example.com", "version": "v1", "kind": "Water"});
    let any = json!({"any": {"constraints": [{"package": package}, {"gvk": kind}]}});
    let rule = json!({"cel": {"rule": "true"}});
    for (property, value) in
        [("olm.gvk.required", kind), ("olm.constraint", any), ("olm.constraint", rule)]
    {
        let content = with(property, value);
        assert!(question(None, &[]).asks_for_kinds(&[catalog("acme", 0, &content)]), "{property}");
    }
    let forced = asks(&needy, &[(policy::FORCE, "constraints")]);
    assert!(!forced.cluster && !forced.installed);
}

// plugin.md 1.5: what a plan is about
#[test]
fn the_course_is_what_is_taken_or_held() {
    for (installed, annotations, range, target, held) in
        cases::<(Option<&str>, Vec<(&str, &str)>, Option<&str>, &str, Option<&str>)>(
            CASES,
            "the_course_is_what_is_taken_or_held",
        )
    {
        let content = content(&["1.0.0", "1.1.0", "2.0.0"]);
        let catalogs = [catalog("acme", 0, &content)];
        let mut question = question(installed, &annotations);
        question.filter.version = range.map(str::to_owned);
        let options = question.options(Options::default());
        let course = question.course(&catalogs, &Environment::default(), &options);
        let course = course.unwrap();
        let by = course.held.map(|held| holder(held.reason.parse().unwrap()).word);
        assert_eq!((course.target.version.as_str(), by), (target, held));
        assert_eq!(course.catalog.as_deref(), Some("acme"));
    }
}

// ours: a revision that somebody deleted while it was rolled out is made anew as it was
#[test]
fn what_goes_on_keeps_its_catalog() {
    let kept = record("1.0.0", "r/kettle");
    let revision = |catalog: &str, version: &str| {
        let mut annotations = record(version, "r/kettle").annotations();
        annotations.insert(annotation::CATALOG.to_owned(), catalog.to_owned());
        revision(1, &json!({"metadata": {"annotations": annotations}}))
    };
    let revisions = [revision("acme", "1.0.0"), revision("other", "1.1.0")];
    let goal = Goal::keep(kept);
    assert_eq!(goal.origin(&revisions).catalog.as_deref(), Some("acme"));
    assert_eq!(goal.origin(&[]).catalog, None);
}

const VERSIONS: [&str; 4] = ["1.0.0", "1.0.1", "1.1.0", "2.0.0"];

proptest! {
    // plugin.md U83: the controller acts on the answer, the plan shows the course
    #[test]
    fn the_plan_and_the_next_status_name_the_same_holds(
        offered in subsequence(VERSIONS.to_vec(), 1..=VERSIONS.len()),
        installed in select(VERSIONS.to_vec()),
        upgrade in select(vec!["None", "PatchOnly", "MinorOnly", "Any"]),
        approved in option::of(select(VERSIONS.to_vec())),
        range in option::of(select(vec!["1.x", "1.0.0", ">=1.0.0"])),
        home in select(vec!["acme", "gone"]),
        (paused, closed, stays) in any::<(bool, bool, bool)>(),
    ) {
        let mut annotations = BTreeMap::new();
        let mut annotate = |key: &str, value: &str| {
            annotations.insert(key.to_owned(), value.to_owned());
        };
        annotate(policy::UPGRADE, upgrade);
        if let Some(version) = approved {
            annotate(policy::APPROVE, version);
        }
        if paused {
            annotate(policy::PAUSED, "true");
        }
        if closed {
            annotate(policy::UPDATE_WINDOW, "00:00-01:00 UTC");
        }
        if stays {
            annotate(policy::CATALOG_MOVE, "Hold");
        }
        let policy = Policy::of(&annotations, UpdatePolicy::default()).unwrap();
        let filter = json!({"packageName": "kettle", "version": range});
        let extension = extension(&json!({"metadata": {"annotations": annotations},
            "spec": {"source": {"catalog": filter}}}));
        let valid = ValidExtension::of(&extension).unwrap();
        let now = "2026-11-24T12:00:00Z".parse().unwrap();
        let question = Question {
            installed: Some(record(installed, "i")),
            came_from: Some(home.to_owned()),
            ..Question::of(valid, policy, None, &[], now)
        };
        let content = skipping(&offered).content();
        let catalogs = [catalog("acme", 0, &content)];
        let answer = answer_of(&question, &catalogs);
        let options = question.options(Options::default());
        let course = question.course(&catalogs, &Environment::default(), &options);
        let (Ok(goal), Ok(course)) = (&answer.goal, &course) else { return Ok(()) };

        let facts = Facts::of(valid, &question.policy, &course.target, question.installed.as_ref());
        let facts = Facts { offered: course.held.as_ref(), ..facts };
        let planned: BTreeSet<_> = all(&facts).iter().map(Hold::word).collect();
        if !paused && goal.target.version != installed {
            prop_assert_eq!(&course.target, &goal.target);
            prop_assert!(planned.is_empty(), "{planned:?}");
            return Ok(());
        }
        // An update that no step leads to is not held.
        let update = answer.update.filter(|update| update.version.is_some());
        let status = json!({"conditions": [], "update": update});
        let mut seen = extension.clone();
        seen.status = Some(serde_json::from_value(status).unwrap());
        let told: BTreeSet<_> = reported(&seen).iter().map(|holder| holder.word).collect();
        prop_assert_eq!(planned, told);
    }
}
