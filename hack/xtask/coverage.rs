//! Line coverage by folder, without the tests themselves.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

/// What of the controller decides without asking anybody: held to tables like core.
const PURE: [&str; 8] = [
    "src/controller/args",
    "src/controller/backoff.rs",
    "src/controller/catalog/plan.rs",
    "src/controller/catalog/report.rs",
    "src/controller/extension/events.rs",
    "src/controller/lease/election.rs",
    "src/controller/objectset/plan.rs",
    "src/controller/server/negotiate.rs",
];

/// Lines that can be executed, and those that were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Lines {
    all: usize,
    covered: usize,
}

impl Lines {
    fn add(&mut self, other: Self) {
        self.all += other.all;
        self.covered += other.covered;
    }
}

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.covered * 1000 / self.all.max(1);
        let (whole, tenth) = (tenths / 10, tenths % 10);
        write!(f, "{whole:>3}.{tenth} % of {:>6} lines", self.all)
    }
}

/// Returns the table of what `lcov` (the format of that name) says of the sources below `root`.
pub(super) fn table(lcov: &Path, root: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(lcov).with_context(|| lcov.display().to_string())?;
    let root = root.canonicalize()?;
    let mut files = BTreeMap::new();
    for (path, lines) in records(&text) {
        let Ok(path) = Path::new(path).strip_prefix(&root) else {
            continue;
        };
        if is_test(path) {
            continue;
        }
        let source = fs::read_to_string(root.join(path))?;
        let end = end_of_code(&source);
        let counted = lines.iter().filter(|(line, _)| *line < end);
        let lines = counted.fold(Lines::default(), |mut sum, (_, runs)| {
            sum.all += 1;
            sum.covered += usize::from(*runs > 0);
            sum
        });
        files.insert(path.to_string_lossy().into_owned(), lines);
    }
    Ok(rows(&files))
}

fn rows(files: &BTreeMap<String, Lines>) -> String {
    let mut groups: BTreeMap<String, Lines> = BTreeMap::new();
    let mut pure = Lines::default();
    for (path, lines) in files {
        let folders: Vec<&str> = path.split('/').collect();
        let folders = folders.split_last().map_or(&[][..], |(_, folders)| folders);
        for depth in folders.len().min(2)..=folders.len().min(3) {
            let group = folders.iter().take(depth).copied().collect::<Vec<_>>();
            groups.entry(group.join("/")).or_default().add(*lines);
        }
        if PURE.iter().any(|part| path.starts_with(part)) {
            pure.add(*lines);
        }
    }
    let pure = ("the pure parts of src/controller".to_owned(), pure);
    let rows = groups.into_iter().chain([pure]);
    let rows: Vec<String> = rows.map(|(group, lines)| format!("{lines}  {group}")).collect();
    rows.join("\n") + "\n"
}

/// Returns path, and number and runs of each line, of each record.
fn records(lcov: &str) -> impl Iterator<Item = (&str, Vec<(usize, u64)>)> {
    lcov.split("end_of_record").filter_map(|record| {
        let path = record.lines().find_map(|line| line.strip_prefix("SF:"))?;
        let lines = record.lines().filter_map(|line| {
            let (line, runs) = line.strip_prefix("DA:")?.split_once(',')?;
            Some((line.parse().ok()?, runs.parse().ok()?))
        });
        Some((path, lines.collect()))
    })
}

/// Says whether a file holds nothing but tests or what they are made of.
fn is_test(path: &Path) -> bool {
    let names = ["test", "tests", "tests.rs", "fixture.rs"];
    path.iter().any(|part| names.iter().any(|name| part == *name))
}

/// Returns how many lines stand before the unit tests, which are the end of a file.
fn end_of_code(source: &str) -> usize {
    let tests = source.lines().position(|line| line == "mod tests {");
    tests.unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_by_folder_and_without_tests() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("src/core/version");
        fs::create_dir_all(&folder).unwrap();
        let source = "fn one() {}\nfn two() {}\n#[cfg(test)]\nmod tests {\n    fn three() {}\n}\n";
        fs::write(folder.join("mod.rs"), source).unwrap();
        let file = folder.canonicalize().unwrap().join("mod.rs");
        fs::create_dir_all(root.path().join("api")).unwrap();
        fs::write(root.path().join("api/keys.rs"), "fn one() {}\n").unwrap();
        let api = root.path().canonicalize().unwrap().join("api/keys.rs");
        let lcov = format!(
            "SF:{}\nDA:1,4\nDA:2,0\nDA:5,9\nend_of_record\nSF:{}\nDA:1,1\nend_of_record\n\
             SF:/elsewhere.rs\nDA:1,1\nend_of_record\n",
            file.display(),
            api.display()
        );
        let path = root.path().join("lcov");
        fs::write(&path, lcov).unwrap();
        let found = table(&path, root.path()).unwrap();
        assert_eq!(
            found,
            "100.0 % of      1 lines  api\n \
             50.0 % of      2 lines  src/core\n \
             50.0 % of      2 lines  src/core/version\n  \
             0.0 % of      0 lines  the pure parts of src/controller\n"
        );
    }
}
