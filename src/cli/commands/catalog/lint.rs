//! `kubectl olm catalog lint`: what is wrong with the content of a catalog, and where.
//!
//! Source: plugin.md 2.1 and 2.2.

use olm_cluster::join_bounded;
use olm_core::catalog::lint::{Finding, Rule, Severity, lint, locate};
use olm_core::catalog::{read, schema};
use olm_image::pull::Puller;
use olm_image::reference::pinned;

use crate::catalogs::{FileList, borrowed};
use crate::commands::prelude::*;
use crate::document::Counts;
use crate::output::during_blocking;
use crate::puller::puller;

/// Flags of `catalog lint`.
#[derive(Debug, Args)]
pub(crate) struct LintArgs {
    /// Directory, file or image of a catalog, or the name of one on the cluster
    #[arg(value_name = "DIR|FILE|IMAGE|NAME")]
    catalog: String,
    /// Fail on warnings too
    #[arg(long)]
    strict: bool,
    /// Check with the registries that the images exist
    #[arg(long)]
    images: bool,
    /// Show notes too
    #[arg(long)]
    notes: bool,
    /// Output format
    #[arg(short, long, value_parser = formats(&[]), default_value_t)]
    output: Format,
}

/// The problems of the content of a catalog, with their positions: `kubectl olm catalog lint`.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Report {
    /// The findings; notes only with `--notes`.
    pub(super) findings: Vec<Finding>,
    /// The number of findings, including notes.
    counts: Counts,
    /// Images that could not be asked for.
    unknown: Vec<Unknown>,
}

/// Prints the findings about a catalog; exits with 1 on errors.
pub(crate) async fn run(args: LintArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let files = super::files(&args.catalog, global).await?;
    let (mut report, files) = examine(&args.catalog, files).await?;
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
    report.count();
    if !args.notes {
        report.findings.retain(|it| it.severity != Severity::Note);
    }
    match args.output {
        format @ (Format::Json | Format::Yaml) => report.write(format, out)?,
        _ => summary(&report, args.notes, out)?,
    }
    let counts = &report.counts;
    let is_bad = counts.errors > 0 || (args.strict && counts.warnings > 0);
    Ok(Outcome::of(is_bad, !report.unknown.is_empty()))
}

/// Returns the result of `lint` for the files of a catalog, for programs, including notes.
pub(crate) async fn answer(files: FileList) -> anyhow::Result<Report> {
    let mut report = tokio::task::spawn_blocking(move || report(&files)).await??;
    report.count();
    Ok(report)
}

impl Report {
    /// Counts errors, warnings and notes.
    fn count(&mut self) {
        let of = |severity| self.findings.iter().filter(|it| it.severity == severity).count();
        self.counts = Counts {
            errors: of(Severity::Error),
            warnings: of(Severity::Warning),
            notes: of(Severity::Note),
            ..self.counts
        };
    }
}

/// Examines the files of a catalog, and says that it takes long; hands them back.
pub(super) async fn examine(place: &str, files: FileList) -> anyhow::Result<(Report, FileList)> {
    let what = format!("examining {place}");
    let examine = move || {
        let report = report(&files)?;
        let empty = report.counts.files == 0;
        anyhow::ensure!(!empty, "the catalog is empty: no file of it has a document");
        Ok((report, files))
    };
    during_blocking(&what, examine).await
}

fn report(files: &FileList) -> anyhow::Result<Report> {
    let (findings, files) = lint(borrowed(files), pinned)?;
    Ok(Report { findings, counts: Counts { files, ..Counts::default() }, unknown: Vec::new() })
}

/// Asks for each image once; those that are not there are findings where they are named first.
async fn images(files: &FileList, report: &mut Report) -> anyhow::Result<()> {
    let puller = &puller()?;
    let asked = named_images(files)?.into_iter().map(|(image, mut finding)| async move {
        let reference = image.parse::<ImageRef>().ok()?;
        let why = missing(puller, &reference).await?;
        finding.text = format!("{}: {}", plain(&image), why.clone().unwrap_or_else(|it| it));
        Some((image, finding, why))
    });
    let mut absent = Vec::new();
    for (image, finding, why) in join_bounded(asked.collect()).await.into_iter().flatten() {
        match why {
            Ok(_) => absent.push(finding),
            Err(why) => report.unknown.push(Unknown::new(image, why)),
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
    Some(if error.is_not_found() { Ok(text) } else { Err(text) })
}

/// Returns the images of all bundles with a finding at the place where each is named first.
pub(crate) fn named_images(files: &FileList) -> anyhow::Result<BTreeMap<String, Finding>> {
    let mut named = BTreeMap::new();
    for document in read::documents(borrowed(files))? {
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
            let Some(image) = image.as_str().filter(|image| !image.is_empty()) else { continue };
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
fn summary(report: &Report, with_notes: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    for finding in &report.findings {
        writeln!(out, "{}", plain(&finding.to_string()))?;
        if let Some(hint) = &finding.hint {
            writeln!(out, "  hint: {}", plain(hint))?;
        }
    }
    for Unknown { what, why, .. } in &report.unknown {
        writeln!(out, "not known: {}: {}", plain(what), plain(why))?;
    }
    let counts = &report.counts;
    let notes = match counts.notes {
        0 => String::new(),
        notes if with_notes => format!(", {}", counted(notes, "note")),
        notes => format!(", {} (--notes shows them)", counted(notes, "note")),
    };
    writeln!(
        out,
        "{}, {}{notes} in {}",
        counted(counts.errors, "error"),
        counted(counts.warnings, "warning"),
        counted(counts.files, "file")
    )?;
    Ok(())
}
