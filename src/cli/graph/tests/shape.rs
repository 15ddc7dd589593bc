//! What is drawn, folded and marked.

use insta::assert_snapshot;

use super::*;

/// Versions that each replace the one before, in channel `stable`.
fn chain(versions: &[String]) -> Vec<Value> {
    let names: Vec<String> = versions.iter().map(|it| format!("teapot.v{it}")).collect();
    let replaces = std::iter::once("").chain(names.iter().map(String::as_str));
    let entry = |(name, replaces)| json!({"name": name, "replaces": replaces});
    let entries = names.iter().zip(replaces).map(entry).collect();
    let mut blobs: Vec<Value> =
        versions.iter().zip(&names).map(|(it, name)| bundle(name, it)).collect();
    blobs.push(channel("stable", entries));
    blobs
}

fn versions(minors: u32, patches: u32) -> Vec<String> {
    let minors = 0..minors;
    minors.flat_map(|minor| (0..patches).map(move |patch| format!("1.{minor}.{patch}"))).collect()
}

#[test]
fn patch_versions_are_drawn_together() {
    let blobs = chain(&versions(3, 4));
    let question = Question { installed: Some("1.1.1"), ..Question::default() };
    assert_snapshot!(tree(&blobs, &question), @"
    teapot
      installed: teapot.v1.1.1
      next: teapot.v1.1.2, then teapot.v1.1.3, teapot.v1.2.0, teapot.v1.2.1, teapot.v1.2.2, teapot.v1.2.3

    channel stable
      ● 1.2.3  head
      ● 1.2.0 … 1.2.2
      │   3 versions
      ● 1.1.3
      ● 1.1.2  next
      ◉ 1.1.1  installed
      ○ 1.1.0
      ○ 1.0.0 … 1.0.3
         4 versions

    ○ bundle  ◉ installed  ● on the way of automatic updates
    ");
}

// plugin.md U28
#[test]
fn the_next_major_version_is_on_the_way_as_far_as_the_policy_goes() {
    let blobs = chain(&["1.0.0".to_owned(), "2.0.0".to_owned()]);
    let drawn = |minor_only| {
        let question = Question { minor_only, ..FROM_1_0_0 };
        tree(&blobs, &question)
    };
    let (held, way) = (drawn(true), drawn(false));
    assert!(held.contains("next: none") && held.contains("○ 2.0.0  head"), "{held}");
    assert!(way.contains("next: teapot.v2.0.0") && way.contains("● 2.0.0  next, head"), "{way}");
}

#[test]
fn a_long_channel_is_drawn_on_a_few_rows_and_whole_on_request() {
    let blobs = chain(&versions(20, 3));
    assert_snapshot!(tree(&blobs, &Question::default()), @"
    teapot
      installed: nothing
      next: teapot.v1.19.2

    channel stable
      ● 1.19.2  next, head
      ○ 1.0.0 … 1.19.1
         59 versions

    ○ bundle  ● on the way of automatic updates
    ");
    let all = Question { all: true, ..Question::default() };
    assert_eq!(tree(&blobs, &all).matches('○').count(), 60);
}

#[test]
fn versions_that_lead_to_the_same_are_drawn_together() {
    let mut blobs = bundles(&["1.0.0", "1.0.1", "1.0.2", "1.0.3"]);
    let skips = ["teapot.v1.0.0", "teapot.v1.0.1", "teapot.v1.0.2"];
    blobs.push(channel(
        "stable",
        json!([{"name": "teapot.v1.0.0"}, {"name": "teapot.v1.0.1"}, {"name": "teapot.v1.0.2"},
            {"name": "teapot.v1.0.3", "skips": skips}]),
    ));
    assert_snapshot!(tree(&blobs, &Question::default()), @"
    teapot
      installed: nothing
      next: teapot.v1.0.3

    channel stable
      ● 1.0.3  next, head  skips 1.0.0 … 1.0.2
      ○ 1.0.0 … 1.0.2  skipped
         3 versions

    ○ bundle  ● on the way of automatic updates
    ");
}

#[test]
fn a_range_leads_from_what_has_no_other_way() {
    let mut blobs = bundles(&["1.0.0", "1.1.0", "1.2.0", "1.3.0"]);
    blobs.push(channel(
        "stable",
        json!([{"name": "teapot.v1.0.0"}, {"name": "teapot.v1.1.0"},
            {"name": "teapot.v1.2.0", "skipRange": "<1.2.0", "replaces": "teapot.v1.1.0"},
            {"name": "teapot.v1.3.0", "skipRange": "<1.2.0", "replaces": "teapot.v1.2.0"}]),
    ));
    let chart = graph(&blobs, &Question::default()).draw(Format::Mermaid);
    let edges: Vec<&str> = chart.lines().map(str::trim).filter(|it| it.contains("-->")).collect();
    let want = [
        "c0n0 -->|\"skipRange#40;#60;1.2.0#41;\"| c0n3",
        "c0n1 -->|\"replaces\"| c0n2",
        "c0n2 -->|\"replaces\"| c0n3",
    ];
    assert_eq!(edges, want);
}

#[test]
fn two_heads_a_cycle_and_an_entry_that_replaces_itself_are_drawn() {
    let mut blobs = bundles(&["1.0.0", "1.1.0", "1.2.0", "1.3.0"]);
    blobs.push(channel(
        "stable",
        json!([{"name": "teapot.v1.0.0", "replaces": "teapot.v1.1.0"},
            {"name": "teapot.v1.1.0", "replaces": "teapot.v1.0.0"},
            {"name": "teapot.v1.2.0", "replaces": "teapot.v1.2.0"},
            {"name": "teapot.v1.3.0", "replaces": "teapot.v1.1.0"}]),
    ));
    let question = Question { classic: true, ..FROM_1_0_0 };
    assert_snapshot!(tree(&blobs, &question), @"
    teapot
      installed: teapot.v1.0.0
      next: teapot.v1.1.0, then teapot.v1.3.0

    channel stable
      OLM Classic: error: cycle
      ● 1.3.0  head
      │ ○ 1.2.0
      ● 1.1.0  next
      ◉ 1.0.0  installed  replaces 1.1.0

    ○ bundle  ◉ installed  ● on the way of automatic updates
    ");
}

#[test]
fn bundles_in_no_channel_have_a_place_of_their_own() {
    assert_snapshot!(tree(&bundles(&["1.0.0", "1.1.0"]), &Question::default()), @"
    teapot
      installed: nothing
      next: teapot.v1.1.0

    in no channel
      ● 1.1.0  next
      ○ 1.0.0

    ○ bundle  ● on the way of automatic updates
    ");
}

#[test]
fn bundles_of_one_version_are_told_apart() {
    let blobs = [bundle("teapot.v1.0.0", "1.0.0"), bundle("teapot.copy", "1.0.0")];
    let tree = tree(&blobs, &Question::default());
    assert!(tree.contains("teapot.copy") && tree.contains("teapot.v1.0.0"), "{tree}");
}

#[test]
fn a_package_or_a_channel_that_is_not_there_is_an_error() {
    let text =
        |blobs: &[Value], question: &Question| try_graph(blobs, question).unwrap_err().to_string();
    assert_snapshot!(text(&[], &FROM_1_0_0), @r#"package "teapot" is not in catalog "cupboard""#);
    let question = Question { channels: vec!["slow".to_owned()], ..FROM_1_0_0 };
    assert_snapshot!(text(&teapot(), &question), @r#"package "teapot" has no such channel; its channels: "candidate", "stable""#);
}

#[test]
fn only_the_requested_channels_are_drawn() {
    let question =
        Question { channels: vec!["candidate".to_owned(), "slow".to_owned()], ..FROM_1_0_0 };
    let tree = tree(&teapot(), &question);
    assert!(!tree.contains("channel stable"), "{tree}");
    assert!(tree.contains("channel candidate\n"), "{tree}");
}

#[test]
fn classic_is_shown_where_it_goes_elsewhere() {
    let mut blobs = bundles(&["1.0.0", "1.4.0", "1.5.0"]);
    blobs.push(json!({"schema": "olm.package", "name": "teapot", "defaultChannel": "stable"}));
    blobs.push(channel(
        "stable",
        json!([{"name": "teapot.v1.0.0"},
            {"name": "teapot.v1.5.0", "replaces": "teapot.v1.0.0"},
            {"name": "teapot.v1.4.0", "replaces": "teapot.v1.5.0",
             "skipRange": ">=1.0.0 <1.4.0"}]),
    ));
    let question = Question { classic: true, ..FROM_1_0_0 };
    assert_snapshot!(tree(&blobs, &question), @"
    teapot
      installed: teapot.v1.0.0
      next: teapot.v1.5.0

    channel stable
      default channel
      OLM Classic: teapot.v1.4.0 (DifferentTarget)
      ○ 1.4.0  head, Classic's next
      │   skipRange >=1.0.0 <1.4.0
      ● 1.5.0  next
      ◉ 1.0.0  installed

    ○ bundle  ◉ installed  ● on the way of automatic updates
    ");
    let svg = graph(&blobs, &question).draw(Format::Svg);
    assert!(svg.contains("class=\"edge classic\""), "{svg}");
}

/// Two thousand entries that each replace the one before, with a range over everything below.
fn two_thousand() -> Vec<Value> {
    let mut blobs = chain(&versions(100, 20));
    for entry in blobs.last_mut().unwrap()["entries"].as_array_mut().unwrap() {
        let version = entry["name"].as_str().unwrap().trim_start_matches("teapot.v").to_owned();
        entry["skipRange"] = format!("<{version}").into();
    }
    blobs
}

#[test]
fn two_thousand_entries_are_drawn_in_a_moment() {
    let all = Question { all: true, ..FROM_1_0_0 };
    // Without ranges, automatic updates go the whole way one by one.
    let chain = chain(&versions(100, 20));
    for (blobs, question) in
        [(two_thousand(), &FROM_1_0_0), (two_thousand(), &all), (chain, &FROM_1_0_0)]
    {
        let start = std::time::Instant::now();
        let graph = graph(&blobs, question);
        for format in FORMATS {
            assert!(!graph.draw(format).is_empty());
        }
        // Less than a second on an idle machine, even without optimization; work that grows with
        // the square of the entries would take minutes.
        assert!(start.elapsed() < std::time::Duration::from_secs(20), "{:?}", start.elapsed());
    }
}
