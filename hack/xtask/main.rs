//! Generates manifests and documents of olm-controller.
//!
//! `xtask manifests` writes what is derived from the code into `config` and `docs`; with `--check` it writes
//! nothing and fails, naming the files, when they are not what the code says. `xtask push-bundle`
//! and `xtask push-catalog` push folders as images to a registry on plain HTTP, for the demo.
//! `xtask generate-catalog` writes the catalog that benchmarks run on, `xtask size` counts the lines
//! of code and of tests. `xtask image` builds the image of the
//! controller, `xtask push-image` pushes it, and `xtask release` gathers what is released. `xtask
//! terminal` records a terminal session as a picture.

mod crds;
mod image;
mod push;
mod reference;
mod release;
mod rights;
mod size;
mod terminal;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Parser, Subcommand};
use olm_bench::catalog;

/// Development tasks of olm-controller
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Write the CRDs into config/crd, the roles of the controller into config/rbac, and the reference
    /// of commands, flags, keys and reasons into docs
    Manifests {
        /// Write nothing; fail if a file is out of date
        #[arg(long)]
        check: bool,
    },
    /// Push a bundle folder (`manifests`, `metadata`) as an image, over plain HTTP
    PushBundle {
        /// The folder
        folder: PathBuf,
        /// The image, with its tag
        image: String,
    },
    /// Push a folder of catalog files as a catalog image, over plain HTTP
    PushCatalog {
        /// The folder
        folder: PathBuf,
        /// The image, with its tag
        image: String,
    },
    /// Build the image of the controller into target/image, or check or unpack it
    Image(image::ImageArgs),
    /// Push the image that `image` built
    PushImage(image::PushArgs),
    /// Collect the files of a release; the image and the manifests must be built
    Release(release::ReleaseArgs),
    /// Print the lines of code and of tests by folder, without blanks and comments
    Size,
    /// Record a terminal session, on standard input, as an animated SVG
    Terminal(terminal::TerminalArgs),
    /// Write a large catalog of generated packages, the same on every machine
    GenerateCatalog {
        /// The folder
        folder: PathBuf,
        /// Number of bundles
        #[arg(long, default_value_t = catalog::BUNDLES)]
        bundles: usize,
        /// Size of a bundle in bytes
        #[arg(long, default_value_t = catalog::BUNDLE_BYTES)]
        bundle_bytes: usize,
    },
}

fn main() -> anyhow::Result<()> {
    let pushed = match Args::parse().task {
        Task::Manifests { check } => return manifests(&repository(), check),
        Task::Size => {
            let table = size::table(&repository())?;
            return Ok(std::io::stdout().write_all(table.as_bytes())?);
        }
        Task::Terminal(args) => return terminal::run(&args),
        Task::Image(args) => {
            let said = image::run(&repository(), &args)?;
            return Ok(std::io::stdout().write_all(said.as_bytes())?);
        }
        Task::Release(args) => {
            let said = release::run(&repository(), &args)?;
            return Ok(std::io::stdout().write_all(said.as_bytes())?);
        }
        Task::PushImage(args) => {
            let digest = runtime()?.block_on(image::push(&repository(), &args))?;
            format!("{}@{digest}", args.image)
        }
        Task::PushBundle { folder, image } => runtime()?.block_on(push::bundle(&folder, &image))?,
        Task::PushCatalog { folder, image } => {
            runtime()?.block_on(push::catalog(&folder, &image))?
        }
        Task::GenerateCatalog { folder, bundles, bundle_bytes } => {
            return generate_catalog(&folder, bundles, bundle_bytes);
        }
    };
    writeln!(std::io::stdout(), "pushed {pushed}")?;
    Ok(())
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    // It fails only when there is one already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Ok(tokio::runtime::Runtime::new()?)
}

fn generate_catalog(folder: &Path, bundles: usize, bundle_bytes: usize) -> anyhow::Result<()> {
    let mut written = 0;
    for package in catalog::packages(bundles, bundle_bytes) {
        let (path, text) = package.file();
        let file = folder.join(path);
        fs::create_dir_all(file.parent().context("a file has a folder")?)?;
        fs::write(&file, &text).with_context(|| file.display().to_string())?;
        written += text.len();
    }
    let folder = folder.display();
    writeln!(std::io::stdout(), "wrote {written} bytes below {folder}")?;
    Ok(())
}

/// Returns the root of the repository, which this crate is built in.
fn repository() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap_or(root)
}

fn manifests(root: &Path, check: bool) -> anyhow::Result<()> {
    let mut stale = Vec::new();
    let files = crds::files()?.into_iter().chain(rights::files());
    let files = files.chain(reference::files()).chain(reference::schemas());
    for (path, text) in files {
        let file = root.join(&path);
        if fs::read_to_string(&file).is_ok_and(|found| found == text) {
            continue;
        }
        if check {
            stale.push(path);
            continue;
        }
        if let Some(directory) = file.parent() {
            fs::create_dir_all(directory)
                .with_context(|| format!("create {}", directory.display()))?;
        }
        fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
    }
    if stale.is_empty() {
        return Ok(());
    }
    bail!("out of date, run `cargo run -p xtask -- manifests`: {}", stale.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_is_what_the_code_says() {
        manifests(&repository(), true).unwrap();
    }

    #[test]
    fn a_stale_file_is_named() {
        let empty = tempfile::tempdir().unwrap();
        let error = manifests(empty.path(), true).unwrap_err().to_string();
        assert!(
            error.contains("config/crd/olm.operatorframework.io_clusterextensions.yaml"),
            "{error}"
        );
        manifests(empty.path(), false).unwrap();
        manifests(empty.path(), true).unwrap();
    }
}
