//! The one sentence for each way a resolution can end.

use insta::assert_snapshot;

use super::*;

fn headline(request: &Request, fixture: &Fixture, options: &Options) -> String {
    let content = fixture.content();
    let catalogs = [catalog("a", 0, &content)];
    told(&explain(
        request,
        &catalogs,
        &Environment::default(),
        options,
    ))
}

fn told(report: &Report<'_>) -> String {
    let headline = report.headline();
    headline.map_or_else(String::new, |it| format!("{}: {}", it.code, it.text))
}

// resolution.md U5
#[test]
fn a_pin_two_hops_away_names_the_next_one() {
    let chain = Fixture::chain(&["1.0.0", "1.0.1", "1.0.2"]);
    assert_snapshot!(headline(&installed("1.0.0").version("1.0.2"), &chain, &ANY), @r#"NotSuccessor: 1.0.2 exists in channel stable but is not a successor of 1.0.0; reachable now: 1.0.1; to go there in 2 steps: version "1.0.x"; to force it: upgradeConstraintPolicy SelfCertified"#);
}
