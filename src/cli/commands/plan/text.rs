//! A plan for people.

use std::io::{self, Write};

use olm_core::plan::{Action, CrdVerdict, Difference, Plan};
use serde_json::Value;

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
    let from = plan.from.as_ref().map_or("nothing", |from| &from.version);
    write!(
        out,
        "{}: {} {from} -> {}",
        plan.extension, plan.to.bundle, plan.to.version
    )?;
    if plan.forced {
        write!(out, " (no edge of the catalog leads there)")?;
    }
    if let Some(catalog) = &plan.catalog {
        write!(out, ", catalog {catalog}")?;
    }
    writeln!(out, ", plan {}", short(&plan.digest))?;
    let count = |action: Action| {
        let objects = plan.objects.iter();
        objects.filter(|object| object.action == action).count()
    };
    let counts = format!(
        "+{} ~{} -{}",
        count(Action::Create),
        count(Action::Change),
        count(Action::Delete)
    );
    row(out, "objects", &counts)?;
    for crd in &plan.crds {
        let waived = crd.waived.iter().map(|text| format!("{text} (let pass)"));
        let lines = crd.findings.iter().cloned().chain(waived);
        rows(
            out,
            "crds",
            lines.map(|text| format!("{}: {text}", crd.name)),
        )?;
    }
    let lacks = plan.account.missing.iter();
    rows(out, "account", lacks.map(|rule| format!("lacks {rule}")))?;
    difference(out, "operator", &plan.operator)?;
    difference(out, "webhooks", &plan.webhooks)?;
    difference(out, "images", &plan.images)?;
    if plan.gate.from != plan.gate.to {
        let text = |version: &Option<String>| match version {
            Some(version) => format!("up to {version}"),
            None => "any version".to_owned(),
        };
        let (from, to) = (text(&plan.gate.from), text(&plan.gate.to));
        row(
            out,
            "cluster",
            &format!("supports OpenShift {to} (was: {from})"),
        )?;
    }
    way_back(plan, out)?;
    for unknown in &plan.unknown {
        row(out, unknown.what, &format!("not known: {}", unknown.why))?;
    }
    if !plan.held_by.is_empty() {
        let held: Vec<_> = plan.held_by.iter().copied().collect();
        row(out, "held by", &held.join(", "))?;
    }
    Ok(())
}

fn way_back(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let findings = |crd: &CrdVerdict| {
        let name = crd.name.clone();
        let findings = crd.findings.clone().into_iter();
        findings.map(move |text| format!("{name}: {text}"))
    };
    if plan.from.is_some() && plan.rollback.is_empty() {
        return row(out, "rollback", "possible: no CRD stands in the way");
    }
    rows(out, "rollback", plan.rollback.iter().flat_map(findings))
}

fn difference(out: &mut dyn Write, label: &str, of: &Difference) -> io::Result<()> {
    let added = of.added.iter().map(|text| format!("+ {text}"));
    let removed = of.removed.iter().map(|text| format!("- {text}"));
    rows(out, label, added.chain(removed))
}

fn rows(out: &mut dyn Write, label: &str, lines: impl Iterator<Item = String>) -> io::Result<()> {
    let mut left = 0_usize;
    for (index, line) in lines.enumerate() {
        if index < LINES {
            row(out, if index == 0 { label } else { "" }, &line)?;
        } else {
            left += 1;
        }
    }
    if left > 0 {
        row(
            out,
            "",
            &format!("and {left} more, all of them with -o yaml"),
        )?;
    }
    Ok(())
}

fn row(out: &mut dyn Write, label: &str, text: &str) -> io::Result<()> {
    let text = text.replace('\n', "\n            ");
    writeln!(out, "  {label:<9} {text}")
}

/// Writes each field that changes.
pub(super) fn write_fields(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    for object in &plan.objects {
        let word = match object.action {
            Action::Create => "+",
            Action::Change => "~",
            Action::Delete => "-",
        };
        let place = match object.namespace.as_str() {
            "" => object.name.clone(),
            namespace => format!("{namespace}/{}", object.name),
        };
        writeln!(out, "{word} {} {} {place}", object.api_version, object.kind)?;
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
