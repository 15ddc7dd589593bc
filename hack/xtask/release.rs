//! Gathers the files of a release.
//!
//! In: the image and the manifests, as `make image` and `make install-yaml` leave them, a clean
//! checkout, and the platforms of the plugin. Out: a folder of files with their sums. The same
//! commit gives the same bytes.
//!
//! Source: deploying.md 8.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fs, io};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::image::packages::Packages;
use crate::image::{Commit, licenses, program, sbom};

const PLUGIN: &str = "kubectl-olm";
/// What kubectl asks for what may follow; the same that `kubectl olm completion --install` writes.
const COMPLETE: &str = "#!/bin/sh\nexec kubectl-olm __complete -- \"$@\"\n";

/// Flags of `xtask release`.
#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    /// The version, as vX.Y.Z; that of Cargo.toml
    version: String,
    /// Platforms of the plugin, joined by commas
    #[arg(long, value_delimiter = ',', default_values = ["linux/amd64", "linux/arm64"])]
    platform: Vec<PluginPlatform>,
    /// Address of the repository, below which the files will be at /releases/download/VERSION;
    /// without it krew's manifest is left out
    #[arg(long)]
    source: Option<String>,
}

/// A platform the plugin can be built for here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PluginPlatform {
    os: &'static str,
    arch: &'static str,
    target: &'static str,
}

const PLATFORMS: [PluginPlatform; 2] = [
    PluginPlatform { os: "linux", arch: "amd64", target: "x86_64-unknown-linux-musl" },
    PluginPlatform { os: "linux", arch: "arm64", target: "aarch64-unknown-linux-musl" },
];

impl FromStr for PluginPlatform {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut known = PLATFORMS.into_iter();
        let found = known.find(|it| text.split_once('/') == Some((it.os, it.arch)));
        found.ok_or_else(|| {
            "linux/amd64 and linux/arm64 can be built here; macOS and Windows trust by stores of \
             their own, whose libraries come with those systems only: build there with \
             `cargo build --release --package kubectl-olm`"
                .to_owned()
        })
    }
}

/// A file of the release.
struct File {
    name: String,
    content: Vec<u8>,
}

impl File {
    fn new(name: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), content: content.into() }
    }

    fn sum(&self) -> String {
        let digest = Sha256::digest(&self.content);
        digest.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
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
        !commit.id.ends_with("-dirty"),
        "`git status` shows changes: commit them first, so that others can build the same"
    );
    let mut files = vec![changes(root, version)?];
    files.extend(manifests(root)?);
    files.extend(image(root, &commit)?);
    let mut archives = BTreeMap::new();
    for &platform in &args.platform {
        let packages = Packages::read(root, PLUGIN, platform.target)?;
        let bom = sbom::document(&packages, env!("CARGO_PKG_VERSION"), commit.time)?;
        let stem = format!("{PLUGIN}_{}_{}", platform.os, platform.arch);
        files.push(File::new(format!("{stem}.cdx.json"), bom));
        let archive = archive(&plugin(root, platform, &packages, &commit)?)?;
        let archive = File::new(format!("{stem}.tar.gz"), archive);
        archives.insert((platform.os, platform.arch), archive.sum());
        files.push(archive);
    }
    if let Some(source) = &args.source {
        files.push(File::new("olm.yaml", krew(version, source, &archives)?));
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files.push(File::new("SHA256SUMS", sums(&files)));
    let folder = root.join("target/release-files").join(version);
    write(&folder, &files)?;
    Ok(said(&folder, &files))
}

/// Returns the section of CHANGELOG.md about the version, or what is not released yet.
fn changes(root: &Path, version: &str) -> anyhow::Result<File> {
    let text = fs::read_to_string(root.join("CHANGELOG.md")).context("CHANGELOG.md")?;
    let number = version.trim_start_matches('v');
    let section = section(&text, number).or_else(|| section(&text, "Unreleased"));
    let section = section.with_context(|| format!("CHANGELOG.md has no section {number}"))?;
    Ok(File::new("CHANGES.md", format!("# {version}\n{section}")))
}

fn section<'a>(text: &'a str, title: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(&format!("\n## {title}"))?;
    let (_, after) = after.split_once('\n')?;
    Some(after.find("\n## ").map_or(after, |end| &after[..=end]))
}

/// Returns what `make install-yaml` has written.
fn manifests(root: &Path) -> anyhow::Result<Vec<File>> {
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
    ensure!(!files.is_empty(), "{} is empty", folder.display());
    Ok(files)
}

/// Returns the archive of the image that `make image` has built, and the list of its parts.
fn image(root: &Path, commit: &Commit) -> anyhow::Result<Vec<File>> {
    let path = root.join(format!("target/olm-controller-{}.oci.tar", env!("CARGO_PKG_VERSION")));
    let archive =
        fs::read(&path).with_context(|| format!("{}: run `make image` first", path.display()))?;
    let id = commit.id.as_bytes();
    ensure!(
        archive.windows(id.len()).any(|part| part == id),
        "{} is of another commit: run `make image`",
        path.display()
    );
    let mut files = vec![File::new(name(&path), archive)];
    for platform in PLATFORMS {
        let packages = Packages::read(root, "olm-controller", platform.target)?;
        let bom = sbom::document(&packages, env!("CARGO_PKG_VERSION"), commit.time)?;
        let name = format!("olm-controller_{}_{}.cdx.json", platform.os, platform.arch);
        files.push(File::new(name, bom));
    }
    Ok(files)
}

/// Returns what is in the archive of the plugin for a platform, by path, with the mode.
fn plugin(
    root: &Path,
    platform: PluginPlatform,
    packages: &Packages,
    commit: &Commit,
) -> anyhow::Result<Vec<(u32, File)>> {
    let program = program::build(root, PLUGIN, platform.target, commit)?;
    Ok(vec![
        (0o755, File::new(PLUGIN, program)),
        (0o755, File::new("kubectl_complete-olm", COMPLETE)),
        (0o644, File::new("LICENSE", fs::read(root.join("LICENSE"))?)),
        (0o644, File::new("THIRD-PARTY.txt", licenses::text(PLUGIN, packages)?)),
    ])
}

/// Packs files; times are zero, and owners root, so that the same files give the same bytes.
fn archive(files: &[(u32, File)]) -> io::Result<Vec<u8>> {
    let packed = GzBuilder::new().write(Vec::new(), Compression::best());
    let mut archive = tar::Builder::new(packed);
    for (mode, file) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(*mode);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(file.content.len() as u64);
        archive.append_data(&mut header, &file.name, file.content.as_slice())?;
    }
    archive.into_inner()?.finish()
}

/// Returns the manifest of krew: kubectl's installer of plugins.
fn krew(
    version: &str,
    source: &str,
    archives: &BTreeMap<(&str, &str), String>,
) -> anyhow::Result<String> {
    let platforms: Vec<Value> = archives
        .iter()
        .map(|((os, arch), sum)| {
            json!({
                "selector": {"matchLabels": {"os": os, "arch": arch}},
                "uri": format!(
                    "{source}/releases/download/{version}/{PLUGIN}_{os}_{arch}.tar.gz"
                ),
                "sha256": sum,
                "bin": PLUGIN,
                "files": [{"from": PLUGIN, "to": "."}, {"from": "LICENSE", "to": "."}],
            })
        })
        .collect();
    let manifest = json!({
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "olm"},
        "spec": {
            "version": version,
            "homepage": source,
            "shortDescription": "Install, upgrade and examine ClusterExtensions",
            "description": "Says which version of an operator a ClusterExtension gets and why, what \
                its account lacks, what a bundle needs, and whether the cluster is fit for it.\n",
            "caveats": "For completion: kubectl olm completion --install\n",
            "platforms": platforms,
        },
    });
    Ok(serde_saphyr::to_string(&manifest)?)
}

fn sums(files: &[File]) -> String {
    files.iter().fold(String::new(), |mut text, file| {
        let _ = writeln!(text, "{}  {}", file.sum(), file.name);
        text
    })
}

/// Replaces the folder by one with these files.
fn write(folder: &Path, files: &[File]) -> anyhow::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => bail!(error),
        _ => {}
    }
    fs::create_dir_all(folder)?;
    for file in files {
        let path: PathBuf = folder.join(&file.name);
        fs::write(&path, &file.content).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn said(folder: &Path, files: &[File]) -> String {
    let mut said = format!("{}\n", folder.display());
    for file in files {
        let _ = writeln!(said, "  {:>10}  {}", file.content.len(), file.name);
    }
    said + "nothing is signed: sign SHA256SUMS and the image with a key of yours\n"
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    // deploying.md P61
    #[test]
    fn the_same_files_give_the_same_archive_and_sums() {
        let files =
            || vec![(0o755, File::new(PLUGIN, "program")), (0o644, File::new("LICENSE", "text"))];
        let packed = archive(&files()).unwrap();
        assert_eq!(packed, archive(&files()).unwrap());
        let mut read = tar::Archive::new(flate2::read::GzDecoder::new(packed.as_slice()));
        let entries = read.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let header = entry.header();
            let name = entry.path().unwrap().display().to_string();
            (name, header.mode().unwrap(), header.mtime().unwrap(), header.uid().unwrap())
        });
        let expected = [(PLUGIN.to_owned(), 0o755, 0, 0), ("LICENSE".to_owned(), 0o644, 0, 0)];
        assert_eq!(entries.collect::<Vec<_>>(), expected);
        // echo -n text | sha256sum
        let sum = "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1  LICENSE\n";
        assert_eq!(sums(&[File::new("LICENSE", "text")]), sum);
    }

    #[test]
    fn a_section_ends_where_the_next_begins() {
        let text = "# Changelog\n\n## Unreleased\n\nnew\n\n## 0.1.0 (2026)\n\nold\n";
        assert_eq!(section(text, "Unreleased"), Some("\nnew\n\n"));
        assert_eq!(section(text, "0.1.0"), Some("\nold\n"));
        assert_eq!(section(text, "9"), None);
    }

    #[test]
    fn another_platform_is_refused_with_the_way_out() {
        let error = "darwin/arm64".parse::<PluginPlatform>().unwrap_err();
        assert!(error.contains("cargo build --release"), "{error}");
        assert_eq!("linux/arm64".parse::<PluginPlatform>().unwrap(), PLATFORMS[1]);
    }
}
