//! The licences of what is linked, in one text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::packages::Packages;

/// Returns every foreign crate with its licence, then the texts of the licences, each once.
pub(crate) fn text(program: &str, packages: &Packages) -> anyhow::Result<String> {
    let mut out = format!("Crates linked into {program}, and their licences.\n\n");
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages.all.values().filter(|package| package.foreign) {
        let name = format!("{} {}", package.name, package.version);
        let _ = writeln!(out, "{name}: {}", package.license);
        for text in files(&package.folder)? {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    for (text, names) in texts {
        let _ = write!(out, "\n{}\n{}\n\n{}\n", "-".repeat(72), names.join(", "), text.trim_end());
    }
    Ok(out)
}

/// Returns the texts of licences and notices at the top of a crate.
fn files(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        let tells = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];
        if path.is_file() && tells.iter().any(|word| name.starts_with(word)) {
            paths.push(path);
        }
    }
    paths.sort();
    let read = |path| fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(paths.into_iter().map(read).collect::<Result<_, _>>()?)
}
