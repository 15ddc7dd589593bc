//! The one sentence for each way a resolution can end.

use insta::assert_snapshot;
use serde_json::json;

use super::*;

fn told(report: &Report<'_>) -> String {
    let headline = report.headline();
    headline.map_or_else(|| "nothing".to_owned(), |it| format!("{}: {}", it.code, it.text))
}

fn tell(request: &Request, fixture: &Fixture, options: Options) -> String {
    told(&report(request, one(fixture), &options))
}

#[test]
fn each_ending_has_its_sentence() {
    let chain = Fixture::chain(&["1.0.0", "1.0.1", "1.0.2"]);
    let loose = Fixture::bundles(&["1.0.0", "2.0.0"]);
    let mut branches = Fixture::chain(&["1.0.0", "1.0.1", "1.1.0"]);
    branches.blobs.extend(Fixture::bundles(&["2.0.0"]).blobs);
    let open = json!([
        {"name": "kettle.v1.0.0"},
        {"name": "kettle.v1.1.0", "skipRange": "<1.1.0"},
        {"name": "kettle.v2.0.0", "skipRange": "<2.0.0"},
    ]);
    let majors = Fixture::bundles(&["1.0.0", "1.1.0", "2.0.0"]).channel("stable", open);
    let down_edge = json!([{"name": "kettle.v1.0.0", "skips": ["kettle.v1.1.0"]}]);
    let down_edge =
        Fixture::bundles(&["1.0.0", "1.1.0"]).channel("stable", down_edge).deprecate("1.1.0");
    let channels = Fixture::bundles(&["1.0.0", "1.1.0"])
        .channel("stable", json!([{"name": "kettle.v1.0.0"}]))
        .channel("beta", json!([{"name": "kettle.v1.1.0", "replaces": "kettle.v1.0.0"}]));
    let early = Fixture::bundles(&["1.1.0-rc.1"]);
    let ours = Options { updates: crate::resolve::UpdatePolicy::MinorOnly, ..ANY };
    let opens = "2026-11-28T02:00:00Z".parse().ok();
    let closed = Options { closed_until: opens, ..ANY };
    let mut other = request();
    other.filter.package_name = "kettel".to_owned();
    let lines = [
        ("all is well", tell(&request(), &chain, ANY)),
        ("nothing newer", tell(&installed("1.0.2"), &chain, ANY)),
        ("two steps away", tell(&installed("1.0.0").version("1.0.2"), &chain, ANY)),
        ("one of two is reached", tell(&installed("1.0.0").version(">=1.1.0"), &branches, ANY)),
        ("no path", tell(&installed("1.0.0").version("2.0.0"), &loose, ANY)),
        ("no such version", tell(&request().version("3.x"), &loose, ANY)),
        ("no such successor", tell(&installed("1.0.0").version("1.0.7"), &chain, ANY)),
        ("pruned", tell(&installed("0.9.0").version("0.9.x"), &chain, ANY)),
        ("prerelease", tell(&request().version("1.x"), &early, ANY)),
        ("no such channel", tell(&request().channels(&["stabel"]), &chain, ANY)),
        (
            "other channel",
            tell(&installed("1.0.0").version("1.1.0").channels(&["stable"]), &channels, ANY),
        ),
        ("no such package", tell(&other, &chain, ANY)),
        ("next major", tell(&installed("1.0.0"), &majors, ours)),
        ("closed window", tell(&installed("1.0.0"), &majors, closed)),
        ("step down", tell(&installed("1.1.0"), &down_edge, ours)),
        ("wrong range", tell(&request().version("latest"), &chain, ANY)),
    ];
    let lines = lines.map(|(situation, told)| format!("{situation}\n    {told}\n"));
    assert_snapshot!(lines.concat());
}

#[test]
fn catalogs_have_their_sentences() {
    let (one, two) =
        (Fixture::bundles(&["1.0.0"]).content(), Fixture::bundles(&["1.0.0", "1.1.0"]).content());
    let mut disabled = catalog("c", 0, &one);
    disabled.enabled = false;
    let empty = Fixture::default().content();
    let lacking = [disabled.clone(), catalog("d", 0, &empty)];
    let (tied, broken, off) = (
        [catalog("a", 0, &one), catalog("b", 0, &two)],
        [catalog("a", 0, &one), down("b", 0)],
        [disabled],
    );
    let (fresh, none) = (request(), []);
    let newer = Fixture::chain(&["1.0.0", "2.0.0"]).content();
    let outranked = [catalog("a", 0, &newer), catalog("b", 1, &one)];
    let (there, ours) = (installed("1.0.0"), Options::default());
    let lines = [
        ("tied", told(&report(&fresh, &tied, &ANY))),
        ("broken", told(&report(&fresh, &broken, &ANY))),
        ("disabled", told(&report(&fresh, &off, &ANY))),
        ("disabled and without", told(&report(&fresh, &lacking, &ANY))),
        // Whatever the update policy, the other catalog wins.
        ("newer in an outranked one", told(&report(&there, &outranked, &ours))),
        ("no catalogs", told(&report(&fresh, &none, &ANY))),
        ("no catalogs any more", told(&report(&installed("1.0.0"), &none, &ANY))),
    ];
    let lines = lines.map(|(situation, told)| format!("{situation}\n    {told}\n"));
    assert_snapshot!(lines.concat());
}
