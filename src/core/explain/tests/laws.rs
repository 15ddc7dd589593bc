//! Properties that hold for every report.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::catalog::Content;
use crate::resolve::tests::laws::{any_fixture, any_order, any_request};
use crate::resolve::{Unavailability, UpdatePolicy};

fn any_options() -> impl Strategy<Value = Options> {
    let updates = prop_oneof![Just(UpdatePolicy::Any), Just(UpdatePolicy::MinorOnly)];
    let unavailability = prop_oneof![
        Just(Unavailability::Provable),
        Just(Unavailability::Strict),
        Just(Unavailability::BestEffort)
    ];
    (updates, unavailability).prop_map(|(updates, unavailability)| Options {
        unavailability,
        updates,
        ..ANY
    })
}

/// Text that looks like something a catalog might hold, or like noise.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("1.0.0".to_owned()),
        Just("kettle.v1".to_owned()),
        Just(">=1.0.0 <2.0.0".to_owned()),
        "[0-9]\\.[0-9]\\.[0-9](-[a-z0-9.]{0,4})?(\\+[0-9a-z]{0,3})?",
        "[<>=~^!x0-9. |,-]{0,16}",
        "\\PC{0,8}",
    ]
}

/// Blobs of the right shape with any texts.
fn any_content() -> impl Strategy<Value = Content> {
    let bundle = (any_text(), any_text()).prop_map(|(name, version)| {
        json!({"schema": "olm.bundle", "package": "kettle", "name": name,
               "properties": [{"type": "olm.package", "value": {"version": version}}]})
    });
    let entry = (any_text(), any_text(), prop::collection::vec(any_text(), 0..2), any_text())
        .prop_map(|(name, replaces, skips, range)| {
            json!({"name": name, "replaces": replaces, "skips": skips, "skipRange": range})
        });
    let channel = (any_text(), prop::collection::vec(entry, 0..6)).prop_map(|(name, entries)| {
        json!({"schema": "olm.channel", "package": "kettle", "name": name, "entries": entries})
    });
    let blobs = prop::collection::vec(prop_oneof![3 => bundle, 1 => channel], 0..10);
    blobs.prop_map(crate::fixture::content)
}

/// Says whether a bundle is the chosen one of a resolution.
fn is_chosen(resolution: &Resolution<'_>, bundle: &BundleReport<'_>) -> bool {
    let selected = resolution.result.as_ref().ok();
    selected.is_some_and(|it| it.catalog == bundle.catalog && it.bundle.name == bundle.name)
}

proptest! {
    // resolution.md 6.2, 6.1
    #[test]
    fn excluded_is_never_chosen_and_chosen_is_never_excluded(
        here in any_fixture(),
        there in any_fixture(),
        request in any_request(),
        options in any_options(),
        priority in 0..2,
    ) {
        let (here, there) = (here.content(), there.content());
        let catalogs = [catalog("a", 0, &here), catalog("b", priority, &there), down("c", -1)];
        let environment = Environment::default();
        let resolution = resolve(&request, &catalogs, &environment, &options);
        let report = report(&request, &catalogs, &options);
        for bundle in &report.bundles {
            let excluded = bundle.reasons.iter().any(super::super::finding::Reason::excludes);
            prop_assert_eq!(excluded, bundle.verdict == BundleVerdict::Excluded);
            let chosen = is_chosen(&resolution, bundle);
            prop_assert_eq!(chosen, bundle.verdict == BundleVerdict::Selected);
            let lost = bundle.verdict == BundleVerdict::Candidate;
            let said = bundle.reasons.iter().any(|it| matches!(it.stage, Stage::Order | Stage::Catalogs));
            prop_assert_eq!(lost, said, "{:?}", bundle);
        }
        let chosen = report.bundles.iter().filter(|it| it.verdict == BundleVerdict::Selected).count();
        prop_assert_eq!(chosen, usize::from(resolution.result.is_ok()));
        prop_assert_eq!(report.message.is_some(), resolution.result.is_err());
        prop_assert_eq!(violations(&report), Vec::<String>::new());
    }

    // resolution.md 6.1
    #[test]
    fn order_and_other_packages_never_matter(
        (fixture, mut shuffled) in any_order(),
        other in any_fixture(),
        request in any_request(),
        options in any_options(),
        priority in 0..2,
    ) {
        shuffled.blobs.push(json!({
            "schema": "olm.bundle", "package": "unrelated", "name": "unrelated.v9",
            "properties": [{"type": "olm.package", "value": {"version": "9.0.0"}}],
        }));
        let (first, second, other) = (fixture.content(), shuffled.content(), other.content());
        let forth = [catalog("a", 0, &first), catalog("b", priority, &other), down("c", 0)];
        let back = [down("c", 0), catalog("b", priority, &other), catalog("a", 0, &second)];
        let (forth, back) = (report(&request, &forth, &options), report(&request, &back, &options));
        let bytes = |report: &Report<'_>| serde_json::to_string(report).unwrap();
        prop_assert_eq!(bytes(&forth), bytes(&back));
        prop_assert_eq!(forth.headline(), back.headline());
    }

    // resolution.md 6.2: each step of a path is one an update can take
    #[test]
    fn paths_can_be_walked(
        fixture in any_fixture(),
        channels in prop_oneof![Just(vec![]), Just(vec!["c0"])],
    ) {
        let catalogs = one(&fixture);
        let request = installed("0.0.0").channels(&channels);
        let report = report(&request, catalogs, &ANY);
        let findings = report.bundles.iter().flat_map(|it| &it.reasons).map(|it| &it.finding);
        for finding in findings {
            let Finding::NotSuccessor { path: Some(path), .. } = finding else { continue };
            prop_assert!(path.len() > 2, "one step is no excuse: {path:?}");
            for step in path.windows(2) {
                let request = installed(&step[0]).channels(&channels).version(&step[1]);
                let answer = resolve(&request, catalogs, &Environment::default(), &ANY);
                let version = answer.result.map(|it| it.version.recorded()).ok();
                prop_assert_eq!(version.as_deref(), Some(step[1].as_str()));
            }
        }
    }

    // The changes of a target keep their promise: requested, they lead there in that many updates.
    #[test]
    fn ways_lead_there(
        fixture in any_fixture(),
        request in any_request(),
        options in any_options(),
        wanted in (0u8..3, 0u8..3),
    ) {
        let catalogs = one(&fixture);
        let wanted = format!("{}.{}.0", wanted.0, wanted.1);
        let environment = Environment::default();
        let report = explain(&request, catalogs, &environment, &options, Some(&wanted));
        for way in &report.target.as_ref().unwrap().ways {
            let mut request = request.clone().version(&way.version);
            if let Some(channels) = &way.channels {
                request.filter.channels.clone_from(channels);
            }
            if way.forced {
                request = request.self_certified();
            }
            let mut reached = String::new();
            for _ in 0..way.steps {
                let answer = resolve(&request, catalogs, &environment, &options).result.unwrap();
                reached = answer.version.recorded();
                request.installed = installed(&reached).installed;
            }
            prop_assert_eq!(&reached, &wanted);
        }
    }

    #[test]
    fn nothing_makes_it_panic(
        content in any_content(),
        range in any_text(),
        from in any_text(),
        channel in any_text(),
        wanted in any_text(),
        options in any_options(),
    ) {
        let catalogs = [catalog("a", 0, &content), catalog("b", 0, &content), down("c", 0)];
        let environment = Environment::default();
        for request in [
            request(),
            request().version(&range),
            installed(&from).version(&range),
            installed(&from).channels(&[&channel]),
            installed("1.0.0"),
        ] {
            let one = &catalogs[..1];
            for catalogs in [&catalogs[..], one] {
                let report =
                    explain(&request, catalogs, &environment, &options, Some(&wanted));
                prop_assert_eq!(violations(&report), Vec::<String>::new());
                let _ = report.headline();
            }
        }
    }
}
