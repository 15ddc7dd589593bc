//! The licences of what is linked, in one text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

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

/// Returns the texts of licences and notices of a crate: at its top, and at the top of its folders, one
/// of which may be a library in C. Where such a library has both LICENSE and COPYING, as zstd has, one
/// may choose, and the former is the one of the crate.
fn files(folder: &Path) -> anyhow::Result<Vec<String>> {
    let list = |folder: &Path| -> anyhow::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    };
    let mut paths = list(folder)?;
    let is = |path: &Path, word: &str| {
        path.file_name().is_some_and(|it| it.to_string_lossy().to_uppercase().starts_with(word))
    };
    for inner in paths.clone().iter().filter(|path| path.is_dir()) {
        let mut files = list(inner)?;
        if files.iter().any(|path| is(path, "LICENSE")) {
            files.retain(|path| !is(path, "COPYING"));
        }
        paths.extend(files);
    }
    let tells = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];
    paths.retain(|path| path.is_file() && tells.iter().any(|word| is(path, word)));
    let read = |path| fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(paths.into_iter().map(read).collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_inside_a_crate_has_a_licence_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("LICENSE-MIT", "the crate"),
            ("jemalloc/COPYING", "C"),
            ("jemalloc/src/NOTICE", "no"),
            ("zstd/COPYING", "the other choice"),
            ("zstd/LICENSE", "BSD"),
        ] {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        assert_eq!(files(folder.path()).unwrap(), ["the crate", "C", "BSD"]);
    }
}
