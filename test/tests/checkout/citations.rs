//! Every rule that the code cites stands in `docs/`: the section, the rule, the row or the case.
//!
//! `applying.md 3.6` is section 3.6 of `docs/design/applying.md`, `catalogs.md R11` a rule and
//! `deploying.md P43` a case in those documents, `api.md row 2` a row of a table, `decision 22` a
//! section of `docs/decisions.md`.

use std::collections::BTreeMap;
use std::path::Path;

use olm_test::paths;

/// Words that may stand between the name of a document and what is cited, or between two of these.
const JOINTS: [&str; 7] = ["section", "sections", "rule", "rules", "and", "to", "table"];
const FOLDERS: [&str; 6] = ["api", "config", "hack", "src", "test", ".ci"];

/// What is cited in one place of the code.
#[derive(Debug, PartialEq)]
struct Citation {
    document: String,
    what: What,
}

#[derive(Debug, PartialEq)]
enum What {
    /// `3.6`
    Section(String),
    /// `R11`, `a8`
    Id(String),
    /// `row 2`, `case 7`
    Row(String),
}

/// Returns every citation in a text that may go over several lines of comments.
fn citations(text: &str, documents: &[&str]) -> Vec<Citation> {
    let text = text.replace('\n', " ");
    let words: Vec<&str> = text
        .split_whitespace()
        .filter(|word| !matches!(*word, "//" | "///" | "//!" | "#"))
        .collect();
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let name = word.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        let (document, ended) = match name.strip_suffix(".md") {
            Some(document) => (document, false),
            None if matches!(name, "decision" | "decisions") => ("decisions", false),
            None => match name.split_once(".md") {
                // `applying.md)` and the like cite the whole.
                Some((document, _)) => (document, true),
                None => continue,
            },
        };
        if ended || !documents.contains(&document) {
            continue;
        }
        found.extend(
            cited(&words[index + 1..])
                .into_iter()
                .map(|what| Citation { document: document.to_owned(), what }),
        );
    }
    found
}

/// Returns what the words after the name of a document cite.
fn cited(words: &[&str]) -> Vec<What> {
    let (mut found, mut rows) = (Vec::new(), false);
    for word in words {
        let plain = word.trim_matches(['(', ')', ',', ';', ':', '.', '"']);
        let last = word.ends_with([')', ';', ':', '.', '"']);
        if matches!(plain, "row" | "rows" | "case" | "cases") {
            rows = true;
        } else if let Some(what) = one(plain, rows) {
            found.push(what);
        } else if !JOINTS.contains(&plain) {
            break;
        }
        if last {
            break;
        }
    }
    found
}

fn one(word: &str, row: bool) -> Option<What> {
    let mut letters = word.chars();
    let first = letters.next()?;
    let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    if first.is_ascii_alphabetic() {
        return digits(letters.as_str()).then(|| What::Id(word.to_owned()));
    }
    if !word.split('.').all(digits) {
        return None;
    }
    Some(if row { What::Row(word.to_owned()) } else { What::Section(word.to_owned()) })
}

/// Says whether a document has what is cited.
fn has(document: &str, what: &What) -> bool {
    match what {
        What::Section(number) => document.lines().any(|line| {
            let title = line.trim_start_matches('#');
            let number_of_title = title.split_whitespace().next().unwrap_or_default();
            title.len() < line.len() && number_of_title.trim_end_matches('.') == number
        }),
        What::Row(number) => {
            document.lines().any(|line| line.starts_with(&format!("| {number} |")))
        }
        What::Id(id) => document.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == id),
    }
}

#[test]
fn every_rule_that_is_cited_stands_in_the_documents() {
    let root = paths::repository();
    let docs = root.join("docs");
    let mut documents = BTreeMap::new();
    for folder in [docs.clone(), docs.join("design")] {
        for path in paths::inside(&folder) {
            if let (Some(name), Ok(text)) = (path.file_stem(), std::fs::read_to_string(&path)) {
                documents.insert(name.to_string_lossy().into_owned(), text);
            }
        }
    }
    let names: Vec<&str> = documents.keys().map(String::as_str).collect();
    let mut sources = Vec::new();
    for folder in FOLDERS {
        let enter = |path: &Path| !path.ends_with("target") && !path.ends_with("testdata");
        sources.extend(paths::below(&root.join(folder), enter));
    }
    sources.retain(|file| paths::ends(file, &[".rs", ".go", ".yaml", ".toml", ".sh", ".md"]));
    for file in ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "Cargo.toml"] {
        sources.push(root.join(file));
    }
    let (mut count, mut wrong) = (0, Vec::new());
    for file in sources {
        let text = std::fs::read_to_string(&file).expect("a text");
        for citation in citations(&text, &names) {
            count += 1;
            if !has(&documents[&citation.document], &citation.what) {
                let file = file.strip_prefix(&root).unwrap_or(&file);
                wrong.push(format!("{}: {citation:?}", file.display()));
            }
        }
    }
    assert!(count > 500, "only {count} citations were found");
    assert!(wrong.is_empty(), "{} citations lead nowhere:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_citation_that_leads_nowhere_is_found() {
    let document =
        "# Rules\n\n## 3. Phases\n\n### 3.6 Applying\n\n| 2 | no spec |\n\n- R11: wait.\n";
    let text = "/// Waits (rules.md 3.6, R11\n/// and row 2); see rules.md 4.1: none, decision 22.";
    let found = citations(text, &["rules", "decisions"]);
    let has: Vec<bool> = found.iter().map(|it| has(document, &it.what)).collect();
    assert_eq!(has, [true, true, true, false, false], "{found:?}");
    assert_eq!(found[4].document, "decisions");
}
