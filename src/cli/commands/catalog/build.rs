//! `kubectl olm catalog build`: the image of a catalog, the same bytes for the same input.
//!
//! Source: plugin.md 2.1.

use anyhow::ensure;
use olm_core::catalog::lint::Severity;
use olm_core::catalog::{read, schema};
use olm_image::auth_file::AuthFiles;
use olm_image::built::{BuiltImage, BuiltIndex, ImageBuilder};
use olm_image::catalog::CONFIGS_LABEL;
use olm_image::layout::Layout;
use olm_image::push::{PushOptions, push};
use olm_image::registries::Registries;

use super::lint;
use crate::catalogs::{self, FileList, borrowed, metas};
use crate::commands::prelude::*;
use crate::output::during_blocking;
use crate::puller::config;
use crate::verb;

/// Directory of the content in the image.
const CONFIGS: &str = "configs";
/// Name of the file that holds what a reference is rendered to.
const INDEX: &str = "index.json";
/// A Dockerfile that builds the same image from a directory beside it.
const DOCKERFILE: &str = "FROM scratch\nADD configs /configs\nLABEL operators.operatorframework.io.index.configs.v1=/configs\n";

/// Flags of `catalog build`.
#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// Directory of a catalog, or file that names its parts
    #[arg(value_name = "DIR|FILE")]
    source: PathBuf,
    /// Reference of the image; by default that in FILE
    #[arg(short, long, value_name = "IMAGE", value_parser = verb::image)]
    tag: Option<ImageRef>,
    /// Push the image to its registry
    #[arg(long)]
    push: bool,
    /// Write the image to an OCI layout: a new directory, or an earlier layout, which is replaced
    #[arg(long, value_name = "DIR", conflicts_with = "push")]
    oci: Option<PathBuf>,
    /// Write the content and a Dockerfile to a directory that is empty or does not exist
    #[arg(long, value_name = "DIR", conflicts_with_all = ["push", "oci"])]
    dockerfile: Option<PathBuf>,
    /// Use plain HTTP to push
    #[arg(long)]
    plain_http: bool,
    /// Build in spite of errors
    #[arg(long)]
    no_lint: bool,
    /// Output format
    #[arg(short, long, value_parser = formats(&[]), default_value_t)]
    output: Format,
}

/// The sources of a catalog, as its author writes them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Composition {
    #[expect(dead_code, reason = "the name is for people")]
    name: Option<String>,
    repo: Option<String>,
    tag: Option<String>,
    references: Vec<Reference>,
}

/// A catalog that another is made of.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Reference {
    name: String,
    /// Image, or directory beside the file.
    image: String,
    /// The packages to take; all without it.
    #[serde(default)]
    packages: Vec<String>,
}

/// The built catalog: `kubectl olm catalog build`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Built<'a> {
    /// Its location: an image, or a directory.
    place: &'a str,
    /// Digest of the image.
    digest: String,
    /// Its sources.
    references: &'a [Part],
}

/// A part of what was built.
#[derive(Debug, Serialize, JsonSchema)]
struct Part {
    /// Its name in the catalog; empty for a single directory.
    name: String,
    /// Its source: an image, or a directory.
    image: String,
    /// The number of its bundles.
    bundles: usize,
}

pub(crate) async fn run(args: BuildArgs, out: &mut dyn Write) -> Ended {
    if !args.push && args.oci.is_none() && args.dockerfile.is_none() {
        return usage("a target for the image is required: --push, --oci DIR or --dockerfile DIR");
    }
    let source = args.source.display().to_string();
    let (mut files, parts, said) = if args.source.is_dir() {
        let files = kept(catalogs::files(&source).await?)?;
        let metas = metas(&files, &source)?;
        let bundles = metas.iter().filter(|meta| meta.schema == schema::BUNDLE).count();
        let part = Part { name: String::new(), image: source.clone(), bundles };
        (files, vec![part], None)
    } else {
        compose(&args.source).await?
    };
    if !args.no_lint {
        let (report, examined) = lint::examine(&source, files).await?;
        files = examined;
        if !is_sound(&report) {
            notice("nothing is built: correct the errors, or build with --no-lint");
            return Ok(Outcome::Failed);
        }
    }
    let build = move || image(&files).map(|image| (image, files));
    let (image, files) = during_blocking(&format!("building {source}"), build).await?;
    let tag = args.tag.clone().or(said);
    let place = match (&args.oci, &args.dockerfile) {
        (Some(folder), _) => {
            let index = BuiltIndex::new(vec![image.clone()], &BTreeMap::new());
            let name = tag.as_ref().map_or_else(|| "latest".to_owned(), ImageRef::version);
            Layout::create(folder)?.add(&index, &name)?;
            folder.display().to_string()
        }
        (None, Some(folder)) => {
            write_folder(folder, &files)?;
            folder.display().to_string()
        }
        (None, None) => {
            let tag = tag.context(
                "a reference to push to is required: -t IMAGE, or repo and tag in the file",
            )?;
            send(&image, &tag, args.plain_http).await?;
            tag.to_string()
        }
    };
    let digest = image.digest().to_string();
    if let format @ (Format::Json | Format::Yaml) = args.output {
        Built { place: &place, digest, references: &parts }.write(format, out)?;
        return Ok(Outcome::Done);
    }
    let references = match parts.as_slice() {
        [only] if only.name.is_empty() => String::new(),
        parts => format!("{}, ", counted(parts.len(), "reference")),
    };
    let bundles = counted(parts.iter().map(|part| part.bundles).sum(), "bundle");
    let size = image.layers.iter().map(Vec::len).sum::<usize>().div_ceil(1000);
    writeln!(out, "{place}@{digest} ({references}{bundles}, {size} kB)")?;
    Ok(Outcome::Done)
}

/// Reads what a file says a catalog is made of.
async fn compose(file: &Path) -> anyhow::Result<(FileList, Vec<Part>, Option<ImageRef>)> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).with_context(|| shown.to_string())?;
    let composition = composition(&text).with_context(|| shown.to_string())?;
    let tag = composition.tag.as_deref().unwrap_or("latest");
    let said = composition.repo.map(|repo| format!("{repo}:{tag}").parse()).transpose()?;
    let (mut files, mut parts) = (FileList::new(), Vec::new());
    for reference in composition.references {
        // A directory is meant from where the file lies.
        let beside = file.parent().unwrap_or(Path::new("")).join(&reference.image);
        let place =
            if beside.is_dir() { beside.display().to_string() } else { reference.image.clone() };
        let content = catalogs::files(&place).await;
        let content = content.with_context(|| format!("reference {}", quote(&reference.name)))?;
        let (text, bundles) = rendered(&content, &reference)?;
        files.push((format!("{}/{INDEX}", reference.name), text.into_bytes()));
        parts.push(Part { name: reference.name, image: reference.image, bundles });
    }
    Ok((files, parts, said))
}

/// Reads the file that names what a catalog is made of.
fn composition(text: &str) -> anyhow::Result<Composition> {
    let documents = yaml::to_json(text)?;
    ensure!(documents.len() == 1, "one document is expected, not {}", documents.len());
    let document = documents.into_iter().next().unwrap_or_default();
    let composition: Composition = serde_path_to_error::deserialize(&document)?;
    let mut names = BTreeSet::new();
    for Reference { name, .. } in &composition.references {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', '\0']) {
            bail!("reference {} is not the name of a directory", quote(name));
        }
        ensure!(names.insert(name), "reference {} is given twice", quote(name));
    }
    Ok(composition)
}

/// Returns the blobs of a reference as canonical JSON, a line each, and how many bundles there are.
fn rendered(files: &FileList, reference: &Reference) -> anyhow::Result<(String, usize)> {
    let metas = metas(files, &reference.image)?;
    let (mut text, mut bundles, mut found) = (String::new(), 0, BTreeSet::new());
    for meta in &metas {
        let package = meta.owner();
        if !reference.packages.is_empty() && !reference.packages.iter().any(|name| name == package)
        {
            continue;
        }
        found.insert(package);
        bundles += usize::from(meta.schema == schema::BUNDLE);
        text.push_str(&meta.json);
        text.push('\n');
    }
    let missing = reference.packages.iter().find(|name| !found.contains(name.as_str()));
    if let Some(missing) = missing {
        bail!("{} has no package {}", reference.image, quote(missing));
    }
    Ok((text, bundles))
}

/// Returns the files that `.indexignore` leaves.
fn kept(files: FileList) -> anyhow::Result<FileList> {
    let kept = read::kept(borrowed(&files))?.into_iter();
    let kept: BTreeSet<String> = kept.map(|(path, _)| path.to_owned()).collect();
    Ok(files.into_iter().filter(|(path, _)| kept.contains(path)).collect())
}

/// Prints the errors, and returns whether there are none.
fn is_sound(report: &lint::Report) -> bool {
    let errors = report.findings.iter().filter(|it| it.severity == Severity::Error);
    errors.inspect(|error| notice(&error.to_string())).count() == 0
}

/// Makes the image: one layer, no program.
fn image(files: &FileList) -> anyhow::Result<BuiltImage> {
    let mut placed: Vec<_> =
        borrowed(files).map(|(path, bytes)| (format!("{CONFIGS}/{path}"), bytes)).collect();
    placed.sort();
    let layer = placed.iter().map(|(path, bytes)| (path.as_str(), *bytes));
    let builder = ImageBuilder::new().layer(layer)?;
    Ok(builder.label(CONFIGS_LABEL, format!("/{CONFIGS}")).build()?)
}

async fn send(image: &BuiltImage, to: &ImageRef, plain_http: bool) -> anyhow::Result<()> {
    let registries = Registries::load(&config().registries)?;
    let options = PushOptions {
        plain_http: plain_http || registries.is_insecure(to),
        keyring: AuthFiles::of_process()?.keyring(),
    };
    push(image, to, &options).await?;
    Ok(())
}

fn write_folder(folder: &Path, files: &FileList) -> anyhow::Result<()> {
    let shown = folder.display();
    let is_empty = folder.read_dir().map_or(true, |mut it| it.next().is_none());
    ensure!(is_empty, "{shown} is not empty");
    let write = |path: &Path, bytes: &[u8]| {
        if let Some(above) = path.parent() {
            std::fs::create_dir_all(above)?;
        }
        std::fs::write(path, bytes)
    };
    for (path, bytes) in files {
        let path = folder.join(CONFIGS).join(path);
        write(&path, bytes).with_context(|| path.display().to_string())?;
    }
    write(&folder.join("Dockerfile"), DOCKERFILE.as_bytes()).with_context(|| shown.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cases;

    #[test]
    fn a_wrong_file_is_refused() {
        for (name, (text, want)) in cases::<(String, String)>("a_wrong_file_is_refused") {
            let error = composition(&text).unwrap_err().to_string();
            assert!(error.starts_with(&want), "{name}: {error}");
        }
    }

    // plugin.md U67, U69
    #[test]
    fn the_same_content_gives_the_same_image_in_any_order() {
        let file = |name: &str| (name.to_owned(), b"{\"schema\":\"s\"}".to_vec());
        let one = image(&vec![file("a/index.json"), file("b/index.json")]).unwrap();
        let other = image(&vec![file("b/index.json"), file("a/index.json")]).unwrap();
        assert_eq!(one.digest(), other.digest());
        let labels = &one.config_json().unwrap()["config"]["Labels"];
        assert_eq!(labels[CONFIGS_LABEL], "/configs");
    }
}
