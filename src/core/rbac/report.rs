//! The report of missing rights, in upstream's layout.
//!
//! Tools cut the rule lines out of conditions and compare them, so every byte matters.

use std::fmt::Write as _;

use crate::error::quote;

use super::permission::Permissions;
use super::rule::PolicyRule;

/// First line of the report, before the lines of the rules.
pub const REPORT_HEAD: &str = "pre-authorization failed: service account requires the following \
                               permissions to manage cluster extension:";

/// Returns the whole report, or `None` when no right is missing.
///
/// `evaluation_error` says why the evaluation is incomplete; it follows on a line of its own, and
/// is reported even when no right is known to be missing.
///
/// Source: applying.md 5.2.
pub fn report(missing: &Permissions, evaluation_error: Option<&str>) -> Option<String> {
    if missing.is_empty() && evaluation_error.is_none() {
        return None;
    }
    let mut text = REPORT_HEAD.to_owned();
    for line in lines(missing) {
        text.push_str("\n  ");
        text.push_str(&line);
    }
    if let Some(error) = evaluation_error {
        let _ = write!(text, "\nauthorization evaluation error: {error}");
    }
    Some(text)
}

/// Returns one line per rule, sorted by their text.
///
/// Example: `Namespace:"ns1" APIGroups:[] Resources:[services] ResourceNames:[a] Verbs:[get]`.
pub fn lines(rights: &Permissions) -> Vec<String> {
    let mut lines: Vec<String> = rights
        .namespaces()
        .flat_map(|namespace| {
            let rules = rights.rules(namespace);
            rules.into_iter().map(move |rule| line(namespace, &rule))
        })
        .collect();
    lines.sort();
    lines
}

fn line(namespace: &str, rule: &PolicyRule) -> String {
    let mut line = format!("Namespace:{}", quote(namespace));
    let parts = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
        ("NonResourceURLs", &rule.non_resource_urls),
    ];
    for (name, list) in parts.into_iter().filter(|(_, list)| !list.is_empty()) {
        let _ = write!(line, " {name}:[{}]", list.join(","));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rbac::Permission;

    // applying.md f7: core group, a path, two namespaces.
    #[test]
    fn report_has_upstreams_layout() {
        let mut missing = Permissions::default();
        for verb in ["update", "patch", "get", "delete"] {
            let right = Permission::on(verb, "", "services", Some("nginx-ok-v3283"));
            missing.insert("ns-81538", right);
        }
        let crds = "customresourcedefinitions";
        missing.insert(
            "",
            Permission::on("create", "apiextensions.k8s.io", crds, None),
        );
        missing.insert_rule(
            "",
            &PolicyRule {
                verbs: vec!["get".into()],
                non_resource_urls: vec!["/metrics".into()],
                ..PolicyRule::default()
            },
        );
        let want = "pre-authorization failed: service account requires the following permissions \
                    to manage cluster extension:\n\
                    \x20 Namespace:\"\" APIGroups:[apiextensions.k8s.io] \
                    Resources:[customresourcedefinitions] Verbs:[create]\n\
                    \x20 Namespace:\"\" Verbs:[get] NonResourceURLs:[/metrics]\n\
                    \x20 Namespace:\"ns-81538\" APIGroups:[] Resources:[services] \
                    ResourceNames:[nginx-ok-v3283] Verbs:[delete,get,patch,update]";
        assert_eq!(report(&missing, None).as_deref(), Some(want));
        assert_eq!(
            report(&missing, Some("role \"x\" not found")),
            Some(format!(
                "{want}\nauthorization evaluation error: role \"x\" not found"
            ))
        );
    }

    #[test]
    fn nothing_missing_is_no_report() {
        assert_eq!(report(&Permissions::default(), None), None);
    }
}
