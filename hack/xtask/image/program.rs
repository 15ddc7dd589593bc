//! Builds the program: static, for musl, with zig as the C compiler and linker.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use anyhow::{Context as _, ensure};
use clap::ValueEnum;

use super::{Commit, output};

/// What separates flags in `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: &str = "\x1f";

/// An architecture images are built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Architecture {
    /// 64-bit x86.
    Amd64,
    /// 64-bit ARM.
    Arm64,
}

impl Architecture {
    /// Returns the name in images.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Returns the name in the compiler.
    pub(crate) fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-musl",
            Self::Arm64 => "aarch64-unknown-linux-musl",
        }
    }
}

/// Builds a program of this repository for a target of the compiler, and returns the file's content.
pub(crate) fn build(
    root: &Path,
    program: &str,
    target: &str,
    commit: &Commit,
) -> anyhow::Result<Vec<u8>> {
    let root = root.canonicalize()?;
    let renamed = renamed(&root)?;
    let mut flags: Vec<String> =
        renamed.iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}")).collect();
    let musl = root.join("hack/xtask/image/musl.c");
    flags.push(format!("-Clink-arg={}", musl.display()));
    let c_flags: Vec<String> =
        renamed.iter().map(|(from, to)| format!("-ffile-prefix-map={from}={to}")).collect();
    let status = Command::new("cargo")
        .current_dir(&root)
        .args(["zigbuild", "--release", "--locked"])
        .args(["--package", program, "--target", target])
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join(SEPARATOR))
        .env("CFLAGS", c_flags.join(" "))
        .env("SOURCE_DATE_EPOCH", commit.time.as_second().to_string())
        .env("OLM_COMMIT", &commit.id)
        .env("OLM_DATE", commit.time.to_string())
        .status()
        .context("run cargo zigbuild")?;
    ensure!(status.success(), "{program} was not built for {target}");
    let folder = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let file = folder.join(target).join("release").join(program);
    fs::read(&file).with_context(|| file.display().to_string())
}

/// Returns the folders of this machine that would show in the program, and what is put in their
/// place.
fn renamed(root: &Path) -> anyhow::Result<Vec<(String, &'static str)>> {
    let home = env::var_os("HOME").context("HOME is not set")?;
    let cargo =
        env::var_os("CARGO_HOME").map_or_else(|| Path::new(&home).join(".cargo"), Into::into);
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    Ok(vec![
        (cargo.display().to_string(), "/cargo"),
        (sysroot.trim().to_owned(), "/rust"),
        (root.display().to_string(), "/olm-controller"),
        (target.display().to_string(), "/olm-controller/target"),
    ])
}
