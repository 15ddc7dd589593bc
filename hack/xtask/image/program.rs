//! Builds the program: static, for musl, with zig as the C compiler and linker.

use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::{Context as _, ensure};
use clap::ValueEnum;

use super::{Commit, output};

/// The separator of flags in `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: &str = "\x1f";
/// The most errors of a build that are repeated, and the most characters of each.
const ERRORS: usize = 3;
const ERROR_CHARACTERS: usize = 200;

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

/// Returns the name of a program's file on a target of the compiler.
pub(crate) fn file_name(program: &str, target: &str) -> String {
    if target.contains("windows") { format!("{program}.exe") } else { program.to_owned() }
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
    if target.ends_with("musl") {
        let musl = root.join("hack/xtask/image/musl.c");
        flags.push(format!("-Clink-arg={}", musl.display()));
    }
    let c_flags: Vec<String> =
        renamed.iter().map(|(from, to)| format!("-ffile-prefix-map={from}={to}")).collect();
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(&root)
        .args(["zigbuild", "--release", "--locked"])
        .args(["--package", program, "--target", target])
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join(SEPARATOR))
        .env("CFLAGS", c_flags.join(" "))
        .env("SOURCE_DATE_EPOCH", commit.time.as_second().to_string())
        .env("OLM_COMMIT", &commit.id)
        .env("OLM_DATE", commit.time.to_string())
        .env("OLM_STATE", commit.state())
        .stderr(Stdio::piped());
    if target.contains("windows") {
        // Instead of an assembler that nothing else needs, what the crate brings along.
        cargo.env("AWS_LC_SYS_PREBUILT_NASM", "1");
    }
    let mut building = cargo.spawn().context("run cargo zigbuild")?;
    let errors = building.stderr.take().map(errors).transpose()?.unwrap_or_default();
    let status = building.wait()?;
    // It may become part of a release, where no folder of this machine is named.
    let said = renamed.iter().fold(errors.join("; "), |said, (from, to)| said.replace(from, to));
    let said = said.replace(&env::var("HOME").unwrap_or_default(), "~");
    ensure!(status.success(), "{program} was not built for {target}: {said}");
    let folder = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let file = folder.join(target).join("release").join(file_name(program, target));
    fs::read(&file).with_context(|| file.display().to_string())
}

/// Shows the output of a build, and returns its first errors.
fn errors(said: impl Read) -> io::Result<Vec<String>> {
    let mut errors = Vec::new();
    for line in BufReader::new(said).split(b'\n') {
        let line = line?;
        io::stderr().write_all(&[&line[..], b"\n"].concat())?;
        let line = String::from_utf8_lossy(&line);
        let found = line.trim_start_matches(['=', ' ']).trim_start_matches("note: ");
        if found.starts_with("error") && errors.len() < ERRORS {
            errors.push(found.chars().take(ERROR_CHARACTERS).collect());
        }
    }
    Ok(errors)
}

/// Returns the folders of this machine whose paths would be in the program, with their replacements.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stops_a_build_is_found_in_what_it_says() {
        let said = "   Compiling a\nerror: linking with `zigcc` failed: exit status: 1\n  = note: \
                    some arguments are omitted\n  = note: error: unable to find framework 'Security'\n";
        let found = errors(said.as_bytes()).unwrap();
        assert_eq!(
            found,
            [
                "error: linking with `zigcc` failed: exit status: 1",
                "error: unable to find framework 'Security'"
            ]
        );
        assert_eq!(file_name("kubectl-olm", "x86_64-pc-windows-gnu"), "kubectl-olm.exe");
        assert_eq!(file_name("kubectl-olm", "aarch64-apple-darwin"), "kubectl-olm");
    }
}
