//! The report of missing rights, in upstream's layout.
//!
//! Tools cut the rule lines out of conditions and compare them, so every byte matters.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::error::quote;

use super::permission::Permissions;
use super::rule::PolicyRule;

/// First line of the report, before the lines of the rules.
pub const REPORT_HEAD: &str = "pre-authorization failed: service account requires the following \
                               permissions to manage cluster extension:";

const INCOMPLETE: &str = "authorization evaluation error: missing rules may be incomplete: ";

/// Returns the whole report, or `None` when no right is missing.
///
/// `errors` say why the evaluation may be incomplete; they follow on a line of their own. By
/// themselves they are no report: the API server decides then.
///
/// Source: applying.md 5.2.
pub fn report<'a>(
    missing: &Permissions,
    errors: impl IntoIterator<Item = &'a String>,
) -> Option<String> {
    if missing.is_empty() {
        return None;
    }
    let mut text = REPORT_HEAD.to_owned();
    for line in lines(missing) {
        text.push_str("\n  ");
        text.push_str(&line);
    }
    let errors: Vec<_> = errors.into_iter().map(String::as_str).collect();
    if !errors.is_empty() {
        let _ = write!(text, "\n{INCOMPLETE}{}", errors.join("; "));
    }
    Some(text)
}

/// Returns rules as a JSON list: of each namespace (empty: cluster-wide) the rules as a role has
/// them. As many whole rules as fit into `limit` bytes; the rest is counted in `more`.
pub fn structured(rights: &Permissions, limit: usize) -> Value {
    let mut places: Vec<Value> = Vec::new();
    let mut left = limit;
    let mut more = 0_usize;
    for namespace in rights.namespaces() {
        let mut taken = Vec::new();
        for rule in rights.rules(namespace) {
            let rule = rule.to_value();
            let bytes = rule.to_string().len() + 1;
            if more > 0 || bytes > left {
                more += 1;
            } else {
                left -= bytes;
                taken.push(rule);
            }
        }
        if !taken.is_empty() {
            places.push(json!({"namespace": namespace, "rules": taken}));
        }
    }
    let mut all = json!({"missing": places});
    if more > 0 {
        all["more"] = json!(more);
    }
    all
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
        missing.insert("", Permission::on("create", "apiextensions.k8s.io", crds, None));
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
        assert_eq!(report(&missing, []).as_deref(), Some(want));
        assert_eq!(
            report(&missing, [&"role \"x\" not found".to_owned()]),
            Some(format!(
                "{want}\nauthorization evaluation error: missing rules may be incomplete: role \
                 \"x\" not found"
            ))
        );
    }

    #[test]
    fn rules_that_do_not_fit_are_counted() {
        let mut missing = Permissions::default();
        for name in ["a", "b", "c"] {
            missing.insert("ns1", Permission::on("get", "", name, Some(name)));
        }
        let rule = |name: &str| {
            json!({"apiGroups": [""], "resources": [name],
            "resourceNames": [name], "verbs": ["get"]})
        };
        let whole = structured(&missing, 1000);
        let rules = json!([rule("a"), rule("b"), rule("c")]);
        assert_eq!(whole, json!({"missing": [{"namespace": "ns1", "rules": rules}]}));
        let cut = structured(&missing, 100);
        let rules = json!([rule("a")]);
        assert_eq!(cut, json!({"missing": [{"namespace": "ns1", "rules": rules}], "more": 2}));
    }

    #[test]
    fn nothing_missing_is_no_report() {
        let error = "cannot be read".to_owned();
        assert_eq!(report(&Permissions::default(), [&error]), None);
    }
}
