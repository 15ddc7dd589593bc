//! Builds the image of the controller as an OCI layout, without a container engine.
//!
//! In: a commit and the architectures. Out: `target/image`, a folder of blobs with an index of one
//! image for each architecture and their lists of parts (SBOM), and an archive of it. The same
//! commit gives the same bytes, wherever and whenever it is built: times are those of the commit,
//! owners and orders are fixed, and no path of the machine enters the program.
//!
//! Source: deploying.md 1.

mod check;
pub(crate) mod licenses;
pub(crate) mod packages;
pub(crate) mod program;
mod rootfs;
pub(crate) mod sbom;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use clap::Args;
use jiff::Timestamp;
use olm_image::auth_file::AuthFiles;
use olm_image::built::{BuiltImage, BuiltIndex, Compression, ImageBuilder};
use olm_image::layout::Layout;
use olm_image::push::{PushOptions, push_layout};
use olm_image::{Digest, ImageRef, Platform};
use serde_json::json;

use check::check;
use packages::Packages;
use program::Architecture;

/// Media type of a `CycloneDX` document.
const CYCLONEDX: &str = "application/vnd.cyclonedx+json";
const TITLE: &str = "olm-controller";
/// The suffix of the hash of a commit if files differ from it.
const DIRTY: &str = "-dirty";
const DESCRIPTION: &str = "Installs and upgrades Kubernetes operators from catalogs: the OLM v1 ClusterExtension controller";

/// Flags of `xtask image`.
#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    /// Architectures, joined by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["amd64", "arm64"])]
    arch: Vec<Architecture>,
    /// The URL of the repository, for a label
    #[arg(long, value_name = "URL")]
    source: Option<String>,
    /// Builds nothing; checks the image in target/image
    #[arg(long)]
    check: bool,
    /// Writes the file system of the image of this machine's architecture below the folder
    #[arg(long, value_name = "FOLDER")]
    unpack: Option<PathBuf>,
    /// Reads another layout than target/image
    #[arg(long, value_name = "FOLDER")]
    layout: Option<PathBuf>,
    /// Prints HOST/REPOSITORY:TAG with the digest of the image in target/image instead of the tag
    #[arg(long, value_name = "IMAGE")]
    pin: Option<String>,
}

/// Flags of `xtask push-image`.
#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// The destination, as HOST/REPOSITORY:TAG
    pub(crate) image: String,
    /// Moves a tag that points to another image
    #[arg(long)]
    force: bool,
    /// Uses plain HTTP for the registry
    #[arg(long)]
    plain_http: bool,
}

/// The state of the source an image is made of.
pub(crate) struct Commit {
    /// Its hash; with `-dirty` after it where files differ from it.
    pub(crate) id: String,
    pub(crate) time: Timestamp,
}

/// Builds, checks or unpacks the image.
pub(crate) fn run(root: &Path, args: &ImageArgs) -> anyhow::Result<String> {
    let folder = root.join("target/image");
    if !args.check && args.unpack.is_none() && args.pin.is_none() {
        return build(root, &folder, args);
    }
    let folder = args.layout.clone().unwrap_or(folder);
    let layout = Layout::open(&folder)
        .with_context(|| format!("{}: run `make image` first", folder.display()))?;
    let mut said = String::new();
    if args.check {
        said += &check(&layout)?;
    }
    if let Some(target) = &args.unpack {
        rootfs::unpack(&layout, &Platform::host(), target)?;
        let _ = writeln!(said, "unpacked into {}", target.display());
    }
    if let Some(image) = &args.pin {
        let split = image.rsplit_once(':').filter(|(_, tag)| !tag.contains('/'));
        let (name, _) = split.context("a tag is missing: HOST/REPOSITORY:TAG")?;
        let _ = writeln!(said, "{name}@{}", layout.digest()?);
    }
    Ok(said)
}

fn build(root: &Path, folder: &Path, args: &ImageArgs) -> anyhow::Result<String> {
    let version = env!("CARGO_PKG_VERSION");
    let commit = Commit::read(root)?;
    let mut linked = Packages::read(root, TITLE, Architecture::Amd64.target())?;
    let others = Packages::read(root, TITLE, Architecture::Arm64.target())?;
    linked.all.extend(others.all);
    let license = fs::read(root.join("LICENSE"))?;
    let base = rootfs::base(&license, &licenses::text(TITLE, &linked)?)?;
    let labels = labels(version, &commit, args.source.as_deref());
    let (mut images, mut boms) = (Vec::new(), Vec::new());
    for &architecture in &args.arch {
        let program = program::build(root, TITLE, architecture.target(), &commit)?;
        let platform = Platform::linux(architecture.name());
        let image = image(&program, &base, platform, commit.time, &labels)?;
        let packages = Packages::read(root, TITLE, architecture.target())?;
        let bom = sbom::document(&packages, version, commit.time)?;
        boms.push(bom);
        images.push(image);
    }
    let index = BuiltIndex::new(images, &labels);
    let digest = index.digest();
    let mut layout = Layout::create(folder)?;
    layout.add(&index, version)?;
    let archive = root.join(format!("target/olm-controller-{version}.oci.tar"));
    layout.archive(&archive, u64::try_from(commit.time.as_second())?)?;
    for (image, bom) in index.images.iter().zip(boms) {
        layout.refer(image, CYCLONEDX, bom.as_bytes())?;
    }
    Ok(format!("image {digest}\n  {}\n  {}\n", folder.display(), archive.display()))
}

fn image(
    program: &[u8],
    base: &[u8],
    platform: Platform,
    created: Timestamp,
    labels: &BTreeMap<&str, String>,
) -> anyhow::Result<BuiltImage> {
    let mut builder = ImageBuilder::new()
        .platform(platform)
        .created(created)
        .runtime("User", json!(rootfs::USER))
        .runtime("Entrypoint", json!([rootfs::ENTRY_POINT]))
        .runtime("WorkingDir", json!("/"))
        .runtime("StopSignal", json!("SIGTERM"))
        .tar(base.to_vec(), Compression::Gzip)
        .tar(rootfs::program(program)?, Compression::Gzip);
    for (key, value) in labels {
        builder = builder.label(*key, value.clone());
    }
    builder = builder
        .label("io.k8s.display-name", TITLE)
        .label("io.k8s.description", DESCRIPTION)
        .label("io.openshift.expose-services", "");
    Ok(builder.build()?)
}

/// Returns the labels of the image about its origin, which are also annotations of the index.
fn labels(version: &str, commit: &Commit, source: Option<&str>) -> BTreeMap<&'static str, String> {
    let known = [
        ("org.opencontainers.image.title", TITLE.to_owned()),
        ("org.opencontainers.image.description", DESCRIPTION.to_owned()),
        ("org.opencontainers.image.version", version.to_owned()),
        ("org.opencontainers.image.revision", commit.id.clone()),
        ("org.opencontainers.image.created", commit.time.to_string()),
        ("org.opencontainers.image.licenses", env!("CARGO_PKG_LICENSE").to_owned()),
    ];
    let source = source.map(|url| url.trim_end_matches('/').to_owned());
    let source = source.map(|url| ("org.opencontainers.image.source", url));
    known.into_iter().chain(source).collect()
}

/// Pushes the image that `xtask image` built, with the credentials of the user.
pub(crate) async fn push(root: &Path, args: &PushArgs) -> anyhow::Result<Digest> {
    let folder = root.join("target/image");
    let layout = Layout::open(&folder)
        .with_context(|| format!("{}: run `make image` first", folder.display()))?;
    let to: ImageRef = args.image.parse().with_context(|| args.image.clone())?;
    ensure!(to.tag().is_some(), "{}: a tag is missing: HOST/REPOSITORY:TAG", args.image);
    let keyring = AuthFiles::of_process()?.keyring();
    let options = PushOptions { plain_http: args.plain_http, keyring };
    let replace = args.force || to.tag() == Some("latest");
    Ok(push_layout(&layout, &to, &options, replace).await?)
}

impl Commit {
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        let shown =
            output(Command::new("git").current_dir(root).args(["log", "-1", "--format=%H %ct"]))?;
        let (id, seconds) = shown.trim().split_once(' ').context("git log printed nothing")?;
        let changes =
            output(Command::new("git").current_dir(root).args(["status", "--porcelain"]))?;
        let dirty = if changes.is_empty() { "" } else { DIRTY };
        Ok(Self { id: format!("{id}{dirty}"), time: Timestamp::from_second(seconds.parse()?)? })
    }

    /// Says whether files differ from it, in the word of `version`.
    pub(crate) fn state(&self) -> &'static str {
        if self.id.ends_with(DIRTY) { "dirty" } else { "clean" }
    }
}

/// Runs a command and returns what it prints.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("run {name}"))?;
    ensure!(output.status.success(), "{name} failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
