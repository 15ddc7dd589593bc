//! A report as people read it: the answer, the version asked about, the bundles, the catalogs, and
//! what can be done.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use olm_core::error::quote;
use olm_core::resolve::report::{
    BundleAccount, CatalogAccount, Ending, Finding, Report, Stage, Target, Verdict,
};

use crate::output::{Paint, Table};

/// The most bundles of a catalog that are shown without `--all`, besides those that must be.
const SHORT: usize = 10;
/// The most channels of a bundle that are shown.
const MAX_CHANNELS: usize = 3;

/// How a report is shown.
pub(super) struct View {
    /// Whether every bundle is shown.
    pub(super) all: bool,
    /// Whether and how lines are colored.
    pub(super) paint: Paint,
}

impl View {
    /// Returns the whole text.
    pub(super) fn render(&self, report: &Report<'_>) -> anyhow::Result<String> {
        let mut sections = vec![self.answer(report)];
        if let Some(target) = &report.target {
            sections.push(self.target(report, target));
        }
        if !report.bundles.is_empty() {
            sections.push(self.bundles(report)?);
        }
        let apart = |catalog: &CatalogAccount<'_>| !catalog.consulted || catalog.used_anyway;
        if report.catalogs.len() > 1 || report.catalogs.iter().any(apart) {
            sections.push(self.catalogs(report)?);
        }
        if !report.hints.is_empty() {
            sections.push(self.hints(report));
        }
        Ok(sections.join("\n"))
    }

    /// What was asked and how it ended.
    fn answer(&self, report: &Report<'_>) -> String {
        let request = &report.request;
        let mut lines = vec![("Package", request.package.to_owned())];
        if let Some(installed) = request.installed {
            let (name, version) = (installed.name, installed.version);
            lines.push(("Installed", format!("{name} (version {version})")));
        }
        lines.push(("Asked for", asked(report)));
        lines.push(("Answer", self.paint.strong(&answered(report))));
        if let Some(message) = &report.message {
            lines.push(("Message", message.clone()));
        }
        if let Some(headline) = report.headline() {
            lines.push(("Reason", format!("{}: {}", headline.code, headline.text)));
        }
        let mut text = String::new();
        for (key, value) in lines {
            let _ = writeln!(text, "{:<11}{value}", format!("{key}:"));
        }
        for warning in report.selected.iter().flat_map(|it| &it.warnings) {
            let _ = writeln!(text, "{:<11}it {}", "Warning:", warning.finding);
        }
        text
    }

    /// What there is to say about one version.
    fn target(&self, report: &Report<'_>, target: &Target<'_>) -> String {
        let mut text = String::new();
        let version = target.version;
        if target.found.is_empty() {
            let title = format!("{version} is in none of the consulted catalogs");
            let _ = writeln!(text, "{}", self.paint.strong(&title));
            if !target.nearest.is_empty() {
                let _ = writeln!(text, "  nearest: {}", target.nearest.join(", "));
            }
            return text;
        }
        let is_meant = |bundle: &&BundleAccount<'_>| {
            let found = |it: &&_| is_found(it, bundle);
            target.found.iter().any(|it| found(&it))
        };
        for bundle in report.bundles.iter().filter(is_meant) {
            let verdict = verdict(bundle).to_lowercase();
            let title = format!("{} of catalog {} is {verdict}", bundle.name, bundle.catalog);
            let _ = writeln!(text, "{}", self.paint.strong(&title));
            for reason in &bundle.reasons {
                let _ = writeln!(text, "  {}: {}", reason.finding.code(), reason.finding);
            }
        }
        if let Some(path) = &target.path {
            let _ = writeln!(
                text,
                "{}",
                way(path, &target.refused, report.request.version)
            );
        }
        if target.ways.is_empty() && !target.selected {
            let _ = writeln!(
                text,
                "Nothing that a ClusterExtension can ask for leads to it now"
            );
        }
        for change in &target.ways {
            let steps = match (change.forced, change.steps) {
                (true, _) => "at once, although no edge leads there".to_owned(),
                (false, 1) => "at once".to_owned(),
                (false, steps) => format!("in {steps} updates"),
            };
            let _ = writeln!(text, "To get it {steps}: {change}");
        }
        text
    }

    /// The bundles, those that matter when there are many.
    fn bundles(&self, report: &Report<'_>) -> anyhow::Result<String> {
        let several = report.catalogs.iter().filter(|it| it.consulted).count() > 1;
        let mut headers = vec!["VERSION", "CHANNELS", "VERDICT", "WHY"];
        if several {
            headers.insert(0, "CATALOG");
        }
        let mut table = Table::new(&headers);
        let mut verdicts = Vec::new();
        let mut hidden: BTreeMap<&str, usize> = BTreeMap::new();
        for bundle in &report.bundles {
            if !self.is_shown(report, bundle, &verdicts) {
                *hidden.entry(class(bundle)).or_default() += 1;
                continue;
            }
            let mut row = vec![
                version(report, bundle),
                channels(bundle),
                verdict(bundle),
                why(bundle),
            ];
            if several {
                row.insert(0, bundle.catalog.to_owned());
            }
            table.row(row);
            verdicts.push((bundle.catalog, bundle.verdict));
        }
        let mut text = self.painted(&table, &verdicts)?;
        if !hidden.is_empty() {
            let count: usize = hidden.values().sum();
            let classes = hidden.iter().map(|(code, count)| format!("{count} {code}"));
            let classes: Vec<_> = classes.collect();
            let line = format!("{count} more: {}; --all shows them", classes.join(", "));
            let _ = writeln!(text, "{}", self.paint.faint(&line));
        }
        Ok(text)
    }

    /// Says whether a bundle is shown: the first few of each catalog, and whatever matters.
    fn is_shown(
        &self,
        report: &Report<'_>,
        bundle: &BundleAccount<'_>,
        shown: &[(&str, Verdict)],
    ) -> bool {
        let target = report.target.as_ref();
        let wanted = target.is_some_and(|it| it.found.iter().any(|it| is_found(it, bundle)));
        let same_catalog = shown
            .iter()
            .filter(|(catalog, _)| *catalog == bundle.catalog);
        self.all
            || bundle.verdict == Verdict::Selected
            || wanted
            || is_installed(bundle)
            || same_catalog.count() < SHORT
    }

    fn painted(&self, table: &Table, verdicts: &[(&str, Verdict)]) -> anyhow::Result<String> {
        let mut bytes = Vec::new();
        table.write(&mut bytes)?;
        let lines = String::from_utf8(bytes)?;
        let mut text = String::new();
        for (number, line) in lines.lines().enumerate() {
            let row = number.checked_sub(1).and_then(|row| verdicts.get(row));
            let line = match row {
                Some((_, Verdict::Selected)) => self.paint.good(line),
                Some((_, Verdict::Excluded)) => self.paint.faint(line),
                Some((_, Verdict::Candidate)) | None => line.to_owned(),
            };
            let _ = writeln!(text, "{line}");
        }
        Ok(text)
    }

    /// The catalogs, and whether those that were not consulted could matter.
    fn catalogs(&self, report: &Report<'_>) -> anyhow::Result<String> {
        let headers = [
            "CATALOG",
            "PRIORITY",
            "BUNDLES",
            "CANDIDATES",
            "BEST",
            "STATE",
        ];
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
        let mut text = self.painted(&table, &[])?;
        for catalog in report.catalogs.iter().filter(|it| it.error.is_some()) {
            let error = catalog.error.as_deref().unwrap_or_default();
            let _ = writeln!(text, "{}", self.paint.bad(error));
        }
        Ok(text)
    }

    fn hints(&self, report: &Report<'_>) -> String {
        let mut text = format!("{}\n", self.paint.strong("What may help:"));
        for hint in &report.hints {
            let _ = writeln!(text, "- {}", hint.text);
        }
        text
    }
}

fn is_found(found: &olm_core::resolve::report::Found<'_>, bundle: &BundleAccount<'_>) -> bool {
    found.catalog == bundle.catalog && found.bundle == bundle.name
}

fn is_installed(bundle: &BundleAccount<'_>) -> bool {
    let mut findings = bundle.reasons.iter().map(|reason| &reason.finding);
    findings.any(|finding| matches!(finding, Finding::StaysOnInstalled))
}

/// Says in words what was asked for.
fn asked(report: &Report<'_>) -> String {
    let request = &report.request;
    let version = request.version.map_or_else(
        || "any version".to_owned(),
        |range| format!("version {}", quote(range)),
    );
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

/// Says in words how it ended.
fn answered(report: &Report<'_>) -> String {
    let Some(selected) = &report.selected else {
        return match report.result {
            Ending::Held => "none; what is installed stays".to_owned(),
            _ if report.request.installed.is_some() => "none; what is installed stays".to_owned(),
            _ => "none".to_owned(),
        };
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
    let mark = |version: &String| match refused.contains(version) {
        true => format!("{version} (refused)"),
        false => version.clone(),
    };
    let steps: Vec<_> = path.iter().map(mark).collect();
    let mut text = format!("The edges lead there: {}", steps.join(" -> "));
    if let (false, Some(range)) = (refused.is_empty(), range) {
        let _ = write!(text, "; version {} refuses what is marked", quote(range));
    }
    text
}

fn version(report: &Report<'_>, bundle: &BundleAccount<'_>) -> String {
    let _ = report;
    let mut text = bundle.label();
    if is_installed(bundle) {
        text.push_str(" (installed)");
    }
    if bundle.deprecated.bundle.is_some() {
        text.push_str(" (deprecated)");
    }
    text
}

fn channels(bundle: &BundleAccount<'_>) -> String {
    let shown: Vec<_> = bundle.channels.iter().take(MAX_CHANNELS).copied().collect();
    let more = bundle.channels.len() - shown.len();
    match (shown.is_empty(), more) {
        (true, _) => "-".to_owned(),
        (false, 0) => shown.join(","),
        (false, more) => format!("{},+{more}", shown.join(",")),
    }
}

fn verdict(bundle: &BundleAccount<'_>) -> String {
    format!("{:?}", bundle.verdict)
}

/// Returns what decides about a bundle: one reason in full, several as codes, then the notes.
fn why(bundle: &BundleAccount<'_>) -> String {
    let deciding = |stage: Stage| stage != Stage::Note;
    let reasons: Vec<_> = bundle
        .reasons
        .iter()
        .filter(|it| deciding(it.stage))
        .collect();
    let mut text = match reasons.as_slice() {
        [] => String::new(),
        [one] => format!("{}: {}", one.finding.code(), one.finding),
        many => {
            let codes: Vec<_> = many.iter().map(|it| it.finding.code()).collect();
            codes.join(", ")
        }
    };
    for reason in bundle.reasons.iter().filter(|it| it.stage == Stage::Note) {
        if matches!(reason.finding, Finding::StaysOnInstalled) {
            continue;
        }
        let separator = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{separator}[{}]", reason.finding.code());
    }
    text
}

/// Returns the code bundles are counted by.
fn class(bundle: &BundleAccount<'_>) -> &'static str {
    let first = bundle.reasons.first();
    first.map_or("Candidate", |reason| reason.finding.code())
}

/// Returns what became of a catalog, and whether it could matter.
fn standing(catalog: &CatalogAccount<'_>) -> String {
    let mut text = catalog.state.to_string();
    if catalog.used_anyway {
        text.push_str(", used anyway");
    } else if !catalog.consulted {
        text.push_str(if catalog.dominated {
            ", could not matter"
        } else {
            ", could matter"
        });
    }
    for reason in &catalog.reasons {
        let _ = write!(text, "; {reason}");
    }
    text
}
