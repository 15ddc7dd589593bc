//! A report as text: the answer, the requested version, the bundles, the catalogs, and what can be
//! done.

use std::fmt::Write as _;

use olm_core::explain::{
    BundleReport, BundleVerdict, CatalogSummary, Finding, Report, Stage, Target, TargetBundle,
};

use crate::commands::prelude::*;
use crate::output::folded;

/// The most consecutive bundles with the same reasons that are shown without `--all`.
const SHORT: usize = 3;
/// The most channels of a bundle that are shown.
const MAX_CHANNELS: usize = 3;
/// Width of the labels of the answer.
const LABEL: usize = 11;

/// Adds a line; where it is broken, what follows begins below column `hang`.
fn say(text: &mut String, hang: usize, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}", folded(line, hang));
}

fn answer_line(text: &mut String, key: &str, value: &str) {
    for (number, line) in value.lines().enumerate() {
        let label = if number == 0 { format!("{key}:") } else { String::new() };
        say(text, LABEL, &format!("{label:<LABEL$}{line}"));
    }
}

/// Writes a report; with every bundle, or only the relevant ones when there are many.
pub(super) fn render(report: &Report<'_>, all: bool) -> anyhow::Result<String> {
    let mut sections = vec![answer(report)];
    if let Some(target) = &report.target {
        sections.push(of_target(report, target));
    }
    if !report.bundles.is_empty() {
        sections.push(bundles(report, all)?);
    }
    let apart = |catalog: &CatalogSummary<'_>| !catalog.consulted || catalog.used_anyway;
    if report.catalogs.len() > 1 || report.catalogs.iter().any(apart) {
        sections.push(catalogs(report)?);
    }
    sections.extend(hints(report));
    Ok(sections.join("\n"))
}

/// Returns the request and how it ended.
fn answer(report: &Report<'_>) -> String {
    let request = &report.request;
    let mut text = String::new();
    let mut lines = vec![("Package", request.package.to_owned())];
    if let Some(installed) = request.installed {
        let (name, version) = (&installed.name, &installed.version);
        lines.push(("Installed", format!("{name} (version {version})")));
    }
    lines.push(("Requested", asked(report)));
    lines.push(("Answer", answered(report)));
    if let Some(message) = &report.message {
        lines.push(("Message", message.clone()));
    }
    if let Some(headline) = report.headline() {
        lines.push(("Reason", format!("{}: {}", headline.code, headline.text)));
    }
    for hold in &report.holds {
        lines.push(("Held by", format!("{}: {}", hold.code, hold.text)));
    }
    if let Some(said) = &report.controller {
        lines.push(("Status", format!("{}: {}", said.reason, said.message)));
    }
    for (key, value) in lines {
        answer_line(&mut text, key, &value);
    }
    if let Some(differs) = report.controller.as_ref().and_then(|said| said.differs.as_ref()) {
        say(&mut text, 0, &differs.to_string());
    }
    for warning in report.selected.iter().flat_map(|it| &it.warnings) {
        answer_line(&mut text, "Warning", &format!("it {}", warning.finding));
    }
    text
}

/// Returns the section about one version.
fn of_target(report: &Report<'_>, target: &Target<'_>) -> String {
    let mut text = String::new();
    let version = target.version;
    if target.found.is_empty() {
        let _ = writeln!(text, "{version} is in none of the consulted catalogs");
        if !target.nearest.is_empty() {
            say(&mut text, 4, &format!("  nearest: {}", target.nearest.join(", ")));
        }
        return text;
    }
    let is_meant = |bundle: &&BundleReport<'_>| target.found.iter().any(|it| is_found(it, bundle));
    for bundle in report.bundles.iter().filter(is_meant) {
        let verdict = verdict(bundle).to_lowercase();
        let _ = writeln!(text, "{} of catalog {} is {verdict}", bundle.name, bundle.catalog);
        for reason in &bundle.reasons {
            say(&mut text, 4, &format!("  {}: {}", reason.finding.code(), reason.finding));
        }
    }
    if let Some(path) = &target.path {
        say(&mut text, 2, &way(path, &target.refused, report.request.version));
    }
    if target.ways.is_empty() && !target.selected {
        say(&mut text, 0, "No setting of a ClusterExtension selects it now");
    }
    for change in &target.ways {
        let steps = match (change.forced, change.steps) {
            (true, _) => "at once, although no update path leads to it".to_owned(),
            (false, 1) => "at once".to_owned(),
            (false, steps) => format!("in {steps} updates"),
        };
        say(&mut text, 2, &format!("To get it {steps}: {change}"));
    }
    text
}

/// Returns the bundles, only the relevant ones when there are many.
fn bundles(report: &Report<'_>, all: bool) -> anyhow::Result<String> {
    let several = report.catalogs.iter().filter(|it| it.consulted).count() > 1;
    let mut headers = vec!["VERSION", "CHANNELS", "VERDICT", "WHY"];
    if several {
        headers.insert(0, "CATALOG");
    }
    let mut table = Table::new(&headers);
    for run in report.bundles.chunk_by(|one, next| is_alike(report, one, next)) {
        // A row that stands for one bundle would not be shorter.
        let shown = if all || run.len() <= SHORT + 1 { run.len() } else { SHORT };
        let (shown, hidden) = run.split_at(shown);
        for mut row in shown.iter().map(row).chain(row_of_all(hidden)) {
            if several {
                row.insert(0, run[0].catalog.to_owned());
            }
            table.row(row);
        }
    }
    written(&table)
}

fn written(table: &Table) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    table.write(&mut bytes)?;
    Ok(String::from_utf8(bytes)?)
}

/// Returns the catalogs, and whether those that were not consulted could matter.
fn catalogs(report: &Report<'_>) -> anyhow::Result<String> {
    let headers = ["CATALOG", "PRIORITY", "BUNDLES", "CANDIDATES", "BEST", "STATE"];
    let mut table = Table::new(&headers);
    for catalog in &report.catalogs {
        let known = |count: usize| match (catalog.error.is_some(), catalog.consulted) {
            (true, false) => "?".to_owned(),
            _ => count.to_string(),
        };
        table.row(vec![
            catalog.name.to_owned(),
            catalog.priority.to_string(),
            known(catalog.bundles),
            known(catalog.candidates),
            catalog.best.unwrap_or("-").to_owned(),
            standing(catalog),
        ]);
    }
    let mut text = written(&table)?;
    for catalog in report.catalogs.iter().filter(|it| it.error.is_some()) {
        let _ = writeln!(text, "{}", catalog.error.as_deref().unwrap_or_default());
    }
    Ok(text)
}

/// Returns the suggestions that the headline does not contain.
fn hints(report: &Report<'_>) -> Option<String> {
    let said = report.headline().map(|headline| headline.text).unwrap_or_default();
    let mut hints = report.hints.iter().filter(|hint| !said.contains(&hint.text)).peekable();
    hints.peek()?;
    let mut text = String::new();
    text.push_str("Suggestions:\n");
    for hint in hints {
        say(&mut text, 2, &format!("- {}", hint.text));
    }
    Some(text)
}

/// Returns whether two bundles have the same reasons, and nothing special.
fn is_alike(report: &Report<'_>, one: &BundleReport<'_>, next: &BundleReport<'_>) -> bool {
    let unreachable =
        |finding: &Finding<'_>| matches!(finding, Finding::NotSuccessor { path: None, .. });
    let stands_out = |bundle: &BundleReport<'_>| {
        let target = report.target.as_ref();
        let wanted = target.is_some_and(|it| it.found.iter().any(|it| is_found(it, bundle)));
        bundle.verdict == BundleVerdict::Selected || wanted || is_installed(bundle)
    };
    let fate = |bundle: &BundleReport<'_>| {
        let lost = bundle.reasons.iter().any(|it| unreachable(&it.finding));
        (bundle.catalog.to_owned(), codes(bundle), lost)
    };
    !stands_out(one) && !stands_out(next) && fate(one) == fate(next)
}

fn is_found(found: &TargetBundle<'_>, bundle: &BundleReport<'_>) -> bool {
    found.catalog == bundle.catalog && found.bundle == bundle.name
}

fn is_installed(bundle: &BundleReport<'_>) -> bool {
    let mut findings = bundle.reasons.iter().map(|reason| &reason.finding);
    findings.any(|finding| matches!(finding, Finding::StaysOnInstalled))
}

fn asked(report: &Report<'_>) -> String {
    let request = &report.request;
    let version = request
        .version
        .map_or_else(|| "any version".to_owned(), |range| format!("version {}", quote(range)));
    let channels = match request.channels {
        [] => String::new(),
        [channel] => format!(" in channel {channel}"),
        channels => format!(" in channels {}", channels.join(", ")),
    };
    let policy = match request.policy {
        olm_api::UpgradeConstraintPolicy::SelfCertified => ", SelfCertified",
        olm_api::UpgradeConstraintPolicy::CatalogProvided => "",
    };
    format!("{version}{channels}{policy}")
}

fn answered(report: &Report<'_>) -> String {
    let Some(selected) = &report.selected else {
        let stays = report.request.installed.is_some();
        let stays = if stays { "; the installed bundle stays" } else { "" };
        return format!("none{stays}");
    };
    let (bundle, catalog) = (selected.bundle, selected.catalog);
    let step = match report.request.installed {
        None => String::new(),
        Some(installed) if installed.name == bundle => ", which is installed".to_owned(),
        Some(installed) => format!(", following {}", installed.version),
    };
    format!("{bundle} from catalog {catalog}{step}")
}

fn way(path: &[String], refused: &[String], range: Option<&str>) -> String {
    let mark = |version: &String| {
        let refused = refused.contains(version);
        let mark = if refused { " (excluded)" } else { "" };
        format!("{version}{mark}")
    };
    let steps: Vec<_> = path.iter().map(mark).collect();
    let mut text = format!("Update path: {}", steps.join(" -> "));
    if let (false, Some(range)) = (refused.is_empty(), range) {
        let _ = write!(text, "; version {} excludes the marked versions", quote(range));
    }
    text
}

fn row(bundle: &BundleReport<'_>) -> Vec<String> {
    vec![version(bundle), channels(bundle), verdict(bundle), why(bundle)]
}

/// Returns the cells of a row that stands for several bundles with the same reasons.
fn row_of_all(bundles: &[BundleReport<'_>]) -> Option<Vec<String>> {
    let (first, last) = (bundles.first()?, bundles.last()?);
    let (count, codes) = (bundles.len(), codes(first).join(", "));
    Some(vec![
        format!("... {count} more"),
        String::new(),
        verdict(first),
        format!("{codes}, {} to {}", first.label(), last.label()),
    ])
}

fn version(bundle: &BundleReport<'_>) -> String {
    let mut text = bundle.label();
    if is_installed(bundle) {
        text.push_str(" (installed)");
    }
    if bundle.deprecated.bundle.is_some() {
        text.push_str(" (deprecated)");
    }
    text
}

fn channels(bundle: &BundleReport<'_>) -> String {
    let shown: Vec<_> = bundle.channels.iter().take(MAX_CHANNELS).copied().collect();
    let more = bundle.channels.len() - shown.len();
    match (shown.is_empty(), more) {
        (true, _) => "-".to_owned(),
        (false, 0) => shown.join(","),
        (false, more) => format!("{},+{more}", shown.join(",")),
    }
}

fn verdict(bundle: &BundleReport<'_>) -> String {
    format!("{:?}", bundle.verdict)
}

/// Returns the reasons for a bundle's verdict: one in full, several as codes; then the notes.
fn why(bundle: &BundleReport<'_>) -> String {
    let reasons: Vec<_> = bundle.reasons.iter().filter(|it| it.stage != Stage::Note).collect();
    match reasons.as_slice() {
        [one] => {
            let mut text = format!("{}: {}", one.finding.code(), one.finding);
            for note in codes(bundle).into_iter().skip(1) {
                let _ = write!(text, ", {note}");
            }
            text
        }
        _ => codes(bundle).join(", "),
    }
}

/// Returns the codes of all reasons, notes in brackets; another column shows that it is installed.
fn codes(bundle: &BundleReport<'_>) -> Vec<String> {
    let reasons = bundle.reasons.iter();
    let reasons = reasons.filter(|it| !matches!(it.finding, Finding::StaysOnInstalled));
    let mut codes: Vec<_> = reasons
        .map(|reason| match reason.stage {
            Stage::Note => format!("[{}]", reason.finding.code()),
            _ => reason.finding.code().to_string(),
        })
        .collect();
    codes.dedup();
    codes
}

/// Returns the state of a catalog, and whether it could matter.
fn standing(catalog: &CatalogSummary<'_>) -> String {
    let mut text = catalog.state.to_string();
    if catalog.used_anyway {
        text.push_str(", used anyway");
    } else if !catalog.consulted {
        text.push_str(if catalog.dominated { ", could not matter" } else { ", could matter" });
    }
    for reason in &catalog.reasons {
        let _ = write!(text, "; {reason}");
    }
    text
}
