//! What README and `docs` show is what the built programs print (plugin.md 6). Blocks that need a
//! cluster are played by `control_plane`. Links lead somewhere, every page is listed, and commands that
//! are only named exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use olm_test::documents::{self, Block, Shell};
use olm_test::paths;

use super::words::prose;

fn is_offline(block: &Block) -> bool {
    block.info == "console" && !block.steps().is_empty()
}

/// plugin.md U4
#[test]
fn what_needs_no_cluster_is_printed_as_shown() {
    let mut played = 0;
    for path in documents::all() {
        let text = documents::read(&path);
        played += documents::blocks(&text).iter().filter(|it| is_offline(it)).count();
        let corrected = documents::play(&Shell::offline(), &text, is_offline);
        documents::settle(&path, corrected);
    }
    assert!(played > 5, "only {played} blocks were found");
}

/// Whatever looks like commands is run: with `$ ` by a test of documents, in README's five minutes by
/// a test of its own. What is in another language is output, or not a command.
#[test]
fn every_block_of_commands_is_run_by_a_test() {
    for path in documents::all() {
        let text = documents::read(&path);
        let own = text.split("## Five minutes on a cluster").next();
        for block in documents::blocks(own.unwrap_or_default()) {
            let is_known = ["", "console", "console cluster", "sh", "text", "yaml"];
            assert!(is_known.contains(&block.info.as_str()), "{path}: {}", block.info);
            let is_run = block.info.starts_with("console");
            assert!(!is_run || !block.steps().is_empty(), "{path}: {}", block.text);
        }
    }
}

/// plugin.md U1: each example of the help is a command that a document shows and a test runs.
#[test]
fn every_example_of_the_help_is_run() {
    let all: Vec<_> = documents::all().iter().map(|path| documents::read(path)).collect();
    let blocks = all.iter().flat_map(|text| documents::blocks(text));
    let run: Vec<_> = blocks
        .filter(|block| block.info.starts_with("console"))
        .flat_map(|block| block.steps())
        .collect();
    let reference = documents::read("docs/cli.md");
    let examples = reference.lines().filter(|line| line.starts_with("  kubectl olm "));
    let mut counted = 0;
    for example in examples.map(str::trim) {
        let is_run = run.iter().any(|step| step.command.starts_with(example));
        assert!(is_run, "no document runs {example}");
        counted += 1;
    }
    assert!(counted > 20, "only {counted} examples were found");
}

/// Adds the Markdown files in a folder to `found`, and those below it.
fn add_pages(folder: &str, found: &mut Vec<String>) {
    let entries = std::fs::read_dir(paths::repository().join(folder)).expect("a folder");
    for entry in entries.map(|entry| entry.expect("an entry")) {
        let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            add_pages(&name, found);
        } else if entry.path().extension().is_some_and(|it| it == "md") {
            found.push(name);
        }
    }
}

/// Returns the paths of all pages of the repository.
fn pages() -> Vec<String> {
    let root = std::fs::read_dir(paths::repository()).expect("the repository");
    let names = root.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    let is_page = |name: &String| Path::new(name).extension().is_some_and(|it| it == "md");
    let mut pages: Vec<_> = names.filter(is_page).collect();
    for folder in [".github", "config", "docs", "hack"] {
        add_pages(folder, &mut pages);
    }
    pages
}

/// Returns the lines outside of code blocks, and those inside.
fn lines(text: &str) -> [Vec<&str>; 2] {
    let mut lines = [Vec::new(), Vec::new()];
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else {
            lines[usize::from(fenced)].push(line);
        }
    }
    lines
}

/// Returns the anchors of the headings of a page, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let [outside, _] = lines(text);
    let headings = outside.into_iter().filter(|line| line.starts_with('#'));
    let anchors = headings.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().replace(' ', "-")
    });
    anchors.collect()
}

#[test]
fn anchors_are_those_of_headings_outside_of_code() {
    let text = "# `why` it: holds\n\n```sh\n# no heading\n```\n\n## What is_left\n";
    let wanted = ["what-is_left", "why-it-holds"].map(str::to_owned);
    assert_eq!(anchors(text), BTreeSet::from(wanted));
}

/// A link to a file of the repository leads to one, and to a heading of it.
#[test]
fn links_lead_somewhere() {
    let mut wrong = Vec::new();
    let mut counted = 0;
    for page in pages() {
        let text = documents::read(&page);
        let folder = paths::repository().join(&page);
        let folder = folder.parent().expect("a file is in a folder");
        let prose = prose(&text);
        for link in prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            if file.contains("://") {
                continue;
            }
            counted += 1;
            let target = if file.is_empty() {
                Ok(text.clone())
            } else if heading.is_empty() {
                std::fs::metadata(folder.join(file)).map(|_| String::new())
            } else {
                std::fs::read_to_string(folder.join(file))
            };
            let leads = target.is_ok_and(|it| heading.is_empty() || anchors(&it).contains(heading));
            if !leads {
                wrong.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(counted > 300, "only {counted} links were found");
    assert!(wrong.is_empty(), "{} links lead nowhere:\n{}", wrong.len(), wrong.join("\n"));
}

/// Says whether tests have this name, or a generator.
fn is_kept_by(name: &str) -> bool {
    let files = ["test/tests/checkout/NAME.rs", "test/tests/control_plane/NAME.rs"];
    let folders = ["test/tests/control_plane/NAME", "test/tests/NAME"];
    let generators = ["hack/xtask/NAME.rs", "hack/xtask/NAME"];
    let mut all = files.into_iter().chain(folders).chain(generators);
    all.any(|path| paths::repository().join(path.replace("NAME", name)).exists())
}

/// Each page has its line in docs/README.md, from which `hack/docs.sh` makes the contents of the
/// site; those of alerts are listed beside them.
#[test]
fn every_page_is_listed_with_its_reader_and_what_keeps_it_true() {
    let list = documents::read("docs/README.md");
    let mut listed = BTreeSet::from(["docs/README.md".to_owned()]);
    for row in list.lines().filter(|line| line.starts_with("| [")) {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [page, reader, kept] = cells[..] else { panic!("{row} has other cells") };
        let (_, link) = page.trim_end_matches(')').split_once("](").expect("a link");
        let beside = link.strip_prefix("../").map(str::to_owned);
        listed.insert(beside.unwrap_or_else(|| format!("docs/{link}")));
        assert!(!reader.is_empty(), "{row}");
        let mut by = kept.split('`').skip(1).step_by(2).peekable();
        assert!(by.peek().is_some() || kept == "reviewed with each release", "{row}");
        assert!(by.all(is_kept_by), "{row}");
    }
    let runbooks = documents::read("docs/runbooks/README.md");
    let runbooks = runbooks.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    listed.extend(runbooks.map(|page| format!("docs/runbooks/{page}")));
    let pages: BTreeSet<_> = pages().into_iter().collect();
    assert_eq!(listed, pages);
}

/// Returns what follows `kubectl olm` where a page names it, up to a pipe.
fn named_commands(text: &str) -> Vec<&str> {
    let [outside, inside] = lines(text);
    let spans = outside.iter().flat_map(|line| line.split('`').skip(1).step_by(2));
    let inside = inside.iter().map(|line| line.strip_prefix("$ ").unwrap_or(line));
    let commands = spans
        .chain(inside)
        .filter_map(|it| it.strip_prefix("kubectl olm ").or_else(|| it.strip_prefix("oc olm ")));
    commands.filter_map(|it| it.split(['|', ';', '>', '\\']).next()).collect()
}

/// Returns the flags that a text names.
fn flags(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    words.filter(|word| word.starts_with('-')).collect()
}

/// Commands that are only named, because they would have to be run elsewhere, exist at least, with
/// their flags.
#[test]
fn every_command_that_is_named_is_one_with_its_flags() {
    let reference = documents::read("docs/cli.md");
    let mut sections = reference.split("\n### `kubectl olm ");
    let of_all = flags(sections.next().unwrap_or_default());
    let sections = sections.filter_map(|section| section.split_once('`'));
    let known: BTreeMap<&str, _> = sections.map(|(name, text)| (name, flags(text))).collect();
    let mut counted = 0;
    for page in pages() {
        let text = documents::read(&page);
        for command in named_commands(&text) {
            let words: Vec<_> = command.split_whitespace().collect();
            let names = (1..=words.len().min(2)).map(|length| words[..length].join(" "));
            let of_it = names.rev().find_map(|name| known.get(name.as_str()));
            let of_it = of_it.unwrap_or_else(|| panic!("{page}: there is no {command}"));
            for flag in words.iter().filter_map(|word| word.split('=').next()) {
                let name = flag.trim_start_matches('-');
                let is_flag = name != flag && name.starts_with(|c: char| c.is_ascii_alphabetic());
                let is_known = of_it.contains(flag) || of_all.contains(flag);
                assert!(!is_flag || is_known, "{page}: {command} has no {flag}");
            }
            counted += 1;
        }
    }
    assert!(counted > 200, "only {counted} commands were found");
}
