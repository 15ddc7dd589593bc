//! Generates manifests and documents of olm-controller.
//!
//! `xtask manifests` writes what is derived from the code into `config/`; with `--check` it writes
//! nothing and fails, naming the files, when they are not what the code says.

mod crds;
#[cfg(test)]
mod rights;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Parser, Subcommand};

/// Development tasks of olm-controller
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Write the CRDs into config/crd
    Manifests {
        /// Write nothing; fail when a file differs from what would be written
        #[arg(long)]
        check: bool,
    },
}

fn main() -> anyhow::Result<()> {
    match Args::parse().task {
        Task::Manifests { check } => manifests(&repository(), check),
    }
}

/// Returns the root of the repository, which this crate is built in.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn manifests(root: &Path, check: bool) -> anyhow::Result<()> {
    let mut stale = Vec::new();
    for (path, text) in crds::files()? {
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
    bail!(
        "out of date, run `cargo run -p xtask -- manifests`: {}",
        stale.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // style.md case 3
    #[test]
    fn config_is_what_the_code_says() {
        manifests(&repository(), true).unwrap();
    }

    // style.md case 3
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
