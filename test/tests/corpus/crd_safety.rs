//! Upgrades of real CRDs between consecutive versions of public bundles, and what upstream says of
//! them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use olm_core::crd_safety::{Definition, Finding, Rules, compare, error_text};
use olm_test::prelude::*;

struct Pair {
    file: String,
    old: Definition,
    new: Definition,
    error: String,
}

fn pairs() -> Vec<Pair> {
    let pairs = crate::packed("crd-safety").map(|(file, case)| {
        let error = case["error"].as_str().unwrap_or_default().to_owned();
        assert_eq!(case["ok"], error.is_empty(), "{file}");
        let (old, new) = (Definition::of(&case["old"]), Definition::of(&case["new"]));
        Pair { file, old, new, error }
    });
    pairs.collect()
}

/// Returns the lines of a verdict as the README of the vectors compares them: as a set, without the
/// details of what nothing handles; the names of required fields are a set, too.
fn lines(error: &str) -> BTreeSet<String> {
    let lines = error.lines().map(|line| {
        let (line, _) = line.split_once("unhandled changes found").unwrap_or((line, ""));
        let (head, fields) =
            line.split_once("required: new required fields: [").unwrap_or((line, ""));
        let mut fields: Vec<_> = fields.trim_end_matches(']').split(' ').collect();
        fields.sort_unstable();
        // The CRD is named in front of whichever line comes first.
        let head = head
            .strip_prefix("validating upgrade for CRD ")
            .map_or(head, |rest| rest.split_once(": ").unwrap().1);
        format!("{head}{}", fields.join(" "))
    });
    lines.collect()
}

// applying.md g1
#[test]
fn verdicts_with_upstreams_rules_are_upstreams() {
    let mut failures = Vec::new();
    let pairs = pairs();
    for pair in &pairs {
        let findings = compare(&pair.old, &pair.new, Rules::Upstream);
        let ours = error_text(&pair.new.name, &findings, usize::MAX).unwrap_or_default();
        let (ours, theirs) = (lines(&ours), lines(&pair.error));
        if ours != theirs {
            let only = |a: &BTreeSet<String>, b| a.difference(b).cloned().collect::<Vec<_>>();
            failures.push(format!(
                "{}\n  ours alone: {:?}\n  theirs alone: {:?}",
                pair.file,
                only(&ours, &theirs),
                only(&theirs, &ours)
            ));
        }
    }
    println!("{} of {} verdicts equal", pairs.len() - failures.len(), pairs.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(pairs.len(), 189);
}

// applying.md 6.4
#[test]
fn without_them_only_loosenings_pass_in_addition() {
    let loosenings: Vec<(String, String)> = paths::rows("test/tests/corpus/loosenings.yaml");
    let mut passing = BTreeMap::new();
    for pair in &pairs() {
        let strict = compare(&pair.old, &pair.new, Rules::Upstream);
        if strict.is_empty() || !compare(&pair.old, &pair.new, Rules::Loosenings).is_empty() {
            continue;
        }
        let reasons = strict.iter().map(Finding::to_string).map(|line| {
            let known = loosenings.iter().find(|(text, _)| line.contains(text));
            let (_, reason) = known.unwrap_or_else(|| panic!("{}: {line} passes", pair.file));
            reason
        });
        passing.insert(pair.file.clone(), reasons.collect::<BTreeSet<_>>());
    }
    for (text, reason) in &loosenings {
        let files = passing.iter().filter(|(_, reasons)| reasons.contains(reason));
        let files: Vec<_> = files.map(|(file, _)| file.as_str()).collect();
        println!("{} pairs with {text}: {reason}\n  {}", files.len(), files.join("\n  "));
    }
    assert_eq!(passing.len(), 27);
}
