//! The archives of the plugin, one for each platform, and krew's manifest of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;
use std::{env, fmt, fs};

use serde_json::{Value, json};

use super::Release;
use super::file::{self, File};
use crate::image::packages::Packages;
use crate::image::{licenses, output, program, sbom};

const PLUGIN: &str = "kubectl-olm";
/// The program that kubectl runs for completions, as `kubectl olm completion --install` writes it.
const COMPLETE: &str = "#!/bin/sh\nexec kubectl-olm __complete -- \"$@\"\n";
/// Shells, and the names of their scripts.
const COMPLETIONS: [(&str, &str); 4] = [
    ("bash", "kubectl-olm.bash"),
    ("zsh", "_kubectl-olm"),
    ("fish", "kubectl-olm.fish"),
    ("powershell", "kubectl-olm.ps1"),
];

/// A platform of the plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Platform {
    pub(super) os: &'static str,
    pub(super) arch: &'static str,
    pub(super) target: &'static str,
}

/// The platforms. Only Linux is required: the others are reported if zig lacks a library of the system
/// or Rust's library for the target.
const PLATFORMS: [Platform; 5] = [
    Platform { os: "linux", arch: "amd64", target: "x86_64-unknown-linux-musl" },
    Platform { os: "linux", arch: "arm64", target: "aarch64-unknown-linux-musl" },
    Platform { os: "windows", arch: "amd64", target: "x86_64-pc-windows-gnu" },
    Platform { os: "darwin", arch: "amd64", target: "x86_64-apple-darwin" },
    Platform { os: "darwin", arch: "arm64", target: "aarch64-apple-darwin" },
];

impl Platform {
    /// Returns whether it is required for a release.
    pub(super) fn is_required(self) -> bool {
        self.os == "linux"
    }

    /// Returns those platforms, which are also those of the image.
    pub(super) fn required() -> impl Iterator<Item = Self> {
        PLATFORMS.into_iter().filter(|it| it.is_required())
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.arch)
    }
}

impl FromStr for Platform {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut known = PLATFORMS.into_iter();
        let found = known.find(|it| it.to_string() == text);
        found.ok_or_else(|| {
            format!("known platforms: {}", PLATFORMS.map(|it| it.to_string()).join(", "))
        })
    }
}

/// Builds the plugin for a platform; returns its archive, and the list of its parts.
pub(super) fn build(
    root: &Path,
    platform: Platform,
    release: &Release<'_>,
) -> anyhow::Result<[File; 2]> {
    let program = program::build(root, PLUGIN, platform.target, release.commit)?;
    let packages = Packages::read(root, PLUGIN, platform.target)?;
    let bom = sbom::document(&packages, release.number(), release.commit.time)?;
    let mut files = vec![
        (0o755, File::new(program::file_name(PLUGIN, platform.target), program)),
        (0o644, File::new("LICENSE", fs::read(root.join("LICENSE"))?)),
        (0o644, File::new("THIRD-PARTY.txt", licenses::text(PLUGIN, &packages)?)),
    ];
    if platform.os != "windows" {
        files.push((0o755, File::new("kubectl_complete-olm", COMPLETE)));
    }
    // The plugin of this machine stands beside this program: its commands are the same.
    let here = env::current_exe()?.with_file_name(PLUGIN);
    for (shell, name) in COMPLETIONS {
        let script = output(Command::new(&here).args(["completion", shell]))?;
        files.push((0o644, File::new(format!("completions/{name}"), script)));
    }
    let stem = format!("{PLUGIN}_{}_{}", platform.os, platform.arch);
    Ok([
        File::new(format!("{stem}.tar.gz"), file::archive(&files)?),
        File::new(format!("{stem}.cdx.json"), bom),
    ])
}

/// Returns the manifest of krew, kubectl's installer of plugins, for archives with these sums.
pub(super) fn krew(
    release: &Release<'_>,
    archives: &BTreeMap<Platform, String>,
) -> anyhow::Result<String> {
    let platforms: Vec<Value> = archives
        .iter()
        .map(|(platform, sum)| {
            let Platform { os, arch, target } = platform;
            let program = program::file_name(PLUGIN, target);
            let files = [&*program, "LICENSE", "THIRD-PARTY.txt"];
            let files = files.map(|from| json!({"from": from, "to": "."}));
            json!({
                "selector": {"matchLabels": {"os": os, "arch": arch}},
                "uri": release.address(&format!("{PLUGIN}_{os}_{arch}.tar.gz")),
                "sha256": sum,
                "bin": program,
                "files": files,
            })
        })
        .collect();
    let manifest = json!({
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "olm"},
        "spec": {
            "version": release.version,
            "homepage": release.source,
            "shortDescription": "Install, upgrade and examine ClusterExtensions",
            "description": "Explains which version of an operator a ClusterExtension gets and why, what \
                its account lacks, what a bundle needs, and whether the cluster is fit for it.\n",
            "caveats": "For completion: kubectl olm completion --install\n",
            "platforms": platforms,
        },
    });
    Ok(serde_saphyr::to_string(&manifest)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::tests::release;

    #[test]
    fn another_platform_is_refused_with_those_that_are_known() {
        let error = "plan9/amd64".parse::<Platform>().unwrap_err();
        assert!(error.contains("linux/arm64, windows/amd64"), "{error}");
        assert_eq!("linux/arm64".parse::<Platform>().unwrap(), PLATFORMS[1]);
        assert_eq!(Platform::required().count(), 2);
    }

    #[test]
    fn krew_finds_each_archive_with_its_program() {
        let archives = PLATFORMS.map(|platform| (platform, format!("sum of {platform}"))).into();
        let manifest = krew(&release(), &archives).unwrap();
        for part in [
            "https://example.com/olm/releases/download/v0.1.0/kubectl-olm_windows_amd64.tar.gz",
            "bin: kubectl-olm.exe",
            "sum of darwin/arm64",
        ] {
            assert!(manifest.contains(part), "{part}: {manifest}");
        }
    }
}
