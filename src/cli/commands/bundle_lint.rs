//! `kubectl olm bundle lint`: what is wrong with a bundle, and what it requires of a cluster.

use olm_core::bundle::{self, Bundle, Csv, Files, mode};
use olm_core::config::Features;
use olm_core::lint;
use olm_core::render::{CertificateSource, RenderOptions, RolePlacement, check_support, render};
use olm_image::reference::pinned;

use crate::commands::prelude::*;
use crate::describe::{Description, missing_accounts};
use crate::output::{KeyValues, write_json, write_yaml};

/// Placeholders for the namespaces of an installation; findings do not depend on them.
const INSTALL_NAMESPACE: &str = "install-namespace";
const OTHER_NAMESPACE: &str = "watched-namespace";

#[derive(Debug, Args)]
pub(crate) struct BundleLintArgs {
    /// Directory of an unpacked bundle, or reference of a bundle image
    #[arg(value_name = "BUNDLE_DIR|IMAGE")]
    bundle: String,
    /// Output format
    #[arg(short, long, value_parser = formats(&[]), default_value_t)]
    output: Format,
}

/// The findings about a bundle.
#[derive(Debug, Default, Serialize)]
struct Report {
    /// Errors that prevent its installation.
    findings: Vec<String>,
    /// Warnings that do not prevent its installation.
    warnings: BTreeSet<String>,
    /// Description of the bundle, if it can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<Description>,
}

/// Examines a bundle; findings end the program with 1.
pub(crate) async fn run(args: BundleLintArgs, out: &mut dyn Write) -> Ended {
    let Target::Bundle(place) = Target::of(&args.bundle, false) else {
        return usage(format!(
            "{} is neither a directory nor an image reference",
            quote(&args.bundle)
        ));
    };
    let files = load_files(&place).await?;
    let report = tokio::task::spawn_blocking(move || Report::of(&files)).await?;
    match args.output {
        Format::Json => write_json(out, &serde_json::to_value(&report)?)?,
        Format::Yaml => write_yaml(out, &serde_json::to_value(&report)?)?,
        _ => report.write(out)?,
    }
    Ok(if report.findings.is_empty() { Outcome::Done } else { Outcome::Failed })
}

impl Report {
    fn of(files: &Files) -> Self {
        let mut report = Self::default();
        match Bundle::from_files(files) {
            Ok(bundle) => report.examine(&bundle, files),
            Err(error) => report.findings.push(Chain(&error).to_string()),
        }
        report
    }

    fn examine(&mut self, bundle: &Bundle, files: &Files) {
        if let Err(error) = check_support(&bundle.csv, Features::default()) {
            self.findings.push(Chain(&error).to_string());
        }
        if let Err(error) = bundle::validate(bundle) {
            self.findings.extend(error.findings);
        } else {
            self.render(bundle);
        }
        match lint::in_catalog(bundle, files, pinned) {
            Ok(found) => {
                found.errors.into_iter().for_each(|error| self.add_once(error));
                self.warnings.extend(found.warnings);
            }
            Err(error) => self.add_once(Chain(&error).to_string()),
        }
        // Why they cannot be read was said just now.
        let constraints = bundle::constraints(files).unwrap_or_default();
        self.warnings.extend(lint::doubts(bundle, files));
        self.warnings.extend(bundle.warnings.iter().cloned());
        self.warnings.extend(unknown_modes(&bundle.csv));
        self.description = Some(Description::of(bundle, constraints));
    }

    /// Renders a valid bundle for every install mode, to find errors that the validators do not.
    fn render(&mut self, bundle: &Bundle) {
        for target in targets(&bundle.csv) {
            let options = RenderOptions {
                install_namespace: INSTALL_NAMESPACE.to_owned(),
                targets: vec![target.to_owned()],
                role_placement: RolePlacement::default(),
                deployment: None,
                certificates: Some(CertificateSource::CertManager.into()),
            };
            match render(bundle, &options) {
                Ok(rendered) => {
                    for finding in lint::refused(&rendered.objects) {
                        self.add_once(finding);
                    }
                    let missing = missing_accounts(&bundle.csv, &rendered.objects);
                    self.warnings.extend(rendered.warnings.into_iter().chain(missing));
                }
                Err(error) => self.add_once(Chain(&error).to_string()),
            }
        }
    }

    fn add_once(&mut self, text: String) {
        if !self.findings.contains(&text) {
            self.findings.push(text);
        }
    }

    fn write(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut sheet = KeyValues::default();
        if let Some(description) = &self.description {
            description.write(&mut sheet);
        }
        let none = self.findings.is_empty().then(|| "none".to_owned());
        sheet.lines("Findings", self.findings.iter().cloned().chain(none));
        sheet.lines("Warnings", self.warnings.iter().cloned());
        Ok(sheet.write(out)?)
    }
}

/// Warns of misspelled install modes, which are ignored.
fn unknown_modes(csv: &Csv) -> Vec<String> {
    let known =
        [mode::ALL_NAMESPACES, mode::MULTI_NAMESPACE, mode::OWN_NAMESPACE, mode::SINGLE_NAMESPACE];
    let unknown = csv.supported_modes().into_iter().filter(|mode| !known.contains(mode));
    unknown.map(|mode| format!("install mode {} is unknown and ignored", quote(mode))).collect()
}

/// Returns one target for each install mode that is offered.
fn targets(csv: &Csv) -> Vec<&'static str> {
    let modes = [
        (mode::ALL_NAMESPACES, ""),
        (mode::OWN_NAMESPACE, INSTALL_NAMESPACE),
        (mode::SINGLE_NAMESPACE, OTHER_NAMESPACE),
    ];
    modes.into_iter().filter(|(mode, _)| csv.supports(mode)).map(|(_, target)| target).collect()
}
