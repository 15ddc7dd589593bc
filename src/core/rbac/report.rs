//! The report of missing rights, in upstream's layout.
//!
//! Tools cut the rule lines out of conditions and compare them, so every byte matters.

use std::fmt::Write as _;

use itertools::Itertools as _;

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
/// themselves they are not a report: the API server decides then.
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

/// Returns rights for people, a rule a line: `get, list pods in namespace ns1`. As many whole lines as
/// fit into `limit` bytes; the rest is counted in the last.
pub fn readable(rights: &Permissions, limit: usize) -> Vec<String> {
    let (mut lines, mut left, mut more) = (Vec::new(), limit, 0_usize);
    for line in each_rule(rights, sentence) {
        if more > 0 || line.len() >= left {
            more += 1;
        } else {
            left -= line.len() + 1;
            lines.push(line);
        }
    }
    lines.extend((more > 0).then(|| format!("and {more} more")));
    lines
}

fn sentence(namespace: &str, rule: &PolicyRule) -> String {
    let mut kinds = Vec::new();
    for resource in &rule.resources {
        kinds.extend(rule.api_groups.iter().map(|group| match group.as_str() {
            "" => resource.clone(),
            group => format!("{resource}.{group}"),
        }));
    }
    kinds.extend(rule.non_resource_urls.iter().cloned());
    let mut text = format!("{} {}", rule.verbs.join(", "), kinds.join(", "));
    if !rule.resource_names.is_empty() {
        let _ = write!(text, " named {}", rule.resource_names.join(", "));
    }
    if !namespace.is_empty() {
        let _ = write!(text, " in namespace {namespace}");
    }
    text
}

/// Returns one line per rule, sorted by their text.
///
/// Example: `Namespace:"ns1" APIGroups:[] Resources:[services] ResourceNames:[a] Verbs:[get]`.
pub fn lines(rights: &Permissions) -> Vec<String> {
    each_rule(rights, line).sorted().collect()
}

fn each_rule(
    rights: &Permissions,
    text: fn(&str, &PolicyRule) -> String,
) -> impl Iterator<Item = String> {
    rights
        .namespaces()
        .flat_map(move |place| rights.rules(place).into_iter().map(move |rule| text(place, &rule)))
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
    fn rules_are_sentences_and_those_that_do_not_fit_are_counted() {
        let mut missing = Permissions::default();
        for verb in ["get", "list"] {
            missing.insert("", Permission::on(verb, "apps", "deployments", None));
        }
        for name in ["a", "b"] {
            missing.insert("ns1", Permission::on("get", "", "secrets", Some(name)));
        }
        let all = readable(&missing, 1000);
        let cluster = "get, list deployments.apps";
        assert_eq!(all.first().map(String::as_str), Some(cluster));
        let names = all[1..].join(" ");
        assert!(names.contains("secrets named a") && names.contains("in namespace ns1"), "{all:?}");
        let cut = readable(&missing, cluster.len() + 1);
        assert_eq!(cut, [cluster.to_owned(), format!("and {} more", all.len() - 1)]);
    }

    #[test]
    fn nothing_missing_is_no_report() {
        let error = "cannot be read".to_owned();
        assert_eq!(report(&Permissions::default(), [&error]), None);
    }
}
