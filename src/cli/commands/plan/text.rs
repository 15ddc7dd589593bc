//! A plan for people.

use std::io;

use olm_core::plan::{Action, CrdVerdict, Difference, ObjectChange, Plan};

use crate::commands::prelude::*;

/// Digits of a digest that are shown.
const DIGITS: usize = 12;
/// Lines of a member that are shown.
const LINES: usize = 10;

/// Returns the digest as people write it.
pub(crate) fn short(digest: &str) -> &str {
    let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
    hex.get(..DIGITS).unwrap_or(hex)
}

/// Writes what changes and what holds it.
pub(crate) fn write(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}: {}", plan.extension, headline(plan))?;
    for (label, lines) in rows(plan) {
        for (index, line) in lines.iter().take(LINES).enumerate() {
            row(out, if index == 0 { label } else { "" }, line)?;
        }
        if let left @ 1.. = lines.len().saturating_sub(LINES) {
            row(out, "", &format!("and {left} more, all of them with -o yaml"))?;
        }
    }
    Ok(())
}

fn row(out: &mut dyn Write, label: &str, text: &str) -> io::Result<()> {
    let text = text.replace('\n', "\n            ");
    writeln!(out, "  {label:<9} {text}")
}

/// Returns the plan for pages: its document, and the same in words.
pub(crate) fn page(plan: &Plan) -> Value {
    json!({"plan": plan, "headline": headline(plan), "rows": rows(plan)})
}

/// Returns the present and the next version.
fn headline(plan: &Plan) -> String {
    let from = plan.from.as_ref().map_or("nothing", |from| &from.version);
    let forced = if plan.forced { " (no edge of the catalog leads there)" } else { "" };
    let catalog = plan.catalog.as_ref();
    let catalog = catalog.map_or_else(String::new, |it| format!(", catalog {it}"));
    let (bundle, version) = (&plan.to.bundle, &plan.to.version);
    let digits = short(&plan.digest);
    format!("{bundle} {from} -> {version}{forced}{catalog}, plan {digits}")
}

/// Returns the changes and the holds, as lines with labels.
fn rows(plan: &Plan) -> Vec<(&'static str, Vec<String>)> {
    let count =
        |action: Action| plan.objects.iter().filter(|object| object.action == action).count();
    let counts =
        format!("+{} ~{} -{}", count(Action::Create), count(Action::Change), count(Action::Delete));
    let lacks = plan.account.missing.iter();
    let lacks = lacks.map(|rule| format!("lacks {rule}")).collect();
    let immutable = plan.objects.iter().filter_map(|object| {
        Some(format!("{} {}: {}", object.kind, place(object), object.immutable.as_ref()?))
    });
    let taken = plan.objects.iter().filter_map(|object| {
        Some(format!("{} {} {}", object.kind, place(object), object.taken.as_ref()?))
    });
    let mut rows = vec![
        ("objects", vec![counts]),
        ("taken", taken.collect()),
        ("immutable", immutable.collect()),
    ];
    rows.extend(plan.crds.iter().map(|crd| ("crds", verdict(crd))));
    rows.extend([
        ("account", lacks),
        ("operator", difference(&plan.operator)),
        ("webhooks", difference(&plan.webhooks)),
        ("images", difference(&plan.images)),
    ]);
    if plan.gate.from != plan.gate.to {
        let text = |version: &Option<String>| match version {
            Some(version) => format!("up to {version}"),
            None => "any version".to_owned(),
        };
        let (from, to) = (text(&plan.gate.from), text(&plan.gate.to));
        rows.push(("cluster", vec![format!("supports OpenShift {to} (was: {from})")]));
    }
    let may_come = plan.from.is_some() && !plan.held_by.contains("crds");
    let back = if may_come && plan.rollback.is_empty() {
        vec!["possible afterwards: no CRD prevents it".to_owned()]
    } else {
        plan.rollback.iter().flat_map(verdict).collect()
    };
    rows.push(("rollback", back));
    rows.extend(plan.unknown.iter().map(|it| (it.label(), vec![format!("not known: {}", it.why)])));
    if let Some(said) = &plan.controller {
        let mut lines = vec![format!("{}: {}", said.reason, said.message)];
        lines.extend(said.differs.as_ref().map(ToString::to_string));
        rows.push(("status", lines));
    }
    if !plan.held_by.is_empty() {
        let held: Vec<_> = plan.held_by.iter().copied().collect();
        rows.push(("held by", vec![held.join(", ")]));
    }
    rows.retain(|(_, lines)| !lines.is_empty());
    rows
}

fn verdict(crd: &CrdVerdict) -> Vec<String> {
    let waived = crd.waived.iter().map(|text| format!("{text} (allowed)"));
    crd.findings.iter().cloned().chain(waived).map(|text| format!("{}: {text}", crd.name)).collect()
}

fn difference(of: &Difference) -> Vec<String> {
    let added = of.added.iter().map(|text| format!("+ {text}"));
    let removed = of.removed.iter().map(|text| format!("- {text}"));
    added.chain(removed).collect()
}

fn place(object: &ObjectChange) -> String {
    match object.namespace.as_str() {
        "" => object.name.clone(),
        namespace => format!("{namespace}/{}", object.name),
    }
}

pub(super) fn write_fields(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    for object in &plan.objects {
        let word = match object.action {
            Action::Create => "+",
            Action::Change => "~",
            Action::Delete => "-",
        };
        let (version, kind) = (&object.api_version, &object.kind);
        writeln!(out, "{word} {version} {kind} {}", place(object))?;
        for field in &object.fields {
            writeln!(out, "    {}", field.path)?;
            for (sign, value) in [("-", &field.from), ("+", &field.to)] {
                if *value != Value::Null {
                    writeln!(out, "    {sign}   {value}")?;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use olm_api::UpdateStatus;
    use olm_api::conditions::Reason;
    use olm_core::crd_safety::Rules;
    use olm_core::extension::holds::Judgement;
    use olm_core::extension::{Course, Policy, RevisionSource, ValidExtension, desired};
    use olm_core::plan::{Before, Proposed};
    use olm_core::resolve::UpdatePolicy;
    use olm_core::revision::{Account, BundleRecord, Change, phases};

    use super::*;
    use crate::web;

    fn record(version: &str) -> BundleRecord {
        BundleRecord {
            name: format!("kettle.v{version}"),
            package: "kettle".to_owned(),
            version: version.to_owned(),
            release: None,
            image: format!("r/kettle:{version}"),
            constraints: None,
        }
    }

    /// Objects of a bundle whose author is not a friend.
    fn objects(version: u8) -> Vec<Object> {
        let all = [
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "ns"},
                "stringData": {"token": format!("hidden-{version}")}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "c", "namespace": "ns"},
                "data": {"</pre><script>": format!("<img src=x onerror=alert({version})>\u{202e}")}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("only-{version}"), "namespace": "ns"}}),
            json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "d", "namespace": "ns"}, "spec": {"template": {"spec":
                    {"containers": [{"name": "c", "image": format!("r/<b>:{version}")}]}}}}),
        ];
        all.into_iter().filter_map(Object::from_value).collect()
    }

    fn plan() -> Plan {
        let extension: ClusterExtension = serde_json::from_value(json!({
            "metadata": {"name": "kettle"}, "spec": {"namespace": "ns",
                "source": {"sourceType": "Catalog", "catalog": {"packageName": "kettle"}}},
        }))
        .unwrap();
        let extension = ValidExtension::of(&extension).unwrap();
        let account = Account { namespace: "ns".to_owned(), name: "sa".to_owned() };
        let (before, after) = (record("1.0.0"), record("2.0.0"));
        let source = RevisionSource {
            bundle: &after,
            digest: "sha256:b",
            properties: None,
            phases: &phases(objects(2)).unwrap(),
        };
        Plan::of(&Proposed {
            extension,
            policy: &Policy::of(&[].into(), UpdatePolicy::MinorOnly).unwrap(),
            course: &Course {
                target: after.clone(),
                catalog: Some("acme".to_owned()),
                forced: true,
                held: Some(UpdateStatus {
                    reason: Reason::NextMajorHeld.to_string(),
                    ..UpdateStatus::default()
                }),
            },
            before: Some(Before { bundle: before, properties: None, objects: objects(1) }),
            desired: &desired(extension, &account, source),
            change: Change::Upgrade,
            account: &account,
            rights: Ok(Judgement::default()),
            enforced: true,
            crds: Err("forbidden".to_owned()),
            requires_approval: Ok(false),
            rules: Rules::Loosenings,
            now: "2026-12-31T12:00:00Z".parse().unwrap(),
            operator: Ok(None),
            reverted: None,
            images: None,
        })
    }

    #[test]
    fn what_prevents_a_step_is_named() {
        let mut plan = plan();
        plan.held_by.insert("crds");
        plan.note_taken(&objects(2)[2], "belongs to ConfigMap x".to_owned());
        let rows = rows(&plan);
        assert!(rows.iter().all(|(label, _)| *label != "rollback"), "{rows:?}");
        let taken = vec!["ConfigMap ns/only-2 belongs to ConfigMap x".to_owned()];
        assert!(rows.contains(&("taken", taken)), "{rows:?}");
        assert!(rows.contains(&("held by", vec!["crds, objects, policy".to_owned()])), "{rows:?}");
    }

    // plugin.md U12, U36
    #[test]
    fn a_plan_says_the_same_as_text_and_as_a_page() {
        let mut out = Vec::new();
        write(&plan(), &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
        let page = web::plan(page(&plan())).unwrap();
        assert!(page.contains("content=\"default-src 'none'; style-src 'unsafe-inline'\""));
        for never in [
            "<script", "<img", "src=\"", "href=\"", "://", "url(", "@import", "hidden-", "\u{202e}",
        ] {
            assert!(!page.contains(never), "{never}");
        }
        insta::assert_snapshot!("page", page.split_once("<body>").unwrap().1);
    }
}
