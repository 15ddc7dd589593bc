//! Gathers the files of a release.
//!
//! In: the image, the manifests and the chart, as `make image`, `make install-yaml` and `make chart`
//! leave them, a clean checkout, and the platforms of the plugin. Out: a folder of files with their
//! sums. The same commit gives the same bytes.
//!
//! Source: deploying.md 8.

mod file;
mod plugin;
mod statement;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::{fs, io};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde_json::{Value, json};

use crate::crds;
use crate::image::packages::Packages;
use crate::image::{Commit, output, sbom};
use file::File;
use plugin::Platform;

const CHART: &str = "olm-controller";

/// Flags of `xtask release`.
#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    /// The version of Cargo.toml, as vX.Y.Z
    version: String,
    /// The image with its digest, as the manifests name it
    #[arg(long)]
    image: String,
    /// Platforms of the plugin, joined by commas
    #[arg(long, value_delimiter = ',', default_values = [
        "linux/amd64", "linux/arm64", "windows/amd64", "darwin/amd64", "darwin/arm64",
    ])]
    platform: Vec<Platform>,
    /// Address of the repository, below which the files will be at /releases/download/VERSION
    #[arg(long)]
    source: String,
    /// Writes nothing: only checks whether this checkout can be released as the version
    #[arg(long)]
    check: bool,
}

/// The release that the files belong to.
struct Release<'a> {
    version: &'a str,
    /// With its digest.
    image: &'a str,
    source: &'a str,
    commit: &'a Commit,
}

impl Release<'_> {
    /// Returns the version without the letter.
    fn number(&self) -> &str {
        self.version.trim_start_matches('v')
    }

    /// Returns where a page of `docs` is.
    fn document(&self, path: &str) -> String {
        format!("{}/blob/{}/docs/{path}", self.source, self.version)
    }

    /// Returns where a file of the release will be.
    fn address(&self, name: &str) -> String {
        format!("{}/releases/download/{}/{name}", self.source, self.version)
    }
}

/// Writes the files of a release into `target/release-files/<version>`.
pub(crate) fn run(root: &Path, args: &ReleaseArgs) -> anyhow::Result<String> {
    let built = format!("v{}", env!("CARGO_PKG_VERSION"));
    let version = args.version.as_str();
    ensure!(
        version == built,
        "the version of Cargo.toml is {built}: set it to {version} first, and commit that"
    );
    let commit = Commit::read(root)?;
    ensure!(
        commit.state() == "clean",
        "`git status` shows changes: commit them first, so that others can build the same"
    );
    let source = args.source.trim_end_matches('/');
    if args.check {
        let unnamed = source.starts_with("https://example.com/") || !args.image.contains('/');
        let unpublished = [
            ("README.md", "No image is published yet"),
            ("docs/install.md", "None is published yet"),
            ("docs/support.md", "None has been published yet"),
        ];
        for (file, text) in unpublished {
            ensure!(
                unnamed || !fs::read_to_string(root.join(file))?.contains(text),
                "{file} contains \"{text}\": adapt it to the release first, and commit that"
            );
        }
        let trial = "IMAGE or SOURCE is not named: these files are for a trial, they name what nobody \
                     has published\n";
        return Ok(if unnamed { trial.to_owned() } else { String::new() });
    }
    let release = Release { version, image: &args.image, source, commit: &commit };
    let mut files = manifests(root, &release)?;
    files.extend(image(root, &release)?);
    files.push(chart(root, &release)?);
    files.extend(schemas()?);
    for name in ["cli.md", "flags.md"] {
        files.push(File::new(name, fs::read(root.join("docs").join(name))?));
    }
    let (mut archives, mut left_out) = (BTreeMap::new(), Vec::new());
    for &platform in &args.platform {
        match plugin::build(root, platform, &release) {
            Ok([archive, bom]) => {
                archives.insert(platform, archive.sum());
                files.extend([archive, bom]);
            }
            Err(error) if platform.is_required() => return Err(error),
            Err(error) => left_out.push((platform.to_string(), format!("{error:#}"))),
        }
    }
    files.push(File::new("olm.yaml", plugin::krew(&release, &archives)?));
    let changelog = fs::read_to_string(root.join("CHANGELOG.md")).context("CHANGELOG.md")?;
    files.push(statement::notes(&release, &changelog, &left_out)?);
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files.push(statement::provenance(&release, &files, &tools()?)?);
    files.push(File::new("SHA256SUMS", file::sums(&files)));
    let folder = root.join("target/release-files").join(version);
    write(&folder, &files)?;
    Ok(said(&folder, &files, &left_out))
}

/// Returns the versions of the compilers.
fn tools() -> anyhow::Result<BTreeMap<&'static str, String>> {
    let version = |program: &str, args: &[&str]| {
        output(Command::new(program).args(args)).map(|text| text.trim().to_owned())
    };
    let zig = version("python3", &["-m", "ziglang", "version"]);
    Ok(BTreeMap::from([
        ("rustc", version("rustc", &["--version"])?),
        ("cargo-zigbuild", version("cargo-zigbuild", &["--version"])?),
        ("zig", zig.or_else(|_| version("zig", &["version"]))?),
    ]))
}

/// Returns the files of `make install-yaml`.
fn manifests(root: &Path, release: &Release<'_>) -> anyhow::Result<Vec<File>> {
    let folder = root.join("target/manifests");
    let entries = fs::read_dir(&folder)
        .with_context(|| format!("{}: run `make install-yaml` first", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "yaml") {
            files.push(File::new(name(&path), fs::read(&path)?));
        }
    }
    let install = files.iter().find(|file| file.name == "install.yaml");
    let install = install.with_context(|| format!("{}: no install.yaml", folder.display()))?;
    ensure!(
        String::from_utf8_lossy(&install.content).contains(release.image),
        "install.yaml names another image than {}",
        release.image
    );
    Ok(files)
}

/// Returns the archive of the image that `make image` has built, and the list of its parts.
fn image(root: &Path, release: &Release<'_>) -> anyhow::Result<Vec<File>> {
    let path = root.join(format!("target/olm-controller-{}.oci.tar", release.number()));
    let archive =
        fs::read(&path).with_context(|| format!("{}: run `make image` first", path.display()))?;
    let id = release.commit.id.as_bytes();
    ensure!(
        archive.windows(id.len()).any(|part| part == id),
        "{} is of another commit: run `make image`",
        path.display()
    );
    let mut files = vec![File::new(name(&path), archive)];
    for platform in Platform::required() {
        let packages = Packages::read(root, "olm-controller", platform.target)?;
        let bom = sbom::document(&packages, release.number(), release.commit.time)?;
        let name = format!("olm-controller_{}_{}.cdx.json", platform.os, platform.arch);
        files.push(File::new(name, bom));
    }
    Ok(files)
}

/// Packs the chart that `make chart` has written.
fn chart(root: &Path, release: &Release<'_>) -> anyhow::Result<File> {
    let folder = root.join("target/chart").join(CHART);
    let mut files = Vec::new();
    for directory in ["", "crds", "files", "templates"] {
        let path = folder.join(directory);
        let entries = fs::read_dir(&path)
            .with_context(|| format!("{}: run `make chart` first", path.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_file() {
                let inside = path.strip_prefix(&folder)?.display();
                let mut content = fs::read(&path)?;
                if path.ends_with("values.yaml") {
                    // Of the repository; an alert leads to the address of a page.
                    let runbooks = format!("runbooks: {}", release.document("runbooks"));
                    let text = String::from_utf8(content)?;
                    content = text.replace("runbooks: docs/runbooks", &runbooks).into_bytes();
                }
                files.push((0o644, File::new(format!("{CHART}/{inside}"), content)));
            }
        }
    }
    files.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
    let name = format!("{CHART}-{}.tgz", release.number());
    Ok(File::new(name, file::archive(&files)?))
}

/// Returns the schemas of the kinds for editors, as files.
fn schemas() -> anyhow::Result<Vec<File>> {
    let mut files = Vec::new();
    for (path, text) in crds::files()? {
        let crd =
            olm_core::yaml::to_json(&text).map_err(|error| anyhow::anyhow!("{path}: {error}"))?;
        for crd in crd.iter().filter(|it| it["kind"] == "CustomResourceDefinition") {
            files.extend(schemas_of(crd)?);
        }
    }
    Ok(files)
}

/// Returns a schema for each version of a CRD, which knows the kind that it is about.
fn schemas_of(crd: &Value) -> anyhow::Result<Vec<File>> {
    let kind = &crd["spec"]["names"]["kind"];
    let group = crd["spec"]["group"].as_str().context("a group")?;
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    versions
        .map(|version| {
            let name = version["name"].as_str().context("a version")?;
            let mut schema = version["schema"]["openAPIV3Schema"].clone();
            schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
            schema["properties"]["apiVersion"]["const"] = json!(format!("{group}/{name}"));
            schema["properties"]["kind"]["const"] = kind.clone();
            let file = format!("{}_{name}.json", kind.as_str().unwrap_or_default().to_lowercase());
            Ok(File::new(file, serde_json::to_string_pretty(&schema)? + "\n"))
        })
        .collect()
}

/// Replaces the folder by one with these files.
fn write(folder: &Path, files: &[File]) -> anyhow::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => bail!(error),
        _ => {}
    }
    fs::create_dir_all(folder)?;
    for file in files {
        let path = folder.join(&file.name);
        fs::write(&path, &file.content).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn said(folder: &Path, files: &[File], left_out: &[(String, String)]) -> String {
    let mut said = format!("{}\n", folder.display());
    for file in files {
        let _ = writeln!(said, "  {:>10}  {}", file.content.len(), file.name);
    }
    for (platform, cause) in left_out {
        let _ = writeln!(said, "no plugin for {platform}: {cause}");
    }
    said + "nothing is signed: RELEASE.md has the commands, with a key of yours\n"
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use jiff::Timestamp;

    use super::*;

    static COMMIT: LazyLock<Commit> =
        LazyLock::new(|| Commit { id: "abc".to_owned(), time: Timestamp::UNIX_EPOCH });

    pub(super) fn release() -> Release<'static> {
        Release {
            version: "v0.1.0",
            image: "r.example.com/olm@sha256:12",
            source: "https://example.com/olm",
            commit: &COMMIT,
        }
    }

    #[test]
    fn each_kind_has_a_schema_that_knows_it() {
        let files = schemas().unwrap();
        let names: Vec<_> = files.iter().map(|file| file.name.as_str()).collect();
        let kinds = ["clusterextension", "clustercatalog", "clusterobjectset"];
        assert_eq!(names, kinds.map(|kind| format!("{kind}_v1.json")));
        let read: Value = serde_json::from_slice(&files[0].content).unwrap();
        assert_eq!(read["properties"]["kind"]["const"], "ClusterExtension");
        let version = &read["properties"]["apiVersion"]["const"];
        assert_eq!(version, "olm.operatorframework.io/v1");
        assert!(read["properties"]["spec"]["properties"]["source"].is_object());
    }
}
