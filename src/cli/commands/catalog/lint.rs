//! `kubectl olm catalog lint`: what is wrong with the content of a catalog, and where.
//!
//! Source: plugin.md 2.1 and 2.2.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use clap::Args;
use futures::stream::{self, StreamExt as _};
use olm_core::catalog::lint::{Finding, Rule, Severity, lint, locate};
use olm_core::catalog::{read, schema};
use olm_core::error::Chain;
use olm_image::pull::Puller;
use olm_image::reference::{ImageRef, pinned};
use serde_json::{Value, json};

use crate::catalogs::{FileList, borrowed};
use crate::connection::Global;
use crate::graph::plain;
use crate::output::{self, Format, Outcome};
use crate::puller::puller;

/// Images that are asked for at the same time.
const AT_ONCE: usize = 8;

/// Flags of `catalog lint`.
#[derive(Debug, Args)]
pub(crate) struct LintArgs {
    /// Directory, file or image of a catalog, or the name of one on the cluster
    #[arg(value_name = "DIR|FILE|IMAGE|NAME")]
    catalog: String,
    /// Fail on warnings too
    #[arg(long)]
    strict: bool,
    /// Ask the registries whether the images are there
    #[arg(long)]
    images: bool,
    /// Show notes too
    #[arg(long)]
    notes: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) findings: Vec<Finding>,
    files: usize,
    /// Images that could not be asked for, and why.
    unknown: Vec<(String, String)>,
}

/// Prints the findings about a catalog; exits with 1 on errors.
pub(crate) async fn run(
    args: LintArgs,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let files = super::files(&args.catalog, global).await?;
    let mut report = examine(&files)?;
    if args.images {
        images(&files, &mut report).await?;
    }
    // A path that can be followed from here, where the content lies here.
    let root = Path::new(&args.catalog);
    for finding in &mut report.findings {
        if root.is_dir() {
            finding.file = root.join(&finding.file).display().to_string();
        } else if root.is_file() {
            finding.file.clone_from(&args.catalog);
        }
    }
    let counts = counts(&report);
    let [errors, warnings, _] = counts;
    if !args.notes {
        report.findings.retain(|it| it.severity != Severity::Note);
    }
    match args.output {
        Format::Json => output::write_json(out, &document(&report, counts))?,
        Format::Yaml => output::write_yaml(out, &document(&report, counts))?,
        Format::Table => summary(&report, counts, args.notes, out)?,
    }
    Ok(if errors > 0 || (args.strict && warnings > 0) {
        Outcome::Failed
    } else if report.unknown.is_empty() {
        Outcome::Done
    } else {
        Outcome::Unknown
    })
}

/// Returns what `lint` says of the files of a catalog, for programs, with the notes.
pub(crate) async fn answer(files: FileList) -> anyhow::Result<Value> {
    let report = tokio::task::spawn_blocking(move || examine(&files)).await??;
    Ok(document(&report, counts(&report)))
}

/// Counts errors, warnings and notes.
fn counts(report: &Report) -> [usize; 3] {
    [Severity::Error, Severity::Warning, Severity::Note].map(|severity| {
        let findings = report.findings.iter();
        findings.filter(|it| it.severity == severity).count()
    })
}

/// Examines the files of a catalog.
pub(super) fn examine(files: &FileList) -> anyhow::Result<Report> {
    let (findings, count) =
        lint(borrowed(files), pinned).map_err(|error| anyhow::anyhow!("{}", Chain(&error)))?;
    Ok(Report {
        findings,
        files: count,
        unknown: Vec::new(),
    })
}

/// Asks for each image once; those that are not there are findings where they are named first.
async fn images(files: &FileList, report: &mut Report) -> anyhow::Result<()> {
    let puller = &puller()?;
    let named = named_images(files)?;
    let asked = named.into_iter().map(|(image, mut finding)| async move {
        let reference = image.parse::<ImageRef>().ok()?;
        let why = missing(puller, &reference).await?;
        finding.text = format!("{}: {}", plain(&image), why.clone().unwrap_or_else(|it| it));
        Some((image, finding, why))
    });
    let asked: Vec<_> = asked.collect();
    let answers: Vec<_> = stream::iter(asked).buffered(AT_ONCE).collect().await;
    let mut absent = Vec::new();
    for (image, finding, why) in answers.into_iter().flatten() {
        match why {
            Ok(_) => absent.push(finding),
            Err(why) => report.unknown.push((image, why)),
        }
    }
    locate(&mut absent, borrowed(files));
    report.findings.extend(absent);
    Ok(())
}

/// Returns why an image is not there, or, as an error, why that is not known; nothing if it is.
pub(crate) async fn missing(puller: &Puller, image: &ImageRef) -> Option<Result<String, String>> {
    let error = puller.probe(image).await.err()?;
    let text = Chain(&error).to_string();
    Some(if error.is_not_found() {
        Ok(text)
    } else {
        Err(text)
    })
}

/// Returns the images of all bundles with a finding at the place where each is named first.
pub(crate) fn named_images(files: &FileList) -> anyhow::Result<BTreeMap<String, Finding>> {
    let documents = read::documents(borrowed(files));
    let documents = documents.map_err(|error| anyhow::anyhow!("{}", Chain(&error)))?;
    let mut named = BTreeMap::new();
    for document in documents {
        let Ok(meta) = document.meta else { continue };
        if meta.schema != schema::BUNDLE {
            continue;
        }
        let blob: Value = serde_json::from_str(&meta.json)?;
        let related = blob["relatedImages"].as_array().into_iter().flatten();
        let related = related
            .enumerate()
            .map(|(i, image)| (format!("/relatedImages/{i}/image"), &image["image"]));
        for (pointer, image) in
            std::iter::once(("/image".to_owned(), &blob["image"])).chain(related)
        {
            let Some(image) = image.as_str().filter(|image| !image.is_empty()) else {
                continue;
            };
            named.entry(image.to_owned()).or_insert_with(|| Finding {
                rule: Rule::ImageExists,
                severity: Severity::Error,
                file: document.path.to_owned(),
                line: document.position.line,
                column: 0,
                schema: meta.schema.clone(),
                package: meta.package.clone(),
                name: meta.name.clone(),
                text: String::new(),
                hint: None,
                pointer,
            });
        }
    }
    Ok(named)
}

/// Writes the findings, and how many errors, warnings and notes there are.
fn summary(
    report: &Report,
    [errors, warnings, notes]: [usize; 3],
    with_notes: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    for finding in &report.findings {
        writeln!(out, "{}", plain(&finding.to_string()))?;
        if let Some(hint) = &finding.hint {
            writeln!(out, "  hint: {}", plain(hint))?;
        }
    }
    for (image, why) in &report.unknown {
        writeln!(out, "not known: {}: {}", plain(image), plain(why))?;
    }
    let plural = |count: usize, word: &str| {
        let s = if count == 1 { "" } else { "s" };
        format!("{count} {word}{s}")
    };
    let notes = match notes {
        0 => String::new(),
        notes if with_notes => format!(", {}", plural(notes, "note")),
        notes => format!(", {} (--notes shows them)", plural(notes, "note")),
    };
    writeln!(
        out,
        "{}, {}{notes} in {}",
        plural(errors, "error"),
        plural(warnings, "warning"),
        plural(report.files, "file")
    )?;
    Ok(())
}

fn document(report: &Report, [errors, warnings, notes]: [usize; 3]) -> Value {
    let finding = |it: &Finding| {
        json!({"rule": it.rule.to_string(), "severity": it.severity.to_string(), "file": it.file,
            "line": it.line, "column": it.column, "schema": it.schema, "package": it.package,
            "name": it.name, "text": it.text, "hint": it.hint})
    };
    let unknown = |(what, why): &(String, String)| json!({"what": what, "why": why});
    json!({"schema": "olm.lint", "schemaVersion": 1,
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "counts": {"errors": errors, "warnings": warnings, "notes": notes, "files": report.files},
        "unknown": report.unknown.iter().map(unknown).collect::<Vec<_>>()})
}
