//! How long large pictures take.

use super::*;

/// Two thousand versions that each replace the one before, maybe with a range over everything below.
fn two_thousand(ranges: bool) -> Vec<Value> {
    let (mut before, mut entries, mut blobs) = (String::new(), Vec::new(), Vec::new());
    for version in (0..2000).map(|it| format!("1.{}.{}", it / 20, it % 20)) {
        let name = format!("teapot.v{version}");
        let range = if ranges { format!("<{version}") } else { String::new() };
        entries.push(json!({"name": name, "replaces": before, "skipRange": range}));
        blobs.push(bundle(&name, &version));
        before = name;
    }
    blobs.push(channel("stable", entries.into()));
    blobs
}

#[test]
fn two_thousand_entries_are_drawn_in_a_moment() {
    let all = Question { all: true, ..FROM_1_0_0 };
    // Without ranges, automatic updates go the whole way one by one.
    for (ranges, question) in [(true, &FROM_1_0_0), (true, &all), (false, &FROM_1_0_0)] {
        let blobs = two_thousand(ranges);
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
