//! Alerts, dashboard, runbooks and the table of metrics fit each other and the program (deploying.md
//! P62). What the expressions answer is tested by `make test-alerts`.

use std::collections::{BTreeMap, BTreeSet};

use olm_controller::telemetry::{Description, Metrics};
use olm_test::{documents, paths};
use serde_json::Value;

/// What Prometheus itself adds to each target.
const OF_PROMETHEUS: [&str; 1] = ["up"];

/// Returns everything that the program exports.
fn registered() -> Vec<Description> {
    let mut all = Metrics::default().described();
    all.sort();
    all
}

/// Returns the alerts of the rule.
fn alerts() -> Vec<Value> {
    let rule = paths::yaml("config/components/monitoring/prometheus_rule.yaml");
    let groups = rule["spec"]["groups"].as_array().unwrap().clone();
    let rules = groups.iter().filter_map(|group| group["rules"].as_array());
    rules.flatten().cloned().collect()
}

/// Returns the names of metrics in an expression: words that are neither labels, functions nor
/// keywords, and that stand outside of strings and braces.
fn metrics_of(expression: &str) -> BTreeSet<String> {
    const KEYWORDS: &str =
        "by without on ignoring and or unless group_left group_right bool offset inf";
    let mut found = BTreeSet::new();
    let mut rest = expression;
    // Labels in braces, durations in brackets and lists of labels are not metrics.
    let mut plain = String::new();
    let mut depth = 0;
    for character in rest.chars() {
        match character {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ if depth == 0 => plain.push(character),
            _ => {}
        }
    }
    for list in ["by (", "on (", "without (", "ignoring ("] {
        while let Some(at) = plain.find(list) {
            let end = at + plain[at..].find(')').expect("a list ends");
            plain.replace_range(at..=end, " ");
        }
    }
    rest = &plain;
    while let Some(at) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '_') {
        let tail = &rest[at..];
        let end = tail.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(tail.len());
        let word = &tail[..end];
        let is_call = tail[end..].trim_start().starts_with('(');
        if !is_call && KEYWORDS.split(' ').all(|it| it != word) {
            found.insert(word.to_owned());
        }
        rest = &tail[end..];
    }
    found
}

/// Asserts that every metric of an expression is exported.
fn assert_exported(place: &str, expression: &str) {
    let registered = registered();
    let names = metrics_of(expression);
    assert!(!names.is_empty(), "{place}: {expression}");
    for name in names {
        let series = |known: &Description| {
            let parts = ["_bucket", "_count", "_sum"];
            known.name == name
                || (known.kind == "histogram"
                    && parts.iter().any(|part| format!("{}{part}", known.name) == name))
        };
        let known = registered.iter().any(series) || OF_PROMETHEUS.contains(&name.as_str());
        assert!(known, "{place}: nothing exports {name}");
    }
}

#[test]
fn metrics_are_found_in_expressions() {
    let names = |expression| metrics_of(expression).into_iter().collect::<Vec<_>>();
    assert_eq!(names(r#"absent(up{job="olm"} == 1)"#), ["up"]);
    assert_eq!(
        names("sum by (le, name) (rate(a_total{b=\"c\"}[5m])) / max(d) > 0.5 unless on (name) e"),
        ["a_total", "d", "e"]
    );
    assert_eq!(names("time() - f > 1800"), ["f"]);
}

// deploying.md P62
#[test]
fn every_alert_says_what_it_means_and_has_its_page() {
    let alerts = alerts();
    let mut pages = BTreeSet::new();
    for alert in &alerts {
        let name = alert["alert"].as_str().unwrap();
        let severity = alert["labels"]["severity"].as_str().unwrap_or_default();
        assert!(["critical", "warning", "info"].contains(&severity), "{name}");
        for key in ["summary", "description"] {
            let text = alert["annotations"][key].as_str().unwrap_or_default();
            assert!(text.ends_with('.') && !text.contains('\n'), "{name}: {key}");
        }
        let page = format!("docs/runbooks/{name}.md");
        assert_eq!(alert["annotations"]["runbook_url"], page.as_str());
        let text = documents::read(&page);
        assert!(text.starts_with(&format!("# {name}\n")), "{page}");
        let mut at = 0;
        for part in ["## Meaning", "## Impact", "## Diagnosis", "## Remedy"] {
            let found = text[at..].find(&format!("\n{part}\n"));
            at += found.unwrap_or_else(|| panic!("{page} has no {part} in its place"));
        }
        assert!(text.contains("```console\n"), "{page} has no command");
        // A certificate is read by another program.
        let short = !text.contains("jsonpath") || name == "OLMServingCertificateExpiring";
        assert!(short, "{page} has a command that nobody types");
        pages.insert(format!("{name}.md"));
    }
    assert_eq!(alerts.len(), 17);
    let files = paths::inside(&paths::repository().join("docs/runbooks")).into_iter();
    let files = files.map(|file| file.file_name().unwrap().display().to_string());
    let files: BTreeSet<_> = files.filter(|name| name != "README.md").collect();
    assert_eq!(files, pages);
}

// deploying.md P62
#[test]
fn every_alert_asks_for_metrics_there_are() {
    for alert in alerts() {
        let expression = alert["expr"].as_str().unwrap();
        assert_exported(alert["alert"].as_str().unwrap(), expression);
    }
}

// deploying.md P62
#[test]
fn every_alert_is_tested_with_samples() {
    let tests = paths::yaml("test/alerts/alerts.yaml");
    let tests = tests["tests"].as_array().unwrap();
    let cases = tests.iter().filter_map(|test| test["alert_rule_test"].as_array());
    let mut raised: BTreeMap<String, [bool; 2]> = BTreeMap::new();
    for case in cases.flatten() {
        let name = case["alertname"].as_str().unwrap().to_owned();
        let quiet = case["exp_alerts"].as_array().is_none_or(Vec::is_empty);
        raised.entry(name).or_default()[usize::from(quiet)] = true;
    }
    // The CA of a serving certificate is a test of its own, without a time at which all is quiet.
    for alert in alerts() {
        let name = alert["alert"].as_str().unwrap();
        assert_eq!(raised.get(name), Some(&[true, true]), "{name}");
    }
    assert_eq!(raised.len(), alerts().len());
}

// deploying.md P62
#[test]
fn the_dashboard_asks_for_metrics_there_are() {
    let dashboard: Value =
        serde_json::from_str(&documents::read("config/components/monitoring/dashboard.json"))
            .unwrap();
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 39);
    assert_eq!(dashboard["templating"]["list"][0]["type"], "datasource");
    let panels = dashboard["panels"].as_array().unwrap();
    let mut asked = 0;
    let mut ids = BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        for target in panel["targets"].as_array().into_iter().flatten() {
            let source = &target["datasource"]["uid"];
            assert_eq!(source, "${datasource}", "{title}");
            assert_exported(title, target["expr"].as_str().unwrap());
            asked += 1;
        }
    }
    assert!(asked > 20, "{asked}");
}

/// Returns the rows of the tables of metrics.
fn documented() -> Vec<Description> {
    let text = documents::read("docs/metrics.md");
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, _labels, kind, help] = cells[..] else { return None };
        let name = name.strip_prefix('`')?.strip_suffix('`')?;
        Some(Description { name: name.to_owned(), kind: kind.to_owned(), help: help.to_owned() })
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    rows
}

// deploying.md 9.1
#[test]
fn the_table_of_metrics_is_what_the_program_says() {
    let (documented, registered) = (documented(), registered());
    for row in &documented {
        assert!(registered.contains(row), "nothing registers {row:?}");
    }
    for known in &registered {
        assert!(documented.contains(known), "docs/metrics.md lacks {known:?}");
    }
    assert_eq!(documented.len(), registered.len());
}
